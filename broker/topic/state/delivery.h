/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a topic that broker/delivery works with, and their neighbours in broker/topic.
 *
 * Threads: the topic's worker; `consumed` and `kick` cross to home. Memory: embedded in the topic;
 * lends are one allocation.
 */
#pragma once

#include "broker/base/mail.h"
#include "wire/base/list.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_shard;
struct amb_topic;

/* Readers of a topic that a walk comes to, one after the other. Those that keep up do not wait for
 * those that are behind. A client with a thousand wildcards may be behind with all of them at
 * once. */
#define AMB_WALK_ALL 0u
#define AMB_WALK_NONE UINT32_MAX

struct amb_walk {
    struct amb_list_node cursors; /* struct amb_cursor.in_walk */
    uint32_t count;
    /* The next walk comes to the first so many; AMB_WALK_ALL or AMB_WALK_NONE. It is NONE during a
     * walk, so that a mark that comes meanwhile, which makes it ALL, is seen. */
    uint32_t unwalked;
};

/*
 * forward.c, cursor.c: the walks that are to come, and the cursors in them. The others are parked:
 * they wait for credit, or for room in a link (cursor_may_park in forward.c says which may). Their
 * session wakes them. So does a first message with a time limit, or another priority of their
 * topic, for then more than that can move them. The log may be trimmed past them.
 */
struct amb_topic_walks {
    struct amb_walk keeping_up, behind;
    struct amb_list_node dirty;       /* of *dirty_list: the topic is to be walked */
    struct amb_list_node *dirty_list; /* of shard->forward.dirty, by its priority */
    uint64_t settled_turn;            /* the last one in which forward_settle ran */
};

static inline void amb_topic_walks_init(struct amb_topic_walks *walks)
{
    amb_list_init(&walks->keeping_up.cursors);
    amb_list_init(&walks->behind.cursors);
    amb_list_init(&walks->dirty);
}

/* Another worker's place in a log of ours. */
struct amb_lend {
    uint32_t subs, holding; /* subscriptions there, and how many of them hold, */
    uint32_t spilling;      /* ... and spill: all goes there at once, and messages that they are
                             * behind are kept there */
    uint64_t position;
    uint64_t lent;            /* bytes, ever */
    uint64_t counts_from;     /* as of a cursor */
    struct amb_topic *shadow; /* there; its `shadow.consumed` is ours to read */
};

/* A place of its own for a subscription there that began in history: replay.h. */
struct amb_replay {
    struct amb_list_node node; /* in the topic's list */
    struct amb_lend lend;
    unsigned borrower;
    uint64_t sub; /* its owner */
    bool is_near; /* has come near the end */
    struct amb_mail mail;
    struct amb_shard *home;
};

static inline bool amb_replay_is_holding(const struct amb_replay *replay)
{
    return replay->lend.holding > 0 && replay->is_near;
}

/* lend.c, at home: the borrowers. */
struct amb_topic_lending {
    struct amb_lend *lends; /* one for each worker */
    unsigned count;
    struct amb_list_node replays; /* struct amb_replay.node: replay.h */
    uint64_t lent;                /* of a shadow: bytes that came from home, ever */
};

static inline void amb_topic_lending_init(struct amb_topic_lending *lending)
{
    amb_list_init(&lending->replays);
}

/* lend.c, of a shadow: its word to home. It stands among fields that change seldom. */
struct amb_topic_shadow {
    _Atomic uint64_t consumed; /* bytes lent that hold nobody back any more */
    struct amb_mail kick;
    _Atomic uint32_t is_kicked; /* 1: the mail is under way */
    /* In its log, as its worker's last pass has seen it (broker/observe). */
    _Atomic uint64_t kept_msgs, kept_bytes;
};

/* spill.c: readers that spill. */
struct amb_topic_spill {
    uint32_t readers;          /* cursors that spill, here or where the topic is lent to */
    uint32_t tries;            /* that memory was asked for, in vain */
    int64_t retry_ns;          /* ... when it may be once more */
    uint64_t from;             /* position: the tail's at the last walk */
    uint64_t next;             /* ... entries before it, from there on, have been moved where that
                                * was possible */
    uint64_t moved;            /* ... behind the newest that was */
    struct amb_list_node node; /* of shard->spill.waiting: something is due */
    /* counters */
    uint64_t msgs, bytes; /* moved */
    uint64_t failed;      /* messages that could not be, and stay where they lie, */
    uint64_t failed_upto; /* ... those before this position */
    uint64_t lost;        /* messages that were too much */
};

static inline void amb_topic_spill_init(struct amb_topic_spill *spill)
{
    amb_list_init(&spill->node);
}
