/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/shard_setup.h"

#include "broker/config/config.h"
#include "broker/delivery/acks/queue.h"
#include "broker/delivery/acks/queue_life.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/delivery/reader/sweep.h"
#include "broker/session/outgoing.h"
#include "broker/shard/entry.h"
#include "broker/shard/segment_lease.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_memory.h"
#include "broker/shard/tally.h"
#include "broker/topic/log/prelude.h"
#include "wire/base/assert.h"
#include "wire/link/link.h"

#include <stdlib.h>
#include <string.h>

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
    amb_shard_observe_init(&shard->observe);
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
    shard->stats = &shard->own_stats;
    shard_init_parts(shard);
    amb_list_init(&shard->purses);
    amb_entries_init(shard, config);
    amb_tallies_init(shard);
    amb_outgoing_init(shard);
    enum amb_status status = amb_inbox_init(&shard->inbox, shard);
    if (status != AMB_OK) {
        return status;
    }
    status = amb_shard_memory_init(shard, config, budget);
    if (status == AMB_OK) {
        amb_shard_set_limits(shard, &config->limits);
    }
    return status;
}

void amb_shard_set_limits(struct amb_shard *shard, const struct amb_config_limits *limits)
{
    shard->limits = limits;
    amb_shard_memory_set_window(shard, limits->window);
}

static void limits(struct amb_shard *shard, struct amb_order *order)
{
    amb_shard_set_limits(shard, AMB_CONTAINER_OF(order, struct amb_order_limits, order)->limits);
}

const struct amb_order_kind amb_order_limits = {
    .run = limits,
    .size = AMB_ORDER_SIZE(struct amb_order_limits),
};

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
    amb_shard_memory_fini(shard);
    amb_inbox_fini(&shard->inbox);
    amb_pool_fini(&shard->entries.pool);
    amb_pool_fini(&shard->outgoing.pool);
    amb_pool_fini(&shard->tallies.pool);
    free(shard->topics.at);
    free(shard->sessions.at);
    shard->topics.at = NULL;
    shard->sessions.at = NULL;
}
