/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-bench pub and sub: one process each, for brokers and machines of any kind. No memory is
 * shared, so there is no window: the publisher goes as fast as the broker lets it.
 */
#include "tools/bench/pubsub.h"

#include "tools/bench/payload.h"
#include "tools/bench/receiver.h"
#include "tools/bench/schedule.h"
#include "tools/bench/sender.h"

#include "wire/base/clock.h"

#include <stdlib.h>
#include <string.h>

#define SLICE_NS (100 * AMB_MS)
#define FLUSH_NS (30 * AMB_SEC)

static enum amb_exit fail(const struct amb_conn *conn, const char *what, enum amb_status status)
{
    struct amb_error error = amb_last_error(conn);
    amb_tool_error("%s: %s", what,
                   error.status == status && error.text[0] != '\0' ? error.text
                                                                   : amb_strerror(status));
    return amb_exit_of(status);
}

static struct amb_conn *connect_or_say(const struct amb_bench *bench, const char *name,
                                       enum amb_exit *code)
{
    struct amb_error error = {.status = AMB_OK};
    struct amb_conn *conn = amb_bench_connect(bench, name, &error);
    if (conn == NULL) {
        amb_tool_error("connect: %s", error.text);
        *code = amb_exit_of(error.status);
    }
    return conn;
}

static void pace(const struct amb_bench *bench, uint64_t sent, int64_t start_ns)
{
    if (bench->rate <= 0) {
        return;
    }
    int64_t due_ns = start_ns + amb_schedule_ns((double)sent, bench->rate);
    int64_t early_ns = due_ns - amb_clock_monotonic_ns();
    /* Timers are not finer than this: above 10,000 a second messages leave in small groups. */
    if (early_ns > 100 * AMB_US) {
        amb_bench_sleep_ns(early_ns);
    }
}

static enum amb_status publish(const struct amb_bench *bench, struct amb_sender *sender)
{
    int64_t start_ns = amb_clock_monotonic_ns();
    while (!amb_bench_stopped()) {
        if (bench->count > 0 ? sender->sent >= bench->count
                             : amb_clock_monotonic_ns() - start_ns >= bench->duration_ns) {
            break;
        }
        pace(bench, sender->sent, start_ns);
        enum amb_status status = amb_sender_send(sender, SLICE_NS);
        if (status != AMB_OK && status != AMB_ETIMEDOUT) {
            return status;
        }
    }
    return amb_pub_flush(sender->pub, 0, FLUSH_NS);
}

static json_t *make_result(const char *workload, const struct amb_bench *bench, uint64_t messages,
                           uint64_t timed, int64_t duration_ns)
{
    double seconds = (double)duration_ns / (double)AMB_SEC;
    double rate = seconds > 0 ? (double)timed / seconds : 0;
    return json_pack("{s:s, s:I, s:I, s:f, s:f, s:f}", "workload", workload, "size",
                     (json_int_t)bench->size, "messages", (json_int_t)messages, "seconds", seconds,
                     "msgs_per_s", rate, "mb_per_s", rate * (double)bench->size / 1e6);
}

enum amb_exit amb_bench_pub(const struct amb_bench *bench, json_t **out)
{
    enum amb_exit code = AMB_EXIT_OK;
    struct amb_sender sender = {0};
    struct amb_conn *conn = connect_or_say(bench, "broker-bench pub", &code);
    if (conn == NULL) {
        return code;
    }
    enum amb_status status = amb_sender_init(&sender, bench, conn, bench->topic, 0);
    int64_t start_ns = amb_clock_monotonic_ns();
    if (status == AMB_OK) {
        status = publish(bench, &sender);
    }
    if (status != AMB_OK) {
        code = fail(conn, "publish", status);
    } else {
        *out = make_result("pub", bench, sender.sent, sender.sent,
                           amb_clock_monotonic_ns() - start_ns);
    }
    amb_sender_fini(&sender, code == AMB_EXIT_OK ? AMB_SEC : AMB_NOWAIT);
    (void)amb_close(conn, code == AMB_EXIT_OK ? AMB_SEC : AMB_NOWAIT);
    return code;
}

/* From the first message on, for the time or the count given. */
static enum amb_status receive(const struct amb_bench *bench, struct amb_receiver *receiver,
                               int64_t *first_ns, uint64_t *first_count, int64_t *last_ns)
{
    while (!amb_bench_stopped()) {
        enum amb_status status = amb_receiver_run(receiver, SLICE_NS);
        int64_t now_ns = amb_clock_monotonic_ns();
        if (status == AMB_OK) {
            *last_ns = now_ns;
            if (*first_ns == 0) {
                *first_ns = now_ns;
                *first_count = receiver->received;
            }
        } else if (status != AMB_ETIMEDOUT) {
            return status;
        }
        bool is_done = bench->count > 0 ? receiver->received >= bench->count
                                        : now_ns - *first_ns >= bench->duration_ns;
        if (*first_ns != 0 && is_done) {
            break;
        }
    }
    return AMB_OK;
}

enum amb_exit amb_bench_sub(const struct amb_bench *options, json_t **out)
{
    struct amb_bench bench = *options;
    enum amb_exit code = AMB_EXIT_OK;
    struct amb_team_sub *counts = aligned_alloc(128, sizeof(*counts));
    struct amb_conn *conn = connect_or_say(&bench, "broker-bench sub", &code);
    if (conn == NULL || counts == NULL) {
        free(counts);
        return conn == NULL ? code : AMB_EXIT_SOFTWARE;
    }
    memset(counts, 0, sizeof(*counts));
    bench.pubs = AMB_BENCH_PUBS_MAX;
    struct amb_receiver receiver = {0};
    int64_t first_ns = 0;
    int64_t last_ns = 0;
    uint64_t first_count = 0;
    enum amb_status status = amb_receiver_init(&receiver, &bench, conn, bench.topic, counts);
    if (status == AMB_OK) {
        status = receive(&bench, &receiver, &first_ns, &first_count, &last_ns);
    }
    if (status != AMB_OK) {
        code = fail(conn, "subscribe", status);
    } else {
        *out = make_result("sub", &bench, receiver.received, receiver.received - first_count,
                           last_ns - first_ns);
        json_t *checks =
            json_pack("{s:s, s:I, s:I, s:I, s:I}", "path", counts->path, "lost_told",
                      (json_int_t)counts->lost, "gaps", (json_int_t)counts->gaps, "disorder",
                      (json_int_t)counts->disorder, "corrupt", (json_int_t)counts->corrupt);
        (void)json_object_update(*out, checks);
        json_decref(checks);
    }
    amb_receiver_fini(&receiver, AMB_SEC);
    (void)amb_close(conn, AMB_SEC);
    free(counts);
    return code;
}
