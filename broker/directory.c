/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/directory.h"

#include "broker/config.h"
#include "broker/shard.h"
#include "broker/topic.h"
#include "wire/base/assert.h"
#include "wire/base/log.h"

#include <stdlib.h>
#include <string.h>

enum amb_status amb_directory_init(struct amb_directory *directory, const struct amb_config *config,
                                   struct amb_shard *const *shards, unsigned shard_count)
{
    memset(directory, 0, sizeof(*directory));
    directory->config = config;
    directory->shards = shards;
    directory->shard_count = shard_count;
    amb_list_init(&directory->topics);
    amb_list_init(&directory->subs);
    return amb_map_create(&directory->by_name);
}

static void topic_free(struct amb_dir_topic *topic, unsigned shard_count)
{
    for (unsigned i = 0; i < shard_count && topic->on_shard != NULL; i++) {
        amb_topic_destroy(&topic->on_shard[i]);
    }
    free(topic->on_shard);
    free(topic);
}

void amb_directory_fini(struct amb_directory *directory)
{
    if (directory->by_name == NULL) {
        return;
    }
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&directory->topics)) != NULL) {
        topic_free(AMB_CONTAINER_OF(node, struct amb_dir_topic, node), directory->shard_count);
    }
    amb_map_destroy(&directory->by_name);
}

static bool sub_matches(const struct amb_dir_sub *sub, const struct amb_dir_topic *topic)
{
    return amb_pattern_matches(sub->pattern, sub->pattern_len, topic->name, topic->name_len);
}

static bool sub_holds(const struct amb_directory *directory, const struct amb_dir_sub *sub,
                      const struct amb_dir_topic *topic)
{
    enum amb_slow slow = sub->options.slow;
    if (slow == AMB_SLOW_DEFAULT) {
        slow = amb_config_topic(directory->config, topic->name)->slow;
    }
    return slow == AMB_SLOW_BLOCK;
}

/* Posts an order that nobody can do without; without memory the broker is at its end anyway, and
 * says so. */
static struct amb_order *order_or_log(amb_order_fn run, amb_order_done_fn done, void *context)
{
    struct amb_order *order = amb_order_create(run, done, context);
    if (order == NULL) {
        amb_error("no memory for an order to a worker");
    }
    return order;
}

/* The topic as that shard knows it, introduced there if it is not. NULL without memory. */
static struct amb_topic *topic_introduce(struct amb_directory *directory,
                                         struct amb_dir_topic *topic, unsigned shard)
{
    if (topic->on_shard[shard] != NULL) {
        return topic->on_shard[shard];
    }
    struct amb_order *order = order_or_log(amb_order_topic_add, NULL, NULL);
    if (order == NULL) {
        return NULL;
    }
    if (amb_topic_create(directory->shards[shard], topic->id, topic->home, topic->name,
                         topic->name_len, &topic->on_shard[shard]) != AMB_OK) {
        amb_order_free(order);
        return NULL;
    }
    order->u.topic.topic = topic->on_shard[shard];
    amb_order_post(directory->shards[shard], order);
    return topic->on_shard[shard];
}

static void topic_tell_matched(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    struct amb_order *order = order_or_log(amb_order_topic_matched, NULL, NULL);
    if (order != NULL) {
        order->u.matched.topic = topic->id;
        order->u.matched.matched = topic->matched;
        amb_order_post(directory->shards[topic->home], order);
    }
    AMB_LIST_FOR_EACH (node, &topic->publishers) {
        struct amb_dir_publisher *publisher =
            AMB_CONTAINER_OF(node, struct amb_dir_publisher, of_topic);
        order = order_or_log(amb_order_publisher_subscribers, NULL, NULL);
        if (order != NULL) {
            order->session = publisher->session;
            order->u.subscribers.handle = publisher->handle;
            order->u.subscribers.count = topic->matched;
            amb_order_post(directory->shards[publisher->session.shard], order);
        }
    }
}

/* Changes what the topic's home lends to the subscriber's worker; a change upwards attaches the
 * cursor there. False without memory. */
static bool topic_lend(struct amb_directory *directory, struct amb_dir_topic *topic,
                       const struct amb_dir_sub *sub, int change, amb_order_done_fn done,
                       void *context)
{
    struct amb_order *order = order_or_log(amb_order_lend, done, context);
    if (order == NULL) {
        return false;
    }
    order->session = sub->session;
    order->u.lend.sub = sub->id;
    order->u.lend.handle = sub->handle;
    order->u.lend.topic = topic->id;
    order->u.lend.borrower = sub->session.shard;
    order->u.lend.subs = change;
    order->u.lend.holding = sub_holds(directory, sub, topic) ? change : 0;
    order->u.lend.shadow = topic->on_shard[sub->session.shard];
    amb_order_post(directory->shards[topic->home], order);
    return true;
}

static bool topic_attach(struct amb_directory *directory, struct amb_dir_topic *topic,
                         const struct amb_dir_sub *sub, amb_order_done_fn done, void *context)
{
    struct amb_order *order = order_or_log(amb_order_cursor_attach, done, context);
    if (order == NULL) {
        return false;
    }
    order->session = sub->session;
    order->u.cursor.sub = sub->id;
    order->u.cursor.handle = sub->handle;
    order->u.cursor.topic = topic->id;
    amb_order_post(directory->shards[topic->home], order);
    return true;
}

/* Has the subscription read the topic from here on. Returns the orders with an answer. */
static unsigned topic_connect(struct amb_directory *directory, struct amb_dir_topic *topic,
                              struct amb_dir_sub *sub, amb_order_done_fn done, void *context)
{
    unsigned shard = sub->session.shard;
    if (topic_introduce(directory, topic, shard) == NULL) {
        return 0;
    }
    bool posted = shard == topic->home ? topic_attach(directory, topic, sub, done, context)
                                       : topic_lend(directory, topic, sub, +1, done, context);
    if (!posted) {
        return 0;
    }
    topic->matched++;
    return done == NULL ? 0 : 1;
}

enum amb_status amb_directory_topic(struct amb_directory *directory, const char *name, size_t len,
                                    unsigned home, struct amb_dir_topic **out)
{
    struct amb_dir_topic *topic = amb_map_get(directory->by_name, name, len);
    if (topic != NULL) {
        *out = topic;
        return AMB_OK;
    }
    if (directory->topic_count >= directory->config->limits.max_topics) {
        return AMB_ELIMIT;
    }
    topic = calloc(1, sizeof(*topic) + len + 1);
    if (topic == NULL) {
        return AMB_ENOMEM;
    }
    topic->on_shard = calloc(directory->shard_count, sizeof(struct amb_topic *));
    topic->id = directory->next_topic;
    topic->home = home;
    topic->name_len = (uint32_t)len;
    memcpy(topic->name, name, len);
    amb_list_init(&topic->publishers);
    if (topic->on_shard == NULL || topic_introduce(directory, topic, home) == NULL) {
        topic_free(topic, directory->shard_count);
        return AMB_ENOMEM;
    }
    /* The home knows it, so from here on it stays, whatever else fails. */
    directory->next_topic++;
    directory->topic_count++;
    amb_list_push_back(&directory->topics, &topic->node);
    if (amb_map_put(directory->by_name, name, len, topic) != AMB_OK) {
        return AMB_ENOMEM;
    }
    AMB_LIST_FOR_EACH (node, &directory->subs) {
        struct amb_dir_sub *sub = AMB_CONTAINER_OF(node, struct amb_dir_sub, node);
        if (sub_matches(sub, topic)) {
            (void)topic_connect(directory, topic, sub, NULL, NULL);
        }
    }
    topic_tell_matched(directory, topic);
    *out = topic;
    return AMB_OK;
}

void amb_directory_publish(struct amb_dir_publisher *publisher, struct amb_dir_topic *topic)
{
    amb_assert(publisher->topic == NULL);
    publisher->topic = topic;
    topic->publisher_count++;
    amb_list_push_back(&topic->publishers, &publisher->of_topic);
}

void amb_directory_unpublish(struct amb_dir_publisher *publisher)
{
    if (publisher->topic != NULL) {
        amb_list_remove(&publisher->of_topic);
        publisher->topic->publisher_count--;
        publisher->topic = NULL;
    }
}

bool amb_directory_has_room(const struct amb_directory *directory)
{
    return directory->sub_count < directory->config->limits.max_subscriptions;
}

uint64_t amb_directory_next_sub(struct amb_directory *directory)
{
    return ++directory->next_sub;
}

unsigned amb_directory_subscribe(struct amb_directory *directory, struct amb_dir_sub *sub,
                                 amb_order_done_fn done, void *context)
{
    amb_assert(sub->id != 0 && amb_directory_has_room(directory));
    directory->sub_count++;
    amb_list_push_back(&directory->subs, &sub->node);
    unsigned posted = 0;
    if (amb_pattern_is_literal(sub->pattern, sub->pattern_len)) {
        struct amb_dir_topic *topic =
            amb_map_get(directory->by_name, sub->pattern, sub->pattern_len);
        if (topic != NULL) {
            posted += topic_connect(directory, topic, sub, done, context);
            topic_tell_matched(directory, topic);
        }
    } else {
        AMB_LIST_FOR_EACH (node, &directory->topics) {
            struct amb_dir_topic *topic = AMB_CONTAINER_OF(node, struct amb_dir_topic, node);
            if (sub_matches(sub, topic)) {
                posted += topic_connect(directory, topic, sub, done, context);
                topic_tell_matched(directory, topic);
            }
        }
    }
    return posted;
}

static void sub_leave(struct amb_directory *directory, struct amb_dir_sub *sub,
                      struct amb_dir_topic *topic)
{
    topic->matched--;
    if (sub->session.shard != topic->home) {
        (void)topic_lend(directory, topic, sub, -1, NULL, NULL);
    }
    topic_tell_matched(directory, topic);
}

void amb_directory_unsubscribe(struct amb_directory *directory, struct amb_dir_sub *sub)
{
    if (sub->is_closing) {
        return;
    }
    sub->is_closing = true;
    amb_list_remove(&sub->node);
    directory->sub_count--;
    AMB_LIST_FOR_EACH (node, &directory->topics) {
        struct amb_dir_topic *topic = AMB_CONTAINER_OF(node, struct amb_dir_topic, node);
        if (sub_matches(sub, topic)) {
            sub_leave(directory, sub, topic);
        }
    }
}
