/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lease segments: memory of the broker's that this client alone may write, cut in slots of one size
 * each.
 *
 *   LeaseOpen ─► ASKED ─► OPENED ─► map ─► LeaseMapped ─► SAID ─► READY ... idle ─► LeaseClose
 *                  (I/O thread: mapping takes a while, and the lock is given up for it)
 *
 *   free ─► taken: a lease, or a message on its way out ─► committed ─► FREED ─► free
 *
 * Slots are taken last in, first out, so that a stream of messages goes through few of them, which
 * stay in the cache. Sizes are few, because every reader maps each segment. Up to 1 MiB each is
 * four times the one before, from 4 KiB on; then a doubling has four steps. A message may take a
 * slot of up to twice its class.
 *
 * Threads: under the connection's lock. Memory: one allocation a segment, one ring of commits that
 * doubles; mappings are not inherited by fork.
 */
#pragma once

#include "client/conn/state/leases.h"
#include "client/drive/control.h"
#include "client/memory/later.h"
#include "wire/base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_SLOT_MIN UINT64_C(4096)
#define AMB_SLOTS_BYTES (UINT64_C(16) << 20) /* of a segment with many slots */
#define AMB_SLOTS_FEW 4u                     /* slots of one with large ones */
/* Slots of this size and more begin with a segment of one: the kernel clears a MiB in 1 ms. For one
 * large message that is enough. The rest comes when a second one is needed. */
#define AMB_SLOTS_LARGE (UINT64_C(16) << 20)
#define AMB_SLOTS_IDLE_NS (30 * INT64_C(1000000000))

struct amb_conn;
struct amb_gpu;
struct amb_import;

enum amb_slots_state {
    AMB_SLOTS_ASKED,   /* LeaseOpen is on its way */
    AMB_SLOTS_OPENED,  /* the descriptor is here */
    AMB_SLOTS_MAPPING, /* without the lock */
    AMB_SLOTS_SAID,    /* LeaseMapped is on its way */
    AMB_SLOTS_READY,
};

struct amb_slots {
    struct amb_list_node node;
    struct amb_conn *conn;
    enum amb_slots_state state;
    int fd;
    struct amb_gpu *gpu;       /* the memory is its, base is a device address; NULL: host */
    struct amb_gpu *pin;       /* its driver has pinned the memory; NULL: it is not pinned */
    uint64_t pinned_at;        /* its address for GPUs then */
    struct amb_import *import; /* of the pool that it lies in, on a GPU */
    uint32_t group;            /* of host memory of the broker's: its trust group there */
    bool is_private;           /* of this process alone: the broker knows nothing of it */
    bool is_first;             /* one large slot, and more of them were not asked for yet */
    uint8_t *base;
    uint64_t id, size; /* as the broker says */
    uint64_t slot;     /* bytes of one */
    uint32_t count;
    uint32_t free_count, free_head;
    uint32_t taken;          /* by leases and messages that are not sent */
    uint32_t keep_count;     /* slots that the program keeps, see keep.h */
    struct amb_keep **keeps; /* of each slot; NULL until the first is kept */
    uint32_t depth;          /* slots that the broker has when the next lease waits, see slots.c */
    bool was_used;           /* since somebody looked */
    bool is_unpinning;       /* and counts until that is done; of memory of this process alone */
    bool is_over;            /* its session is: goes with the last lease in it */
    int64_t used_ns;         /* about when it was used last */
    struct amb_control_request request;
    struct amb_later later; /* until it is unpinned */
    uint32_t next[];        /* of each slot, in whichever chain it is; AMB_SLOT_NONE: the last */
};

/* How it stands with room for a message. */
enum amb_slots_room {
    AMB_ROOM_FREE,   /* there is a slot */
    AMB_ROOM_COMING, /* a segment is on its way */
    AMB_ROOM_IN_USE, /* all slots are the broker's, mostly: some come back */
    AMB_ROOM_LEASED, /* all slots are leased, mostly: more segments would help */
    AMB_ROOM_NONE,   /* no segment has slots that large */
};

static inline uint8_t *amb_place_bytes(const struct amb_place *place)
{
    return place->slots->base + place->slots->slot * place->slot;
}

/* The same as a GPU sees it; of pinned memory. */
static inline uint64_t amb_place_pinned_at(const struct amb_place *place)
{
    return place->slots->pinned_at + place->slots->slot * place->slot;
}

#define AMB_GROUP_UNKNOWN UINT32_MAX /* there are no slots for it */

/* The slot that is wanted: the broker shares each segment with the readers of one trust group. */
struct amb_slot_wish {
    uint64_t len;
    uint32_t group; /* of the publisher's topic */
};

/* The slot size for a payload. */
uint64_t amb_slot_size(uint64_t len);

void amb_leases_init(struct amb_leases *leases);
/* A slot for that. False: none is free. */
bool amb_place_take(struct amb_conn *conn, struct amb_slot_wish wish, struct amb_place *out);
/* The same on a GPU. */
bool amb_place_take_gpu(struct amb_conn *conn, struct amb_gpu *gpu, uint64_t len,
                        struct amb_place *out);
/* In host memory that this GPU's driver has pinned; is_private: of this process alone. */
bool amb_place_take_pinned(struct amb_conn *conn, struct amb_gpu *gpu, bool is_private,
                           struct amb_slot_wish wish, struct amb_place *out);
/*
 * While the broker has half of the slots, or more after a wait in vain, the program runs ahead of
 * its readers. A lease waits a moment then. The wait ends with the first slot that comes back,
 * which is still in the cache. Is it so for the next lease like that?
 */
bool amb_slots_are_away(const struct amb_conn *conn, struct amb_slot_wish wish);
/* It stayed so for a moment: readers are slow, or keep what they get, so let it be more. */
void amb_slots_let_go(struct amb_conn *conn, struct amb_slot_wish wish);
/*
 * Plain publishes wait a moment rather than run through all slots: few slots stay in the cache. Is
 * the segment that they would use as deep in use as they let it be?
 */
bool amb_slots_are_deep(const struct amb_conn *conn, struct amb_slot_wish wish);
/* It stayed so for a moment: readers keep what they get, so let it be deeper. */
void amb_slots_deepen(struct amb_conn *conn, struct amb_slot_wish wish);
/* It was not committed after all. May unmap a segment of a session that is over. */
void amb_place_return(const struct amb_place *place);
/* Slots of a segment, a chain from head, can be taken again. */
void amb_slots_put_chain(struct amb_leases *leases, struct amb_slots *slots, uint32_t head);
/* How it stands with room for such a message. */
enum amb_slots_room amb_slots_look(const struct amb_conn *conn, struct amb_slot_wish wish);
enum amb_slots_room amb_slots_look_gpu(const struct amb_conn *conn, const struct amb_gpu *gpu,
                                       uint64_t len);
enum amb_slots_room amb_slots_look_pinned(const struct amb_conn *conn, const struct amb_gpu *gpu,
                                          bool is_private, struct amb_slot_wish wish);
/* Are there fewer slots for such messages than there would be, had somebody asked? Then another
 * segment is worth it as soon as none is free. */
bool amb_slots_are_few(const struct amb_conn *conn, struct amb_slot_wish wish);

/* There is room that did not come by the link: wakes its waiters. */
void amb_leases_wake(struct amb_conn *conn);
