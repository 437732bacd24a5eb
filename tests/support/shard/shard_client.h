/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scripted client of a shard (shard_harness.h): the far end of a session's sim link, or of a
 * stream. It sends batches whose messages carry a stamp, checks every body that comes, and records
 * what it is told. It releases, maps and answers only as the test says.
 *
 * Threads: one. Memory: allocates as it likes; shard_client_destroy gives everything back.
 */
#pragma once

#include "broker/delivery/reader/subscription.h"
#include "broker/session/session.h"
#include "broker/topic/begin.h"
#include "broker/topic/topic.h"
#include "wire/codec/frame.h"
#include "wire/link/link.h"

#include <stdbool.h>
#include <stdint.h>

#define CLIENT_HANDLES 8u
#define CLIENT_TOPICS 4u /* of one subscription */
#define CLIENT_SETTLES_MAX 512u
#define CLIENT_SEGMENTS_MAX 32u
#define CLIENT_COMMITS_MAX 65536u

struct shard_harness;

/* At the start of every payload of 16 bytes or more. */
struct client_stamp {
    uint32_t client, handle;
    uint64_t number; /* of the message, per publisher, from 1 */
};

/* In `handle` where it is sent: its record has the flags below, each kind of memory in turn. */
#define CLIENT_STAMP_KIND UINT32_C(0x80000000)

static inline uint16_t client_stamp_flags(const struct client_stamp *stamp)
{
    return (uint16_t)(stamp->number & AMB_RECORD_MEM);
}

struct client_pub {
    bool is_open;
    uint32_t topic, opened;
    uint64_t batches, bytes, messages; /* sent */
    uint64_t accepted, window;         /* told */
};

struct client_delivery {
    struct amb_frame frame;
    struct client_stamp stamp; /* of the first message given */
    const uint8_t *payload;    /* its, where it lies in a segment; NULL: too short for a stamp */
    bool is_back;              /* released, here */
};

struct client_sub {
    bool is_open;
    uint64_t id;
    struct amb_subscription_options options;
    struct amb_begin begin;
    uint32_t topics[CLIENT_TOPICS];
    unsigned topic_count;
    bool is_named[16]; /* topic ids */
    uint64_t former;   /* the last delivery number of the handle's former owners */
    uint64_t last;     /* delivery number */
    uint64_t released; /* cumulative, told */
    uint64_t msgs, lost, bytes;
    struct client_delivery *deliveries; /* all of them, [number - 1] */
    uint64_t deliveries_cap;
};

struct client_settle {
    uint32_t handle;
    uint64_t batch, first_seq, above, dropped;
    uint32_t matched;
    enum amb_status status;
};

struct client_segment {
    uint64_t id, size;
    const uint8_t *base; /* mapped; NULL: offered only */
    int fd;
};

struct shard_client {
    struct shard_harness *harness;
    unsigned shard;
    const struct amb_trust_group *group; /* of publishers that it opens next; NULL: the main one */
    uint64_t id;
    struct amb_session *session; /* NULL when it is gone */
    struct amb_link *link;
    struct client_pub pubs[CLIENT_HANDLES];
    struct client_sub subs[CLIENT_HANDLES];
    struct client_settle settles[CLIENT_SETTLES_MAX]; /* the first so many */
    unsigned settle_count;
    struct client_segment segments[CLIENT_SEGMENTS_MAX];
    unsigned segment_count;
    unsigned drops;                              /* SEG_DROP frames; each unmaps */
    uint64_t commits;                            /* sent */
    uint64_t freed;                              /* told: all up to it, and */
    uint8_t freed_early[CLIENT_COMMITS_MAX / 8]; /* these */
    unsigned freed_frames;
    bool answers_offers; /* maps, and says SEG_READY, at once */
    unsigned txs;        /* frames under way */
    unsigned downs;
    unsigned ended; /* upcalls session_ended */
    enum amb_status ended_why;
    char ended_text[96];
    bool is_closed; /* the session has no link any more */
    bool is_quarantined;
    /* May be NULL: called for each message of each delivery. */
    void (*on_message)(struct shard_client *client, const struct amb_frame *frame, uint32_t index,
                       const struct client_stamp *stamp);
    unsigned answers;        /* to FETCH: how many, */
    struct amb_frame answer; /* the last one, */
    uint8_t answered[256];   /* and the beginning of its bytes */
    void *user;
    const char *filter; /* of the subscriptions to come; NULL: none */
};

struct client_options {
    bool may_map, answers_offers;
    const int *sockets; /* a connected pair, taken: a stream in place of a sim link; NULL: none */
    uint64_t link_bytes_max;
    unsigned link_poll_frames;
    bool (*link_copy)(void *to, const void *from, uint64_t len); /* of struct amb_sim_options */
    struct amb_party *party; /* that its entries are of; NULL: none */
};

struct shard_client *shard_client_create(struct shard_harness *harness, unsigned shard,
                                         const struct client_options *options);
/* Closes what is open and ends the process: nothing is held any more. NULL is allowed. */
void shard_client_destroy(struct shard_client **client);
/* Receives and pushes out; returns how much was done. */
unsigned shard_client_turn(struct shard_client *client);

void client_open_pub(struct shard_client *client, uint32_t handle, uint32_t topic, bool settled);
void client_close_pub(struct shard_client *client, uint32_t handle);
/* Bytes that a batch of `count` messages of `len` bytes takes from the window. */
uint64_t client_batch_bytes(uint32_t count, uint64_t len);
bool client_may_send(const struct shard_client *client, uint32_t handle, uint32_t count,
                     uint64_t len);
/* Sends a batch whether the window allows it or not. len: of each message; 0 or at least 16. */
void client_send(struct shard_client *client, uint32_t handle, uint32_t count, uint64_t len);
/* Sends a batch with a broken record table. */
void client_send_malformed(struct shard_client *client, uint32_t handle);
/* Sends this very frame, with this body. */
void client_send_body(struct shard_client *client, const struct amb_frame *frame, const void *body);
/* Sends this very frame, with a body of zeros if its type has one. */
void client_send_frame(struct shard_client *client, const struct amb_frame *frame);
/* Has the broker said that this commit is over? */
bool client_is_freed(const struct shard_client *client, uint64_t number);
void client_want(struct shard_client *client, uint32_t handle, uint64_t bytes);
/* Bytes whose window the broker has given back; it speaks of them in steps. */
uint64_t client_granted(const struct shard_client *client, uint32_t handle);

void client_subscribe(struct shard_client *client, uint32_t handle, uint32_t topic,
                      const struct amb_subscription_options *options);
/* The same, from elsewhere than the end. */
void client_subscribe_from(struct shard_client *client, uint32_t handle, uint32_t topic,
                           const struct amb_subscription_options *options,
                           const struct amb_begin *begin);
/* One more topic for an open subscription. */
void client_attach(struct shard_client *client, uint32_t handle, uint32_t topic);
void client_unsubscribe(struct shard_client *client, uint32_t handle);
void client_release(struct shard_client *client, uint32_t handle, uint64_t number);
void client_release_range(struct shard_client *client, uint32_t handle, uint64_t number,
                          uint32_t count);
/* Everything delivered so far. */
void client_release_all(struct shard_client *client, uint32_t handle);
/* Gives back whatever comes until nothing comes any more. */
void client_drain(struct shard_client *client, uint32_t handle);
/* FETCH of message `first` of those that a delivery gave. */
void client_fetch(struct shard_client *client, uint32_t handle, uint64_t number, uint32_t first,
                  uint64_t offset, uint64_t len);
void client_map(struct shard_client *client, uint64_t segment);
void client_refuse(struct shard_client *client, uint64_t segment);

/* A message that is delivered in place and not given back must still read as it did. */
void client_check_held(const struct shard_client *client, uint32_t handle);

/* The broker closes the session. keep_held as amb_session_close. */
void client_close(struct shard_client *client, bool keep_held);
/* Its process is gone: a quarantined session gives back everything. */
void client_die(struct shard_client *client);
/* Delivery `number` of a subscription, which must have come. */
const struct client_delivery *client_delivery(const struct shard_client *client, uint32_t handle,
                                              uint64_t number);

/* The harness's upcall. */
void shard_client_offered(struct shard_client *client, uint64_t segment, uint64_t size, int fd);
