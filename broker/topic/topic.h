/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage 4 of 6 (route ─► topic ─► forward): a topic's log and who reads it.
 *
 * The worker that is home to a topic gives the sequence numbers. Another worker whose
 * subscriptions read it keeps a shadow: the same struct, its log filled with entries that home
 * lends it. Readers of a log are
 *   cursors  one for each local subscription that matches,
 *   lends    (at home) one for each other worker with such subscriptions.
 * A holding reader keeps the messages that it has not passed. Others are jumped over when the log
 * is full, and see the gap in the sequence numbers.
 *
 * Publishers get their window back entry by entry. It comes at once while the holding readers'
 * backlog is within AMB_TOPIC_DEPTH (a working set that stays in cache) or one entry. Else it comes
 * when it is so again.
 *
 * Threads: the shard's worker; `consumed` and `kick` cross to home. Memory: a topic is one
 * allocation; cursors belong to their subscriptions.
 */
#pragma once

#include "broker/base/mail.h"
#include "broker/shard/shard.h"
#include "broker/topic/log/log.h"
#include "broker/topic/log/slowest.h"
#include "broker/topic/state/delivery.h"
#include "broker/topic/state/ingest.h"
#include "broker/topic/state/topic.h"
#include "wire/base/apart.h"
#include "wire/base/list.h"
#include "wire/base/status.h"
#include "wire/codec/topic.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_TOPIC_DEPTH (UINT64_C(1) << 20) /* bytes that holding readers may be behind */
/* ... and entries: an eighth of a log, so that granted tiny batches still fit in it.
 */
#define AMB_TOPIC_DEPTH_ENTRIES (AMB_LOG_ENTRIES_MAX / 8)

/* How often topics are looked at in which something goes by age. */
#define AMB_TOPIC_TICK_NS INT64_C(100000000)

struct amb_config;
struct amb_keys;
struct amb_shard;
struct amb_topic;
struct amb_topic_rule;

struct amb_topic_counts {
    uint64_t msgs_in, bytes_in, msgs_rejected, msgs_dropped;
};

/* The fields that all stages ask stand here by themselves; the rest is one struct a file, in a
 * header of state/.
 */
struct amb_topic {
    uint32_t id;
    unsigned home;           /* index of its worker */
    struct amb_shard *shard; /* the owner of this struct */
    const struct amb_topic_rule *rule;
    enum amb_priority priority; /* of all its messages: priority.h */
    bool has_ttl;               /* entries with an end have come: pick.h */
    uint32_t naming;            /* frames on a link, and takes, that read its name here */
    uint32_t cursor_count;
    struct amb_list_node cursors; /* struct amb_cursor.of_topic */
    struct amb_log log;
    uint64_t ungranted; /* at home: position of the first entry not granted yet */
    struct amb_slowest slowest, slowest_holding; /* of cursors, lends and replays */
    struct amb_topic_walks walks;
    struct amb_topic_lending lending;
    struct amb_topic_history history;
    struct amb_keys *keys; /* keys.h; NULL: the newest message of each key is not known */
    struct amb_topic_kin kin;
    struct amb_topic_tally tally;
    struct amb_topic_purge purge;
    struct amb_topic_audience audience;
    struct amb_topic_counts counts;
    struct amb_topic_spill spill;
    struct amb_topic_privates privates;
    struct amb_topic_shadow shadow;  /* home reads here: its neighbours change seldom */
    const struct amb_config *config; /* a reference; the rule is its */
    uint32_t counters_slot;          /* of its numbers: broker/observe; 0: none */
    uint32_t tenant;                 /* the owner, also of dead letters: base/tenant.h */
    uint32_t name_len;
    char name[AMB_TOPIC_MAX + 1];
};

/* The nearest fields that the shadow's worker writes for each message. */
_Static_assert(offsetof(struct amb_topic, shadow) >=
                   offsetof(struct amb_topic, counts) + sizeof(struct amb_topic_counts) + AMB_APART,
               "home does not take them away");

/* A topic of this shard, at home or shadow, of priority NORMAL. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_topic_create(struct amb_shard *shard,
                                                const struct amb_config *config, uint32_t id,
                                                unsigned home, const char *name, size_t name_len,
                                                struct amb_topic **out);
/* Before it is used. */
void amb_topic_set_priority(struct amb_topic *topic, enum amb_priority priority);
/* Without cursors: drops what the log holds, on its worker. */
void amb_topic_clear(struct amb_topic *topic);
/* Clears it, and frees it. */
void amb_topic_destroy(struct amb_topic **topic);
/* The topic with that id as this shard knows it, or NULL. */
static inline struct amb_topic *amb_shard_topic(const struct amb_shard *shard, uint32_t id)
{
    struct amb_topic *topic = amb_shard_topic_at(shard, id);
    return topic != NULL && topic->id == id ? topic : NULL;
}
static inline bool amb_topic_is_home(const struct amb_topic *topic)
{
    return topic->home == topic->shard->index;
}

/* The next one whose window is not given back, however deep the log is: it is emptied next. False:
 * there is none. */
bool amb_topic_any_grant(struct amb_topic *topic, struct amb_entry **out);
/* May the next entry's window be given back? True at most once an entry: *out is it. */
bool amb_topic_next_grant(struct amb_topic *topic, struct amb_entry **out);
/* Position of the slowest holding reader, hi if there is none. */
uint64_t amb_topic_holding_from(struct amb_topic *topic);
/* The same of all readers. */
uint64_t amb_topic_read_from(struct amb_topic *topic);
/*
 * The slowest reader is remembered (slowest.h), so changes that a position does not show have to be
 * said. A reader begins, or holds from here on. amb_cursor_attach, amb_topic_count_lent and
 * replay.h say it of theirs. A function that changes what makes a reader hold (is_dropping,
 * is_replaying, holds, is_near) says it itself.
 */
void amb_topic_reader_came(struct amb_topic *topic, uint64_t position);
/* The reader that has its position there ends, or does not hold any more. */
void amb_topic_reader_went(struct amb_topic *topic, const uint64_t *position);
/* It holds, or does not, whatever it did before. */
void amb_topic_reader_changed(struct amb_topic *topic, const uint64_t *position);
/* Asserts that the log is in order, and that the remembered reader is the slowest. For tests. */
void amb_topic_assert(const struct amb_topic *topic);
/* Bytes that holding readers may be behind, here and at each borrower: AMB_TOPIC_DEPTH, or all that
 * the log may hold. */
uint64_t amb_topic_depth(const struct amb_topic *topic);
/* More readers at a borrower, or fewer; how many of them hold, and spill. The topic is marked if
 * it has something that they have not been lent. */
void amb_topic_count_lent(struct amb_topic *topic, struct amb_lend *lend, int32_t subs,
                          int32_t holding, int32_t spilling);
/* The topic is walked this turn, all of it. */
void amb_topic_mark(struct amb_topic *topic);
/* ... and the private shadows of this worker. */
void amb_topic_mark_all(struct amb_topic *topic);
