/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of a broker for completion. A shell waits for them, so that they come within 300 ms, or not
 * at all: then the process ends. Nothing is said of faults. Threads: the main thread, once; a
 * signal ends the process.
 */
#pragma once

#include "tools/cli/complete.h"

void amb_ctl_names(enum amb_cli_live kind, const struct amb_cli_line *line,
                   struct amb_cli_candidates *to);
