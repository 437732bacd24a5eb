/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace: the stages of the next N batches to some topics, noted by the workers that carry them.
 *
 *   control ── armed ──► workers: a part each ── records ──► observer, when it is disarmed
 *
 * A batch of a traced topic gets a ticket with its head. From its routing on its tally (tally.h)
 * has the ticket, whether its publisher waits for the delivery or not. So stages behind that are
 * noted where a tally is looked at anyway. Without a trace a batch costs one comparison of
 * `shard->trace.count`, and a look at its tally where it is given. Where readers stand is looked at
 * once a turn, while a traced batch lies in a log of the shard (broker/delivery/traced.h).
 *
 * All memory is allocated by the control thread before a trace is armed. It lies beside the
 * counters file and not in it. It is needed for seconds, may be of one tenant, and that file is
 * read as a whole. A record that finds no room is counted.
 *
 * Threads: a part has one writer, its worker. Records up to `count` may be read by any thread, and
 * `taken`, `over` and the bits of topics are atomics. A part's tables are the worker's alone.
 * Memory: one allocation a trace, one a part.
 */
#pragma once

#include "broker/base/tenant.h"
#include "broker/shard/state/observe.h"
#include "broker/shard/state/topic.h"
#include "wire/codec/topic.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_TRACE_BATCHES_MAX 100u
#define AMB_TRACE_RECORDS_MAX 4096u /* of one worker */
/* Standings that one worker follows, of a batch and a reader each; a power of two. */
#define AMB_TRACE_STANDINGS_MAX 4096u
#define AMB_TRACE_WATCHES_MAX (4u * AMB_TRACE_BATCHES_MAX) /* batches in logs of one worker */

struct amb_entry;
struct amb_shard;
struct amb_tally;
struct amb_topic;

enum amb_trace_stage {
    AMB_TRACE_HEAD = 1, /* its head has come, and it has a place */
    AMB_TRACE_BODY,     /* its body is whole, and good */
    AMB_TRACE_ROUTED,   /* on its way to the topic's worker */
    AMB_TRACE_REFUSED,  /* by `status` */
    AMB_TRACE_APPENDED, /* in the topic's log; `readers` read it */
    AMB_TRACE_LENT,     /* in the log of another worker, for its readers */
    AMB_TRACE_HELD,     /* a reader cannot have it yet */
    AMB_TRACE_WRITTEN,  /* handed to a reader's link */
    AMB_TRACE_GIVEN,    /* by a queue to a member */
    AMB_TRACE_BACK,     /* a reader has given it back */
    AMB_TRACE_ACKED,    /* a member has acknowledged `msgs` of it */
    AMB_TRACE_LEFT_OUT, /* its reader does not want it */
    AMB_TRACE_DROPPED,  /* its reader has lost it */
    AMB_TRACE_OVER,     /* nobody has it any more; `msgs` were delivered, to all readers together */
    AMB_TRACE_STAGES,
};

/* Of HELD, LEFT_OUT and DROPPED. */
enum amb_trace_why {
    AMB_TRACE_WHY_NONE,
    AMB_TRACE_WHY_TURN,     /* it has its turn soon */
    AMB_TRACE_WHY_CREDIT,   /* it has as much as its credit allows */
    AMB_TRACE_WHY_LINK,     /* its link has no room: the client does not read */
    AMB_TRACE_WHY_LAZY,     /* its client pins as much as it may */
    AMB_TRACE_WHY_FILTER,   /* HELD: it waits for steps; LEFT_OUT: it does not pass */
    AMB_TRACE_WHY_PACE,     /* its own rate */
    AMB_TRACE_WHY_PRIORITY, /* something of a higher priority goes first */
    AMB_TRACE_WHY_HISTORY,  /* it has the newest messages of keys first */
    AMB_TRACE_WHY_STAGING,  /* the payload is being copied out of GPU memory */
    AMB_TRACE_WHY_MAPPING,  /* its client is mapping the segment */
    AMB_TRACE_WHY_MEMBERS,  /* a queue: no member has credit */
    AMB_TRACE_WHY_SLOW,     /* it was behind, and its policy loses then */
    AMB_TRACE_WHY_LATEST,   /* its policy is the newest message, and there is a newer one */
    AMB_TRACE_WHY_TRIMMED,  /* it held publishers for as long as it may */
    AMB_TRACE_WHY_EXPIRED,  /* its time was over */
    AMB_TRACE_WHY_PURGED,   /* by an operator */
    AMB_TRACE_WHY_ENDED,    /* its client, or the subscription, has gone */
    AMB_TRACE_WHY_FAILED,   /* the device's copy has */
    AMB_TRACE_WHY_GIVEN_UP, /* by a queue: too often in vain, or by its member's word */
    AMB_TRACE_WHYS,
};

enum amb_trace_how {
    AMB_TRACE_HOW_NONE,
    AMB_TRACE_MAPPED, /* in place */
    AMB_TRACE_COPIED,
    AMB_TRACE_STAGED, /* out of GPU memory, by way of host memory */
    AMB_TRACE_LAZY,   /* its records alone; the client asks for payloads */
    AMB_TRACE_HOWS,
};

struct amb_trace_record {
    int64_t at_ns;   /* by shard->now_ns: all that a turn does has one time */
    uint64_t reader; /* id of a subscription, or of a queue; 0: none */
    uint64_t client; /* its number; 0: none */
    uint64_t seq;    /* of the first message, where that is known; 0 */
    uint64_t bytes;
    uint32_t topic; /* id */
    uint32_t msgs, readers;
    uint16_t batch; /* 1, 2, ... */
    uint8_t stage, why, how;
    uint8_t path_why; /* of COPIED and STAGED: enum amb_path_why */
    uint8_t is_queue; /* the reader */
    int8_t worker;
    int32_t status; /* of REFUSED */
};

/* A batch in a log of this worker that readers are still to pass. */
struct amb_trace_watch {
    struct amb_topic *topic; /* NULL: free */
    uint64_t position;
    uint32_t ticket;
};

/* How a reader stands to a batch. */
struct amb_trace_standing {
    uint64_t reader, client;
    uint32_t ticket; /* 0: free */
    uint8_t stage, why;
    bool is_queue, is_given, is_over;
};

/* The part of one worker. */
struct amb_trace_part {
    _Atomic uint32_t count; /* of records */
    _Atomic uint32_t lost;  /* things that had no room */
    uint32_t watch_end;     /* none beyond */
    struct amb_trace_watch watches[AMB_TRACE_WATCHES_MAX];
    struct amb_trace_standing standings[AMB_TRACE_STANDINGS_MAX];
    struct amb_trace_record records[AMB_TRACE_RECORDS_MAX];
};

struct amb_trace {
    uint32_t first;               /* ticket of the first batch */
    uint32_t batches;             /* so many */
    uint32_t tenant;              /* its topics alone; AMB_TENANT_ANY: all */
    _Atomic uint32_t taken, over; /* batches that have come, and that are over */
    unsigned part_count;
    struct amb_trace_part *parts[AMB_SHARDS_MAX];
    _Atomic uint64_t *topics; /* by cell, a bit each: those that match */
    uint32_t pattern_len;
    char pattern[AMB_TOPIC_MAX + 1];
};

/* ---- the control thread ---- */

/* Of `workers` parts. The pattern is good. NULL: no memory. */
struct amb_trace *amb_trace_create(const char *pattern, uint32_t tenant, uint32_t first,
                                   uint32_t batches, unsigned workers);
/* No worker has it any more. NULL is allowed. */
void amb_trace_destroy(struct amb_trace **trace);
/* A topic of that id has come, or is there: it is of the trace, or not. */
void amb_trace_topic(struct amb_trace *trace, uint32_t id, uint32_t tenant, const char *name,
                     uint32_t name_len);

/* ---- a worker ---- */

/* False: so many are armed already. */
bool amb_trace_arm(struct amb_shard *shard, struct amb_trace *trace);
void amb_trace_disarm(struct amb_shard *shard, const struct amb_trace *trace);

/* A head has come: the entry's ticket, where its topic is traced. True: it has one. */
bool amb_trace_head(struct amb_shard *shard, struct amb_entry *entry);
/* The whole ticket of an entry that waits to be routed; 0: none, or its trace has ended. */
uint32_t amb_trace_ticket(const struct amb_shard *shard, const struct amb_entry *entry);
/* Its body is whole: noted once. */
void amb_trace_body(struct amb_shard *shard, const struct amb_entry *entry);
/* It is routed, and has a tally for that; or it is refused. */
void amb_trace_routed(struct amb_shard *shard, struct amb_entry *entry, uint32_t ticket);
/* There was no tally for it: what becomes of it is not known. */
void amb_trace_missed(struct amb_shard *shard, uint32_t ticket);
/* It was refused after that. */
void amb_trace_refused(struct amb_shard *shard, const struct amb_entry *entry, uint32_t ticket);
/* It is the newest of that log: its readers are watched. */
void amb_trace_appended(struct amb_topic *topic, struct amb_shard *shard,
                        const struct amb_entry *entry, uint64_t position, bool is_home);
/* All readers have passed it, or it was dropped. */
void amb_trace_unwatch(struct amb_shard *shard, const struct amb_topic *topic, uint32_t ticket);
/* Nobody has it any more. */
void amb_trace_over(struct amb_shard *shard, const struct amb_tally *tally);

/* A record; `at_ns`, `batch` and `worker` are filled in. Harmless where the trace has ended. */
void amb_trace_note(struct amb_shard *shard, uint32_t ticket, struct amb_trace_record record);
/* The standing of that ticket and reader, made where there is none. NULL: the trace has ended, or
 * there is no room. */
struct amb_trace_standing *amb_trace_standing(struct amb_shard *shard, uint32_t ticket,
                                              uint64_t reader, uint64_t client, bool is_queue);
/* A reader's stand, where that is a new one. */
void amb_trace_stand(struct amb_shard *shard, struct amb_trace_standing *standing, uint32_t topic,
                     enum amb_trace_stage stage, enum amb_trace_why why);
/* The part of an armed trace that has the ticket; NULL: none has. */
struct amb_trace_part *amb_trace_part_of(const struct amb_shard *shard, uint32_t ticket);

/* ---- words ---- */

const char *amb_trace_stage_name(enum amb_trace_stage stage);
/* "": NONE */
const char *amb_trace_why_name(enum amb_trace_why why);
const char *amb_trace_how_name(enum amb_trace_how how);
