/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/queue_choose.h"

#include "broker/base/fault.h"
#include "broker/delivery/acks/queue_private.h"
#include "broker/delivery/reader/nearness.h"
#include "broker/memory/gpupool.h"
#include "broker/memory/segment.h"
#include "broker/shard/entry.h"
#include "broker/shard/entry_share.h"

/* Of a party that has its share of the entries here, one goes to another worker at a time. The next
 * one goes when its member has given that back. */
static bool is_over_share(const struct amb_seat *seat, const struct amb_entry *entry)
{
    return entry->party != NULL && seat->shard != seat->queue->shard &&
           amb_entry_share_is_over(seat->queue->shard, entry);
}

/* How many messages of about so many bytes each it may be given now. */
static uint32_t seat_credit(const struct amb_seat *seat, const struct amb_entry *entry,
                            uint64_t bytes_each, uint32_t most)
{
    uint64_t out = amb_seat_out(seat);
    if (out == 0) {
        uint64_t fit = bytes_each == 0 ? most : seat->credit_bytes / bytes_each;
        uint64_t n = fit < seat->credit_msgs ? fit : seat->credit_msgs;
        return n == 0 ? 1 : n < most ? (uint32_t)n : most; /* One always passes. */
    }
    if (__builtin_expect(atomic_load_explicit(&seat->is_full, memory_order_relaxed), 0) ||
        __builtin_expect(is_over_share(seat, entry), 0)) {
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

/* Has it so much left that it keeps up? */
static bool seat_has_half(const struct amb_seat *seat)
{
    uint64_t out = amb_seat_out(seat);
    uint64_t out_bytes =
        seat->given_bytes - atomic_load_explicit(&seat->back_bytes, memory_order_relaxed);
    return out == 0 || (out <= seat->credit_msgs / 2 && out_bytes <= seat->credit_bytes / 2);
}

/* Does it read in place there, or is that to be tried again? */
static bool seat_reads(const struct amb_seat *seat, const struct amb_gpu_pool *gpu, int64_t now_ns)
{
    uint64_t missed = atomic_load_explicit(&seat->gpus_missed, memory_order_relaxed);
    return (missed & amb_nearness_gpu_bit(gpu->index)) == 0 ||
           now_ns >= atomic_load_explicit(&seat->gpus_again_ns, memory_order_relaxed);
}

/* To the payloads of that entry. */
static enum amb_nearness seat_nearness(const struct amb_seat *seat, const struct amb_choice *choice)
{
    const struct amb_gpu_pool *gpu = choice->entry->segment->gpu;
    if (seat->nearness != AMB_NEARNESS_GPU) {
        return seat->nearness;
    }
    return gpu != NULL && seat_reads(seat, gpu, choice->now_ns) ? AMB_NEARNESS_GPU
                                                                : AMB_NEARNESS_HOST;
}

/* Members of a rank compete by credit. The lowest one is that of all. */
#define RANK_OF_ALL 0u
static unsigned seat_rank(const struct amb_seat *seat, const struct amb_choice *choice)
{
    if (!choice->is_by_nearness || AMB_FAULT(NEAR_IGNORED)) {
        return RANK_OF_ALL;
    }
    return seat_has_half(seat) || AMB_FAULT(NEAR_STARVES)
               ? 1 + (unsigned)seat_nearness(seat, choice)
               : RANK_OF_ALL;
}

/* The best of those who have credit: by rank, then by credit. *rivals: so many share with it. */
static struct amb_seat *seat_best(const struct amb_queue *queue, const struct amb_choice *choice,
                                  uint32_t *rivals)
{
    struct amb_seat *best = NULL;
    uint64_t most = 0;
    unsigned best_rank = RANK_OF_ALL;
    AMB_LIST_FOR_EACH (node, &queue->seats) {
        struct amb_seat *seat = AMB_CONTAINER_OF(node, struct amb_seat, node);
        uint64_t out = amb_seat_out(seat);
        uint64_t left = out < seat->credit_msgs ? seat->credit_msgs - out : 0;
        if (left == 0 || seat_credit(seat, choice->entry, 0, 1) == 0) {
            continue;
        }
        unsigned rank = seat_rank(seat, choice);
        bool is_above = rank > best_rank;
        *rivals = is_above ? 1 : *rivals + (rank == best_rank);
        if (is_above || (rank == best_rank && left > most)) {
            best = seat;
            most = left;
            best_rank = rank;
        }
    }
    *rivals = best_rank == RANK_OF_ALL ? queue->seat_count : *rivals;
    return best;
}

uint32_t amb_queue_choose(const struct amb_queue *queue, const struct amb_choice *choice,
                          struct amb_seat **out)
{
    if (queue->seat_count == 0) {
        return 0;
    }
    const struct amb_entry *entry = choice->entry;
    /* By copy each is a delivery of its own. */
    uint32_t most = entry->is_leased ? 1 : choice->count, first = choice->first;
    struct amb_seat *seat = AMB_CONTAINER_OF(queue->seats.next, struct amb_seat, node);
    if (queue->seat_count > 1) {
        uint32_t key = key_of(entry, first), run = 1, rivals = 0;
        seat = key == 0 ? seat_best(queue, choice, &rivals) : seat_of_key(queue, key);
        while (run < most &&
               (key == 0 ? key_of(entry, first + run) == 0
                         : key_of(entry, first + run) != 0 &&
                               seat_of_key(queue, key_of(entry, first + run)) == seat)) {
            run++;
        }
        uint32_t share = rivals == 0 ? run : (entry->count + rivals - 1) / rivals;
        most = run > share ? share : run;
    }
    *out = seat;
    return seat == NULL ? 0 : seat_credit(seat, entry, amb_entry_bytes(entry) / entry->count, most);
}
