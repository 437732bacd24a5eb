/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room that calls on a publisher had none of (EAGAIN), so that the program is told once there
 * may be some. publish/room_event.c works on it.
 *
 * Threads: under the connection's lock. Memory: none.
 */
#pragma once

#include "wire/base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_gpu;

struct amb_room_wish {
    struct amb_list_node node; /* in conn->notify.rooms_awaited or rooms_ready; or alone */
    bool is_awaited;           /* in the former */
    bool is_of_library;        /* the program does not know the publisher: of amb_publish, ... */
    bool wants_put, wants_lease;
    bool is_mixed;            /* leases of several kinds: told at the next change, whatever it is */
    uint64_t slot_len, large; /* as room.h has them */
    /* As lease_room.h has them. */
    bool (*is_lease_ready)(void *room);
    struct amb_gpu *gpu;
    uint64_t lease_len;
    uint32_t seen, seen_unpins;
    bool is_private;
};

static inline void amb_room_wish_init(struct amb_room_wish *wish)
{
    amb_list_init(&wish->node);
}
