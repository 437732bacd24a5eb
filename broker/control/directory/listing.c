/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/listing.h"

#include "broker/auth/numbers.h"
#include "broker/count/counters_slots.h"
#include "broker/count/figures.h"
#include "wire/codec/topic.h"

static const char *tenant_text(struct amb_directory *directory, uint32_t tenant)
{
    return directory->tenant_text == NULL ? "" : directory->tenant_text(directory, tenant);
}

void amb_listing_topic(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    static const char *const priorities[] = {"normal", "high", "low"};
    const struct amb_topic_words words = {.worker = topic->home, .tenant = topic->tenant};
    const char *const texts[] = {amb_topic_shown(topic->name), priorities[topic->priority],
                                 tenant_text(directory, topic->tenant)};
    amb_counters_list(directory->counters, &topic->listed, AMB_COUNTERS_TOPIC, topic->id, &words,
                      sizeof(words), texts, sizeof(texts) / sizeof(texts[0]));
}

void amb_listing_topic_gone(struct amb_directory *directory, struct amb_dir_topic *topic)
{
    amb_counters_unlist(directory->counters, &topic->listed, AMB_COUNTERS_TOPIC);
}

void amb_listing_subscription(struct amb_directory *directory, struct amb_dir_sub *sub)
{
    const struct amb_subscription_words words = {.client = sub->client_id,
                                                 .worker = sub->session.shard,
                                                 .narrowed = sub->rights != NULL,
                                                 .tenant = sub->tenant};
    const char *const texts[] = {amb_topic_shown(sub->pattern),
                                 tenant_text(directory, sub->tenant)};
    amb_counters_list(directory->counters, &sub->listed, AMB_COUNTERS_SUBSCRIPTION, sub->id, &words,
                      sizeof(words), texts, sizeof(texts) / sizeof(texts[0]));
}

void amb_listing_subscription_gone(struct amb_directory *directory, struct amb_dir_sub *sub)
{
    amb_counters_unlist(directory->counters, &sub->listed, AMB_COUNTERS_SUBSCRIPTION);
}

void amb_listing_queue(struct amb_directory *directory, struct amb_dir_queue *queue)
{
    static const char *const acks[] = {"none", "none", "explicit", "cumulative"};
    char user[AMB_AUTH_NAME_MAX] = "";
    const struct amb_queue_words words = {
        .worker = queue->sub.session.shard, .members = queue->members, .tenant = queue->sub.tenant};
    const char *const texts[] = {
        amb_topic_shown(queue->sub.pattern),
        tenant_text(directory, queue->sub.tenant),
        queue->durable,
        queue->group,
        acks[queue->options.ack],
        directory->owner_text == NULL ? "" : directory->owner_text(directory, queue->user, user)};
    amb_counters_list(directory->counters, &queue->listed, AMB_COUNTERS_QUEUE, queue->sub.id,
                      &words, sizeof(words), texts, sizeof(texts) / sizeof(texts[0]));
}

void amb_listing_queue_gone(struct amb_directory *directory, struct amb_dir_queue *queue)
{
    amb_counters_unlist(directory->counters, &queue->listed, AMB_COUNTERS_QUEUE);
}

void amb_listing_anew(struct amb_directory *directory)
{
    AMB_LIST_FOR_EACH (node, &directory->topics) {
        amb_listing_topic(directory, AMB_CONTAINER_OF(node, struct amb_dir_topic, node));
    }
    AMB_LIST_FOR_EACH (node, &directory->subs) {
        struct amb_dir_sub *sub = AMB_CONTAINER_OF(node, struct amb_dir_sub, node);
        if (sub->handle != AMB_QUEUE_HANDLE) {
            amb_listing_subscription(directory, sub);
        }
    }
    AMB_LIST_FOR_EACH (node, &directory->queues) {
        amb_listing_queue(directory, AMB_CONTAINER_OF(node, struct amb_dir_queue, node));
    }
}
