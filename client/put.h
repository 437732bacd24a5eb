/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message on its way into a publisher, and the ways it may go: into the open batch, out as a
 * batch of its own, or into a slot of a lease segment. publish*.c, commit.c, lease.c.
 * Threads: any, no lock held, unless said. Memory: the caller's, for the call.
 */
#pragma once

#include "client/conn.h"
#include "client/pub.h"
#include "client/slots.h"

/* A plain publish of so many bytes and more goes into a slot if it can. */
#define AMB_PLAIN_LEASE_MIN UINT64_C(16384)

/* What keeps a publisher from taking messages. */
#define AMB_TROUBLE_PUB (AMB_TROUBLE_FORKED | AMB_TROUBLE_DOWN | AMB_TROUBLE_CLOSING)

struct amb_gpu_fence;

struct amb_put {
    const void *data; /* or pieces */
    const struct amb_iov *iov;
    uint64_t len;
    uint32_t iov_count;
    uint32_t blob_len, key_hash, ttl_ms;
    const uint8_t *blob;
    uint64_t expect; /* the sequence that it must get; 0: any */
    bool is_device;  /* data is a GPU's memory, for a link that takes such: a batch of its own */
    bool is_lent;    /* data stays as it is until the message is settled */
};

/* ---- publish.c ---- */

/* Key, content type, properties, time to live of a message; blob has AMB_PROPS_MAX bytes. */
enum amb_status amb_put_props(struct amb_conn *conn, const struct amb_out *message, uint8_t *blob,
                              struct amb_put *put);
/* Where its payload is: lent. EINVAL: a piece is missing. */
enum amb_status amb_put_payload(const struct amb_out *message, struct amb_put *put);
/* Says that len bytes are more than the broker takes: ETOOLARGE. */
enum amb_status amb_put_too_large(struct amb_conn *conn, uint64_t len);
/* Writes the pieces one behind the other. */
void amb_put_gather(uint8_t *to, const struct amb_put *put);
/* Appends it to the open batch. EAGAIN: no room. */
enum amb_status amb_put_small(struct amb_pub *pub, const struct amb_put *put, uint64_t *seq);
/* A message was added to this batch, which is the publisher's newest: sends it if the rule says so.
 * is_full: it does. Publisher's lock held. */
void amb_put_added(struct amb_pub *pub, const struct amb_batch *batch, bool is_full);
/* The best way that has room; waits for one. */
enum amb_status amb_put_any(struct amb_pub *pub, const struct amb_put *put, int64_t timeout_ns,
                            uint64_t *seq);
/* A call that may wait: the publisher, and its connection, stay until it has left. */
void amb_pub_enter(struct amb_pub *pub);
enum amb_status amb_pub_leave(struct amb_pub *pub, enum amb_status status);

/* ---- publish_large.c ---- */

/* As a batch of its own, which is prepared once: *large is NULL at first, and when it has left.
 * EAGAIN: no room. ENOMEM. */
enum amb_status amb_put_large(struct amb_pub *pub, const struct amb_put *put,
                              struct amb_batch **large, uint64_t *seq);
/* One that was prepared and has not left. */
void amb_large_drop(struct amb_pub *pub, struct amb_batch *batch);
/* What such a batch takes of send_memory_max. */
uint64_t amb_large_memory(const struct amb_pub *pub, const struct amb_put *put);

/* ---- pub_wait.c ---- */

/* What was put leaves as soon as the window lets it. */
void amb_put_push(struct amb_pub *pub);

/* ---- commit.c: commits never wait ---- */

/* A plain message, copied into a slot. EAGAIN: no slot is free; a first segment is asked for.
 * may_wait: a moment, for one that is warm. */
enum amb_status amb_put_slot(struct amb_pub *pub, const struct amb_put *put, bool may_wait,
                             uint64_t *seq);
/* put->len bytes that are in a slot already. Takes the place, also on failure. ENOMEM. */
enum amb_status amb_commit_place(struct amb_pub *pub, const struct amb_put *put,
                                 const struct amb_place *place, uint64_t *seq);
/* The same of GPU memory: it leaves when the fence, which may be NULL, is over. Takes that too. */
enum amb_status amb_commit_place_gpu(struct amb_pub *pub, const struct amb_put *put,
                                     const struct amb_place *place, struct amb_gpu_fence *fence,
                                     uint64_t *seq);
/* The same of pinned host memory. */
enum amb_status amb_commit_place_pinned(struct amb_pub *pub, const struct amb_put *put,
                                        const struct amb_place *place, struct amb_gpu_fence *fence,
                                        uint64_t *seq);
/* put->len bytes in memory of conn->lease_buffers, room bytes. Takes it, also on failure. ENOMEM.
 */
enum amb_status amb_commit_private(struct amb_pub *pub, const struct amb_put *put, void *bytes,
                                   uint64_t room, uint64_t *seq);
