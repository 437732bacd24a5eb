/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every invariant of a pool (bufpool.h), for tests.
 *
 * Threads: the pool's owner.
 */
#pragma once

#include "broker/memory/bufpool.h"

/* Asserts every invariant; for tests, slow. */
void amb_bufpool_check(const struct amb_bufpool *pool);
