/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases of a scripted client (shard_client.h). It asks for them as a client does, but by orders.
 * It writes its stamps into slots and commits them, rightly or as the test wants it.
 * Threads: one. Memory: a lease is the test's until client_lease_fini.
 */
#pragma once

#include "tests/support/shard/shard_client.h"

/* A segment that the client writes. */
struct client_lease {
    uint64_t segment, size, slot;
    uint8_t *base; /* NULL: not mapped yet */
    int fd;        /* -1: closed */
};

/* Has a lease made, and its descriptor given. */
enum amb_status client_lease_open(struct shard_client *client, uint64_t slot, uint32_t slots,
                                  struct client_lease *out);
/* Maps it to write, closes the descriptor, and says so. */
enum amb_status client_lease_map(struct shard_client *client, struct client_lease *lease);
/* Says that it has mapped a segment, whether it has or not. */
enum amb_status client_lease_say_mapped(struct shard_client *client, uint64_t segment);
/* LeaseClose; its mapping stays until client_lease_fini. */
void client_lease_close(struct shard_client *client, const struct client_lease *lease);
void client_lease_fini(struct client_lease *lease);
/* Commits messages of `len` bytes in the slots first, first + 1, ... */
void client_commit(struct shard_client *client, uint32_t handle, const struct client_lease *lease,
                   uint32_t first, uint32_t count, uint32_t len);
/* One message with this offset and length, and properties of props_len bytes; else as it says. */
struct client_commit {
    uint64_t offset;
    uint32_t len, props_len;
    uint64_t segment, number, seq; /* 0: what is right */
    bool is_malformed;
};
void client_commit_as(struct shard_client *client, uint32_t handle,
                      const struct client_lease *lease, const struct client_commit *commit);
