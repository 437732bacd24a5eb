/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/purge.h"

#include "broker/base/mail.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/log/keys.h"
#include "broker/topic/topic.h"
#include "broker/topic/trim.h"

#include <stdlib.h>

struct purge_mail {
    struct amb_mail mail;
    uint32_t topic;
    struct amb_topic_purge purge;
};

/* A gap that begins in an earlier purge, and ends in this one, is of both. */
static void note(struct amb_topic *topic, const struct amb_topic_purge *purge)
{
    uint64_t from = topic->purge.upto >= purge->from ? topic->purge.from : purge->from;
    topic->purge = *purge;
    topic->purge.from = topic->purge.upto == 0 ? purge->from : from;
}

uint64_t amb_topic_purge(struct amb_topic *topic)
{
    struct amb_log *log = &topic->log;
    uint64_t before = log->msgs;
    if (log->lo < log->hi) {
        const struct amb_topic_purge purge = {amb_log_at(log, log->lo)->first_seq, log->next_seq};
        note(topic, &purge);
        amb_topic_forget(topic, log->hi);
    }
    uint64_t kept = topic->keys == NULL ? 0 : amb_keys_count(topic->keys);
    while (topic->keys != NULL && amb_keys_count(topic->keys) > 0) {
        (void)amb_keys_shed(topic->keys, UINT32_MAX);
    }
    return before - log->msgs + (topic->history.retains ? kept : 0);
}

/* A shadow at a borrower, and private ones beside it. */
static void purge_shadow(struct amb_topic *shadow, const struct amb_topic_purge *purge)
{
    note(shadow, purge);
    amb_topic_forget(shadow, shadow->log.hi);
}

static void purge_arrived(struct amb_mail *mail, void *owner)
{
    struct purge_mail *told = AMB_CONTAINER_OF(mail, struct purge_mail, mail);
    struct amb_topic *shadow = amb_shard_topic(owner, told->topic);
    if (shadow != NULL) {
        purge_shadow(shadow, &told->purge);
        AMB_LIST_FOR_EACH (node, &shadow->privates.all) {
            purge_shadow(AMB_CONTAINER_OF(node, struct amb_topic, privates.node), &told->purge);
        }
    }
    free(told);
}

void amb_topic_purge_lent(struct amb_topic *topic)
{
    for (unsigned i = 0; i < topic->lending.count; i++) {
        struct purge_mail *told = i == topic->home || topic->lending.lends[i].shadow == NULL
                                      ? NULL
                                      : malloc(sizeof(*told));
        if (told != NULL) {
            told->topic = topic->id;
            told->purge = topic->purge;
            amb_mail_post(&topic->shard->peers[i]->inbox, &told->mail, purge_arrived);
        }
    }
}
