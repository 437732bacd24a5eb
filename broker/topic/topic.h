/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage 4 of 6 (route ─► topic ─► forward): a topic's log and who reads it.
 *
 * The worker that is home to a topic gives the sequence numbers. Another worker whose
 * subscriptions read it keeps a shadow: the same struct, its log filled with entries that home
 * lends it. Readers of a log are
 *   cursors  one for each local subscription that matches,
 *   lends    (at home) one for each other worker with such subscriptions.
 * A holding reader keeps what it has not passed; others are jumped over when the log is full, and
 * see the gap in the sequence numbers.
 *
 * Publishers get their window back entry by entry: at once while the holding readers' backlog is
 * within AMB_TOPIC_DEPTH (a working set that stays in cache) or one entry, else when it is again.
 *
 * Threads: the shard's worker; `consumed` and `kick` cross to home. Memory: a topic is one
 * allocation; cursors belong to their subscriptions.
 */
#pragma once

#include "broker/base/mail.h"
#include "broker/shard/shard.h"
#include "broker/topic/log/log.h"
#include "broker/topic/log/slowest.h"
#include "wire/base/list.h"
#include "wire/base/status.h"
#include "wire/codec/topic.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_TOPIC_DEPTH (UINT64_C(1) << 20) /* bytes that holding readers may be behind */
/* ... and entries: an eighth of a log, so that what was granted to tiny batches still fits in it.
 */
#define AMB_TOPIC_DEPTH_ENTRIES (AMB_LOG_ENTRIES_MAX / 8)

/* How often topics are looked at in which something goes by age. */
#define AMB_TOPIC_TICK_NS INT64_C(100000000)

struct amb_config;
struct amb_entry;
struct amb_filter;
struct amb_keys;
struct amb_prelude;
struct amb_queue;
struct amb_shard;
struct amb_sifter;
struct amb_subscription;
struct amb_topic;
struct amb_topic_rule;

/* What a subscription wants of one topic. */
struct amb_begin {
    enum amb_start start; /* not POSITION: that is a SEQ of each topic */
    uint64_t at;          /* LAST_N: messages; SEQ: of the first; TIME: ns since 1970 */
    bool is_unknown;      /* what it has lost before that nobody can know */
    bool is_own;          /* SEQ: a number within this priority's log, not the topic's */
};

/* And where that is. */
struct amb_begun {
    uint64_t position; /* of the first entry that it reads */
    uint64_t seq;      /* it reads messages from this one on; what is missing then is lost */
    bool is_late;      /* something is: it was gone when the subscription came */
    bool is_unknown;
    struct amb_prelude *prelude; /* it reads this first; NULL: nothing. Whose it is: the cursor's,
                                    or, if none takes it, to be freed */
};

/* Where a cursor with a filter has looked last: pick.h. */
struct amb_cursor_blob {
    uint64_t of_seq;    /* first_seq of the entry */
    uint32_t index, at; /* of a message, and where its blob is */
    uint64_t run_seq;   /* from here on */
    uint32_t run_end;   /* ... up to this index messages pass */
};

/* A subscription's place in one topic. */
struct amb_cursor {
    struct amb_list_node of_topic, of_sub;
    struct amb_list_node due;     /* in one of its topic's lists; empty: parked */
    struct amb_list_node stalled; /* in its session's list: waits for credit or room */
    struct amb_list_node blocked; /* in the shard's list: holding, behind, with a time limit */
    struct amb_list_node kin;     /* a ring: its owner's in the topic's other priorities */
    struct amb_topic *topic;
    struct amb_subscription *sub; /* NULL: a queue's */
    struct amb_queue *queue;      /* NULL: a subscription's */
    uint64_t position;            /* of the next entry to deliver */
    uint32_t within;              /* index of its first message that is still to be delivered */
    uint32_t looked;        /* the last look of its subscription that has come to it: slow.h */
    uint64_t expected_seq;  /* of the next message, or those up to it are lost */
    uint64_t expired;       /* of those that are lost: whose time was over */
    enum amb_slow slow;     /* its policy */
    bool holds;             /* ... is block */
    bool spills;            /* ... is spill: amb_cursor_spill */
    bool is_picky;          /* ... may leave messages out: pick.h */
    bool is_dropping;       /* its time limit has passed: does not hold until it has caught up */
    bool is_late;           /* what is missing before its first message was gone when it came */
    bool is_unknown;        /* ... cannot be known */
    bool is_replaying;      /* reads history: does not hold until it is near the end */
    bool is_behind;         /* in that walk: has more to read, is new, or was just woken */
    bool is_named;          /* its client knows the topic's name */
    uint64_t counts_from;   /* what it gets from this sequence on is tallied: tally.h */
    int64_t block_limit_ns; /* how long it may; INT64_MAX: for ever */
    int64_t behind_since_ns;
    const struct amb_filter *filter; /* what it wants; NULL: everything */
    struct amb_sifter *sifter;       /* whose steps that takes: its session's, its queue's */
    struct amb_cursor_blob blob;
    struct amb_prelude *prelude; /* is read before the log; NULL: no more of it */
    uint64_t prelude_end;        /* ... all before this number, of which nothing is lost */
};

/* Another worker's place in a log of ours. */
struct amb_lend {
    uint32_t subs, holding; /* subscriptions there, and how many of them hold, */
    uint32_t spilling;      /* ... and spill: all goes there at once, and what they are behind is
                               kept there */
    uint64_t position;
    uint64_t lent;            /* bytes, ever */
    uint64_t counts_from;     /* as of a cursor */
    struct amb_topic *shadow; /* there; its `consumed` is ours to read */
};

/* A place of its own for a subscription there that began in history: replay.h. */
struct amb_replay {
    struct amb_list_node node; /* in the topic's list */
    struct amb_lend lend;
    unsigned borrower;
    uint64_t sub; /* whose it is */
    bool is_near; /* has come near the end */
    struct amb_mail mail;
    struct amb_shard *home;
};

static inline bool amb_replay_is_holding(const struct amb_replay *replay)
{
    return replay->lend.holding > 0 && replay->is_near;
}

/* What is done about readers that spill (spill.h). */
struct amb_spill {
    uint64_t from;             /* position: the tail's at the last walk */
    uint64_t next;             /* ... what could be moved before it, from there on, has been */
    uint64_t moved;            /* ... behind the newest that was */
    uint32_t tries;            /* that memory was asked for, in vain */
    int64_t retry_ns;          /* ... when it may be once more */
    struct amb_list_node node; /* of the shard: something is due */
    /* counters */
    uint64_t msgs, bytes; /* moved */
    uint64_t failed;      /* messages that could not be, and stay where they lie, */
    uint64_t failed_upto; /* ... those before this position */
    uint64_t lost;        /* messages that were too much */
};

/* What of a log readers that spill alone want: positions from .. upto-1. */
struct amb_topic_tail {
    uint64_t from, upto;
};

/* Readers of a topic that a walk comes to, one after the other. Those that keep up do not wait for
 * those that are behind: a client with a thousand wildcards may be behind with all of them at
 * once. */
#define AMB_WALK_ALL 0u
#define AMB_WALK_NONE UINT32_MAX

struct amb_walk {
    struct amb_list_node due; /* struct amb_cursor.due */
    uint32_t count;
    /* The next walk comes to the first so many; AMB_WALK_ALL or AMB_WALK_NONE. It is NONE during a
     * walk, so that a mark that comes meanwhile, which makes it ALL, is seen. */
    uint32_t unwalked;
};

struct amb_topic {
    uint32_t id;
    unsigned home; /* index of its worker */
    uint32_t name_len;
    char name[AMB_TOPIC_MAX + 1];
    const struct amb_topic_rule *rule;
    enum amb_priority priority; /* of all its messages: priority.h */
    bool counts_kin;            /* at home: others of its name count its messages */
    struct amb_topic *main;     /* the one of NORMAL here; NULL: is that, or a private shadow */
    struct amb_list_node kin;   /* a ring of those that have its name */
    struct amb_log log;
    struct amb_list_node cursors;
    uint32_t cursor_count;
    /* Of them, those that walks come to. The others are parked: they wait for credit, or for room
     * in a link (cursor_may_park in forward.c says which may). Their session wakes them; so does a
     * first message with a time limit, or another priority of their topic, for then more than that
     * can move them. The log may be trimmed past them. */
    struct amb_walk keeping_up, behind;
    struct amb_slowest slowest, slowest_holding; /* of cursors, lends and replays */
    uint64_t settled_turn;                       /* the last one in which forward_settle ran */
    bool has_ttl;                                /* entries with an end have come: pick.h */
    bool retains;                                /* at home: keeps history (history.h) */
    bool has_keys;                               /* ... or anywhere: knows the newest of each key */
    struct amb_keys *keys;                       /* keys.h; NULL: it does not */
    uint64_t settled;              /* ... position up to which none of it is in slots */
    struct amb_list_node timed;    /* in its shard's list: something in it goes by age */
    struct amb_list_node replays;  /* at home: struct amb_replay.node (replay.h) */
    struct amb_list_node privates; /* struct amb_topic.of_namesake: private shadows beside it */
    struct amb_list_node of_namesake;
    struct amb_topic *namesake; /* of a private shadow: the shard's own; else NULL */
    uint32_t matched;           /* at home: subscriptions that match, everywhere */
    bool is_quiet;              /* at home: not all of those have a cursor: directory.h, */
    struct amb_list_node held;  /* ... so these wait: struct amb_entry.pending */
    struct amb_mail heard;      /* to the control thread, with the first of them */
    uint32_t tallies;           /* entries in the log that have one: tally.h */
    uint64_t tallied;           /* ... none of them before this position */
    uint64_t ungranted;         /* at home: position of the first entry not granted yet */
    struct amb_lend *lends;     /* at home: one for each worker */
    unsigned lend_count;
    struct amb_list_node dirty;
    struct amb_list_node *dirty_topics; /* the shard's list for it */
    uint32_t naming;                    /* frames on a link, and takes, that read its name here */
    uint32_t spillers;                  /* cursors that spill, here or where it is lent to */
    struct amb_spill spill;
    /* shadow to home */
    struct amb_shard *shard;   /* whose this struct is */
    uint64_t lent;             /* bytes that came from home, ever */
    _Atomic uint64_t consumed; /* bytes lent that hold nobody back any more */
    struct amb_mail kick;
    _Atomic uint32_t is_kicked; /* 1: the mail is under way */
    /* counters */
    uint64_t msgs_in, bytes_in, msgs_rejected, msgs_dropped;
};

/* A topic of this shard, at home or shadow, of priority NORMAL. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_topic_create(struct amb_shard *shard, uint32_t id, unsigned home,
                                                const char *name, size_t name_len,
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

/* May the next entry's window be given back? True at most once an entry: *out is it. */
bool amb_topic_next_grant(struct amb_topic *topic, struct amb_entry **out);
/* Position of the slowest holding reader, hi if there is none. */
uint64_t amb_topic_held_from(struct amb_topic *topic);
/* The same of all readers. */
uint64_t amb_topic_read_from(struct amb_topic *topic);
/*
 * Who is the slowest is remembered (slowest.h), so whatever a position does not show has to be
 * said. A reader begins, or holds from here on. amb_cursor_attach, amb_topic_count_lent and
 * replay.h say it of theirs; who changes what makes a reader hold (is_dropping, is_replaying,
 * holds, is_near) says it himself.
 */
void amb_topic_reader_came(struct amb_topic *topic, uint64_t position);
/* The reader that has its position there ends, or does not hold any more. */
void amb_topic_reader_went(struct amb_topic *topic, const uint64_t *position);
/* It holds, or does not, whatever it did before. */
void amb_topic_reader_changed(struct amb_topic *topic, const uint64_t *position);
/* Asserts that the log is in order, and that whoever is remembered is the slowest. For tests. */
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

static inline bool amb_cursor_has_next(const struct amb_cursor *cursor)
{
    return cursor->prelude != NULL || cursor->position < cursor->topic->log.hi;
}

static inline bool amb_cursor_is_holding(const struct amb_cursor *cursor)
{
    return cursor->holds && !cursor->is_dropping && !cursor->is_replaying;
}
