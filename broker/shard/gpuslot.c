/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/gpuslot.h"

#include "broker/config/config.h"
#include "broker/memory/gpupool.h"
#include "broker/memory/segment.h"
#include "broker/shard/segment_lease.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"

#define SLOT_MIN AMB_LEASE_SLOT_ALIGN
/* Ranges of small slots are shorter, with so many of them, or a 256th of the pool. A subscriber
 * maps AMB_SESSION_SEGMENTS_MAX ranges, and has copies of what lies in others. */
#define SLOTS_FEW 1024u
#define RANGES_MAX 256u
/* A range is a 64th of its pool, within these, or one slot. */
#define RANGE_MIN AMB_GPU_UNIT
#define RANGE_MAX (UINT64_C(256) << 20)
#define IDLE_NS AMB_NS_PER_SEC
#define LOOK_NS (AMB_NS_PER_SEC / 4)
/* A GPU copies gigabytes in that time. */
#define SPOILED_NS (10 * AMB_NS_PER_SEC)

/* A power of two up to the pools' unit, then multiples of that. */
static uint64_t slot_for(uint64_t len)
{
    uint64_t slot = SLOT_MIN;
    while (slot < len && slot < AMB_GPU_UNIT) {
        slot *= 2;
    }
    return slot >= len ? slot : (len + AMB_GPU_UNIT - 1) & ~(AMB_GPU_UNIT - 1);
}

static uint64_t range_for(const struct amb_gpu_pool *pool, uint64_t slot)
{
    uint64_t range = (pool->size / 64) & ~(AMB_GPU_UNIT - 1);
    range = range < RANGE_MIN ? RANGE_MIN : range > RANGE_MAX ? RANGE_MAX : range;
    uint64_t least = (pool->size / RANGES_MAX) & ~(AMB_GPU_UNIT - 1);
    least = least < SLOTS_FEW * slot ? SLOTS_FEW * slot : least;
    range = range > least ? least : range;
    return range < slot ? slot : range - range % slot;
}

static struct amb_segment_lease *lease_at(struct amb_list_node *node)
{
    return AMB_CONTAINER_OF(node, struct amb_segment_lease, of_book);
}

static struct amb_segment_lease *find_free(struct amb_shard *shard, const struct amb_gpu_pool *pool,
                                           uint64_t slot)
{
    AMB_LIST_FOR_EACH (node, &shard->gpuslots.leases) {
        struct amb_segment_lease *lease = lease_at(node);
        if (lease->segment->gpu == pool && lease->slot >= slot && lease->slot <= 2 * slot &&
            lease->commits < lease->slots && lease->spoiled_ns == 0) {
            return lease;
        }
    }
    return NULL;
}

static bool is_due(const struct amb_segment_lease *lease, const struct amb_gpu_pool *pool,
                   int64_t now_ns)
{
    if (lease->spoiled_ns != 0) {
        return now_ns - lease->spoiled_ns >= SPOILED_NS;
    }
    return pool != NULL ? lease->segment->gpu == pool : now_ns - lease->used_ns >= IDLE_NS;
}

/* Ranges that nothing lies in; of one pool, or of all (NULL) those that were not used for a
 * while. */
static void give_back(struct amb_shard *shard, const struct amb_gpu_pool *pool)
{
    AMB_LIST_FOR_EACH_SAFE (node, &shard->gpuslots.leases) {
        struct amb_segment_lease *lease = lease_at(node);
        if (lease->commits == 0 && is_due(lease, pool, shard->now_ns)) {
            amb_segment_lease_close(lease);
        }
    }
}

/* One allocation and the pool's lock, for as many messages as a range has slots. */
static struct amb_segment_lease *make(struct amb_shard *shard, struct amb_gpu_pool *pool,
                                      uint64_t slot)
{
    uint64_t range = range_for(pool, slot);
    struct amb_segment_lease *lease = NULL;
    if (range > pool->size / 2 ||
        amb_segment_lease_open_own(shard, pool, slot, (uint32_t)(range / slot), &lease) != AMB_OK) {
        return NULL;
    }
    return lease;
}

static struct amb_segment_lease *find_in(struct amb_shard *shard, struct amb_gpu_pool *pool,
                                         uint64_t slot, const char **why)
{
    if (!amb_gpu_pool_is_sound(pool)) {
        *why = "that GPU is out of use until the broker is started anew";
        return NULL;
    }
    if (!amb_gpu_pool_is_made(pool)) {
        *why = "that GPU has no room for the broker's pool yet";
        return NULL;
    }
    if (!pool->is_exported) {
        /* UCX ends the process where it cannot pack a handle of what it is given. */
        *why = "that GPU's memory cannot be exported";
        return NULL;
    }
    struct amb_segment_lease *lease = find_free(shard, pool, slot);
    lease = lease != NULL ? lease : make(shard, pool, slot);
    if (lease == NULL) {
        give_back(shard, pool);
        lease = make(shard, pool, slot);
    }
    *why = "the GPU's pool has no room for it, or links have half of it (memory.cuda.size)";
    return lease;
}

bool amb_gpuslot_may_link(const struct amb_config *config)
{
    return config->memory.cuda.trust != AMB_GPU_TRUST_NONE;
}

bool amb_gpuslot_suits(const struct amb_config *config, const struct amb_topic_rule *rule)
{
    return amb_gpuslot_may_link(config) && rule->trust != AMB_TRUST_VERIFY &&
           rule->retain.keys == 0;
}

struct amb_segment_lease *amb_gpuslot_find(struct amb_shard *shard, uint64_t len)
{
    struct amb_gpus *gpus = shard->memory.gpus;
    const char *why = NULL, *first_why = NULL;
    for (uint32_t i = 0; gpus != NULL && i < gpus->count; i++) {
        struct amb_segment_lease *lease = find_in(shard, &gpus->pools[i], slot_for(len), &why);
        if (lease != NULL) {
            return lease;
        }
        first_why = first_why == NULL ? why : first_why;
    }
    if (first_why != NULL) {
        (void)atomic_fetch_add_explicit(&gpus->pools[0].missed, 1, memory_order_relaxed);
        atomic_store_explicit(&gpus->pools[0].missed_why, first_why, memory_order_relaxed);
    }
    return NULL;
}

static uint64_t free_slot(const struct amb_segment_lease *lease)
{
    uint32_t word = 0;
    while (lease->taken[word] == UINT64_MAX) {
        word++; /* There is a free one. */
    }
    uint32_t at = word * 64 + (uint32_t)__builtin_ctzll(~lease->taken[word]);
    amb_assert(at < lease->slots);
    return at * lease->slot;
}

void amb_gpuslot_take(struct amb_segment_lease *lease, uint64_t len, struct amb_commit *commit,
                      uint64_t *offset)
{
    struct amb_gpu_pool *pool = lease->segment->gpu;
    *offset = free_slot(lease);
    *commit = (struct amb_commit){.lease = lease, .offsets = offset};
    amb_list_init(&commit->node);
    enum amb_status status = amb_commit_take(commit, *offset, len);
    amb_assert(status == AMB_OK);
    amb_segment_lease_ref(lease);
    lease->used_ns = lease->shard->now_ns;
    amb_gpu_pool_give_away(pool); /* UCX may send the peer a handle. */
    (void)atomic_fetch_add_explicit(&pool->received, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&pool->received_bytes, len, memory_order_relaxed);
}

void amb_gpuslot_spoil(struct amb_segment_lease *lease)
{
    lease->spoiled_ns = lease->shard->now_ns;
}

void amb_gpuslot_trim(struct amb_shard *shard)
{
    give_back(shard, NULL);
    shard->gpuslots.due_ns = amb_deadline_ns(shard->now_ns, LOOK_NS);
}
