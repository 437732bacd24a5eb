/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that a subscription's payloads are brought to, chosen once by its options:
 *
 *   mem, allocator        | all of them to one kind of memory
 *   AS_SENT               | each stays where it came
 *   AS_SENT, allocators   | each to the allocator of the kind that it was sent from
 *
 * A kind without an allocator stays where it came, or comes to host memory.
 *
 * Threads: the one that subscribes. Memory: the landing's.
 */
#pragma once

#include "client/message/landing.h"

/*
 * Fills a landing's targets, and says in what memory its deliveries may lie. allocator: the one for
 * all kinds, as amb_allocator_read has it. EINVAL: an allocator of a kind that never comes here.
 * ENOTSUP, ENOTFOUND, ECUDA. The failure is the connection's last error.
 */
AMB_MUST_CHECK enum amb_status amb_targets_choose(struct amb_landing *landing,
                                                  const struct amb_sub_options *options,
                                                  const struct amb_allocator *allocator);
