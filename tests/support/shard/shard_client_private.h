/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the two files of a shard's client share: shard_client.c lives and sends,
 * shard_receive.c takes messages and checks them.
 *
 * Threads: one.
 */
#pragma once

#include "tests/support/shard/shard_client.h"

/* A frame on its way out; freed when it is sent. */
struct client_tx {
    struct amb_link_tx tx;
    uint8_t body[];
};

/* Of the client's end of the link; their argument is the client. */
extern const struct amb_link_events shard_client_events;

/* The segment of that id as it was offered; NULL: it was not. */
const struct client_segment *shard_client_segment(const struct shard_client *client, uint64_t id);
/* Takes back its mapping and its descriptor. */
void shard_client_unmap(struct client_segment *segment);
