/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/directory_wake.h"

#include "broker/control/directory/directory_chores.h"
#include "broker/control/directory/directory_connect.h"
#include "broker/control/directory/directory_counts.h"
#include "broker/control/directory/directory_narrowed.h"
#include "broker/control/directory/directory_topic.h"
#include "broker/shard/shard.h"
#include "broker/topic/topic.h"
#include "broker/worker/orders_topic.h"
#include "wire/base/assert.h"
#include "wire/base/log.h"

#define STEPS_PER_PAIR 8u /* of looking for patterns that match, cost as much as a pair */

static struct amb_dir_topic *topic_find(const struct amb_directory *directory, uint32_t id)
{
    struct amb_dir_topic *topic = amb_directory_topic_of(directory, id);
    if (topic != NULL) {
        return topic;
    }
    /* Rarely: it was idle, and goes while the message is on its way. */
    AMB_LIST_FOR_EACH (node, &directory->leaving) {
        topic = AMB_CONTAINER_OF(node, struct amb_dir_topic, node);
        if (topic->id == id) {
            return topic;
        }
    }
    return NULL;
}

/* Of its publishers, the party whose line is shortest. So a client that opens a publisher on
 * somebody else's topic does not have it wait behind its own. */
static struct amb_party *waker_choose(const struct amb_dir_topic *topic)
{
    struct amb_party *best = NULL;
    AMB_LIST_FOR_EACH (node, &topic->publishers) {
        struct amb_party *party = AMB_CONTAINER_OF(node, struct amb_dir_publisher, of_topic)->party;
        if (party != NULL && (best == NULL || party->waking.count < best->waking.count)) {
            best = party;
        }
    }
    return best;
}

static struct amb_waker *waker_of(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    return topic->woken_by != NULL ? &topic->woken_by->waking : &directory->no_party;
}

void amb_directory_heard(struct amb_directory *directory, const struct amb_topic *heard)
{
    if (directory->is_over) {
        return;
    }
    struct amb_dir_topic *topic = topic_find(directory, heard->id);
    amb_assert(topic != NULL && topic->wake == AMB_DIR_QUIET); /* Home holds it, and tells once. */
    topic->wake = AMB_DIR_WAKING;
    topic->serial = ++directory->serial;
    directory->awake_count += !topic->is_gone;
    topic->woken_by = amb_party_ref(waker_choose(topic));
    struct amb_waker *waker = waker_of(directory, topic);
    if (waker->count++ == 0) {
        amb_list_push_back(&directory->wakers, &waker->line);
    }
    amb_list_push_back(&waker->topics, &topic->waking);
}

struct wake {
    struct amb_directory *directory;
    struct amb_dir_topic *topic;
    unsigned made, budget;
    unsigned cost; /* in pairs */
};

/* False: the budget is used up. Those who come later have a place behind them, and find the topic
 * themselves. */
static bool wake_for(struct amb_pattern *pattern, void *arg)
{
    struct wake *wake = arg;
    AMB_LIST_FOR_EACH (node, &pattern->subs) {
        struct amb_dir_sub *sub = AMB_CONTAINER_OF(node, struct amb_dir_sub, same);
        if (sub->serial > wake->topic->serial) {
            return true;
        }
        if (sub->woken == wake->topic->serial) {
            continue; /* in an earlier slice */
        }
        if (wake->made == wake->budget) {
            return false;
        }
        wake->made++;
        sub->woken = wake->topic->serial;
        if (!amb_dir_sub_leaves_out(sub, wake->topic)) {
            (void)amb_directory_connect(wake->directory, wake->topic, sub, NULL, NULL);
        }
    }
    return true;
}

/* A slice that is not the last one: its answer says that home has carried out the orders of it. */
static const struct amb_order_kind slice_made = {
    .size = AMB_ORDER_SIZE(struct amb_order_topic_awake),
};

static void wake_answered(void *control, struct amb_order *order)
{
    (void)control;
    struct amb_directory *directory = order->context;
    uint32_t pairs = AMB_CONTAINER_OF(order, struct amb_order_topic_awake, order)->pairs;
    amb_assert(directory->wake_pairs >= pairs);
    directory->wake_pairs -= pairs;
    amb_order_free(order);
}

/* Behind the orders of a slice: home has carried them out when it answers. */
static bool wake_post(struct wake *wake, const struct amb_order_kind *kind)
{
    struct amb_order_topic_awake *awake = amb_directory_order(kind, wake_answered, wake->directory);
    if (awake == NULL) {
        return false;
    }
    awake->topic = wake->topic->id;
    awake->pairs = wake->made + 1;
    wake->directory->wake_pairs += wake->made + 1;
    amb_order_post(wake->directory->shards[wake->topic->home], &awake->order);
    return true;
}

/* True: it is awake. */
static bool wake_slice(struct wake *wake)
{
    struct amb_dir_topic *topic = wake->topic;
    uint32_t steps = UINT32_MAX;
    (void)amb_patterns_match(&wake->directory->patterns, topic->tenant, topic->name,
                             topic->name_len, &steps, wake_for, wake);
    wake->cost = wake->made + 1 + (UINT32_MAX - steps) / STEPS_PER_PAIR;
    if (wake->made == wake->budget) { /* There may be more of them. */
        (void)wake_post(wake, &slice_made);
        return false;
    }
    topic->wake = AMB_DIR_AWAKE;
    amb_directory_tell_topic(wake->directory, topic);
    if (!wake_post(wake, &amb_order_topic_awake)) {
        topic->wake = AMB_DIR_WAKING; /* Without memory: the next round tries again. */
        return false;
    }
    return true;
}

bool amb_directory_may_wake(const struct amb_directory *directory)
{
    return !amb_list_is_empty(&directory->wakers) && directory->wake_pairs < AMB_PAIRS_UNDER_WAY;
}

void amb_directory_wake(struct amb_directory *directory)
{
    unsigned budget = AMB_PAIRS_SLICE * AMB_PAIRS_SLICES;
    while (budget > 0 && amb_directory_may_wake(directory)) {
        struct amb_waker *waker = AMB_CONTAINER_OF(directory->wakers.next, struct amb_waker, line);
        struct wake wake = {.directory = directory, .budget = budget};
        wake.topic = AMB_CONTAINER_OF(waker->topics.next, struct amb_dir_topic, waking);
        if (!wake_slice(&wake)) {
            return; /* It goes on with the same topic. */
        }
        amb_list_remove(&wake.topic->waking);
        amb_list_remove(&waker->line);
        if (--waker->count > 0) {
            amb_list_push_back(&directory->wakers, &waker->line);
        }
        amb_party_unref(&wake.topic->woken_by); /* The waker may be gone with it. */
        budget -= wake.cost < budget ? wake.cost : budget;
    }
}
