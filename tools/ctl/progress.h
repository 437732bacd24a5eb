/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A progress bar on standard error, drawn at most ten times a second, and only on a terminal.
 * Threads: one. Memory: the caller's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_progress_bar {
    bool is_shown;
    int64_t start_ns, drawn_ns;
    uint64_t total_bytes, done_bytes;
};

/* total_bytes 0: not known, then only the count and the rate are shown. */
void amb_progress_start(struct amb_progress_bar *bar, uint64_t total_bytes);
void amb_progress_add(struct amb_progress_bar *bar, uint64_t bytes);
/* Clears the line. */
void amb_progress_end(struct amb_progress_bar *bar);
