/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard output of the tools. Its reader may be a program that ends before they do (`| head -1`):
 * that is no fault of theirs, and they end quietly then. Everything else that cannot be written, a
 * full disk or a closed descriptor, is said and ends with AMB_EXIT_SOFTWARE. SIGPIPE is ignored.
 * Threads: the main one. Memory: none.
 */
#pragma once

#include "tools/common/exit.h"

#include <stdbool.h>

/* Has the reader of standard output gone? It is known at once, also while nothing is written.
 * False: there is one, or standard output is no pipe and no socket. */
bool amb_output_is_unread(void);

/* Hands on what was printed. False: that failed, and where the reader has not gone it was said. */
bool amb_output_flush(void);

/* The exit code of a tool that is through, `code` so far, once all that it printed is handed on. */
enum amb_exit amb_output_end(enum amb_exit code);
