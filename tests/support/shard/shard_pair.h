/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The beginning that tests of sessions and subscriptions share: topic "t" and its publisher on
 * shard 0, and a reader on the last shard. Each test opens the publisher and subscribes the reader,
 * both as handle 0, when and as it wants. Threads: one. Memory: shard_pair_begin's, until teardown.
 */
#pragma once

#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

#include <stdint.h>

struct shard_pair {
    struct shard_harness h;
    uint32_t topic;
    struct shard_client *p, *s; /* the publisher, the reader */
};

/* reader: its options; NULL: none. */
struct shard_pair *shard_pair_begin(unsigned shards, const struct client_options *reader);
/* CMocka's; *state is the pair. */
int shard_pair_teardown(void **state);

/* One message, for which the publisher asks for a window where it has none; and all settles. */
void shard_pair_publish(struct shard_pair *pair, uint64_t len);
/* Of the frame that brought the reader's delivery of that number. */
uint8_t shard_pair_frame_type(const struct shard_pair *pair, uint64_t number);
