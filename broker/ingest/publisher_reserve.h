/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory is reserved when it is granted. The unused open part of a publisher's window is room in
 * its worker's segments (amb_bufpool_reserve). The window opens here, too.
 *
 * Threads: the session's worker. Memory: reserved, not allocated.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_publisher;
struct amb_shard;

/* Bytes that windows of this shard may stand open. */
uint64_t amb_publisher_windows_max(struct amb_shard *shard);
/* Room for its window up to there. False: memory, entries or its user's quota leave none. */
bool amb_publisher_reserve_upto(struct amb_publisher *publisher, uint64_t window);
/* The same while segments may be made; the last quarter is for those who need it now. */
bool amb_publisher_reserve_growing(struct amb_publisher *publisher, uint64_t window);
/* The open part of its window is to be reserved from here on, as far as there is room. */
void amb_publisher_reserve_open(struct amb_publisher *publisher);
/* Less of it is still to come. */
void amb_publisher_unreserve(struct amb_publisher *publisher, uint64_t bytes);
/* The publisher's reservation, made or given up, enters the books. */
void amb_publisher_set_reserved(struct amb_publisher *publisher, uint64_t bytes, uint64_t wide);
/* The window stands open up to there, and the client is told. Never less than before. */
void amb_publisher_open_window(struct amb_publisher *publisher, uint64_t window);
