/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for a message: the best way that has some, or a wait until one has.
 * Threads: any, no lock held. Memory: the caller's, for the call.
 */
#pragma once

#include "client/batch/pub.h"
#include "client/publish/put.h"

/* The best way that has room; waits for one. */
enum amb_status amb_put_any(struct amb_pub *pub, const struct amb_put *put, int64_t timeout_ns,
                            uint64_t *seq);
