/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/shard_setup.h"

#include "broker/config/config.h"
#include "broker/delivery/acks/queue.h"
#include "broker/delivery/acks/queue_life.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/delivery/reader/sweep.h"
#include "broker/memory/maker.h"
#include "broker/session/outgoing.h"
#include "broker/shard/entry.h"
#include "broker/shard/segment_lease.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_segments.h"
#include "broker/shard/tally.h"
#include "broker/topic/log/prelude.h"
#include "wire/base/assert.h"
#include "wire/link/link.h"

#include <stdlib.h>
#include <string.h>

#define SHARD_POOL_CHUNK 256u
#define ENTRIES_MIN UINT64_C(4096)
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
    return shard->maker != NULL && amb_maker_make(shard->maker, pool, bytes, is_dedicated);
}

static void segment_unmake(void *arg, struct amb_segment *segment)
{
    amb_shard_segment_unmake(arg, segment);
}

/* All entries of all workers together take at most a quarter of memory.host.size. */
static size_t entries_max_of(const struct amb_config *config)
{
    uint64_t bytes = config->memory.host.size / 4 / config->server.workers;
    uint64_t entries = bytes / sizeof(struct amb_entry);
    return (size_t)(entries < ENTRIES_MIN ? ENTRIES_MIN : entries);
}

/* In the order of struct amb_shard; parts that begin as zeros are not here. */
static void shard_init_parts(struct amb_shard *shard)
{
    amb_shard_forward_init(&shard->forward);
    amb_shard_poll_init(&shard->poll);
    amb_shard_queues_init(&shard->queues);
    amb_shard_takers_init(&shard->takers);
    amb_shard_pace_init(&shard->pace);
    amb_shard_spill_init(&shard->spill);
    amb_shard_sweep_init(&shard->sweep);
    amb_shard_clearing_init(&shard->clearing);
    amb_shard_history_init(&shard->history);
    amb_shard_gpuslots_init(&shard->gpuslots);
    amb_shard_slow_init(&shard->slow);
    amb_shard_windows_init(&shard->windows);
    amb_sift_init(&shard->sift);
    amb_shard_sessions_init(&shard->sessions);
    amb_shard_hearing_init(&shard->hearing);
    amb_shard_takes_init(&shard->takes);
    amb_shard_leases_init(&shard->leases);
    amb_shard_preludes_init(&shard->preludes);
    amb_shard_reclaim_turn(&shard->reclaim);
    shard->reclaim.drop_kept = amb_subscriptions_drop_kept;
}

enum amb_status amb_shard_init(struct amb_shard *shard, unsigned index,
                               const struct amb_config *config, struct amb_membudget *budget)
{
    memset(shard, 0, sizeof(*shard));
    shard->index = index;
    shard->config = config;
    shard->upcalls = &amb_shard_no_upcalls;
    shard_init_parts(shard);
    shard->entries_max = entries_max_of(config);
    amb_list_init(&shard->given_up);
    amb_pool_init(&shard->entries, sizeof(struct amb_entry), SHARD_POOL_CHUNK, 0);
    amb_pool_init(&shard->tallies, sizeof(struct amb_tally), SHARD_POOL_CHUNK, AMB_TALLIES_MAX);
    amb_pool_init(&shard->txs, AMB_OUTGOING_SIZE, SHARD_POOL_CHUNK, 0);
    enum amb_status status = amb_inbox_init(&shard->inbox, shard);
    if (status != AMB_OK) {
        return status;
    }
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
    status = amb_bufpool_init(&shard->bufpool, &options);
    if (status == AMB_OK) {
        /* Made when the first is asked for: many brokers never carry a request. */
        options.is_private = true;
        options.spare = 0;
        if (options.segment_bytes > PRIVATE_SEGMENT_MAX) {
            options.segment_bytes = PRIVATE_SEGMENT_MAX;
        }
        status = amb_bufpool_init(&shard->private_pool, &options);
    }
    if (status == AMB_OK) {
        amb_shard_set_limits(shard, &config->limits);
    }
    return status;
}

void amb_shard_set_limits(struct amb_shard *shard, const struct amb_config_limits *limits)
{
    shard->limits = limits;
    amb_bufpool_set_window(&shard->bufpool, limits->window);
    amb_bufpool_set_window(&shard->private_pool, limits->window);
}

void amb_shard_fini(struct amb_shard *shard)
{
    amb_assert(amb_list_is_empty(&shard->sessions.live));
    amb_entries_end(shard);
    amb_queues_fini(shard);
    amb_takes_fini(shard);
    amb_sweep_finish(shard);
    amb_prelude_fini(shard);
    amb_sift_fini(&shard->sift);
    amb_segment_lease_fini(shard);
    amb_bufpool_fini(&shard->private_pool);
    amb_bufpool_fini(&shard->bufpool);
    amb_inbox_fini(&shard->inbox);
    amb_pool_fini(&shard->entries);
    amb_pool_fini(&shard->txs);
    amb_pool_fini(&shard->tallies);
    free(shard->topics.at);
    free(shard->sessions.at);
    shard->topics.at = NULL;
    shard->sessions.at = NULL;
}
