/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/directory_topic.h"

#include "broker/base/party.h"
#include "broker/config/config.h"
#include "broker/control/directory/listing.h"
#include "broker/control/directory/tenant_key.h"
#include "broker/shard/shard.h"
#include "broker/topic/topic.h"
#include "broker/worker/orders_topic.h"
#include "wire/base/assert.h"
#include "wire/base/log.h"

#include <stdlib.h>
#include <string.h>

void *amb_directory_order(const struct amb_order_kind *kind, amb_order_done_fn done, void *context)
{
    struct amb_order *order = amb_order_new(kind, done, context);
    if (order == NULL) {
        amb_error("no memory for an order to a worker");
    }
    return order;
}

/* Of topics of the broker's and of inboxes nobody maps anything. Dead letters stay where they were.
 */
static const struct amb_trust_group *group_of(struct amb_directory *directory, uint32_t tenant,
                                              const char *name)
{
    return amb_topic_is_reserved(name, strlen(name))
               ? &amb_trust_group_private
               : amb_trust_groups_find(&directory->trust_groups, tenant,
                                       amb_config_topic(directory->config, name)->group,
                                       directory->config->limits.user_share);
}

struct amb_dir_topic *amb_dir_topic_make(struct amb_directory *directory, uint32_t tenant,
                                         const char *name, size_t len, unsigned home)
{
    struct amb_dir_topic *topic = calloc(1, sizeof(*topic) + len + 1);
    if (topic == NULL) {
        return NULL;
    }
    topic->directory = directory;
    topic->on_shard = calloc(directory->shard_count, sizeof(struct amb_topic *));
    topic->home = home;
    topic->tenant = tenant;
    topic->name_len = (uint32_t)len;
    memcpy(topic->name, name, len);
    topic->group = group_of(directory, tenant, topic->name);
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

struct amb_dir_topic *amb_directory_named(const struct amb_directory *directory, uint32_t tenant,
                                          const char *name, size_t len)
{
    char key[AMB_TENANT_KEY_MAX];
    size_t key_len = amb_tenant_key(key, tenant, name, len);
    return amb_map_get(directory->by_name, key, key_len);
}

enum amb_status amb_directory_name_put(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    char key[AMB_TENANT_KEY_MAX];
    size_t key_len = amb_tenant_key(key, topic->tenant, topic->name, topic->name_len);
    return amb_map_put(directory->by_name, key, key_len, topic);
}

void amb_directory_name_remove(struct amb_directory *directory, const struct amb_dir_topic *topic)
{
    char key[AMB_TENANT_KEY_MAX];
    size_t key_len = amb_tenant_key(key, topic->tenant, topic->name, topic->name_len);
    (void)amb_map_remove(directory->by_name, key, key_len);
}

static int64_t topic_heap(const struct amb_dir_topic *topic)
{
    return (int64_t)(sizeof(*topic) + topic->name_len + sizeof(struct amb_topic) +
                     2 * AMB_HEAP_OVERHEAD);
}

void amb_dir_topic_charge(struct amb_dir_topic *topic, struct amb_party *payer)
{
    amb_party_charge(payer, AMB_SHARE_TOPICS, &topic->party);
    amb_party_heap(topic->party, topic_heap(topic));
}

void amb_dir_topic_uncharge(struct amb_dir_topic *topic)
{
    amb_party_heap(topic->party, -topic_heap(topic));
    amb_party_uncharge(&topic->party, AMB_SHARE_TOPICS);
}

void amb_directory_topic_free(struct amb_dir_topic *topic, unsigned shard_count)
{
    amb_list_remove(&topic->idle);
    amb_list_remove(&topic->waking);
    amb_party_unref(&topic->woken_by);
    for (unsigned i = 0; i < shard_count && topic->on_shard != NULL; i++) {
        amb_topic_destroy(&topic->on_shard[i]);
    }
    amb_dir_topic_uncharge(topic);
    amb_listing_topic_gone(topic->directory, topic);
    free(topic->on_shard);
    free(topic);
}

/* The topic as that shard knows it, introduced there if it is not. NULL without memory. */
struct amb_topic *amb_dir_topic_introduce(struct amb_directory *directory,
                                          struct amb_dir_topic *topic, unsigned shard)
{
    if (topic->on_shard[shard] != NULL) {
        return topic->on_shard[shard];
    }
    if (topic->main != NULL && amb_dir_topic_introduce(directory, topic->main, shard) == NULL) {
        return NULL;
    }
    struct amb_order_topic *add = amb_directory_order(&amb_order_topic_add, NULL, NULL);
    if (add == NULL) {
        return NULL;
    }
    if (amb_topic_create(directory->shards[shard], directory->config, topic->id, topic->home,
                         topic->name, topic->name_len, &topic->on_shard[shard]) != AMB_OK) {
        amb_order_free(&add->order);
        return NULL;
    }
    topic->on_shard[shard]->tenant = topic->tenant;
    if (topic->main != NULL) {
        amb_topic_set_priority(topic->on_shard[shard], topic->priority);
        topic->on_shard[shard]->kin.main = topic->main->on_shard[shard];
    }
    topic->on_shard[shard]->audience.is_quiet = shard == topic->home; /* only there is that asked */
    if (topic->is_gone) { /* A late message wakes it once more. */
        topic->on |= UINT64_C(1) << shard;
    }
    add->topic = topic->on_shard[shard];
    amb_order_post(directory->shards[shard], &add->order);
    return topic->on_shard[shard];
}

/* Somebody publishes to it, or reads it by its name. */
void amb_dir_topic_use(struct amb_dir_topic *topic)
{
    amb_list_remove(&topic->idle);
    topic->uses++;
    topic->is_unwanted = false; /* Somebody came before it was gone. */
}

bool amb_directory_ids_fit(struct amb_directory *directory, uint32_t max_topics)
{
    uint64_t cells = (uint64_t)max_topics * 2 + AMB_DIRECTORY_CELLS_SPARE;
    uint32_t size = cells < AMB_TOPIC_CELLS_MAX ? (uint32_t)cells : AMB_TOPIC_CELLS_MAX;
    if (size <= directory->free_size) {
        return true;
    }
    uint32_t *free_ids = calloc(size, sizeof(uint32_t));
    struct amb_dir_topic **by_cell = calloc(size, sizeof(struct amb_dir_topic *));
    if (free_ids == NULL || by_cell == NULL) {
        free(free_ids);
        free(by_cell);
        return false;
    }
    for (uint32_t i = 0; i < directory->free_count; i++) {
        free_ids[i] = directory->free_ids[(directory->free_first + i) % directory->free_size];
    }
    if (directory->free_size > 0) {
        memcpy(by_cell, directory->by_cell, directory->free_size * sizeof(struct amb_dir_topic *));
    }
    free(directory->free_ids);
    free(directory->by_cell);
    directory->free_ids = free_ids;
    directory->by_cell = by_cell;
    directory->free_first = 0;
    directory->free_size = size;
    return true;
}

/* Slots are used anew as late as possible. */
bool amb_directory_id_take(struct amb_directory *directory, uint32_t *out)
{
    uint32_t limit = directory->config->limits.max_topics;
    if (directory->free_count > 0 &&
        (directory->cells >= limit || directory->cells >= directory->free_size)) {
        *out = directory->free_ids[directory->free_first];
        directory->free_first = (directory->free_first + 1) % directory->free_size;
        directory->free_count--;
        return true;
    }
    if (directory->cells == directory->free_size) {
        return false;
    }
    *out = directory->cells++;
    return true;
}

struct amb_dir_topic *amb_directory_topic_of(const struct amb_directory *directory, uint32_t id)
{
    struct amb_dir_topic *topic = directory->by_cell[amb_topic_cell(id)];
    return topic != NULL && topic->id == id ? topic : NULL;
}

void amb_directory_id_give(struct amb_directory *directory, uint32_t id)
{
    amb_assert(directory->free_count < directory->free_size);
    uint32_t last = (directory->free_first + directory->free_count) % directory->free_size;
    directory->free_ids[last] = id;
    directory->free_count++;
}

/* Those of one name, in the order in which a reader comes to them: what is lower gives way. */
static const enum amb_priority by_rank[] = {AMB_PRIORITY_HIGH, AMB_PRIORITY_NORMAL,
                                            AMB_PRIORITY_LOW};

/* NULL: there is none of that priority. */
struct amb_dir_topic *amb_dir_topic_kin(struct amb_dir_topic *main, enum amb_priority priority)
{
    return priority == AMB_PRIORITY_NORMAL ? main : main->kin[priority];
}

struct amb_dir_topic *amb_directory_kin(struct amb_dir_topic *main, unsigned rank)
{
    return amb_dir_topic_kin(main, by_rank[rank]);
}
