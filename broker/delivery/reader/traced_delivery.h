/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deliveries of traced batches (shard/trace.h), as one reader has them: on their way, and back.
 *
 * Threads: the shard's worker. Memory: the trace's.
 */
#pragma once

#include <stdint.h>

struct amb_entry;
struct amb_piece;
struct amb_subscription;

/* That piece goes out to the reader. The way has been chosen, and not been counted yet. */
void amb_traced_delivery_written(const struct amb_subscription *sub, const struct amb_entry *entry,
                                 const struct amb_piece *piece, uint32_t ticket);
/* Messages came back; 0: the client has gone and never gives them back. */
void amb_traced_delivery_back(const struct amb_subscription *sub, uint32_t ticket, uint32_t msgs);
