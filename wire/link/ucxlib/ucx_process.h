/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The UCX of this process: which release is loaded, where its modules are, whose log it writes.
 * Threads: any, once amb_ucx_own_process was called or will not be.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * All of this process is ours (brokerd): every line that UCX logs goes to amb_log, from whichever
 * thread. Else only those of our own calls do, and a program's own UCX logs as before (ucx_log.c).
 * Before any other call.
 */
void amb_ucx_own_process(void);

/* Loads UCX where that has not happened. 0 if there is none. major << 16 | minor << 8 | patch, of
 * the library loaded now. */
uint32_t amb_ucx_release(void);

/* Where the UCX of this process has its modules; false: no UCX is loaded. */
bool amb_ucx_modules(char *out, size_t size);
