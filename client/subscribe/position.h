/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a subscription is in each topic it reads, for another one to go on from.
 * Threads: as each function says. Memory: a copy of the position it was begun with.
 */
#pragma once

#include <amb/amb.h>

struct amb_sub;

/* Keeps what the subscription was begun with. ENOMEM. */
enum amb_status amb_position_keep(struct amb_sub *sub, const struct amb_sub_options *options);
/* Behind what has arrived in the session that is over, for the next one; the caller's to free.
 * NULL: too many topics, no memory. Lock held. */
uint8_t *amb_position_arrived(struct amb_sub *sub, uint64_t epoch, size_t *len);
/* The broker's answer: its time. Lock held. */
void amb_position_begun(struct amb_sub *sub, const struct amb_sub_options *options,
                        int64_t time_ns);
