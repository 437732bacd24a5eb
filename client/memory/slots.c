/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/slots_private.h"

#include "client/conn/conn.h"
#include "client/conn/options.h"
#include "client/drive/lock.h"
#include "client/drive/wake.h"
#include "client/memory/gpu.h"
#include "client/memory/import.h"
#include "client/memory/keep.h"
#include "wire/base/assert.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEPS_FROM (UINT64_C(1) << 20) /* slots of this size and less: powers of four */
#define DEPTH_MIN (UINT64_C(2) << 20)  /* of the order of a core's own cache */
#define DEPTH_SLOTS 3u

uint64_t amb_slot_size(uint64_t len)
{
    uint64_t size = AMB_SLOT_MIN;
    while (size < len && size < STEPS_FROM) {
        size *= 4;
    }
    while (size * 2 < len) {
        size *= 2;
    }
    uint64_t step = size / 4;
    uint64_t more = len > size ? (len - size + step - 1) / step * step : 0;
    return size + more;
}

void amb_leases_init(struct amb_leases *leases)
{
    *leases = (struct amb_leases){.depth = DEPTH_MIN};
    amb_list_init(&leases->segments);
    amb_list_init(&leases->gpu_segments);
    amb_list_init(&leases->pinned_segments);
    amb_list_init(&leases->private_segments);
    amb_buffers_init(&leases->buffers, AMB_MEMORY_MAX);
}

/* May a message whose class is `size`, to a topic of that group, take a slot of this segment? */
static bool is_fit(const struct amb_slots *slots, uint64_t size, uint32_t group)
{
    return slots->group == group && slots->slot >= size && slots->slot <= 2 * size;
}

void amb_leases_wake(struct amb_conn *conn)
{
    if (conn->leases.waits != 0) {
        amb_conn_wake_all(conn);
    }
    if (!amb_list_is_empty(&conn->notify.rooms_awaited)) {
        amb_conn_changed(conn);
    }
}

uint64_t *amb_slots_sum(const struct amb_slots *slots)
{
    struct amb_leases *leases = &slots->conn->leases;
    if (slots->gpu != NULL) {
        return &amb_gpu_room_of(slots->gpu)->bytes;
    }
    return slots->is_private ? &leases->private_bytes : &leases->bytes;
}

static void free_memory(struct amb_slots *slots)
{
    if (slots->base != NULL && slots->gpu == NULL) {
        (void)munmap(slots->base, slots->size);
    }
    free(slots->keeps);
    free(slots);
}

/* Memory of this process's own is unpinned: there is room for more. Where there is no thread to
 * unpin on, the caller has the connection's lock. */
static void uncount(struct amb_conn *conn, uint64_t bytes)
{
    bool is_aside = amb_later_is_here();
    if (is_aside) {
        amb_conn_lock(conn);
    }
    conn->leases.private_bytes -= bytes;
    conn->leases.unpinning_bytes -= bytes;
    conn->leases.unpins++;
    amb_leases_wake(conn);
    if (is_aside) {
        amb_conn_unlock(conn);
    }
    amb_conn_unref(conn);
}

/* On the thread that has no lock. The GPU is there: it is freed by that thread, too, and later. */
static void unpin_now(struct amb_later *job)
{
    struct amb_slots *slots = AMB_CONTAINER_OF(job, struct amb_slots, later);
    struct amb_conn *conn = slots->conn;
    uint64_t bytes = slots->slot * slots->count;
    bool is_counted = slots->is_unpinning;
    amb_gpu_unpin(slots->pin, slots->base);
    free_memory(slots);
    if (is_counted) {
        uncount(conn, bytes);
    }
}

/* It waits for the device, maybe for long. Memory of this process's own counts until then, or there
 * would be ever more of it. */
static void unpin(struct amb_slots *slots)
{
    struct amb_conn *conn = slots->conn;
    slots->is_unpinning = slots->is_private && !conn->leases.has_ended;
    if (slots->is_unpinning) {
        conn->leases.private_bytes += slots->slot * slots->count;
        conn->leases.unpinning_bytes += slots->slot * slots->count;
        amb_conn_ref(conn);
    }
    amb_later(&slots->later, unpin_now);
}

void amb_slots_unmap(struct amb_slots *slots)
{
    amb_assert(slots->keep_count == 0);
    amb_import_return(slots->import);
    if (slots->fd >= 0) {
        (void)close(slots->fd);
    }
    amb_list_remove(&slots->request.node);
    amb_list_remove(&slots->node);
    *amb_slots_sum(slots) -= slots->slot * slots->count;
    if (slots->pinned_at != 0 && !amb_conn_has_trouble(slots->conn, AMB_TROUBLE_FORKED)) {
        unpin(slots);
    } else {
        free_memory(slots);
    }
}

void amb_slots_end(struct amb_slots *slots)
{
    if (slots->is_over && slots->taken == 0 && slots->keep_count == 0 &&
        slots->state != AMB_SLOTS_MAPPING) {
        amb_slots_unmap(slots);
    }
}

/* ---- slots ---- */

/* In its memory, or pinned by its driver. */
static inline bool is_of(const struct amb_slots *slots, const struct amb_gpu *gpu)
{
    return slots->gpu == gpu || slots->pin == gpu;
}

/* Of those in the list; gpu: only those of it, NULL: all. */
static inline __attribute__((always_inline)) struct amb_slots *
best_in(const struct amb_list_node *list, const struct amb_gpu *gpu, struct amb_slot_wish wish)
{
    uint64_t size = amb_slot_size(wish.len);
    struct amb_slots *best = NULL;
    AMB_LIST_FOR_EACH (node, list) {
        struct amb_slots *slots = amb_slots_of(node);
        if ((gpu == NULL || is_of(slots, gpu)) && slots->free_count != 0 &&
            is_fit(slots, size, wish.group) && (best == NULL || slots->slot < best->slot)) {
            best = slots;
        }
    }
    return best;
}

/* The segment of which the next slot is taken; NULL: none has one. */
static struct amb_slots *best_for(const struct amb_conn *conn, struct amb_slot_wish wish)
{
    return best_in(&conn->leases.segments, NULL, wish);
}

/* Of all segments of a group for messages of a size: the first large slot is in one of its own. */
struct in_use {
    uint32_t slots;
    uint64_t bytes;
};

static struct in_use in_use_of(const struct amb_leases *leases, uint64_t size, uint32_t group)
{
    struct in_use all = {0, 0};
    AMB_LIST_FOR_EACH (node, &leases->segments) {
        const struct amb_slots *slots = amb_slots_of(node);
        if (!slots->is_over && is_fit(slots, size, group)) {
            uint32_t used = slots->count - slots->free_count;
            all.slots += used;
            all.bytes += used * slots->slot;
        }
    }
    return all;
}

bool amb_slots_are_deep(const struct amb_conn *conn, struct amb_slot_wish wish)
{
    struct in_use all = in_use_of(&conn->leases, amb_slot_size(wish.len), wish.group);
    return all.slots >= DEPTH_SLOTS && all.bytes >= conn->leases.depth &&
           best_for(conn, wish) != NULL;
}

/* Slots that a commit has named and no one has given back. */
static uint32_t away(const struct amb_slots *slots)
{
    return slots->count - slots->free_count - slots->taken;
}

static uint32_t depth_min(const struct amb_slots *slots)
{
    return slots->count > 2 ? slots->count / 2 : 1;
}

bool amb_slots_are_away(const struct amb_conn *conn, struct amb_slot_wish wish)
{
    const struct amb_slots *slots = best_for(conn, wish);
    return slots != NULL && away(slots) >= slots->depth;
}

void amb_slots_let_go(struct amb_conn *conn, struct amb_slot_wish wish)
{
    struct amb_slots *slots = best_for(conn, wish);
    if (slots != NULL) {
        slots->depth = away(slots) + 1 + slots->count / 8;
    }
}

void amb_slots_deepen(struct amb_conn *conn, struct amb_slot_wish wish)
{
    if (best_for(conn, wish) != NULL) {
        conn->leases.depth =
            in_use_of(&conn->leases, amb_slot_size(wish.len), wish.group).bytes + DEPTH_MIN;
    }
}

static inline bool take_of(struct amb_slots *best, struct amb_place *out)
{
    if (best == NULL) {
        return false;
    }
    uint32_t slot = best->free_head;
    best->free_head = best->next[slot];
    best->free_count--;
    best->taken++;
    best->was_used = true;
    best->next[slot] = AMB_SLOT_NONE;
    *out = (struct amb_place){.slots = best, .slot = slot};
    return true;
}

bool amb_place_take(struct amb_conn *conn, struct amb_slot_wish wish, struct amb_place *out)
{
    return take_of(best_for(conn, wish), out);
}

bool amb_place_take_gpu(struct amb_conn *conn, struct amb_gpu *gpu, uint64_t len,
                        struct amb_place *out)
{
    const struct amb_slot_wish wish = {.len = len};
    return take_of(best_in(&conn->leases.gpu_segments, gpu, wish), out);
}

static const struct amb_list_node *pinned_list(const struct amb_conn *conn, bool is_private)
{
    const struct amb_leases *leases = &conn->leases;
    return is_private ? &leases->private_segments : &leases->pinned_segments;
}

/* Memory of this process alone has no group. */
static struct amb_slot_wish of_list(bool is_private, struct amb_slot_wish wish)
{
    return (struct amb_slot_wish){.len = wish.len, .group = is_private ? 0 : wish.group};
}

bool amb_place_take_pinned(struct amb_conn *conn, struct amb_gpu *gpu, bool is_private,
                           struct amb_slot_wish wish, struct amb_place *out)
{
    return take_of(best_in(pinned_list(conn, is_private), gpu, of_list(is_private, wish)), out);
}

void amb_place_return(const struct amb_place *place)
{
    struct amb_slots *slots = place->slots;
    amb_assert(slots->taken != 0);
    if (__builtin_expect(slots->keep_count != 0, 0) && amb_keep_holds(place)) {
        return;
    }
    slots->taken--;
    if (slots->is_over) {
        amb_slots_end(slots);
        return;
    }
    slots->next[place->slot] = slots->free_head;
    slots->free_head = place->slot;
    slots->free_count++;
    amb_conn_changed(slots->conn);
    amb_leases_wake(slots->conn);
}

static inline __attribute__((always_inline)) enum amb_slots_room
look_in(const struct amb_list_node *list, const struct amb_gpu *gpu, struct amb_slot_wish wish)
{
    uint64_t size = amb_slot_size(wish.len);
    uint64_t count = 0, taken = 0;
    bool is_coming = false;
    AMB_LIST_FOR_EACH (node, list) {
        const struct amb_slots *slots = AMB_CONTAINER_OF(node, struct amb_slots, node);
        if (slots->is_over || (gpu != NULL && !is_of(slots, gpu)) ||
            !is_fit(slots, size, wish.group)) {
            continue;
        }
        if (slots->free_count != 0) {
            return AMB_ROOM_FREE;
        }
        is_coming = is_coming || slots->state != AMB_SLOTS_READY;
        count += slots->count;
        taken += slots->taken;
    }
    if (is_coming) {
        return AMB_ROOM_COMING;
    }
    return count == 0 ? AMB_ROOM_NONE : taken * 2 >= count ? AMB_ROOM_LEASED : AMB_ROOM_IN_USE;
}

enum amb_slots_room amb_slots_look(const struct amb_conn *conn, struct amb_slot_wish wish)
{
    return look_in(&conn->leases.segments, NULL, wish);
}

bool amb_slots_are_few(const struct amb_conn *conn, struct amb_slot_wish wish)
{
    uint64_t size = amb_slot_size(wish.len);
    bool is_few = false;
    AMB_LIST_FOR_EACH (node, &conn->leases.segments) {
        const struct amb_slots *slots = AMB_CONTAINER_OF(node, struct amb_slots, node);
        if (!slots->is_over && is_fit(slots, size, wish.group)) {
            if (slots->state != AMB_SLOTS_READY) {
                return false;
            }
            is_few = is_few || slots->is_first;
        }
    }
    return is_few;
}

enum amb_slots_room amb_slots_look_gpu(const struct amb_conn *conn, const struct amb_gpu *gpu,
                                       uint64_t len)
{
    return look_in(&conn->leases.gpu_segments, gpu, (struct amb_slot_wish){.len = len});
}

enum amb_slots_room amb_slots_look_pinned(const struct amb_conn *conn, const struct amb_gpu *gpu,
                                          bool is_private, struct amb_slot_wish wish)
{
    return look_in(pinned_list(conn, is_private), gpu, of_list(is_private, wish));
}

void amb_slots_make_ready(struct amb_slots *slots)
{
    slots->state = AMB_SLOTS_READY;
    for (uint32_t i = slots->count; i-- != 0;) {
        slots->next[i] = slots->free_head;
        slots->free_head = i;
    }
    slots->free_count = slots->count;
    slots->depth = depth_min(slots);
    slots->was_used = true;
    amb_conn_changed(slots->conn);
}

void amb_slots_put_chain(struct amb_leases *leases, struct amb_slots *slots, uint32_t head)
{
    uint32_t slot =
        __builtin_expect(slots->keep_count != 0, 0) ? amb_keeps_sift(slots, head) : head;
    while (slot != AMB_SLOT_NONE) {
        uint32_t next = slots->next[slot];
        slots->next[slot] = slots->free_head;
        slots->free_head = slot;
        slots->free_count++;
        slot = next;
    }
    if (leases->depth > DEPTH_MIN &&
        in_use_of(leases, slots->slot, slots->group).bytes < leases->depth / 2) {
        leases->depth = leases->depth / 2 > DEPTH_MIN ? leases->depth / 2 : DEPTH_MIN;
    }
    if (slots->depth > depth_min(slots) && away(slots) < slots->depth / 2) {
        slots->depth = depth_min(slots);
    }
}
