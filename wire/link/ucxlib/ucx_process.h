/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The UCX of this process: which one is loaded, and whose log it writes.
 * Threads: any, once amb_ucx_own_process was called or will not be.
 */
#pragma once

#include "wire/link/ucxlib/ucx_choose.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * All of this process is ours (brokerd): every line that UCX logs goes to amb_log, from whichever
 * thread. Else only those of our own calls do, and a program's own UCX logs as before (ucx_log.c).
 * Before any other call.
 */
void amb_ucx_own_process(void);

/*
 * Chooses the UCX of this process and loads it: once, by the first wish that can be had. With
 * "auto" the next best is tried where one cannot be loaded and has left nothing. Later ones are
 * answered by it: OK, or ENOTSUP where they ask for another, or it does not understand the
 * peer. ENOTSUP, with a sentence that names the libraries: see amb_ucx_choose and amb_ucx_api_load.
 */
AMB_MUST_CHECK enum amb_status amb_ucx_library_load(const struct amb_ucx_wish *wish, char *error,
                                                    size_t error_size);
/* The same without loading it: *out is the one that would be loaded. */
AMB_MUST_CHECK enum amb_status amb_ucx_library_expect(const struct amb_ucx_wish *wish, char *error,
                                                      size_t error_size,
                                                      struct amb_ucx_library *out);
/* Takes `library` and `source` from AMB_UCX_LIBRARY, where that is set (not in a setuid program);
 * else leaves them. */
void amb_ucx_wish_environment(struct amb_ucx_wish *wish);
/* The library that was loaded; NULL: none was. Valid for ever. */
const struct amb_ucx_library *amb_ucx_library(void);

/* Loads UCX where that has not happened, by the environment's wish or "auto". False: none fits. */
bool amb_ucx_load(void);
/* The same. 0 if there is none. major << 16 | minor << 8 | patch, of the library loaded now. */
uint32_t amb_ucx_release(void);
