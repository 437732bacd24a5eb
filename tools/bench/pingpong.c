/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/pingpong.h"

#include "tools/bench/payload.h"

#include <stdio.h>

#define SYNC_NS (20 * AMB_SEC)
#define ANSWER_NS (5 * AMB_SEC)
#define TOPIC_MAX 256u

static enum amb_status end_open(struct amb_pingpong *end, const struct amb_team *team,
                                const char *name, const char *to, const char *from)
{
    const struct amb_bench *bench = team->bench;
    *end = (struct amb_pingpong){.team = team};
    char topic[TOPIC_MAX];
    end->conn = amb_team_connect(end->team, name);
    if (end->conn == NULL) {
        return AMB_EUNREACHABLE;
    }
    (void)snprintf(topic, sizeof(topic), "%s.%s", bench->topic, from);
    enum amb_status status =
        amb_receiver_init(&end->receiver, bench, end->conn, topic, &end->team->shared->sub[0]);
    if (status == AMB_OK) {
        (void)snprintf(topic, sizeof(topic), "%s.%s", bench->topic, to);
        status = amb_sender_init(&end->sender, bench, end->conn, topic, 0);
    }
    if (status == AMB_OK) {
        status = amb_pub_wait_subscribers(end->sender.pub, 1, SYNC_NS);
    }
    return status;
}

enum amb_status amb_pingpong_open(struct amb_pingpong *end, const struct amb_team *team)
{
    return end_open(end, team, "bench-ping", "ping", "pong");
}

void amb_pingpong_close(struct amb_pingpong *end)
{
    amb_sender_fini(&end->sender, AMB_SEC);
    amb_receiver_fini(&end->receiver, AMB_SEC);
    (void)amb_close(end->conn, AMB_SEC);
}

static enum amb_status send_now(struct amb_pingpong *end)
{
    enum amb_status status = amb_sender_send(&end->sender, ANSWER_NS);
    return status == AMB_OK ? amb_sender_push(&end->sender) : status;
}

/* Answers each message by one of its own: same size, same sequence. */
static enum amb_status respond(struct amb_pingpong *end)
{
    while (amb_team_phase(end->team) != AMB_TEAM_EXIT) {
        struct amb_msg *msg;
        enum amb_status status = amb_next(end->receiver.sub, 50 * AMB_MS, &msg);
        if (status == AMB_ETIMEDOUT) {
            continue;
        }
        if (status != AMB_OK) {
            return status;
        }
        uint64_t word = 0;
        bool is_good = amb_receiver_read(&end->receiver, msg, &word);
        amb_receiver_release(&end->receiver, msg);
        if (!is_good) {
            end->receiver.counts->corrupt++;
        }
        end->sender.sent = word & AMB_PAYLOAD_SEQ_MASK;
        status = send_now(end);
        if (status != AMB_OK) {
            return status;
        }
    }
    return AMB_OK;
}

void amb_pingpong_responder(const struct amb_team *team, unsigned index)
{
    struct amb_pingpong end;
    (void)index;
    enum amb_status status = end_open(&end, team, "bench-responder", "pong", "ping");
    if (status == AMB_OK) {
        atomic_store(&team->shared->sub[0].is_ready, true);
        status = respond(&end);
    }
    if (status != AMB_OK) {
        amb_team_fail(team, end.conn, "responder", status);
        return;
    }
    amb_pingpong_close(&end);
}

enum amb_status amb_pingpong_trip(struct amb_pingpong *end, bool *is_answered)
{
    uint64_t wanted = amb_payload_word(0, end->sender.sent);
    enum amb_status status = send_now(end);
    *is_answered = false;
    while (status == AMB_OK) {
        struct amb_msg *msg;
        uint64_t word = UINT64_MAX;
        status = amb_next(end->receiver.sub, ANSWER_NS, &msg);
        if (status == AMB_ETIMEDOUT) {
            return AMB_OK;
        }
        if (status != AMB_OK) {
            break;
        }
        if (!amb_receiver_read(&end->receiver, msg, &word)) {
            end->receiver.counts->corrupt++;
        }
        if (end->receiver.counts->path[0] == '\0') {
            const char *path = amb_msg_path(msg);
            (void)snprintf(end->receiver.counts->path, sizeof(end->receiver.counts->path), "%s",
                           path != NULL ? path : "");
        }
        amb_receiver_release(&end->receiver, msg);
        if (word == wanted) {
            *is_answered = true;
            return AMB_OK;
        }
    }
    return status;
}

void amb_pingpong_asker(const struct amb_team *team, const char *name,
                        enum amb_status (*ask)(struct amb_pingpong *end))
{
    struct amb_pingpong end;
    struct amb_team_pub *counts = &team->shared->pub[0];
    enum amb_status status = amb_pingpong_open(&end, team);
    if (status == AMB_OK) {
        atomic_store(&counts->is_ready, true);
        while (amb_team_phase(team) == AMB_TEAM_SYNC) {
            amb_bench_sleep_ns(AMB_MS);
        }
        status = ask(&end);
    }
    if (status != AMB_OK) {
        amb_team_fail(team, end.conn, name, status);
        return;
    }
    atomic_store(&counts->is_stopped, true);
    while (amb_team_phase(team) != AMB_TEAM_EXIT) {
        amb_bench_sleep_ns(AMB_MS);
    }
    amb_pingpong_close(&end);
}

enum amb_exit amb_pingpong_measure(struct amb_team *team, struct amb_team_mark *a,
                                   struct amb_team_mark *b)
{
    if (!amb_team_wait_ready(team, SYNC_NS)) {
        return amb_team_report(team);
    }
    amb_team_set_phase(team, AMB_TEAM_RUN);
    while (!atomic_load(&team->shared->is_warm) && !amb_team_failed(team)) {
        amb_bench_sleep_ns(AMB_MS);
    }
    amb_team_mark(team, a);
    while (!atomic_load(&team->shared->pub[0].is_stopped) && !amb_team_failed(team)) {
        amb_bench_sleep_ns(AMB_MS);
    }
    amb_team_mark(team, b);
    return amb_team_report(team);
}
