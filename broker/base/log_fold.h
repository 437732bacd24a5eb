/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warnings and errors that repeat: the first line at once, then one line a minute with the count of
 * those that were like it. log_group.h says which are alike. The rest of a place in the code is
 * not written, but counted.
 *
 *   amb_log_write ──► amb_log_fold: written, or counted      amb_log_fold_tick ──► "... (17 more)"
 *
 * Lines of lower levels are not looked at.
 *
 * Threads: any. Memory: a table of the process's own, AMB_LOG_FOLD_LINES rows.
 */
#pragma once

#include "wire/base/log.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_LOG_FOLD_LINES 128u
#define AMB_LOG_FOLD_NS INT64_C(60000000000)

/* For amb_log_set_filter. */
bool amb_log_fold(enum amb_log_level level, const char *site, const char *line);
/* The same at a time of the caller's. */
bool amb_log_fold_at(enum amb_log_level level, const char *site, const char *line, int64_t now_ns);
/* Writes the counts whose minute is over, now and then; INT64_MAX: all of them, at the end. */
void amb_log_fold_tick(int64_t now_ns);
/* Does this thread write such a count? It is no line of its own. */
bool amb_log_fold_is_telling(void);
/* Are there counts that have not been written? */
bool amb_log_fold_waits(void);
