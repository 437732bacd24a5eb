/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/shard_setup.h"

#include "broker/config/config.h"
#include "broker/delivery/acks/queue.h"
#include "broker/delivery/acks/queue_life.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/delivery/reader/sweep.h"
#include "broker/delivery/traced.h"
#include "broker/session/outgoing.h"
#include "broker/shard/entry.h"
#include "broker/shard/segment_lease.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_memory.h"
#include "broker/shard/tally.h"
#include "broker/topic/log/prelude.h"
#include "broker/topic/rule.h"
#include "broker/topic/topic.h"
#include "broker/worker/orders_private.h"
#include "wire/base/assert.h"
#include "wire/link/link.h"

#include <stdlib.h>
#include <string.h>

/* In one turn: topics, and entries that go with them; empty cells cost less. */
#define CONFIG_TURN 256u
#define CONFIG_EMPTY 64u

/* In the order of struct amb_shard; parts that begin as zeros are not here. */
static void shard_init_parts(struct amb_shard *shard)
{
    amb_shard_forward_init(&shard->forward);
    amb_shard_poll_init(&shard->poll);
    amb_shard_queues_init(&shard->queues);
    amb_shard_takers_init(&shard->takers);
    amb_shard_pace_init(&shard->pace);
    amb_shard_lazy_init(&shard->lazy);
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
    shard->trace.end = amb_traced_end;
}

/* Takes the reference over. */
static void shard_use_config(struct amb_shard *shard, const struct amb_config *config)
{
    amb_config_unref(&shard->live);
    shard->live = config;
    shard->limits = &config->limits;
    amb_shard_memory_set_window(shard, config->limits.window);
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
        shard_use_config(shard, amb_config_ref(config));
    }
    return status;
}

/* Of the configuration in force, which may be newer than the order's. False: there is more to do.
 */
static bool topic_go_over(struct amb_shard *shard, struct amb_topic *topic, uint32_t *budget)
{
    amb_topic_use_config(topic, shard->live);
    AMB_LIST_FOR_EACH (node, &topic->privates.all) {
        amb_topic_use_config(AMB_CONTAINER_OF(node, struct amb_topic, privates.node), shard->live);
    }
    return amb_topic_settle(topic, budget);
}

/* Some topics a turn: this mail goes around until all have had their turn. */
static void topics_go_over(struct amb_mail *mail, void *owner)
{
    struct amb_shard *shard = owner;
    struct amb_order_config *order = AMB_CONTAINER_OF(mail, struct amb_order_config, order.mail);
    uint32_t budget = CONFIG_TURN;
    while (order->next < shard->topics.cells && budget > 0) {
        struct amb_topic *topic = shard->topics.at[order->next];
        if (topic != NULL && !topic_go_over(shard, topic, &budget)) {
            break;
        }
        order->next++;
        budget -= budget > 0 && topic == NULL && order->next % CONFIG_EMPTY == 0;
    }
    if (order->next < shard->topics.cells) {
        amb_mail_post(&shard->inbox, mail, topics_go_over);
    } else {
        amb_order_answer(&order->order);
    }
}

static void use_config(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_config *use = AMB_CONTAINER_OF(order, struct amb_order_config, order);
    shard_use_config(shard, use->config);
    use->config = NULL;
    topics_go_over(&order->mail, shard);
}

static void forget_config(struct amb_order *order)
{
    amb_config_unref(&AMB_CONTAINER_OF(order, struct amb_order_config, order)->config);
}

const struct amb_order_kind amb_order_config = {
    .run = use_config,
    .fini = forget_config,
    .size = AMB_ORDER_SIZE(struct amb_order_config),
    .answers_itself = true,
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
    amb_config_unref(&shard->live);
    free(shard->topics.at);
    free(shard->sessions.at);
    shard->topics.at = NULL;
    shard->sessions.at = NULL;
}
