/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One publisher's messages. They are written into a buffer and then copied (amb_pub_send) or lent
 * (amb_pub_post: a ring of buffers, each reused once it is settled). Or they are written in place
 * (amb_lease).
 * Threads: one. Memory: owns publisher and buffers.
 */
#pragma once

#include "tools/bench/team.h"

#define AMB_SENDER_BUFFERS_MAX 64u

struct amb_sender {
    const struct amb_bench *bench;
    struct amb_bench_gpu *gpu; /* NULL: host memory */
    struct amb_pub *pub;
    unsigned index; /* of the publisher, as payloads say it */
    uint64_t sent;
    unsigned buffer_count, next;
    uint8_t *buffers[AMB_SENDER_BUFFERS_MAX];
    uint64_t seqs[AMB_SENDER_BUFFERS_MAX];
};

/* amb_sender_fini is due in any case. */
enum amb_status amb_sender_init(struct amb_sender *sender, const struct amb_bench *bench,
                                struct amb_conn *conn, const char *topic, unsigned index);
/* ETIMEDOUT: no room within the time, nothing was sent. */
enum amb_status amb_sender_send(struct amb_sender *sender, int64_t timeout_ns);
/* Lets what waits for company go. */
enum amb_status amb_sender_push(struct amb_sender *sender);
/* Publishes until the phase or the count says that it is enough. */
typedef enum amb_status (*amb_sender_fn)(const struct amb_team *team, struct amb_sender *sender);
/* A publisher's process of a team, from connect to close; `publish` is called in phase RUN. */
void amb_sender_main(const struct amb_team *team, unsigned index, amb_sender_fn publish);
void amb_sender_fini(struct amb_sender *sender, int64_t timeout_ns);
