/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The brokerd that belongs to a tool.
 * Threads: any. Memory: none.
 */
#pragma once

#include <stddef.h>

#define AMB_BROKERD_PATH_MAX 600u

/* The path of the one that was built or installed together with this program; else "brokerd", for
 * the one in PATH. */
void amb_brokerd_find(char *out, size_t size);
