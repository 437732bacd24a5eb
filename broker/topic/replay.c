/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/replay.h"

#include "broker/shard/shard.h"
#include "broker/topic/begin.h"
#include "broker/topic/cursor.h"

#include <stdlib.h>

struct amb_topic *amb_replay_begin(struct amb_topic *topic, unsigned borrower, uint64_t sub,
                                   bool holds, bool spills, struct amb_topic *shared,
                                   const struct amb_begun *begun)
{
    struct amb_replay *replay = calloc(1, sizeof(*replay));
    struct amb_topic *shadow = NULL;
    if (replay == NULL ||
        amb_topic_create(topic->shard->peers[borrower], topic->config, topic->id, topic->home,
                         topic->name, topic->name_len, &shadow) != AMB_OK) {
        free(replay);
        return NULL;
    }
    shadow->tenant = topic->tenant;
    shadow->privates.namesake = shared;
    amb_topic_set_priority(shadow, topic->priority);
    replay->lend.subs = 1;
    replay->lend.holding = holds;
    replay->lend.spilling = spills;
    topic->spill.readers += spills;
    replay->lend.position = begun->position;
    replay->lend.counts_from = topic->log.next_seq;
    replay->lend.shadow = shadow;
    replay->borrower = borrower;
    replay->sub = sub;
    replay->home = topic->shard;
    amb_list_push_back(&topic->lending.replays, &replay->node);
    amb_topic_reader_came(topic, replay->lend.position);
    amb_topic_mark(topic);
    return shadow;
}

/* Home again: no word of the shadow is under way any more. */
static void replay_is_over(struct amb_mail *mail, void *owner)
{
    (void)owner;
    struct amb_replay *replay = AMB_CONTAINER_OF(mail, struct amb_replay, mail);
    amb_topic_destroy(&replay->lend.shadow);
    free(replay);
}

/* At the borrower: all that was lent has come. */
static void replay_ends(struct amb_mail *mail, void *owner)
{
    (void)owner;
    struct amb_replay *replay = AMB_CONTAINER_OF(mail, struct amb_replay, mail);
    struct amb_topic *shadow = replay->lend.shadow;
    AMB_LIST_FOR_EACH_SAFE (node, &shadow->cursors) {
        struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_topic);
        amb_cursor_detach(cursor);
        free(cursor);
    }
    amb_topic_clear(shadow);
    amb_mail_post(&replay->home->inbox, mail, replay_is_over);
}

static void replay_end(struct amb_topic *topic, struct amb_replay *replay)
{
    amb_list_remove(&replay->node);
    amb_topic_reader_went(topic, &replay->lend.position);
    topic->spill.readers -= replay->lend.spilling;
    amb_topic_mark(topic); /* Entries that it held back may go. */
    amb_mail_post(&topic->shard->peers[replay->borrower]->inbox, &replay->mail, replay_ends);
}

static struct amb_replay *replay_of(const struct amb_topic *topic, uint64_t sub)
{
    AMB_LIST_FOR_EACH (node, &topic->lending.replays) {
        struct amb_replay *replay = AMB_CONTAINER_OF(node, struct amb_replay, node);
        if (replay->sub == sub) {
            return replay;
        }
    }
    return NULL;
}

struct amb_lend *amb_replay_lend(const struct amb_topic *topic, uint64_t sub)
{
    struct amb_replay *replay = replay_of(topic, sub);
    return replay == NULL ? NULL : &replay->lend;
}

bool amb_replay_end(struct amb_topic *topic, uint64_t sub)
{
    struct amb_replay *replay = replay_of(topic, sub);
    if (replay == NULL) {
        return false;
    }
    replay_end(topic, replay);
    return true;
}

void amb_replay_end_all(struct amb_topic *topic)
{
    AMB_LIST_FOR_EACH_SAFE (node, &topic->lending.replays) {
        replay_end(topic, AMB_CONTAINER_OF(node, struct amb_replay, node));
    }
}
