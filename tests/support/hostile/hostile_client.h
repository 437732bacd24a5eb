/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that can break every rule. It speaks the protocol by itself, on wire/codec and
 * wire/link. It keeps every descriptor that it is given, and maps the memory of its ring once more.
 * It logs in like anybody else; its further actions are in hostile_*.c.
 *
 * Threads: one. Memory: what it allocates dies with its process.
 */
#pragma once

#include "wire/codec/control.h"
#include "wire/codec/frame.h"
#include "wire/link/link.h"
#include "wire/link/ring/ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOSTILE_SEGMENTS_MAX 64u
#define HOSTILE_FDS_MAX 16u

struct hostile_segment {
    uint64_t id, size;
    int fd;
    uint8_t *base; /* mapped read-only; NULL: not */
};

struct hostile_pub {
    bool is_open;
    uint64_t asked; /* the request that opens it, until that is answered */
    uint64_t window, want, sent, batches, accepted;
};

struct hostile_sub {
    bool is_open;
    uint64_t delivered, released;
};

struct hostile {
    const char *unix_path;
    uint16_t tcp_port;
    uint64_t dice;

    int control;
    struct amb_control_reader reader;
    int fds[HOSTILE_FDS_MAX]; /* came, and nobody asked for them yet */
    unsigned fd_count;
    uint64_t next_id;
    bool is_over;    /* the broker has ended the session, or closed the connection */
    int over_status; /* of its Error; 0: it said nothing */
    char over_text[256];
    char refused_text[256]; /* of the latest request that was refused; empty: none was */
    bool is_greedy;         /* takes what it can get, in place of one bad thing */
    int64_t pong;           /* the latest */
    uint64_t answered;      /* id of the latest answer */
    int answer_status;      /* of it: 0, or that of an Error */
    uint64_t answers, errors;
    struct amb_frame welcome; /* session, generation, secret; as a frame's sender has them */
    uint64_t ring_size, max_message;
    bool may_map;

    struct amb_link *link;
    bool is_down;
    struct amb_ring_fds ring; /* kept */
    uint8_t *memory;          /* the ring's, mapped once more */
    uint64_t memory_size;
    bool keeps_deliveries; /* gives nothing back */
    bool is_deaf;          /* maps nothing, says nothing of segments */

    struct hostile_segment segments[HOSTILE_SEGMENTS_MAX];
    unsigned segment_count;
    struct hostile_segment lease; /* the latest that was opened; fd -1: none */
    uint64_t commits;
    struct hostile_pub pubs[AMB_HANDLES_MAX];
    struct hostile_sub subs[AMB_HANDLES_MAX];
    uint64_t frames, maps, settled, fetched;
};

/* "FAIL attack: text", and the process ends with 1. */
_Noreturn void hostile_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The bytes in front of that. */
void hostile_name(const char *attack, uint64_t seed);

void hostile_init(struct hostile *h, const char *unix_path, uint16_t tcp_port, uint64_t seed);
uint64_t hostile_random(struct hostile *h);
uint64_t hostile_below(struct hostile *h, uint64_t limit);
/* Mostly small, or next to a power of two, or next to 0 modulo 2^64; sometimes anything. */
uint64_t hostile_edge(struct hostile *h);
void hostile_bytes(struct hostile *h, void *to, size_t len);

/* To the Unix socket, or to the TCP port; -1 where the broker does not take it. */
int hostile_connect(const struct hostile *h, bool is_unix);
/* Connects, logs in with a link of that kind, attaches it. False: the broker is full or ends. */
bool hostile_login(struct hostile *h, enum amb_link_kind link);
/* Only up to Welcome: the stream link's connection is still to come. */
bool hostile_handshake(struct hostile *h, enum amb_link_kind link);
/* A connection that has sent this Attach; *is_ok: it was answered by Ok. -1: none. */
int hostile_attach(struct hostile *h, uint32_t session, uint32_t generation, uint64_t secret,
                   bool *is_ok);

/* Reads what has come and does what a good client would, for so long or until it is over. */
void hostile_live(struct hostile *h, int ms);
/* Only what has come on the control connection. */
void hostile_hear(struct hostile *h, int ms);

/* Raw bytes on the control connection; false: not all went. */
bool hostile_send_bytes(struct hostile *h, const void *bytes, size_t len);
bool hostile_send(struct hostile *h, const Amb__Control__Control *message);
/* With descriptors. */
bool hostile_send_fds(struct hostile *h, const Amb__Control__Control *message, const int *fds,
                      unsigned count);
void hostile_ping(struct hostile *h, int64_t time_ns);
/* Requests; they return the id, and are answered later. */
uint64_t hostile_pub_open(struct hostile *h, uint32_t handle, const char *topic, bool settled);
uint64_t hostile_pub_close(struct hostile *h, uint32_t handle);
uint64_t hostile_send_subscribe(struct hostile *h, const Amb__Control__Subscribe *subscribe);
uint64_t hostile_subscribe(struct hostile *h, uint32_t handle, const char *pattern, uint32_t slow,
                           uint64_t credit_bytes, bool copy);
uint64_t hostile_unsubscribe(struct hostile *h, uint32_t handle);
uint64_t hostile_lease_open(struct hostile *h, uint64_t slot, uint32_t slots);
/* type: LEASE_MAPPED, which is answered, or LEASE_CLOSE. */
uint64_t hostile_lease_say(struct hostile *h, int type, uint64_t segment);
uint64_t hostile_admin(struct hostile *h, const char *query);
/* Lives until that request is answered; false: it is over, or was refused. */
bool hostile_await(struct hostile *h, uint64_t id);

/* Any frame, with whatever body: body_len bytes, the first of them data. */
void hostile_frame(struct hostile *h, const struct amb_frame *frame, const void *body);
void hostile_flow(struct hostile *h, enum amb_flow_kind kind, uint32_t handle, uint64_t value);
/* A batch of one message as it should be; false: the window does not allow it. */
bool hostile_publish(struct hostile *h, uint32_t handle, uint64_t size);
