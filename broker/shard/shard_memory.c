/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/shard_memory.h"

#include "broker/config/config.h"
#include "broker/memory/bufpool_retire.h"
#include "broker/memory/maker.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_segments.h"
#include "wire/base/clock.h"

#include <stdlib.h>

#define RETIRED_LOOK_NS (20 * AMB_NS_PER_MS)
#define PRIVATE_SEGMENT_MAX (UINT64_C(16) << 20)

struct amb_retired_pool {
    struct amb_list_node node;
    struct amb_bufpool pool;
};

static enum amb_status segment_created(void *arg, struct amb_segment *segment)
{
    return amb_shard_segment_made(arg, segment);
}

static void segment_destroyed(void *arg, struct amb_segment *segment)
{
    amb_shard_segment_unmade(arg, segment);
}

static bool segment_make(struct amb_bufpool *pool, uint64_t bytes, bool is_dedicated)
{
    struct amb_shard *shard = pool->options.arg;
    return shard->memory.maker != NULL &&
           amb_maker_make(shard->memory.maker, pool, bytes, is_dedicated);
}

static void segment_unmake(void *arg, struct amb_segment *segment)
{
    amb_shard_segment_unmake(arg, segment);
}

static struct amb_bufpool_options pool_options(struct amb_shard *shard,
                                               const struct amb_trust_group *group)
{
    return (struct amb_bufpool_options){
        .group = group,
        .on_create = segment_created,
        .on_destroy = segment_destroyed,
        .make = segment_make,
        .unmake = segment_unmake,
        .inbox = &shard->inbox,
        .has_fresh = &shard->memory.has_fresh,
        .arg = shard,
    };
}

static void pool_enter(struct amb_shard_memory *memory, struct amb_bufpool *pool)
{
    memory->by_group[pool->options.group->id] = pool;
    memory->pools[memory->pool_count++] = pool;
}

struct amb_bufpool *amb_shard_pool_make(struct amb_shard *shard,
                                        const struct amb_trust_group *group)
{
    struct amb_shard_memory *memory = &shard->memory;
    const struct amb_bufpool *main = &memory->bufpool;
    struct amb_bufpool *pool = calloc(1, sizeof(*pool));
    struct amb_bufpool_options options = pool_options(shard, group);
    options.budget = main->options.budget;
    options.segment_bytes = main->options.segment_bytes;
    options.first_bytes = AMB_SEGMENT_ALIGN;
    options.create = main->options.create;
    if (pool == NULL || amb_bufpool_init(pool, &options) != AMB_OK) {
        free(pool);
        return &memory->private_pool;
    }
    amb_bufpool_set_window(pool, memory->window);
    pool_enter(memory, pool);
    return pool;
}

enum amb_status amb_shard_memory_init(struct amb_shard *shard, const struct amb_config *config,
                                      struct amb_membudget *budget)
{
    struct amb_shard_memory *memory = &shard->memory;
    struct amb_bufpool_options options = pool_options(shard, &amb_trust_group_main);
    options.budget = budget;
    options.segment_bytes = config->memory.host.segment;
    options.spare = config->memory.host.spare;
    amb_list_init(&memory->retired);
    memory->retired_due_ns = INT64_MAX;
    enum amb_status status = amb_bufpool_init(&memory->bufpool, &options);
    if (status == AMB_OK) {
        /* Made when the first is asked for: many brokers never carry a request. */
        options.group = &amb_trust_group_private;
        options.first_bytes = AMB_SEGMENT_ALIGN; /* A worker that tells of an event makes it. */
        options.spare = 0;
        if (options.segment_bytes > PRIVATE_SEGMENT_MAX) {
            options.segment_bytes = PRIVATE_SEGMENT_MAX;
        }
        status = amb_bufpool_init(&memory->private_pool, &options);
    }
    if (status == AMB_OK) {
        pool_enter(memory, &memory->private_pool);
        pool_enter(memory, &memory->bufpool);
    }
    return status;
}

void amb_shard_memory_set_window(struct amb_shard *shard, uint64_t window)
{
    shard->memory.window = window;
    for (uint32_t i = 0; i < shard->memory.pool_count; i++) {
        amb_bufpool_set_window(shard->memory.pools[i], window);
    }
}

void amb_shard_memory_served(struct amb_shard *shard)
{
    shard->memory.has_fresh = false;
    for (uint32_t i = 0; i < shard->memory.pool_count; i++) {
        amb_bufpool_served(shard->memory.pools[i]);
    }
}

/* Retired ------------------------------------------------------------------------------------- */

static bool pool_retire(struct amb_shard *shard, struct amb_bufpool *pool)
{
    struct amb_shard_memory *memory = &shard->memory;
    struct amb_retired_pool *retired = malloc(sizeof(*retired));
    if (retired == NULL) {
        return false;
    }
    amb_bufpool_retire(pool, &retired->pool);
    amb_list_push_back(&memory->retired, &retired->node);
    memory->retired_due_ns = shard->now_ns;
    return true;
}

uint64_t amb_shard_memory_retire(struct amb_shard *shard, uint32_t tenant, uint64_t maps)
{
    struct amb_shard_memory *memory = &shard->memory;
    uint64_t left = 0;
    for (uint32_t i = 0; i < memory->pool_count; i++) {
        struct amb_bufpool *pool = memory->pools[i];
        if (!amb_list_is_empty(&pool->segments) &&
            amb_trust_group_may_map(pool->options.group, tenant, maps) &&
            !pool_retire(shard, pool)) {
            left |= UINT64_C(1) << pool->options.group->index;
        }
    }
    return left;
}

int64_t amb_shard_memory_tick(struct amb_shard *shard)
{
    struct amb_shard_memory *memory = &shard->memory;
    if (shard->now_ns < memory->retired_due_ns) {
        return memory->retired_due_ns;
    }
    AMB_LIST_FOR_EACH_SAFE (node, &memory->retired) {
        struct amb_retired_pool *retired = AMB_CONTAINER_OF(node, struct amb_retired_pool, node);
        amb_bufpool_trim_later(&retired->pool, 0);
        if (retired->pool.segment_bytes == 0) {
            amb_list_remove(node);
            amb_bufpool_fini(&retired->pool);
            free(retired);
        }
    }
    memory->retired_due_ns = amb_list_is_empty(&memory->retired)
                                 ? INT64_MAX
                                 : amb_deadline_ns(shard->now_ns, RETIRED_LOOK_NS);
    return memory->retired_due_ns;
}

uint64_t amb_shard_memory_retired(const struct amb_shard *shard)
{
    uint64_t bytes = 0;
    AMB_LIST_FOR_EACH (node, &shard->memory.retired) {
        bytes += AMB_CONTAINER_OF(node, struct amb_retired_pool, node)->pool.segment_bytes;
    }
    return bytes;
}

uint64_t amb_shard_memory_used(const struct amb_shard *shard)
{
    uint64_t bytes = shard->leases.bytes;
    for (uint32_t i = 0; i < shard->memory.pool_count; i++) {
        bytes += amb_bufpool_used(shard->memory.pools[i]);
    }
    AMB_LIST_FOR_EACH (node, &shard->memory.retired) {
        bytes += amb_bufpool_used(&AMB_CONTAINER_OF(node, struct amb_retired_pool, node)->pool);
    }
    return bytes;
}

/* Their end ----------------------------------------------------------------------------------- */

void amb_shard_memory_rest(struct amb_shard *shard)
{
    uint32_t spare = shard->config->memory.host.spare;
    for (uint32_t i = 0; i < shard->memory.pool_count; i++) {
        struct amb_bufpool *pool = shard->memory.pools[i];
        bool is_main = pool == &shard->memory.bufpool;
        amb_bufpool_trim_later(pool, is_main && spare > 1 ? spare : 1);
    }
}

void amb_shard_memory_fini(struct amb_shard *shard)
{
    struct amb_shard_memory *memory = &shard->memory;
    struct amb_list_node *node;
    while (memory->retired.next != NULL && (node = amb_list_pop_front(&memory->retired)) != NULL) {
        struct amb_retired_pool *retired = AMB_CONTAINER_OF(node, struct amb_retired_pool, node);
        amb_bufpool_fini(&retired->pool);
        free(retired);
    }
    while (memory->pool_count > 0) {
        struct amb_bufpool *pool = memory->pools[--memory->pool_count];
        memory->by_group[pool->options.group->id] = NULL;
        amb_bufpool_fini(pool);
        if (pool != &memory->bufpool && pool != &memory->private_pool) {
            free(pool);
        }
    }
}
