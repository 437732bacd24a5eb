/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator's world: the broker's shards and directory, run by hand under a clock of its own,
 * and clients on sim links. The model (model.h) has its knowledge of them here. See README.md.
 *
 *   script ──► clients ══ sim links ══► shards (the broker's code) ◄── orders ── desk ── directory
 *                 └──────────────► model: what may come, and what must not ◄──────┘
 *
 * Threads: one. Memory: one world a process; large things are kept from seed to seed.
 */
#pragma once

#include "broker/base/mail.h"
#include "broker/base/party.h"
#include "broker/control/directory/directory.h"
#include "broker/control/directory/identity.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/memory/bufpool.h"
#include "broker/memory/maker.h"
#include "broker/shard/shard.h"
#include "broker/topic/begin.h"
#include "tests/sim/model.h"
#include "wire/codec/frame.h"
#include "wire/link/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_SHARDS_MAX 3u
#define SIM_CLIENTS 8u
#define SIM_HANDLES 4u
#define SIM_SESSIONS 64u
#define SIM_ASKS 32u      /* requests and answers that may wait, of one client */
#define SIM_HELD 1024u    /* deliveries that a subscription may hold */
#define SIM_SAID 4096u    /* acknowledgements on their way, of one client */
#define SIM_BATCHES 4096u /* of one publisher, without an answer */
#define SIM_OFFERS 64u
#define SIM_FETCHES 32u /* without an answer, of one client */
#define SIM_BATCH_MSGS 12u
#define SIM_PROPS 24u /* bytes of properties that have a stamp, padded */
#define SIM_SLOTS 40u /* of a lease */
#define SIM_SLOT UINT64_C(4096)
#define SIM_PEER_TIMEOUT_NS INT64_C(100000000)

struct amb_config;
struct sim_profile;

/* At the start of every payload. */
struct sim_stamp {
    uint32_t pub, number; /* as the model knows them */
    uint64_t check;
};

enum sim_state {
    SIM_CLOSED,
    SIM_ASKED,
    SIM_OPEN,
    SIM_CLOSING,
};

struct sim_batch {
    uint32_t first, count; /* numbers of its messages */
    uint32_t settled;      /* how often it was */
};

struct sim_publisher {
    enum sim_state state;
    uint32_t pub;   /* the model's */
    uint32_t topic; /* its index of names */
    uint32_t name;  /* 0: none */
    enum amb_priority priority;
    uint32_t next; /* number of the message to send next */
    uint64_t batches, first_batch, accepted, settled;
    uint64_t bytes, window, want;
    struct sim_batch *log; /* by batch & (SIM_BATCHES - 1) */
    uint32_t plan_count, plan_len, plan_ttl_ms;
    bool plan_leased, plan_props;
    bool wants_settled, has_heard;
    bool was_open; /* when its session was lost */
};

/* A delivery that was not given back, or not settled. */
struct sim_held {
    uint64_t number, seq, above, bytes, open; /* open: bits of messages that are not acknowledged */
    uint32_t topic, count, attempt;
    int64_t low_ns; /* it was not sent before */
    const uint8_t *at;
    struct sim_stamp stamp;
    bool is_back;
    /* of a lazy one */
    uint64_t keeps; /* at most, of memory */
    uint32_t lens[SIM_BATCH_MSGS];
};

/* Bytes that were asked for; len 0: all of them, in place. */
struct sim_fetch {
    uint64_t seq, number, offset, len;
    uint32_t handle, serial, index;
};

struct sim_sub {
    enum sim_state state;
    uint32_t serial; /* counts subscriptions: owner of what it was given */
    char pattern[32];
    struct amb_subscription_options options;
    struct amb_begin begin;
    bool resumes;    /* from where its readings are */
    bool is_leaving; /* the broker may give to others what it has */
    uint64_t id;     /* the directory's */
    uint64_t given;  /* messages that came to it as a member */
    uint32_t wish;   /* for a queue, the model's; 0: it reads itself */
    uint32_t queue;  /* that it has become a member of */
    uint64_t last, released, first;
    uint64_t acks; /* ACK and TERM frames sent */
    uint32_t asked_step, ok_step;
    int64_t first_ns;      /* when it was asked for */
    struct sim_held *held; /* by number & (SIM_HELD - 1) */
    struct sim_reading readings[SIM_READINGS];
    unsigned reading_count;
};

/* An acknowledgement on its way: its words count when the broker has read it. */
struct sim_said {
    uint64_t ordinal; /* of its frame */
    uint64_t seq, open;
    uint32_t queue, serial, topic, attempt;
    int64_t delay_ns;
    enum amb_ack_kind kind;
};

/* A segment that the client writes. */
struct sim_lease {
    enum sim_state state;
    uint64_t segment;
    uint32_t slots;
    uint64_t taken[SIM_SLOTS]; /* number of the commit that has it; 0: it is free */
};

enum sim_ask_kind {
    SIM_ASK_PUB_OPEN,
    SIM_ASK_PUB_CLOSE,
    SIM_ASK_SUBSCRIBE,
    SIM_ASK_UNSUBSCRIBE,
    SIM_ASK_REFUSE,
    SIM_ASK_LEASE,
    SIM_ASK_LEASE_CLOSE,
    SIM_ASK_BYE,
    SIM_ASK_OFFER, /* answers alone: a segment */
    SIM_ASK_ENDED, /* ... the session is over */
};

struct sim_ask {
    enum sim_ask_kind kind;
    uint32_t handle, topic;
    uint64_t number; /* batches, acks, segment, slots, window */
    uint64_t last_seq;
    enum amb_status status;
};

struct sim_asks {
    struct sim_ask items[SIM_ASKS];
    uint32_t first, count;
};

struct sim_client {
    struct sim *sim;
    unsigned slot, shard;
    uint32_t life; /* its number: one that dies is another one when it comes again */
    bool is_alive; /* its process */
    bool is_up;    /* it has a session, as far as it knows */
    bool is_held;  /* its link stands still */
    bool said_bye; /* it holds nothing any more */
    bool may_map, maps;
    uint32_t session; /* of the desk's table */
    uint64_t id;      /* its name at the desk */
    uint32_t index, generation;
    struct amb_link *link;
    int64_t frozen_ns; /* does nothing before */
    int64_t turned_ns, low_ns;
    uint64_t frames; /* sent */
    struct sim_asks answers;
    uint64_t offers[SIM_OFFERS];
    unsigned offer_count;
    struct sim_lease lease;
    uint64_t commits, freed; /* of this session */
    struct sim_fetch fetches[SIM_FETCHES];
    uint32_t fetch_count;
    uint64_t fetch_seq;
    struct sim_publisher pubs[SIM_HANDLES];
    struct sim_sub subs[SIM_HANDLES];
    struct sim_said *said; /* a ring */
    uint32_t said_first, said_count;
    unsigned txs;
};

struct sim_stats {
    uint64_t steps, turns, sent, delivered, redelivered, lost, refused, dead, reconnects, deaths,
        commits, spilled, spill_lost, fetches, stale;
};

struct sim {
    uint64_t seed, random, hash;
    uint32_t step, steps;
    bool is_tracing;
    int64_t now_ns;
    const struct sim_profile *profile;
    struct amb_config *config;
    struct amb_membudget budget;
    unsigned shard_count;
    struct amb_shard shards[SIM_SHARDS_MAX];
    struct amb_shard *peers[SIM_SHARDS_MAX];
    struct amb_pool entries[SIM_SHARDS_MAX], txs[SIM_SHARDS_MAX]; /* kept from seed to seed */
    struct amb_inbox control;
    struct amb_maker maker; /* without a thread: it unmaps now and then */
    struct amb_directory directory;
    struct amb_identities identities;
    struct amb_parties parties;
    struct amb_party *party[SIM_CLIENTS]; /* of whoever has that slot; two users */
    unsigned topic_count;                 /* names in use */
    const char *names[SIM_NAMES];
    struct sim_client clients[SIM_CLIENTS];
    uint32_t serials, lives;
    bool is_ending; /* everybody catches up */
    bool may_lack_memory;
    bool has_priorities; /* some publishers have others than NORMAL */
    bool spills;         /* some readers' policy is SPILL */
    bool has_leases;     /* some clients lease */
    bool has_lazy;       /* some subscriptions are lazy, some messages have properties */
    bool has_near;       /* most topics prefer near members */
    bool is_slow;        /* workers have few turns, and read a frame of a link in each */
    bool has_maker;      /* it unmaps the segments that go, and does so later */
    bool is_tight;       /* a session may not hold much, or memory is short */
    struct model model;
    struct sim_stats stats;
};

/* trace.c ---------------------------------------------------------------------------------------
 */

/* Something that happened: its values are hashed, and printed when tracing. `text`: a word, then a
 * word for each value. */
void sim_event(struct sim *s, const char *text, const uint64_t *values, size_t count);
#define SIM_EVENT(s, text, ...)                                                                    \
    sim_event((s), (text), (const uint64_t[]){__VA_ARGS__},                                        \
              sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))
/* Prints what is wrong, the seed, and the command that shows it; ends the process. */
_Noreturn void sim_fail(const struct sim *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define SIM_CHECK(s, condition, ...)                                                               \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0)) {                                                   \
            sim_fail((s), __VA_ARGS__);                                                            \
        }                                                                                          \
    } while (0)
/* Aborts and signals tell the seed too. */
void sim_trace_init(const struct sim *s, const char *program);

/* world.c ---------------------------------------------------------------------------------------
 */

/* Once a process; sim_fini is for leak checkers. */
void sim_init(struct sim *s);
void sim_fini(struct sim *s);
/* One seed, from an empty world to an empty world. */
void sim_run(struct sim *s, uint64_t seed, uint32_t steps);
void sim_turn(struct sim *s, unsigned shard);
/* The number that the topic's next message gets; 0: it has left. */
uint64_t sim_topic_next(const struct sim *s, uint32_t id);
/* White-box invariants of every shard. */
void sim_inspect(struct sim *s);
uint64_t sim_random(struct sim *s);
static inline uint32_t sim_pick(struct sim *s, uint32_t n)
{
    return (uint32_t)((sim_random(s) >> 32) * n >> 32);
}
static inline bool sim_chance(struct sim *s, uint32_t percent)
{
    return sim_pick(s, 100) < percent;
}

/* segments.c: memory of segments, kept from seed to seed ------------------------------------------
 */

enum amb_status sim_segment_create(uint64_t id, uint64_t size, struct amb_segment **out);
/* NULL: it is gone. */
uint8_t *sim_segment_base(uint64_t id, uint64_t *size);
void sim_segments_fini(void);

/* desk.c: the control thread's part, without sockets ----------------------------------------------
 */

void sim_desk_begin(struct sim *s);
void sim_desk_end(struct sim *s);
/* A session for the client. False: there is none to be had now. */
bool sim_desk_open(struct sim *s, struct sim_client *client);
/* Ends the session that it had. False: its words there are not heard yet; the next one waits.
 */
bool sim_desk_end_former(struct sim *s, const struct sim_client *client);
/* The client's request arrives, in order. False: too many wait. */
bool sim_desk_ask(struct sim *s, struct sim_client *client, const struct sim_ask *ask);
/* One turn of the control thread: mail, and up to so many requests of each client. */
unsigned sim_desk_turn(struct sim *s, unsigned budget);
/* The process of that slot has ended. */
void sim_desk_died(struct sim *s, unsigned slot);
/* Is nothing under way? */
bool sim_desk_is_quiet(void);
/* Is there a session that is over, of a process that is not? */
bool sim_desk_has_quarantine(void);
void sim_desk_connect_upcalls(struct amb_shard *shard);

/* publish.c: a client's publishers ---------------------------------------------------------------
 */

static inline uint64_t sim_stamp_check(const struct sim_stamp *stamp)
{
    return ((uint64_t)stamp->pub << 32 | stamp->number) * UINT64_C(0x9e3779b97f4a7c15);
}
/* A batch of what is planned begins: `frame` gets its number. Then its messages, one by one. */
void sim_publish_begin(struct sim *s, struct sim_client *client, uint32_t handle,
                       struct amb_frame *frame);
struct sim_stamp sim_publish_next(struct sim *s, struct sim_publisher *publisher,
                                  struct amb_record *record);
void sim_publish_payload(const struct sim *s, uint8_t *to, const struct sim_publisher *publisher,
                         const struct sim_stamp *stamp);
/* Its properties, if it is to have some; returns how many bytes that are. */
uint32_t sim_publish_props(const struct sim_publisher *publisher, const struct sim_stamp *stamp,
                           uint8_t *to);
/* Sends what there is to send, as far as the window goes. */
void sim_client_publish(struct sim *s, struct sim_client *client, uint32_t handle, unsigned most);
/* It is answered; a counter of it has moved; a batch of it is settled. */
void sim_publish_opened(struct sim *s, struct sim_client *client, const struct sim_ask *answer);
void sim_publish_flow(struct sim_client *client, enum amb_flow_kind kind, uint32_t handle,
                      uint64_t value);
void sim_publish_settled(struct sim_client *client, const struct amb_frame *frame);
/* It is closed. */
void sim_publish_forget(struct sim *s, struct sim_publisher *publisher);

/* lease.c ----------------------------------------------------------------------------------------
 */

void sim_lease_ask(struct sim *s, struct sim_client *client);
void sim_lease_opened(struct sim *s, struct sim_client *client, const struct sim_ask *answer);
/* If its commits have come. */
void sim_lease_close(struct sim *s, struct sim_client *client);
bool sim_lease_has_room(const struct sim_client *client, uint32_t count, uint64_t padded);
/* The plan, as a commit; there is room. */
void sim_lease_commit(struct sim *s, struct sim_client *client, uint32_t handle);
/* Commits are over: all up to that one; these. */
void sim_lease_flow(struct sim_client *client, uint64_t value);
void sim_lease_freed(struct sim_client *client, const struct amb_frame *frame);
bool sim_lease_is_free(const struct sim_client *client);

/* fetch.c ----------------------------------------------------------------------------------------
 */

/* Every byte of a payload is told by its message and its place. */
void sim_payload_fill(uint8_t *to, uint64_t len, const struct sim_stamp *stamp);
bool sim_payload_is(const uint8_t *bytes, uint64_t offset, uint64_t len,
                    const struct sim_stamp *stamp);
/* Something of a delivery, if not too much is asked for already. */
void sim_fetch_ask(struct sim *s, struct sim_client *client, uint32_t handle, uint64_t number);
/* FETCHED, FETCHED_MAP. */
void sim_fetch_answered(struct sim_client *client, const struct amb_frame *frame,
                        const uint8_t *bytes);
void sim_fetch_mapped(struct sim_client *client, const struct amb_frame *frame);

/* A delivery's part of the credit in bytes. */
static inline uint64_t sim_delivery_bytes(const struct sim_sub *sub, const struct amb_frame *frame)
{
    bool is_light = frame->type == AMB_FRAME_LAZY && sub->options.lazy != AMB_LAZY_PIN;
    return frame->meta_len + (is_light ? 0 : frame->data_len);
}

/* watch.c ----------------------------------------------------------------------------------------
 */

void sim_watch_before(struct sim *s, const struct amb_shard *shard);
void sim_watch_after(struct sim *s, const struct amb_shard *shard);

/* watch_near.c -----------------------------------------------------------------------------------
 */

void sim_near_begin(void);
void sim_near_before(const struct amb_shard *shard);
void sim_near_after(const struct sim *s, const struct amb_shard *shard);
/* A message with that key (0: none) has come to a member of a queue. */
void sim_near_given(struct sim *s, struct sim_sub *sub, const struct sim_held *held, uint64_t seq,
                    uint32_t key);

/* client.c ----------------------------------------------------------------------------------------
 */

extern const struct amb_link_events sim_client_events;
/* A frame with room for so many bytes behind its head. */
struct sim_tx {
    struct amb_link_tx tx;
    _Alignas(16) uint8_t body[];
};
struct sim_tx *sim_tx_make(struct sim_client *client, uint64_t len);
void sim_tx_send(struct sim_client *client, struct sim_tx *tx, const struct amb_frame *frame);
void sim_send(struct sim_client *client, const struct amb_frame *frame);
void sim_client_start(struct sim *s, struct sim_client *client);
/* Its session is over; it may come back with another one. */
void sim_client_lost(struct sim *s, struct sim_client *client);
/* Its process ends. */
void sim_client_die(struct sim *s, struct sim_client *client);
/* Receives and pushes out; returns how much was done. */
unsigned sim_client_turn(struct sim *s, struct sim_client *client);
void sim_client_release(struct sim *s, struct sim_client *client, uint32_t handle, uint64_t upto);
void sim_client_release_range(struct sim *s, struct sim_client *client, uint32_t handle,
                              uint64_t number, uint32_t count);
/* Of the messages `open` (bits) of a delivery. */
void sim_client_say(struct sim *s, struct sim_client *client, uint32_t handle, uint64_t number,
                    uint64_t open, enum amb_ack_kind kind, int64_t delay_ns);
void sim_client_ask(struct sim *s, struct sim_client *client, enum sim_ask_kind kind,
                    uint32_t handle, uint64_t number);
/* The messages that it holds read as they did. */
void sim_client_check_held(struct sim *s, const struct sim_client *client, uint32_t handle,
                           const struct sim_held *held);
static inline struct sim_held *sim_held(const struct sim_sub *sub, uint64_t number)
{
    return &sub->held[number & (SIM_HELD - 1)];
}

/* script.c ----------------------------------------------------------------------------------------
 */

/* One more client, if there is room. */
void sim_script_start(struct sim *s);
/* One random step. */
void sim_step(struct sim *s);
/* The client does what brings everything to its end; returns whether it did anything. */
bool sim_catch_up(struct sim *s, struct sim_client *client);
