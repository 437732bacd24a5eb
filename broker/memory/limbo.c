/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/memory/limbo.h"

#include "broker/base/party.h"
#include "broker/memory/membudget.h"
#include "broker/memory/segment.h"
#include "wire/base/assert.h"
#include "wire/base/log.h"

#include <inttypes.h>

void amb_limbo_init(struct amb_limbo *limbo, struct amb_inbox *looker)
{
    *limbo = (struct amb_limbo){.looker = looker, .is_waking = ATOMIC_FLAG_INIT};
    int error = pthread_mutex_init(&limbo->lock, NULL);
    amb_assert(error == 0);
    for (unsigned i = 0; i < AMB_LIMBO_QUEUES; i++) {
        amb_list_init(&limbo->queues[i]);
    }
}

static struct amb_list_node *queue_of(struct amb_limbo *limbo, const struct amb_segment *segment,
                                      bool is_late)
{
    enum amb_limbo_queue queue = segment->is_leased
                                     ? (is_late ? AMB_LIMBO_LEASED_LATE : AMB_LIMBO_LEASED_FRESH)
                                     : (is_late ? AMB_LIMBO_POOL_LATE : AMB_LIMBO_POOL_FRESH);
    return &limbo->queues[queue];
}

/* The segment's pages go back to the system: nobody is charged for them any more. */
static void segment_gone(struct amb_membudget *budget, struct amb_segment *segment)
{
    uint64_t bytes = segment->size;
    if (segment->is_leased) {
        amb_membudget_end_lease(budget, bytes);
        amb_party_kept(segment->party, -bytes);
        amb_party_end_lease(&segment->party, bytes);
    }
    amb_segment_destroy(&segment);
    amb_membudget_give(budget, bytes);
}

static void limbo_count(struct amb_limbo *limbo, const struct amb_segment *segment, bool enters)
{
    uint64_t bytes = enters ? segment->size : -segment->size;
    (void)atomic_fetch_add_explicit(&limbo->count, enters ? 1 : UINT32_MAX, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&limbo->bytes, bytes, memory_order_relaxed);
    if (segment->is_leased) {
        (void)atomic_fetch_add_explicit(&limbo->leased_bytes, bytes, memory_order_relaxed);
    }
}

/* An old kernel, or a sandbox: the client's word has to do, as it does for GPU memory. */
static void warn_unknown(void)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&said)) {
        amb_warn("the kernel does not tell whether a dropped segment is still mapped "
                 "(F_SETLEASE): clients are believed");
    }
}

static bool is_in_use(struct amb_segment *segment)
{
    enum amb_segment_use use = amb_segment_ask_use(segment);
    if (use == AMB_SEGMENT_UNKNOWN) {
        warn_unknown();
    }
    return use == AMB_SEGMENT_IN_USE;
}

/* The maker looks when its mail is done. */
static void woken(struct amb_mail *mail, void *owner)
{
    (void)owner;
    atomic_flag_clear(&AMB_CONTAINER_OF(mail, struct amb_limbo, wake)->is_waking);
}

void amb_limbo_drop(struct amb_membudget *budget, struct amb_segment *segment)
{
    struct amb_limbo *limbo = budget->limbo;
    if (limbo == NULL || !is_in_use(segment)) {
        segment_gone(budget, segment);
        return;
    }
    (void)pthread_mutex_lock(&limbo->lock);
    limbo_count(limbo, segment, true);
    segment->dropped_ns = amb_clock_monotonic_ns();
    amb_list_remove(&segment->node);
    amb_list_push_back(queue_of(limbo, segment, false), &segment->node);
    atomic_store_explicit(&limbo->dropped_ns, segment->dropped_ns, memory_order_relaxed);
    (void)pthread_mutex_unlock(&limbo->lock);
    if (limbo->looker != NULL && !atomic_flag_test_and_set(&limbo->is_waking)) {
        amb_mail_post(limbo->looker, &limbo->wake, woken);
    }
}

bool amb_limbo_may_give(const struct amb_membudget *budget, uint64_t bytes, int64_t now_ns)
{
    const struct amb_limbo *limbo = budget->limbo;
    return limbo != NULL && atomic_load_explicit(&limbo->bytes, memory_order_relaxed) >= bytes &&
           now_ns - atomic_load_explicit(&limbo->dropped_ns, memory_order_relaxed) <
               AMB_LIMBO_WAIT_NS;
}

/* Looks at the segments that have waited longest. Those that nobody has mapped go to gone. */
static void look_at_queue(struct amb_limbo *limbo, struct amb_list_node *queue, int64_t now_ns,
                          struct amb_list_node *gone)
{
    const struct amb_list_node *last = queue->prev;
    for (uint32_t i = 0; i < AMB_LIMBO_LOOKS && !amb_list_is_empty(queue); i++) {
        struct amb_list_node *node = amb_list_pop_front(queue);
        struct amb_segment *segment = AMB_CONTAINER_OF(node, struct amb_segment, node);
        bool is_late = now_ns - segment->dropped_ns >= AMB_LIMBO_FRESH_NS;
        if (is_in_use(segment)) {
            amb_list_push_back(queue_of(limbo, segment, is_late), node);
        } else {
            limbo_count(limbo, segment, false);
            amb_list_push_back(gone, node);
        }
        if (node == last) {
            return;
        }
    }
}

int amb_limbo_look(struct amb_membudget *budget, int64_t now_ns)
{
    struct amb_limbo *limbo = budget->limbo;
    if (limbo == NULL || atomic_load_explicit(&limbo->count, memory_order_relaxed) == 0) {
        return -1;
    }
    struct amb_list_node gone;
    amb_list_init(&gone);
    for (unsigned i = 0; i < AMB_LIMBO_QUEUES; i++) {
        (void)pthread_mutex_lock(&limbo->lock);
        look_at_queue(limbo, &limbo->queues[i], now_ns, &gone);
        (void)pthread_mutex_unlock(&limbo->lock);
    }
    struct amb_list_node *node; /* Unmapping takes milliseconds: outside of the lock. */
    while ((node = amb_list_pop_front(&gone)) != NULL) {
        segment_gone(budget, AMB_CONTAINER_OF(node, struct amb_segment, node));
    }
    uint32_t left = atomic_load_explicit(&limbo->count, memory_order_relaxed);
    if (left == 0) {
        return -1;
    }
    int64_t dropped_ns = atomic_load_explicit(&limbo->dropped_ns, memory_order_relaxed);
    int64_t next_ns = now_ns - dropped_ns < AMB_LIMBO_FRESH_NS
                          ? AMB_LIMBO_LOOK_NS
                          : AMB_LIMBO_LATE_NS * AMB_LIMBO_LOOKS / left;
    next_ns = next_ns < AMB_LIMBO_LOOK_NS ? AMB_LIMBO_LOOK_NS : next_ns;
    return (int)((next_ns < AMB_LIMBO_LATE_NS ? next_ns : AMB_LIMBO_LATE_NS) / AMB_NS_PER_MS);
}

struct amb_limbo_wish {
    const struct amb_trust_group *group;
    uint64_t least, most, fence;
};

/* The smallest of a queue that is large enough, if it is smaller than the best so far. */
static struct amb_segment *find_smaller(const struct amb_list_node *queue,
                                        const struct amb_limbo_wish *wish, struct amb_segment *best)
{
    AMB_LIST_FOR_EACH (node, queue) {
        struct amb_segment *segment = AMB_CONTAINER_OF(node, struct amb_segment, node);
        if (amb_segment_group(segment) == wish->group && segment->fence == wish->fence &&
            segment->size >= wish->least && segment->size <= wish->most &&
            (best == NULL || segment->size < best->size)) {
            best = segment;
        }
    }
    return best;
}

struct amb_segment *amb_limbo_reuse(struct amb_membudget *budget,
                                    const struct amb_trust_group *group, uint64_t least,
                                    uint64_t most)
{
    struct amb_limbo *limbo = budget->limbo;
    if (limbo == NULL || atomic_load_explicit(&limbo->count, memory_order_relaxed) == 0) {
        return NULL;
    }
    const struct amb_limbo_wish wish = {
        .group = group,
        .least = least,
        .most = most,
        .fence = atomic_load_explicit(&budget->fence, memory_order_relaxed),
    };
    (void)pthread_mutex_lock(&limbo->lock);
    struct amb_segment *best = find_smaller(&limbo->queues[AMB_LIMBO_POOL_FRESH], &wish, NULL);
    best = find_smaller(&limbo->queues[AMB_LIMBO_POOL_LATE], &wish, best);
    if (best != NULL) {
        limbo_count(limbo, best, false);
        amb_list_remove(&best->node);
        best->id = amb_membudget_next_id(budget);
        (void)atomic_fetch_add_explicit(&limbo->reused, 1, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&limbo->lock);
    return best;
}

void amb_limbo_fini(struct amb_limbo *limbo, struct amb_membudget *budget)
{
    if (limbo->queues[0].next == NULL) {
        return;
    }
    uint32_t count = atomic_load_explicit(&limbo->count, memory_order_relaxed);
    if (count > 0) {
        amb_info("%" PRIu32 " segments are still mapped by clients", count);
    }
    for (unsigned i = 0; i < AMB_LIMBO_QUEUES; i++) {
        struct amb_list_node *node;
        while ((node = amb_list_pop_front(&limbo->queues[i])) != NULL) {
            struct amb_segment *segment = AMB_CONTAINER_OF(node, struct amb_segment, node);
            limbo_count(limbo, segment, false);
            segment_gone(budget, segment);
        }
    }
    (void)pthread_mutex_destroy(&limbo->lock);
    budget->limbo = NULL;
}
