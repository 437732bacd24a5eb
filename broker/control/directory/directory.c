/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/directory.h"

#include "broker/base/party.h"
#include "broker/config/config.h"
#include "broker/control/directory/directory_accounts.h"
#include "broker/control/directory/directory_chores.h"
#include "broker/control/directory/directory_connect.h"
#include "broker/control/directory/directory_counts.h"
#include "broker/control/directory/directory_leave.h"
#include "broker/control/directory/directory_pairs.h"
#include "broker/control/directory/directory_topic.h"
#include "broker/control/directory/listing.h"
#include "broker/shard/shard.h"
#include "broker/shard/trace.h"
#include "wire/base/assert.h"
#include "wire/base/log.h"

#include <stdlib.h>
#include <string.h>

#define READ_STEPS 1024u /* of looking for a reader; with more of them there may be one */

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
    amb_list_init(&directory->counts_changed);
    amb_list_init(&directory->queues);
    amb_list_init(&directory->chores);
    amb_list_init(&directory->wakers);
    amb_list_init(&directory->no_party.line);
    amb_list_init(&directory->no_party.topics);
    amb_list_init(&directory->over);
    if (!amb_directory_ids_fit(directory, config->limits.max_topics)) {
        return AMB_ENOMEM;
    }
    enum amb_status status = amb_map_create(&directory->by_name);
    return status == AMB_OK ? amb_patterns_init(&directory->patterns) : status;
}

void amb_directory_fini(struct amb_directory *directory)
{
    if (directory->by_name != NULL) {
        amb_pairs_fini(directory);
        amb_pair_accounts_fini(directory);
        struct amb_list_node *node;
        while ((node = amb_list_pop_front(&directory->topics)) != NULL ||
               (node = amb_list_pop_front(&directory->leaving)) != NULL) {
            amb_directory_topic_free(AMB_CONTAINER_OF(node, struct amb_dir_topic, node),
                                     directory->shard_count);
        }
        amb_map_destroy(&directory->by_name);
        amb_patterns_fini(&directory->patterns);
    }
    free(directory->free_ids);
    free(directory->by_cell);
    directory->free_ids = NULL;
    directory->by_cell = NULL;
}

/* Topics -------------------------------------------------------------------------------------- */

/* Subscriptions to just that name read it from its first message on. */
static void topic_attach_named_readers(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    struct amb_pattern *name =
        amb_patterns_name(&directory->patterns, topic->tenant, topic->name, topic->name_len);
    if (name != NULL) {
        AMB_LIST_FOR_EACH (node, &name->subs) {
            (void)amb_directory_connect(
                directory, topic, AMB_CONTAINER_OF(node, struct amb_dir_sub, same), NULL, NULL);
        }
    }
}

/* Gives the topic an id and has its home know it. */
static enum amb_status topic_begin(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    if (!amb_directory_id_take(directory, &topic->id)) {
        return AMB_ELIMIT; /* Thousands are just leaving. */
    }
    for (unsigned i = 0; i < AMB_TRACES_MAX; i++) {
        if (directory->traces[i] != NULL) {
            amb_trace_topic(directory->traces[i], topic->id, topic->tenant, topic->name,
                            topic->name_len);
        }
    }
    if (amb_dir_topic_introduce(directory, topic, topic->home) == NULL) {
        amb_directory_id_give(directory, topic->id);
        return AMB_ENOMEM;
    }
    /* The home knows it, so from here on it stays, whatever else fails. */
    directory->topic_count++;
    topic->serial = UINT64_MAX;
    directory->by_cell[amb_topic_cell(topic->id)] = topic;
    if (topic->priority == AMB_PRIORITY_HIGH) {
        /* A search that finds both reads this one first. */
        amb_list_insert_before(&topic->main->node, &topic->node);
    } else {
        amb_list_push_back(&directory->topics, &topic->node);
    }
    amb_listing_topic(directory, topic);
    return AMB_OK;
}

static enum amb_status topic_add(struct amb_directory *directory, uint32_t tenant, const char *name,
                                 size_t len, unsigned home, struct amb_dir_topic *main,
                                 enum amb_priority priority, struct amb_party *payer,
                                 struct amb_dir_topic **out)
{
    if (directory->topic_count >= directory->config->limits.max_topics &&
        !amb_directory_leave_oldest(directory)) {
        return AMB_ELIMIT;
    }
    struct amb_dir_topic *topic = amb_dir_topic_make(directory, tenant, name, len, home);
    if (topic == NULL) {
        return AMB_ENOMEM;
    }
    topic->main = main;
    topic->priority = priority;
    amb_dir_topic_charge(topic, payer);
    /* Its name first: a topic that nobody finds would stay for ever. */
    enum amb_status status = main == NULL ? amb_directory_name_put(directory, topic) : AMB_OK;
    if (status == AMB_OK) {
        status = topic_begin(directory, topic);
        if (status != AMB_OK && main == NULL) {
            amb_directory_name_remove(directory, topic);
        }
    }
    if (status != AMB_OK) {
        amb_directory_topic_free(topic, directory->shard_count);
        return status;
    }
    *out = topic;
    return AMB_OK;
}

enum amb_status amb_directory_topic(struct amb_directory *directory, uint32_t tenant,
                                    const char *name, size_t len, unsigned home,
                                    struct amb_party *payer, struct amb_dir_topic **out)
{
    struct amb_dir_topic *topic = amb_directory_named(directory, tenant, name, len);
    if (topic != NULL) {
        *out = topic;
        return AMB_OK;
    }
    enum amb_status status =
        topic_add(directory, tenant, name, len, home, NULL, AMB_PRIORITY_NORMAL, payer, &topic);
    if (status != AMB_OK) {
        return status;
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
    struct amb_dir_topic *topic = amb_dir_topic_kin(main, priority);
    if (topic != NULL) {
        *out = topic;
        return AMB_OK;
    }
    amb_dir_topic_use(main); /* All orders may leave for it, but that one stays. */
    main->kin_count++;
    enum amb_status status = topic_add(directory, main->tenant, main->name, main->name_len,
                                       main->home, main, priority, payer, &topic);
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

bool amb_directory_has(const struct amb_directory *directory, uint32_t tenant, const char *name,
                       size_t len, enum amb_priority priority)
{
    struct amb_dir_topic *topic = amb_directory_named(directory, tenant, name, len);
    return topic != NULL && amb_dir_topic_kin(topic, priority) != NULL;
}

/* False: one is enough. */
static bool find_one(struct amb_pattern *pattern, void *arg)
{
    (void)pattern;
    *(bool *)arg = true;
    return false;
}

bool amb_directory_is_read(const struct amb_directory *directory, uint32_t tenant, const char *name,
                           size_t len)
{
    bool is_found = amb_patterns_name(&directory->patterns, tenant, name, len) != NULL;
    uint32_t steps = READ_STEPS;
    return is_found ||
           !amb_patterns_match(&directory->patterns, tenant, name, len, &steps, find_one,
                               &is_found) ||
           is_found;
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
    amb_dir_topic_use(topic);
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
    sub->filed = amb_patterns_add(&directory->patterns, sub->tenant, sub->pattern, sub->pattern_len,
                                  &sub->same, sub->may_map ? &sub->user : NULL);
    if (sub->filed != NULL) {
        sub->filed->narrowed += sub->rights != NULL;
    } else { /* Later topics cannot find it, so its client is ended. */
        sub->over = "no memory";
        amb_list_push_back(&directory->over, &sub->of_over);
    }
}

static void sub_remove(struct amb_directory *directory, struct amb_dir_sub *sub)
{
    if (sub->filed != NULL) {
        sub->filed->narrowed -= sub->rights != NULL;
    }
    amb_rights_unref(&sub->rights);
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
    struct amb_dir_topic *topic =
        amb_directory_named(directory, sub->tenant, sub->pattern, sub->pattern_len);
    for (unsigned i = 0; topic != NULL && i <= AMB_PRIORITY_LOW; i++) {
        struct amb_dir_topic *kin = amb_directory_kin(topic, i);
        if (kin != NULL) {
            fn(directory, sub, kin, arg);
        }
    }
}

/* The places where a subscription begins, and how many orders that took. */
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
    amb_directory_count_changed(directory, topic);
}

unsigned amb_directory_subscribe(struct amb_directory *directory, struct amb_dir_sub *sub,
                                 amb_order_done_fn done, void *context)
{
    amb_assert(sub->id != 0 && amb_directory_has_room(directory));
    directory->sub_count++;
    directory->sys_count += sub->pattern[0] == '$';
    amb_list_push_back(&directory->subs, &sub->node);
    if (sub->handle != AMB_QUEUE_HANDLE) {
        amb_listing_subscription(directory, sub);
    }
    sub_enter(directory, sub);
    if (sub->is_wild) {
        return amb_pairs_come(directory, sub, done, context);
    }
    struct coming coming = {.done = done, .context = context};
    sub_each_topic(directory, sub, sub_come, &coming);
    return coming.posted;
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
    amb_listing_subscription_gone(directory, sub);
    directory->sub_count--;
    directory->sys_count -= sub->pattern[0] == '$';
    sub_remove(directory, sub);
    amb_list_remove(&sub->of_over);
    if (!sub->is_wild) {
        sub_each_topic(directory, sub, sub_leave, NULL);
    }
    amb_pairs_leave(directory, sub);
}

/* arg: the subscription as it was. */
static void sub_recount(struct amb_directory *directory, struct amb_dir_sub *sub,
                        struct amb_dir_topic *topic, void *arg)
{
    amb_directory_recount(directory, sub, topic, arg);
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
