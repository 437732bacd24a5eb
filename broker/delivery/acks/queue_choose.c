/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/queue_choose.h"

#include "broker/delivery/acks/queue_private.h"
#include "broker/shard/entry.h"

/* How many messages of about so many bytes each it may be given now. */
static uint32_t seat_credit(const struct amb_seat *seat, uint64_t bytes_each, uint32_t most)
{
    uint64_t out = amb_seat_out(seat);
    if (out == 0) {
        uint64_t fit = bytes_each == 0 ? most : seat->credit_bytes / bytes_each;
        uint64_t n = fit < seat->credit_msgs ? fit : seat->credit_msgs;
        return n == 0 ? 1 : n < most ? (uint32_t)n : most; /* One always passes. */
    }
    if (__builtin_expect(atomic_load_explicit(&seat->is_full, memory_order_relaxed), 0)) {
        return 0;
    }
    uint64_t out_bytes =
        seat->given_bytes - atomic_load_explicit(&seat->back_bytes, memory_order_relaxed);
    if (out >= seat->credit_msgs || out_bytes >= seat->credit_bytes) {
        return 0;
    }
    uint64_t n = seat->credit_msgs - out;
    uint64_t fit = bytes_each == 0 ? n : (seat->credit_bytes - out_bytes) / bytes_each;
    n = fit < n ? fit : n;
    return n < most ? (uint32_t)n : most;
}

static uint32_t key_of(const struct amb_entry *entry, uint32_t index)
{
    return amb_entry_records(entry)[index].key_hash;
}

/* Highest random weight: when a member comes or goes only the keys move that are its own. */
static struct amb_seat *seat_of_key(const struct amb_queue *queue, uint32_t key)
{
    struct amb_seat *best = NULL;
    uint64_t most = 0;
    AMB_LIST_FOR_EACH (node, &queue->seats) {
        struct amb_seat *seat = AMB_CONTAINER_OF(node, struct amb_seat, node);
        uint64_t weight = (seat->to.sub << 32 ^ key) * UINT64_C(0x9e3779b97f4a7c15);
        weight = (weight ^ weight >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
        weight ^= weight >> 32;
        if (best == NULL || weight > most) {
            best = seat;
            most = weight;
        }
    }
    return best;
}

static struct amb_seat *seat_with_most_credit(const struct amb_queue *queue)
{
    struct amb_seat *best = NULL;
    uint64_t most = 0;
    AMB_LIST_FOR_EACH (node, &queue->seats) {
        struct amb_seat *seat = AMB_CONTAINER_OF(node, struct amb_seat, node);
        uint64_t out = amb_seat_out(seat);
        uint64_t left = out < seat->credit_msgs ? seat->credit_msgs - out : 0;
        if (left > most && seat_credit(seat, 0, 1) > 0) {
            best = seat;
            most = left;
        }
    }
    return best;
}

uint32_t amb_queue_choose(const struct amb_queue *queue, const struct amb_entry *entry,
                          uint32_t first, uint32_t count, struct amb_seat **out)
{
    if (queue->seat_count == 0) {
        return 0;
    }
    uint32_t most = entry->is_leased ? 1 : count; /* By copy each is a delivery of its own. */
    struct amb_seat *seat = AMB_CONTAINER_OF(queue->seats.next, struct amb_seat, node);
    if (queue->seat_count > 1) {
        uint32_t key = key_of(entry, first), run = 1;
        seat = key == 0 ? seat_with_most_credit(queue) : seat_of_key(queue, key);
        while (run < most &&
               (key == 0 ? key_of(entry, first + run) == 0
                         : key_of(entry, first + run) != 0 &&
                               seat_of_key(queue, key_of(entry, first + run)) == seat)) {
            run++;
        }
        uint32_t share = (entry->count + queue->seat_count - 1) / queue->seat_count;
        most = key == 0 && run > share ? share : run;
    }
    *out = seat;
    return seat == NULL ? 0 : seat_credit(seat, amb_entry_bytes(entry) / entry->count, most);
}
