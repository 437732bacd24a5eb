/* SPDX-License-Identifier: Apache-2.0 */
/* Ambroker in the bench of acknowledgements; see acks.h. The link is the URL's. */
#include "tests/bench/acks/acks.h"

#include <amb/amb.h>
#include <stdio.h>

#define WAIT_NS (20 * AMB_SEC)
#define MANY 1024u

static void must(const char *what, enum amb_status status)
{
    if (status != AMB_OK) {
        acks_fail(what, amb_strerror(status));
    }
}

static const char *refuses(const struct acks_job *job)
{
    return job->confirm == ACKS_DELIVERED && job->is_named ? "not measured" : NULL;
}

static void prepare(const struct acks_job *job)
{
    (void)job;
}

static void settled(struct amb_pub *pub, const struct amb_settled *run, void *arg)
{
    (void)pub;
    if (run->status != AMB_OK) {
        acks_fail("a message is refused", amb_strerror(run->status));
    }
    acks_confirmed(arg, run->last - run->first + 1);
}

static void publish(struct acks_job *job)
{
    static const enum amb_confirm confirms[] = {[ACKS_UNCONFIRMED] = AMB_CONFIRM_NONE,
                                                [ACKS_ACCEPTED] = AMB_CONFIRM_ACCEPTED,
                                                [ACKS_DELIVERED] = AMB_CONFIRM_DELIVERED};
    struct amb_conn *conn;
    struct amb_pub *pub;
    must("connect", amb_connect(job->address, AMB_OPTIONS(.name = "acks-pub"), &conn));
    must("open", amb_pub_open(conn, job->topic,
                              AMB_PUB(.confirm = confirms[job->confirm],
                                      .name = job->is_named ? "bench" : NULL,
                                      .on_settled = job->confirm != 0 ? settled : NULL, .arg = job),
                              &pub));
    acks_ready(job);
    while (!acks_is_over(job)) {
        uint64_t room = acks_room(job);
        for (uint64_t i = 0; i < room; i++) {
            must("send", amb_pub_send(pub, acks_payload(job), job->size, WAIT_NS));
            acks_sent(job);
        }
        if (job->confirm != ACKS_UNCONFIRMED) {
            (void)amb_poll(conn, AMB_NOWAIT);
        }
        if (room == 0) {
            acks_wait();
        }
    }
    must("flush", amb_pub_flush(pub, 0, WAIT_NS));
    while (job->confirm != ACKS_UNCONFIRMED && amb_poll(conn, AMB_NOWAIT) == AMB_OK &&
           atomic_load(&job->shared->confirmed) < job->next) {
    }
    must("close", amb_close(conn, WAIT_NS));
}

static void answer(struct acks_job *job, struct amb_msg **msgs, size_t count)
{
    if (job->ack == ACKS_CUMULATIVE) {
        must("ack", amb_msg_ack(msgs[count - 1]));
    }
    for (size_t i = 0; i < count; i++) {
        if (job->ack == ACKS_EXPLICIT) {
            must("ack", amb_msg_ack(msgs[i]));
        }
        amb_msg_release(msgs[i]);
    }
}

static void consume(struct acks_job *job, unsigned member)
{
    static const enum amb_ack acks[] = {[ACKS_NONE] = AMB_ACK_NONE,
                                        [ACKS_EXPLICIT] = AMB_ACK_EXPLICIT,
                                        [ACKS_CUMULATIVE] = AMB_ACK_CUMULATIVE};
    struct amb_conn *conn;
    struct amb_sub *sub;
    struct amb_msg *msgs[MANY];
    must("connect", amb_connect(job->address, AMB_OPTIONS(.name = "acks-sub"), &conn));
    must("subscribe",
         amb_subscribe(conn, job->topic,
                       AMB_SUB(.slow = AMB_SLOW_BLOCK, .slow_block_ns = 60 * AMB_SEC,
                               .ack = acks[job->ack], .group = job->is_group ? "bench" : NULL),
                       &sub));
    acks_ready(job);
    while (!acks_is_stopped(job)) {
        size_t count = 0;
        size_t most = job->batch < MANY ? job->batch : MANY;
        enum amb_status status = amb_next_many(sub, 50 * AMB_MS, msgs, most, &count);
        if (status != AMB_ETIMEDOUT) {
            must("receive", status);
        }
        for (size_t i = 0; i < count; i++) {
            acks_take(job, member, amb_msg_data(msgs[i]), amb_msg_size(msgs[i]));
        }
        if (count > 0) {
            answer(job, msgs, count);
        }
        acks_taken(job, member);
    }
    must("flush", amb_flush(conn, WAIT_NS)); /* The broker has counted all acks. */
    must("close", amb_close(conn, WAIT_NS));
}

/* amb_flush has waited for the last one. */
static uint64_t unacked(const struct acks_job *job)
{
    (void)job;
    return 0;
}

const struct acks_system acks_ambroker = {"ambroker", refuses, prepare, publish, consume, unacked};
