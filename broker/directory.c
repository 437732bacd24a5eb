/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/directory_private.h"

#include "broker/config.h"
#include "broker/party.h"
#include "broker/shard.h"
#include "broker/topic.h"
#include "wire/base/assert.h"
#include "wire/base/log.h"
#include "wire/codec/position.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_SPARE 1024u

enum amb_status amb_directory_init(struct amb_directory *directory, const struct amb_config *config,
                                   struct amb_shard *const *shards, unsigned shard_count)
{
    memset(directory, 0, sizeof(*directory));
    directory->config = config;
    directory->shards = shards;
    directory->shard_count = shard_count;
    amb_list_init(&directory->topics);
    amb_list_init(&directory->subs);
    amb_list_init(&directory->idle);
    amb_list_init(&directory->leaving);
    amb_list_init(&directory->counts_due);
    amb_list_init(&directory->queues);
    amb_list_init(&directory->chores);
    amb_list_init(&directory->wakers);
    amb_list_init(&directory->no_party.line);
    amb_list_init(&directory->no_party.topics);
    amb_list_init(&directory->over);
    /* Slots of those that leave are not free yet, and their number is not bounded by the limit. */
    uint64_t slots = (uint64_t)config->limits.max_topics * 2 + SLOTS_SPARE;
    directory->free_size = slots < AMB_TOPIC_SLOTS_MAX ? (uint32_t)slots : AMB_TOPIC_SLOTS_MAX;
    directory->free_ids = calloc(directory->free_size, sizeof(uint32_t));
    directory->by_slot = calloc(directory->free_size, sizeof(struct amb_dir_topic *));
    if (directory->free_ids == NULL || directory->by_slot == NULL) {
        return AMB_ENOMEM;
    }
    enum amb_status status = amb_map_create(&directory->by_name);
    return status == AMB_OK ? amb_patterns_init(&directory->patterns) : status;
}

void amb_directory_topic_free(struct amb_dir_topic *topic, unsigned shard_count)
{
    amb_list_remove(&topic->idle);
    amb_list_remove(&topic->waking);
    amb_party_unref(&topic->woken_by);
    for (unsigned i = 0; i < shard_count && topic->on_shard != NULL; i++) {
        amb_topic_destroy(&topic->on_shard[i]);
    }
    amb_party_uncharge(&topic->party, AMB_SHARE_TOPICS);
    free(topic->on_shard);
    free(topic);
}

void amb_directory_fini(struct amb_directory *directory)
{
    if (directory->by_name == NULL) {
        free(directory->free_ids);
        free(directory->by_slot);
        directory->free_ids = NULL;
        directory->by_slot = NULL;
        return;
    }
    amb_pairs_fini(directory);
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&directory->topics)) != NULL ||
           (node = amb_list_pop_front(&directory->leaving)) != NULL) {
        amb_directory_topic_free(AMB_CONTAINER_OF(node, struct amb_dir_topic, node),
                                 directory->shard_count);
    }
    amb_map_destroy(&directory->by_name);
    amb_patterns_fini(&directory->patterns);
    free(directory->free_ids);
    directory->free_ids = NULL;
}

/* A queue without members holds nobody up. */
static enum amb_slow sub_slow(const struct amb_directory *directory, const struct amb_dir_sub *sub,
                              const struct amb_dir_topic *topic)
{
    enum amb_slow slow = sub->options.slow;
    slow = slow != AMB_SLOW_DEFAULT ? slow : amb_config_topic(directory->config, topic->name)->slow;
    return slow == AMB_SLOW_BLOCK && sub->is_idle ? AMB_SLOW_DROP_OLDEST : slow;
}

struct amb_order *amb_directory_order(amb_order_fn run, amb_order_done_fn done, void *context)
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
    if (topic->main != NULL && topic_introduce(directory, topic->main, shard) == NULL) {
        return NULL;
    }
    struct amb_order *order = amb_directory_order(amb_order_topic_add, NULL, NULL);
    if (order == NULL) {
        return NULL;
    }
    if (amb_topic_create(directory->shards[shard], topic->id, topic->home, topic->name,
                         topic->name_len, &topic->on_shard[shard]) != AMB_OK) {
        amb_order_free(order);
        return NULL;
    }
    if (topic->main != NULL) {
        amb_topic_set_priority(topic->on_shard[shard], topic->priority);
        topic->on_shard[shard]->main = topic->main->on_shard[shard];
    }
    topic->on_shard[shard]->is_quiet = shard == topic->home; /* only there is that asked */
    if (topic->has_left) { /* A late message wakes it once more. */
        topic->on |= UINT64_C(1) << shard;
    }
    order->u.topic.topic = topic->on_shard[shard];
    amb_order_post(directory->shards[shard], order);
    return topic->on_shard[shard];
}

/* Where it begins to read that topic. */
static struct amb_begin sub_begin(const struct amb_dir_sub *sub, const struct amb_dir_topic *topic)
{
    struct amb_position_topic at;
    bool is_known =
        sub->position_len > 0 && amb_position_find(sub->position, sub->position_len, topic->name,
                                                   topic->name_len, topic->priority, &at);
    if (!is_known) {
        return sub->begin;
    }
    if (sub->is_foreign || at.id != topic->id) {
        return (struct amb_begin){.start = AMB_START_FIRST, .is_unknown = true};
    }
    return (struct amb_begin){.start = AMB_START_SEQ, .at = at.next, .is_own = true};
}

/* Changes what the topic's home lends to the subscriber's worker; a change upwards attaches the
 * cursor there. False without memory. */
static bool topic_lend(struct amb_directory *directory, struct amb_dir_topic *topic,
                       const struct amb_dir_sub *sub, int change, amb_order_done_fn done,
                       void *context)
{
    struct amb_order *order = amb_directory_order(amb_order_lend, done, context);
    if (order == NULL) {
        return false;
    }
    order->session = sub->session;
    order->u.lend.sub = sub->id;
    order->u.lend.handle = sub->handle;
    order->u.lend.begin = sub_begin(sub, topic);
    order->u.lend.topic = topic->id;
    order->u.lend.borrower = sub->session.shard;
    order->u.lend.subs = change;
    enum amb_slow slow = sub_slow(directory, sub, topic);
    order->u.lend.holding = slow == AMB_SLOW_BLOCK ? change : 0;
    order->u.lend.spilling = slow == AMB_SLOW_SPILL ? change : 0;
    order->u.lend.shadow = topic->on_shard[sub->session.shard];
    amb_order_post(directory->shards[topic->home], order);
    return true;
}

static bool topic_attach(struct amb_directory *directory, struct amb_dir_topic *topic,
                         const struct amb_dir_sub *sub, amb_order_done_fn done, void *context)
{
    struct amb_order *order = amb_directory_order(amb_order_cursor_attach, done, context);
    if (order == NULL) {
        return false;
    }
    order->session = sub->session;
    order->u.cursor.sub = sub->id;
    order->u.cursor.handle = sub->handle;
    order->u.cursor.topic = topic->id;
    order->u.cursor.begin = sub_begin(sub, topic);
    amb_order_post(directory->shards[topic->home], order);
    return true;
}

/* Somebody publishes to it, or reads it by its name. */
static void topic_use(struct amb_dir_topic *topic)
{
    amb_list_remove(&topic->idle);
    topic->uses++;
}

unsigned amb_directory_connect(struct amb_directory *directory, struct amb_dir_topic *topic,
                               struct amb_dir_sub *sub, amb_order_done_fn done, void *context)
{
    unsigned shard = sub->session.shard;
    if (!sub->is_wild) {
        topic_use(topic); /* Whatever fails: its name is subscribed to. */
    }
    if (!amb_pairs_have_room(directory, sub) || !amb_pairs_reserve(directory, sub) ||
        topic_introduce(directory, topic, shard) == NULL) {
        return 0;
    }
    bool posted = shard == topic->home ? topic_attach(directory, topic, sub, done, context)
                                       : topic_lend(directory, topic, sub, +1, done, context);
    if (!posted) {
        return 0;
    }
    topic->connected++;
    if (sub->may_map) {
        amb_readers_add(&topic->readers, sub->user);
    }
    amb_pairs_note(directory, sub, topic);
    return done == NULL ? 0 : 1;
}

/* Ids ----------------------------------------------------------------------------------------- */

/* Slots are used anew as late as possible. */
static bool id_take(struct amb_directory *directory, uint32_t *out)
{
    uint32_t limit = directory->config->limits.max_topics;
    if (directory->free_count > 0 &&
        (directory->slots >= limit || directory->slots >= directory->free_size)) {
        *out = directory->free_ids[directory->free_first];
        directory->free_first = (directory->free_first + 1) % directory->free_size;
        directory->free_count--;
        return true;
    }
    if (directory->slots == directory->free_size) {
        return false;
    }
    *out = directory->slots++;
    return true;
}

struct amb_dir_topic *amb_directory_topic_of(const struct amb_directory *directory, uint32_t id)
{
    struct amb_dir_topic *topic = directory->by_slot[amb_topic_slot(id)];
    return topic != NULL && topic->id == id ? topic : NULL;
}

void amb_directory_id_give(struct amb_directory *directory, uint32_t id)
{
    amb_assert(directory->free_count < directory->free_size);
    uint32_t last = (directory->free_first + directory->free_count) % directory->free_size;
    directory->free_ids[last] = id;
    directory->free_count++;
}

/* Topics -------------------------------------------------------------------------------------- */

/* Those of one name, in the order in which a reader comes to them: what is lower gives way. */
static const enum amb_priority by_rank[] = {AMB_PRIORITY_HIGH, AMB_PRIORITY_NORMAL,
                                            AMB_PRIORITY_LOW};

/* NULL: there is none of that priority. */
static struct amb_dir_topic *topic_kin(struct amb_dir_topic *main, enum amb_priority priority)
{
    return priority == AMB_PRIORITY_NORMAL ? main : main->kin[priority];
}

struct amb_dir_topic *amb_directory_kin(struct amb_dir_topic *main, unsigned rank)
{
    return topic_kin(main, by_rank[rank]);
}

/* Subscriptions to just that name read it from its first message on. */
static void topic_attach_named_readers(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    struct amb_pattern *name =
        amb_patterns_name(&directory->patterns, topic->name, topic->name_len);
    if (name != NULL) {
        AMB_LIST_FOR_EACH (node, &name->subs) {
            (void)amb_directory_connect(
                directory, topic, AMB_CONTAINER_OF(node, struct amb_dir_sub, same), NULL, NULL);
        }
    }
}

static struct amb_dir_topic *topic_make(struct amb_directory *directory, const char *name,
                                        size_t len, unsigned home)
{
    struct amb_dir_topic *topic = calloc(1, sizeof(*topic) + len + 1);
    if (topic == NULL) {
        return NULL;
    }
    topic->directory = directory;
    topic->on_shard = calloc(directory->shard_count, sizeof(struct amb_topic *));
    topic->home = home;
    topic->name_len = (uint32_t)len;
    memcpy(topic->name, name, len);
    amb_list_init(&topic->node);
    amb_list_init(&topic->idle);
    amb_list_init(&topic->of_counts);
    amb_list_init(&topic->waking);
    amb_list_init(&topic->publishers);
    if (topic->on_shard == NULL) {
        free(topic);
        return NULL;
    }
    return topic;
}

/* Gives the topic an id and has its home know it. */
static enum amb_status topic_begin(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    if (!id_take(directory, &topic->id)) {
        return AMB_ELIMIT; /* Thousands are just leaving. */
    }
    if (topic_introduce(directory, topic, topic->home) == NULL) {
        amb_directory_id_give(directory, topic->id);
        return AMB_ENOMEM;
    }
    /* The home knows it, so from here on it stays, whatever else fails. */
    directory->topic_count++;
    topic->serial = UINT64_MAX;
    directory->by_slot[amb_topic_slot(topic->id)] = topic;
    if (topic->priority == AMB_PRIORITY_HIGH) {
        /* Whoever finds both reads this one first. */
        amb_list_insert_before(&topic->main->node, &topic->node);
    } else {
        amb_list_push_back(&directory->topics, &topic->node);
    }
    return AMB_OK;
}

static enum amb_status topic_add(struct amb_directory *directory, const char *name, size_t len,
                                 unsigned home, struct amb_dir_topic *main,
                                 enum amb_priority priority, struct amb_party *payer,
                                 struct amb_dir_topic **out)
{
    if (directory->topic_count >= directory->config->limits.max_topics &&
        !amb_directory_leave_oldest(directory)) {
        return AMB_ELIMIT;
    }
    struct amb_dir_topic *topic = topic_make(directory, name, len, home);
    if (topic == NULL) {
        return AMB_ENOMEM;
    }
    topic->main = main;
    topic->priority = priority;
    amb_party_charge(payer, AMB_SHARE_TOPICS, &topic->party);
    enum amb_status status = topic_begin(directory, topic);
    if (status != AMB_OK) {
        amb_directory_topic_free(topic, directory->shard_count);
        return status;
    }
    *out = topic;
    return AMB_OK;
}

enum amb_status amb_directory_topic(struct amb_directory *directory, const char *name, size_t len,
                                    unsigned home, struct amb_party *payer,
                                    struct amb_dir_topic **out)
{
    struct amb_dir_topic *topic = amb_map_get(directory->by_name, name, len);
    if (topic != NULL) {
        *out = topic;
        return AMB_OK;
    }
    enum amb_status status =
        topic_add(directory, name, len, home, NULL, AMB_PRIORITY_NORMAL, payer, &topic);
    if (status != AMB_OK) {
        return status;
    }
    if (amb_map_put(directory->by_name, name, len, topic) != AMB_OK) {
        return AMB_ENOMEM;
    }
    topic_attach_named_readers(directory, topic);
    amb_directory_tell_topic(directory, topic);
    *out = topic;
    return AMB_OK;
}

enum amb_status amb_directory_priority(struct amb_directory *directory, struct amb_dir_topic *main,
                                       enum amb_priority priority, struct amb_party *payer,
                                       struct amb_dir_topic **out)
{
    struct amb_dir_topic *topic = topic_kin(main, priority);
    if (topic != NULL) {
        *out = topic;
        return AMB_OK;
    }
    topic_use(main); /* Whatever leaves for it, that stays. */
    main->kin_count++;
    enum amb_status status =
        topic_add(directory, main->name, main->name_len, main->home, main, priority, payer, &topic);
    if (status != AMB_OK) {
        main->kin_count--;
        amb_directory_rest(directory, main);
        return status;
    }
    main->kin[priority] = topic;
    topic_attach_named_readers(directory, topic);
    amb_directory_tell_topic(directory, topic);
    *out = topic;
    return AMB_OK;
}

bool amb_directory_has(const struct amb_directory *directory, const char *name, size_t len,
                       enum amb_priority priority)
{
    struct amb_dir_topic *topic = amb_map_get(directory->by_name, name, len);
    return topic != NULL && topic_kin(topic, priority) != NULL;
}

void amb_directory_unused(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    amb_directory_rest(directory, topic); /* Its main one rests when it has gone. */
}

void amb_directory_publish(struct amb_dir_publisher *publisher, struct amb_dir_topic *topic)
{
    amb_assert(publisher->topic == NULL);
    publisher->topic = topic;
    publisher->told_copies = amb_directory_copies(publisher);
    topic->publisher_count++;
    amb_list_push_back(&topic->publishers, &publisher->of_topic);
    topic_use(topic);
}

void amb_directory_unpublish(struct amb_directory *directory, struct amb_dir_publisher *publisher)
{
    struct amb_dir_topic *topic = publisher->topic;
    if (topic != NULL) {
        amb_list_remove(&publisher->of_topic);
        topic->publisher_count--;
        topic->spoken_on |= UINT64_C(1) << publisher->session.shard;
        publisher->topic = NULL;
        amb_directory_rest(directory, topic);
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

/* Topics that come later find it. */
static void sub_enter(struct amb_directory *directory, struct amb_dir_sub *sub)
{
    amb_list_init(&sub->of_account);
    amb_list_init(&sub->of_over);
    sub->serial = ++directory->serial;
    sub->is_wild = !amb_pattern_is_literal(sub->pattern, sub->pattern_len);
    if (sub->account != NULL) {
        sub->account->refs++;
        amb_list_push_back(&sub->account->subs, &sub->of_account);
    }
    amb_list_init(&sub->same);
    sub->filed = amb_patterns_add(&directory->patterns, sub->pattern, sub->pattern_len, &sub->same,
                                  sub->may_map ? &sub->user : NULL);
    if (sub->filed == NULL) { /* Later topics cannot find it, so its client is ended. */
        sub->over = "no memory";
        amb_list_push_back(&directory->over, &sub->of_over);
    }
}

static void sub_remove(struct amb_directory *directory, struct amb_dir_sub *sub)
{
    amb_patterns_remove(&directory->patterns, &sub->filed, &sub->same,
                        sub->may_map ? &sub->user : NULL);
}

/* Calls fn with every topic that it reads. */
static void sub_each_topic(struct amb_directory *directory, struct amb_dir_sub *sub, amb_pair_fn fn,
                           void *arg)
{
    if (sub->is_wild) {
        amb_pairs_each(directory, sub, fn, arg);
        return;
    }
    struct amb_dir_topic *topic = amb_map_get(directory->by_name, sub->pattern, sub->pattern_len);
    for (unsigned i = 0; topic != NULL && i <= AMB_PRIORITY_LOW; i++) {
        struct amb_dir_topic *kin = topic_kin(topic, by_rank[i]);
        if (kin != NULL) {
            fn(directory, sub, kin, arg);
        }
    }
}

/* What a subscription begins with, and how many orders that took. */
struct coming {
    amb_order_done_fn done;
    void *context;
    unsigned posted;
};

static void sub_come(struct amb_directory *directory, struct amb_dir_sub *sub,
                     struct amb_dir_topic *topic, void *arg)
{
    struct coming *coming = arg;
    coming->posted += amb_directory_connect(directory, topic, sub, coming->done, coming->context);
    amb_directory_count_due(directory, topic);
}

unsigned amb_directory_subscribe(struct amb_directory *directory, struct amb_dir_sub *sub,
                                 amb_order_done_fn done, void *context)
{
    amb_assert(sub->id != 0 && amb_directory_has_room(directory));
    directory->sub_count++;
    directory->sys_count += sub->pattern[0] == '$';
    amb_list_push_back(&directory->subs, &sub->node);
    sub_enter(directory, sub);
    if (sub->is_wild) {
        return amb_pairs_come(directory, sub, done, context);
    }
    struct coming coming = {.done = done, .context = context};
    sub_each_topic(directory, sub, sub_come, &coming);
    return coming.posted;
}

unsigned amb_directory_disconnect(struct amb_directory *directory, struct amb_dir_topic *topic,
                                  struct amb_dir_sub *sub, amb_order_done_fn done, void *context)
{
    topic->connected -= topic->connected > 0;
    if (sub->may_map) {
        amb_readers_remove(&topic->readers, sub->user);
    }
    bool is_lent = sub->session.shard != topic->home;
    bool is_posted = is_lent && topic_lend(directory, topic, sub, -1, done, context);
    amb_directory_count_due(directory, topic);
    amb_directory_rest(directory, topic);
    return is_posted && done != NULL ? 1 : 0;
}

static void sub_leave(struct amb_directory *directory, struct amb_dir_sub *sub,
                      struct amb_dir_topic *topic, void *arg)
{
    (void)arg;
    (void)amb_directory_disconnect(directory, topic, sub, NULL, NULL);
}

void amb_directory_unsubscribe(struct amb_directory *directory, struct amb_dir_sub *sub)
{
    if (sub->is_closing) {
        return;
    }
    sub->is_closing = true;
    amb_list_remove(&sub->node);
    directory->sub_count--;
    directory->sys_count -= sub->pattern[0] == '$';
    sub_remove(directory, sub);
    amb_list_remove(&sub->of_over);
    if (!sub->is_wild) {
        sub_each_topic(directory, sub, sub_leave, NULL);
    }
    amb_pairs_leave(directory, sub);
}

/* It reads on, in another way than what home has counted. arg: the subscription as it was. */
static void sub_recount(struct amb_directory *directory, struct amb_dir_sub *sub,
                        struct amb_dir_topic *topic, void *arg)
{
    enum amb_slow slow = sub_slow(directory, sub, topic), was = sub_slow(directory, arg, topic);
    if (sub->session.shard == topic->home || slow == was) {
        return;
    }
    struct amb_order *order = amb_directory_order(amb_order_recount, NULL, NULL);
    if (order == NULL) {
        return;
    }
    order->session = sub->session;
    order->u.lend.sub = sub->id;
    order->u.lend.topic = topic->id;
    order->u.lend.borrower = sub->session.shard;
    order->u.lend.holding = (slow == AMB_SLOW_BLOCK) - (was == AMB_SLOW_BLOCK);
    order->u.lend.spilling = (slow == AMB_SLOW_SPILL) - (was == AMB_SLOW_SPILL);
    amb_order_post(directory->shards[topic->home], order);
}

void amb_directory_reslow(struct amb_directory *directory, struct amb_dir_sub *sub,
                          enum amb_slow slow, bool is_idle)
{
    struct amb_dir_sub was = {.options = sub->options, .is_idle = sub->is_idle};
    sub->options.slow = slow;
    sub->is_idle = is_idle;
    if (slow != was.options.slow || is_idle != was.is_idle) {
        sub_each_topic(directory, sub, sub_recount, &was);
    }
}
