/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/acks/taker_seat.h"

#include "broker/delivery/acks/taker.h"
#include "broker/delivery/reader/nearness.h"
#include "broker/memory/gpupool.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "wire/base/clock.h"

/* The heap's charge for a take, which lives as long as its member has it. */
#define TAKE_HEAP (sizeof(struct amb_take) + AMB_HEAP_OVERHEAD)

/* The queue looks at the seat anew. */
static void seat_kick(struct amb_shard *shard, struct amb_seat *seat)
{
    if (atomic_exchange(&seat->is_kicked, 1) == 0) {
        amb_take_post(shard, seat->home, &seat->kick, seat->on_kick);
    }
}

void amb_seat_back(struct amb_taker *taker, uint64_t msgs, uint64_t bytes)
{
    struct amb_seat *seat = taker->seat;
    if (seat == NULL || msgs == 0) {
        return;
    }
    uint64_t had_msgs = atomic_load_explicit(&seat->back_msgs, memory_order_relaxed);
    uint64_t had_bytes = atomic_load_explicit(&seat->back_bytes, memory_order_relaxed);
    atomic_store_explicit(&seat->back_bytes, had_bytes + bytes, memory_order_relaxed);
    /* Release: pairs with the queue's look. */
    atomic_store_explicit(&seat->back_msgs, had_msgs + msgs, memory_order_release);
    seat_kick(taker->shard, seat);
}

/* Takes may have half of a session's heap: then no more are given, and those that were under way
 * have the other half. */
static bool taker_is_full(const struct amb_taker *taker)
{
    const struct amb_heap_account *heap = &taker->sub->session->heap;
    return heap->bytes > heap->limit / 2;
}

static void taker_judge(struct amb_taker *taker)
{
    struct amb_seat *seat = taker->seat;
    bool is_full = taker_is_full(taker);
    if (seat == NULL ||
        __builtin_expect(atomic_load_explicit(&seat->is_full, memory_order_relaxed) == is_full,
                         1)) {
        return;
    }
    atomic_store_explicit(&seat->is_full, is_full, memory_order_relaxed);
    if (!is_full) {
        seat_kick(taker->shard, seat);
    }
}

void amb_seat_charge(struct amb_taker *taker)
{
    struct amb_session *session = taker->sub->session;
    amb_heap_take(&session->heap, TAKE_HEAP);
    taker_judge(taker);
    if (__builtin_expect(session->heap.bytes > session->heap.limit, 0)) {
        amb_session_end_heap(session);
    }
}

void amb_seat_uncharge(struct amb_taker *taker, uint64_t takes)
{
    amb_heap_give(&taker->sub->session->heap, takes * TAKE_HEAP);
}

void amb_seat_go_home(struct amb_taker *taker, struct amb_take *take, enum amb_take_end end)
{
    amb_heap_give(&taker->sub->session->heap, TAKE_HEAP);
    taker_judge(taker);
    amb_take_go_home(taker->shard, take, end);
}

void amb_seat_in_place(struct amb_taker *taker, const struct amb_gpu_pool *pool, bool is_in_place)
{
    struct amb_seat *seat = taker->seat;
    uint64_t bit = amb_nearness_gpu_bit(pool->index);
    uint64_t missed = atomic_load_explicit(&seat->gpus_missed, memory_order_relaxed);
    if (__builtin_expect(is_in_place && missed == 0, 1)) {
        return;
    }
    /* All bits have one time, that of the first, so each pool is tried again as often. */
    int64_t now_ns = taker->shard->now_ns;
    if (missed != 0 && now_ns >= atomic_load_explicit(&seat->gpus_again_ns, memory_order_relaxed)) {
        missed = 0;
    }
    uint64_t now = is_in_place ? missed & ~bit : missed | bit;
    if (missed == 0 && now != 0) {
        atomic_store_explicit(&seat->gpus_again_ns, amb_deadline_ns(now_ns, AMB_NEARNESS_AGAIN_NS),
                              memory_order_relaxed);
    }
    atomic_store_explicit(&seat->gpus_missed, now, memory_order_relaxed);
}

void amb_seat_forget(struct amb_taker *taker, struct amb_take *take)
{
    amb_list_remove(&take->node);
    amb_idmap_remove(&taker->known, &take->known);
}

void amb_seat_end(struct amb_taker *taker, struct amb_take *take, enum amb_take_end end)
{
    amb_seat_forget(taker, take);
    amb_seat_back(taker, take->left, take->bytes);
    amb_seat_go_home(taker, take, end);
}
