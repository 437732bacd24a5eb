/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a topic that files of broker/topic own.
 *
 * Threads: the topic's worker. Memory: embedded in the topic; keys.c makes its own.
 */
#pragma once

#include "wire/base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_topic;

/* priority.c: topics of the same name. */
struct amb_topic_kin {
    bool counts;            /* at home: others of its name count its messages */
    struct amb_topic *main; /* the one of NORMAL here; NULL: is that, or a private shadow */
    struct amb_list_node ring;
};

static inline void amb_topic_kin_init(struct amb_topic_kin *kin)
{
    amb_list_init(&kin->ring);
}

/* history.c */
struct amb_topic_history {
    struct amb_list_node timed; /* of shard->history.timed: something in the log goes by age */
    uint64_t settled;           /* position up to which none of the history is in slots */
    bool retains;               /* at home: the topic keeps history */
};

static inline void amb_topic_history_init(struct amb_topic_history *history)
{
    amb_list_init(&history->timed);
}

/* purge.c: numbers of the messages that an operator has dropped last. */
struct amb_topic_purge {
    uint64_t from, upto; /* upto - 1 is the last one */
};

/* trim.c: entries of the log that have a tally. */
struct amb_topic_tally {
    uint64_t from; /* none of them before this position */
    uint32_t count;
};

/* replay.c: private shadows beside the shard's own. */
struct amb_topic_privates {
    struct amb_list_node all;   /* struct amb_topic.privates.node: reclaim.c turns the list */
    struct amb_list_node node;  /* of a private shadow */
    uint64_t look;              /* of a private shadow: the newest look when one came to it */
    struct amb_topic *namesake; /* of a private shadow: the shard's own; else NULL */
};

static inline void amb_topic_privates_init(struct amb_topic_privates *privates)
{
    amb_list_init(&privates->all);
    amb_list_init(&privates->node);
}
