/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distinct log lines from warn up, since the process began: how often each came, first and last.
 * They are copied into the counters file, so that they are there after a crash. Lines are distinct
 * as log_group.h has it. Of more than AMB_COUNTERS_LINES the one makes room that has not come for
 * longest, which is counted.
 *
 * Threads: any; one lock. Memory: a table of the process's own.
 */
#pragma once

#include "wire/base/log.h"

#include <stdint.h>

struct amb_counters;

/* For amb_log_set_witness. A count that log_fold.h writes is no line. */
void amb_log_lines_see(enum amb_log_level level, const char *site, const char *line);
/* The same at a time of the caller's, since 1970. */
void amb_log_lines_see_at(enum amb_log_level level, const char *site, const char *line,
                          int64_t real_ns);
/* The counters have them from here on, those so far among them. They stay the caller's. */
void amb_log_lines_attach(struct amb_counters *counters);
/* ... until here. Harmless where these are not attached. */
void amb_log_lines_detach(const struct amb_counters *counters);
