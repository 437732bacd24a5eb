/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model: what the broker promises, in simple code of its own. It is told what clients send and
 * see, and ends the run at the first thing that must not be.
 *
 *   topic   which message has each sequence number: one, the same for every reader, and a
 *           publisher's in the order in which they were sent, and a client's by its sessions
 *   reader  what a subscription gets and is told that it has lost leaves no gap and nothing twice
 *   queue   who has each message: nobody has it twice without a higher count, nobody gets what was
 *           acknowledged
 *
 * Threads: one. Memory: tables that grow, kept from seed to seed.
 */
#pragma once

#include "broker/delivery/acks/queue.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_NAMES 8u      /* of topics, in one seed */
#define SIM_READINGS 24u  /* topics of one subscription */
#define MODEL_TOPICS 192u /* topics that come again count again */
#define MODEL_PUBS 1024u
#define MODEL_QUEUES 256u

struct amb_frame;
struct amb_topic_rule;
struct sim;
struct sim_client;
struct sim_held;
struct sim_publisher;
struct sim_said;
struct sim_sub;

enum model_fate {
    MODEL_SENT,
    MODEL_IN,      /* its number is known */
    MODEL_REFUSED, /* its publisher was told so */
    MODEL_UNKNOWN, /* its publisher's session was lost before it heard */
};

struct model_message {
    uint64_t seq;   /* 0: not known */
    uint64_t above; /* to be added for its number in the topic */
    uint32_t topic;
    int64_t sent_ns, settled_ns;
    uint32_t step, ttl_ms;
    uint32_t len;
    uint64_t keeps; /* bytes of memory that its batch takes, at most */
    enum model_fate fate;
    bool may_die; /* some queue may make a dead letter of it */
};

struct model_pub {
    uint32_t topic;  /* that it publishes to now */
    uint32_t name;   /* 0: none */
    uint32_t where;  /* the name of its topic, and its priority */
    uint64_t holder; /* of its name: the session that has it */
    uint32_t life;   /* of the client, over its sessions */
    uint32_t count, cap;
    struct model_message *messages; /* by number, from 1 */
};

struct model_at {
    uint32_t pub, number;
};

struct model_topic {
    uint32_t id;
    enum amb_priority priority;
    bool is_dead_letters, has_own_ttl;
    bool some_may_die; /* of those that came to a lazy reader, and nobody knew which they are */
    const struct amb_topic_rule *rule;
    char name[32];
    uint64_t top;             /* highest number known */
    uint64_t settled_top;     /* ... to be told to a publisher */
    uint64_t top_before_last; /* the same before publish_last */
    uint32_t born;            /* the step in which a client heard of it first */
    uint64_t cap;
    struct model_at *at; /* by number */
};

/* A message of a topic, as a queue gives it out. */
struct model_turn {
    int64_t low_ns;   /* its delivery was not sent before; or: it is not due before */
    uint32_t owner;   /* serial of the subscription that has it; 0: nobody */
    uint32_t attempt; /* the highest of those seen, from 1 */
    uint64_t seen;    /* attempts, a bit each */
    bool is_over;     /* settled for certain */
    int64_t late_ns;  /* an ACK of it has come late; 0: none has */
    uint32_t after;   /* deliveries that were sent after that */
};

struct model_queue {
    uint64_t id; /* the directory's; 0: a wish */
    struct amb_queue_options options;
    char group[8], durable[8], pattern[32];
    struct {
        uint32_t topic;
        uint64_t cap;
        struct model_turn *turns; /* by number */
    } on[SIM_READINGS];
    unsigned count;
};

/* A subscription's view of a topic. */
struct sim_reading {
    uint32_t topic;    /* 0: free */
    uint64_t expected; /* number of the next message; 0: any */
    bool is_resumed;   /* nothing of it has come since it resumed */
};

struct model {
    uint32_t topic_count, pub_count, queue_count; /* index 0 is none */
    struct model_topic topics[MODEL_TOPICS];
    struct model_pub pubs[MODEL_PUBS];
    struct model_queue queues[MODEL_QUEUES];
};

void model_begin(struct sim *s);
void model_fini(struct sim *s);

/* A client has heard of a topic; returns its index. */
uint32_t model_topic(struct sim *s, uint32_t id, const char *name, enum amb_priority priority);
uint32_t model_publisher(struct sim *s, uint32_t where, uint32_t name);
/* That message of a publisher is sent now: the next one, or one that is sent again. */
void model_send(struct sim *s, uint32_t pub, uint32_t number, const struct sim_publisher *plan);
struct model_message *model_message(struct sim *s, uint32_t pub, uint32_t number);
/* The word to its publisher on messages first .. first+count-1. */
void model_settle(struct sim *s, uint32_t pub, uint32_t first, uint32_t count,
                  enum amb_status status, uint64_t seq, uint64_t above);
/* Their publisher will not hear of them. */
void model_forget(struct sim *s, uint32_t pub, uint32_t first, uint32_t count);

/* A delivery begins: checks its place and what is said to be lost before it. */
void model_delivery(struct sim *s, struct sim_client *client, struct sim_sub *sub,
                    const struct amb_frame *frame, uint32_t topic);
/* A message of a delivery. */
void model_given(struct sim *s, const struct sim_client *client, const struct sim_sub *sub,
                 const struct sim_held *held, uint64_t seq, uint32_t pub, uint32_t number);
/* ... of which only its length is known. Returns how much memory it keeps at most, by which its
 * batch is kept. */
uint64_t model_given_unseen(struct sim *s, const struct sim_sub *sub, const struct sim_held *held,
                            uint64_t seq, uint64_t len);
/* It was refused for good. */
void model_may_die(struct sim *s, uint32_t topic, uint64_t seq);
/* That number is that message. */
void model_place(struct sim *s, uint32_t topic, uint64_t seq, uint64_t above, uint32_t pub,
                 uint32_t number);

/* oracle_queue.c */

/* A message comes to a member. A message that was sent to another one later may have been seen
 * before. */
void model_turn(struct sim *s, const struct sim_sub *sub, const struct sim_held *held,
                uint64_t seq);
/* A wish for a queue: with the same names it has the same options. */
uint32_t model_wish(struct sim *s, const char *group, const char *durable, const char *pattern,
                    const struct amb_queue_options *options);
/* The queue with that id, which the wish has led to. */
uint32_t model_queue(struct sim *s, uint32_t wish, uint64_t id);
/* The broker has read an acknowledgement, in this turn. */
void model_said(struct sim *s, uint32_t queue, const struct sim_said *said);
/* A member goes, or may be gone: its messages may be given to others. */
void model_left(struct sim *s, struct sim_sub *sub);

/* oracle.c */

/* Everybody has caught up: nothing is missing, the numbers have no hole. */
void model_end(struct sim *s);
/* One more message comes in each topic, if the broker takes it. */
void model_before_last(struct sim *s);
/* The subscription must have seen all there is. is_last: even what may have been left out. */
void model_caught_up(struct sim *s, const struct sim_client *client, const struct sim_sub *sub,
                     bool is_last);
