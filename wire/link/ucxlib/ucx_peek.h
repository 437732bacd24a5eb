/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look into a libucp that is not loaded. Loading is for good: UCX has threads, handlers of
 * signals, and names that a second UCX would find. So a choice among several is made from files.
 * Threads: any. Memory: a buffer on the stack.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Is it a shared library that this process could load? NULL: it is. Else why not; static. */
const char *amb_ucx_peek_problem(const char *file);
/*
 * The release that it says it is: the text "1.22.0" which ucp_get_version_string answers with, read
 * from its constants. 0: there is none, or there are several. It is asked again once it is loaded.
 */
uint32_t amb_ucx_peek_release(const char *file);
