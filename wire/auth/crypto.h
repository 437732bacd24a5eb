/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcrypto itself. Its first call makes what all others need. Where that lacks memory,
 * versions 3.0 to 3.2 crash at the next call that looks for an algorithm.
 *
 * Threads: any.
 */
#pragma once

#include <stdbool.h>

/* Before the first call of a process that asks for an algorithm. False: no memory, for the life of
 * the process. */
bool amb_crypto_begin(void);
