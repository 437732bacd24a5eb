/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far fields of two threads stand apart in memory, so that neither thread's writes take the
 * other's cache line away. It is two lines of 64 bytes: a processor fetches neighbours together.
 *
 * Padding does it where the struct comes from malloc, which aligns to 16 bytes alone.
 */
#pragma once

enum {
    AMB_APART = 128, /* bytes */
};
