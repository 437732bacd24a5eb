/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a lease finds room: a slot of a lease segment, and where there will be none, private
 * memory. A call waits for a slot to come back, or for a segment that is asked for. On a GPU, or in
 * pinned memory, it also waits for another session.
 *
 *   look ─► free ─────────────► taken
 *    │ └──► none, or all leased ─► a segment is asked for ─► look
 *    └────► in use ─► waits, at most 100 ms ─► a second segment, then private memory
 *
 * Threads: the connection's lock held, given up meanwhile. Memory: the lease has all that is taken.
 */
#pragma once

#include "client/memory/slots.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_gpu;
struct amb_lease;
struct amb_pub;

struct amb_lease_room {
    struct amb_pub *pub;
    struct amb_gpu *gpu; /* NULL: plain host memory */
    bool is_private;     /* pinned memory of this process alone */
    uint64_t len;
    enum amb_slots_room seen;
    uint32_t seen_unpins; /* of pinned memory of this process alone */
    int64_t deadline_ns;
    bool (*awaited)(void *room); /* it has waited for that last */
};

/* Waits until a batch may be begun: a commit will not wait. */
enum amb_status amb_lease_room_await_memory(struct amb_lease_room *room);
/* A slot in plain host memory, as soon as there is one; private memory where there will be none. */
enum amb_status amb_lease_room_take(struct amb_lease_room *room, struct amb_lease *lease);
/* A slot on a GPU, where there is no private memory: without more slots the caller waits for its
 * own. */
enum amb_status amb_lease_room_take_gpu(struct amb_lease_room *room, struct amb_lease *lease);
/* Pinned host memory: the broker's; where the broker gives no more, or nobody could read it there,
 * memory of this process alone. */
enum amb_status amb_lease_room_take_pinned(struct amb_lease_room *room, struct amb_lease *lease);
