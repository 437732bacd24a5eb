/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of the driver, and the context they were given in: is it lost?
 * Threads: any. Memory: none.
 */
#pragma once

#include <cuda.h>
#include <stdbool.h>

/* Does every later call of that context fail too? Then only a new process gets out of it. */
bool amb_cuda_is_sticky(CUresult result);
