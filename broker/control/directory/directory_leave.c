/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/directory_leave.h"

#include "broker/base/party.h"
#include "broker/config/config.h"
#include "broker/control/directory/directory_pairs.h"
#include "broker/control/directory/directory_topic.h"
#include "broker/shard/shard.h"
#include "broker/worker/orders_session.h"
#include "broker/worker/orders_topic.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"

/* Idle topics that are looked at for one of a user. */
#define LEAVE_LOOKS 1024u

static void leave_go_on(struct amb_dir_topic *topic);

static void leave_answered(void *control, struct amb_order *order)
{
    (void)control;
    struct amb_dir_topic *topic = order->context;
    if (order->status == AMB_OK) {
        uint64_t *asked = topic->stage == AMB_LEAVE_PUBLISHERS ? &topic->spoken_on : &topic->on;
        *asked &= ~(UINT64_C(1) << order->shard->index);
    } else {
        topic->is_again = true;
    }
    amb_order_free(order);
    if (--topic->unanswered == 0 && !topic->is_again && !topic->directory->is_over) {
        topic->stage++;
        leave_go_on(topic);
    }
}

static void leave_ask(struct amb_dir_topic *topic, unsigned shard,
                      const struct amb_order_kind *kind)
{
    struct amb_order *order = amb_directory_order(kind, leave_answered, topic);
    if (order == NULL) {
        topic->is_again = true;
        return;
    }
    topic->unanswered++;
    if (kind == &amb_order_topic_remove) {
        AMB_CONTAINER_OF(order, struct amb_order_topic, order)->topic = topic->on_shard[shard];
    }
    amb_order_post(topic->directory->shards[shard], order);
}

/* Posts the orders of its stage; without any, goes on to the next one. */
static void leave_go_on(struct amb_dir_topic *topic)
{
    struct amb_directory *directory = topic->directory;
    topic->is_again = false;
    if (topic->stage == AMB_LEAVE_PUBLISHERS && topic->spoken_on != 0) {
        /* A session that has closed may be heard yet, and its batches belong to this topic. */
        for (unsigned i = 0; i < directory->shard_count; i++) {
            if ((topic->spoken_on >> i & 1) != 0) {
                leave_ask(topic, i, &amb_order_fence);
            }
        }
        return;
    }
    if (topic->stage <= AMB_LEAVE_HOME) {
        topic->stage = AMB_LEAVE_HOME;
        leave_ask(topic, topic->home, &amb_order_topic_remove);
        return;
    }
    if (topic->stage == AMB_LEAVE_BORROWERS && topic->on != 0) {
        for (unsigned i = 0; i < directory->shard_count; i++) {
            if ((topic->on >> i & 1) != 0) {
                leave_ask(topic, i, &amb_order_topic_remove);
            }
        }
        return;
    }
    bool was_lent = false;
    for (unsigned i = 0; i < directory->shard_count; i++) {
        was_lent = was_lent || (i != topic->home && topic->on_shard[i] != NULL);
    }
    if (topic->stage <= AMB_LEAVE_FENCE && was_lent) {
        topic->stage = AMB_LEAVE_FENCE; /* A borrower's word on it is read at home. */
        leave_ask(topic, topic->home, &amb_order_nothing);
        return;
    }
    if (topic->is_asked) {
        topic->is_again = true; /* That answer speaks of it. */
        return;
    }
    amb_pairs_topic_gone(directory, topic);
    uint32_t cell = amb_topic_cell(topic->id);
    amb_directory_id_give(directory,
                          cell | (((topic->id >> AMB_TOPIC_CELL_BITS) + 1) << AMB_TOPIC_CELL_BITS));
    amb_list_remove(&topic->node);
    struct amb_dir_topic *main = topic->main;
    amb_directory_topic_free(topic, directory->shard_count);
    if (main != NULL) {
        main->kin_count--;
        amb_directory_rest(directory, main);
    }
}

/* Those who read it by a wildcard find it again when it comes again. */
static bool is_read_by_name(const struct amb_directory *directory,
                            const struct amb_dir_topic *topic)
{
    return amb_patterns_name(&directory->patterns, topic->tenant, topic->name, topic->name_len) !=
           NULL;
}

static bool topic_is_used(const struct amb_directory *directory, const struct amb_dir_topic *topic)
{
    return topic->publisher_count > 0 || topic->kin_count > 0 || is_read_by_name(directory, topic);
}

static void topic_leave(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    amb_assert(!topic_is_used(directory, topic));
    if (topic->main == NULL) {
        amb_directory_name_remove(directory, topic);
    } else {
        topic->main->kin[topic->priority] = NULL;
    }
    amb_list_remove(&topic->node);
    amb_list_remove(&topic->idle);
    amb_pairs_topic_gone(directory, topic);
    amb_list_remove(&topic->of_counts); /* Nobody is left to hear of it. */
    amb_list_push_back(&directory->leaving, &topic->node);
    directory->topic_count--;
    amb_dir_topic_uncharge(topic);
    directory->awake_count -= topic->wake != AMB_DIR_QUIET;
    topic->is_gone = true;
    topic->stage = AMB_LEAVE_PUBLISHERS;
    topic->on = 0;
    for (unsigned i = 0; i < directory->shard_count; i++) {
        topic->on |= (uint64_t)(topic->on_shard[i] != NULL) << i;
    }
    leave_go_on(topic);
}

void amb_directory_rest(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    if (!topic->is_asked && amb_list_is_empty(&topic->idle) && !topic_is_used(directory, topic)) {
        if (topic->is_unwanted) {
            topic_leave(directory, topic);
            return;
        }
        topic->idle_ns = directory->now_ns;
        amb_list_push_back(&directory->idle, &topic->idle);
    }
}

/* Home has told whether everybody has read it to its end. */
static void ask_answered(void *control, struct amb_order *order)
{
    (void)control;
    struct amb_dir_topic *topic = order->context;
    struct amb_directory *directory = topic->directory;
    bool may_leave = order->status == AMB_OK;
    amb_order_free(order);
    topic->is_asked = false;
    if (directory->is_over || topic->is_gone) {
        return;
    }
    if (may_leave && topic->uses == topic->uses_asked) {
        topic_leave(directory, topic);
    } else {
        amb_directory_rest(directory, topic);
    }
}

static void topic_ask(struct amb_dir_topic *topic)
{
    amb_list_remove(&topic->idle);
    struct amb_order_topic *ask = amb_directory_order(&amb_order_topic_ask, ask_answered, topic);
    if (ask == NULL) {
        amb_directory_rest(topic->directory, topic);
        return;
    }
    topic->is_asked = true;
    topic->uses_asked = topic->uses;
    ask->topic = topic->on_shard[topic->home];
    amb_order_post(topic->directory->shards[topic->home], &ask->order);
}

bool amb_directory_leave_oldest(struct amb_directory *directory)
{
    if (amb_list_is_empty(&directory->idle)) {
        return false;
    }
    topic_leave(directory, AMB_CONTAINER_OF(directory->idle.next, struct amb_dir_topic, idle));
    return true;
}

bool amb_directory_leave_oldest_of(struct amb_directory *directory, const struct amb_user *user)
{
    uint32_t looks = 0;
    AMB_LIST_FOR_EACH (node, &directory->idle) {
        struct amb_dir_topic *topic = AMB_CONTAINER_OF(node, struct amb_dir_topic, idle);
        if (topic->party != NULL && topic->party->user == user) {
            topic_leave(directory, topic);
            return true;
        }
        if (++looks == LEAVE_LOOKS) {
            return false;
        }
    }
    return false;
}

/* Why a topic cannot be removed; NULL: it can. */
static const char *obstacle_to_leave(const struct amb_directory *directory,
                                     const struct amb_dir_topic *topic)
{
    if (topic->publisher_count > 0) {
        return "somebody publishes to it";
    }
    if (is_read_by_name(directory, topic)) {
        return "somebody reads it by its name";
    }
    for (unsigned i = 0; i <= AMB_PRIORITY_LOW; i++) {
        if (topic->kin[i] != NULL && topic->kin[i]->publisher_count > 0) {
            return "somebody publishes to it";
        }
    }
    return NULL;
}

const char *amb_directory_remove(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    const char *obstacle = obstacle_to_leave(directory, topic);
    if (obstacle != NULL) {
        return obstacle;
    }
    topic->is_unwanted = true;
    for (unsigned i = 0; i <= AMB_PRIORITY_LOW; i++) {
        if (topic->kin[i] != NULL) {
            topic_leave(directory, topic->kin[i]);
        }
    }
    if (topic->kin_count == 0) {
        topic_leave(directory, topic);
    }
    return NULL;
}

void amb_directory_tick(struct amb_directory *directory)
{
    AMB_LIST_FOR_EACH_SAFE (node, &directory->leaving) {
        struct amb_dir_topic *topic = AMB_CONTAINER_OF(node, struct amb_dir_topic, node);
        if (topic->is_again && topic->unanswered == 0) {
            leave_go_on(topic);
        }
    }
    while (!amb_list_is_empty(&directory->idle)) {
        struct amb_dir_topic *oldest =
            AMB_CONTAINER_OF(directory->idle.next, struct amb_dir_topic, idle);
        if (amb_deadline_ns(oldest->idle_ns, directory->config->limits.topic_idle_ns) >
            directory->now_ns) {
            return;
        }
        topic_ask(oldest);
    }
}
