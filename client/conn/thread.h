/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the library's own.
 *
 * Threads: any. Memory: none.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

/* Begins one that takes none of the program's signals. The caller joins or detaches it. Returns 0,
 * or an errno. */
int amb_thread_begin(pthread_t *thread, void *(*thread_main)(void *), void *arg);
/* The same, and nobody joins it. False: no thread can be had. */
bool amb_thread_begin_detached(void *(*thread_main)(void *), void *arg);
