/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A take: a slice of an entry on its way from a queue (queue.h) to one member and back. At each
 * moment one worker owns it:
 *
 *   queue's worker ──given──► member's worker ──settled, or what is left of it──► queue's worker
 *
 * so nothing is shared and nothing races: the holder decides. Its bits say which messages are not
 * settled yet. A part that the member gives back early (NAK, TERM) is cut off and goes home ahead.
 *
 * A seat is a member as both sides know it. The queue writes the counts given; the member's
 * worker writes the counts that came back.
 *
 * Threads: the worker that has it; `back_*` and the mails of a seat cross. Memory: takes are kept
 * for use again by whichever worker puts them away; none is made in steady state.
 */
#pragma once

#include "broker/base/mail.h"
#include "broker/delivery/reader/nearness.h"
#include "wire/base/apart.h"
#include "wire/base/clock.h"
#include "wire/base/idmap.h"
#include "wire/base/list.h"
#include "wire/codec/frame.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_TAKE_WORDS (AMB_BATCH_MSGS_MAX / 64u)
#define AMB_TAKES_CACHED_MAX 4096u /* kept for use again, by each worker */
/* Between two tries of a queue or a member that lacks memory. A try in each turn would keep a core
 * busy. */
#define AMB_TAKE_PAUSE_NS (5 * AMB_NS_PER_MS)

struct amb_tally;
struct amb_entry;
struct amb_queue;
struct amb_shard;
struct amb_topic;

/* Why a take comes home. */
enum amb_take_end {
    AMB_TAKE_SETTLED, /* all of it */
    AMB_TAKE_UNSENT,  /* the member never saw it */
    AMB_TAKE_LEFT,    /* the member is gone */
    AMB_TAKE_EXPIRED, /* ack_wait has passed */
    AMB_TAKE_NAK,
    AMB_TAKE_TERM,
};

/* The queue and the entry, by value: a late ACK finds a take by them. */
struct amb_take_key {
    uint64_t queue;
    uint64_t seq; /* of the entry's first message */
    uint32_t topic;
};

/* The member that gets it, by value: it may be gone when the take arrives. */
struct amb_take_to {
    uint32_t session, generation, handle;
    uint64_t sub;
};

struct amb_take {
    struct amb_mail mail;
    struct amb_list_node node;   /* in one list of its owner */
    struct amb_idmap_node known; /* at the member, also of a former one: by delivery number */
    struct amb_shard *home;      /* the queue's worker */
    struct amb_queue *queue;     /* home's, as the next two are */
    struct amb_entry *entry;     /* home's reference */
    struct amb_topic *topic;     /* counted in its `naming`: its name is read by all */
    struct amb_tally *tally;     /* ... and this one; or NULL */
    struct amb_entry *lent;      /* the member's worker's reference: a shadow, or the same */
    const struct amb_take *of;   /* cut from it; home gives it an entry */
    amb_mail_fn come_home;
    struct amb_take_to to;
    struct amb_take_key key;
    uint32_t first, count; /* messages of the entry */
    uint32_t left;         /* of them, not settled */
    uint32_t acked;        /* of them, for its tally */
    uint32_t attempt;      /* deliveries before this one: amb_take_again */
    bool is_noted;         /* its next delivery is: it comes again, or has a tally */
    uint64_t bytes;        /* of those left, as credit counts them */
    uint64_t lost;         /* by the queue, just before it */
    enum amb_loss loss;
    uint64_t number; /* of its delivery */
    int64_t due_ns;  /* at the member: ack_wait ends; at home: not before */
    enum amb_take_end end;
    uint32_t late_of;              /* of a late ACK: the takes that have it as `late` */
    int64_t delay_ns;              /* NAK: asked for; 0: the queue's choice */
    char *reason;                  /* TERM: why, or NULL */
    uint64_t bits[AMB_TAKE_WORDS]; /* of the entry's messages: not settled */

    /* Home's, of one that comes again (queue_again.h). */
    struct amb_idmap_node again; /* of the queue: the first of its entry */
    struct amb_list_node kin;    /* a ring: those of the same entry. Of a former one, at the member:
                                  * struct amb_formers.released */
    struct amb_take *late;       /* its bits: settled by late ACKs while a member has it; or NULL.
                                  * Takes of one entry may share it */
    uint32_t later_at;           /* its place among those that wait for their time */
    bool is_in_ring, is_first;   /* of its entry; and so in the queue's table */
    bool is_kept;                /* the queue has it: queue_kept.h */
};

struct amb_seat {
    struct amb_list_node node; /* in the queue's list */
    struct amb_mail leave;     /* the last thing its worker says of it: home frees it */
    amb_mail_fn on_leave, on_kick;
    struct amb_shard *home;  /* the queue's worker */
    struct amb_shard *shard; /* the member's */
    struct amb_queue *queue; /* home's; NULL: not joined, or not any more */
    struct amb_take_to to;
    enum amb_nearness nearness; /* the member's, from its beginning to its end */
    uint64_t credit_msgs, credit_bytes;
    uint64_t given_msgs, given_bytes; /* ever; home's */

    /* Written by the member's worker, for each message that is acknowledged. */
    char apart_before[AMB_APART];
    _Atomic uint64_t back_msgs, back_bytes;
    struct amb_mail kick; /* they have moved */
    _Atomic uint32_t is_kicked;
    /* Set by the member's worker: its takes are as many as its client's heap allows. It gets no
     * more before something has come back. */
    _Atomic bool is_full;
    /* ... by index of the pool, a bit each: the last payload there it could not read in place. They
     * count until gpus_again_ns. A member of a lower rank may be given nothing by which it could
     * show that it reads in place again. */
    _Atomic uint64_t gpus_missed;
    _Atomic int64_t gpus_again_ns;
    char apart_behind[AMB_APART];
};

/* Zeroed; NULL without memory. */
struct amb_take *amb_take_get(struct amb_shard *shard);
/* NULL is allowed. Its references are given back before. */
void amb_take_put(struct amb_shard *shard, struct amb_take *take);
/* Frees what is kept for use again. */
void amb_takes_fini(struct amb_shard *shard);

/* It had so many deliveries before. */
static inline void amb_take_again(struct amb_take *take, uint32_t attempt)
{
    take->attempt = attempt;
    take->is_noted = attempt > 0 || take->tally != NULL;
}

/* All messages of the slice are unsettled. */
void amb_take_fill(struct amb_take *take, uint32_t first, uint32_t count);
/* Clears the bits of first .. first+count-1 (of the entry), those within the slice. Returns how
 * many were set; cut (may be NULL) gets them: as a slice of the same entry. */
uint32_t amb_take_clear(struct amb_take *take, uint32_t first, uint32_t count,
                        struct amb_take *cut);
/* Clears those that are set in other, of the same entry. Returns how many were set in both. */
uint32_t amb_take_clear_of(struct amb_take *take, const struct amb_take *other);
/* The first run of set bits at or behind *first; false: there is none. */
bool amb_take_run(const struct amb_take *take, uint32_t *first, uint32_t *count);

/* Mail, or at once where both are the same worker. */
void amb_take_post(struct amb_shard *from, struct amb_shard *to, struct amb_mail *mail,
                   amb_mail_fn fn);
/* The member's worker is done with it, or with what is left. */
void amb_take_go_home(struct amb_shard *from, struct amb_take *take, enum amb_take_end end);
