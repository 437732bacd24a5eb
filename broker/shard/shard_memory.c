/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/shard_memory.h"

#include "broker/config/config.h"
#include "broker/memory/maker.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_segments.h"

#define PRIVATE_SEGMENT_MAX (UINT64_C(16) << 20)

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

enum amb_status amb_shard_memory_init(struct amb_shard *shard, const struct amb_config *config,
                                      struct amb_membudget *budget)
{
    struct amb_bufpool_options options = {
        .budget = budget,
        .segment_bytes = config->memory.host.segment,
        .on_create = segment_created,
        .on_destroy = segment_destroyed,
        .make = segment_make,
        .unmake = segment_unmake,
        .inbox = &shard->inbox,
        .spare = config->memory.host.spare,
        .arg = shard,
    };
    enum amb_status status = amb_bufpool_init(&shard->memory.bufpool, &options);
    if (status == AMB_OK) {
        /* Made when the first is asked for: many brokers never carry a request. */
        options.is_private = true;
        options.spare = 0;
        if (options.segment_bytes > PRIVATE_SEGMENT_MAX) {
            options.segment_bytes = PRIVATE_SEGMENT_MAX;
        }
        status = amb_bufpool_init(&shard->memory.private_pool, &options);
    }
    return status;
}

void amb_shard_memory_set_window(struct amb_shard *shard, uint64_t window)
{
    amb_bufpool_set_window(&shard->memory.bufpool, window);
    amb_bufpool_set_window(&shard->memory.private_pool, window);
}

void amb_shard_memory_fini(struct amb_shard *shard)
{
    amb_bufpool_fini(&shard->memory.private_pool);
    amb_bufpool_fini(&shard->memory.bufpool);
}
