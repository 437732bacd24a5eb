/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of several workers on a queue of jobs: each job goes to exactly one of them, and to another
 * one if this one dies. "bad" jobs are given up, "later" ones come again; the group's place stays
 * when no worker is there.
 */
#include <amb/amb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct amb_conn *conn;

static void on_signal(int signal)
{
    (void)signal;
    amb_stop(conn);
}

static void work(struct amb_msg *job)
{
    const char *text = amb_msg_data(job);
    size_t len = amb_msg_size(job);
    printf("%.*s, delivery %u\n", (int)len, text, amb_msg_deliveries(job));
    fflush(stdout);
    if (len == 3 && memcmp(text, "bad", 3) == 0) {
        amb_msg_term(job, "nobody can do this");
    } else if (len == 5 && memcmp(text, "later", 5) == 0) {
        amb_msg_nak(job, 50 * AMB_MS);
    } else {
        amb_msg_ack(job);
    }
}

int main(void)
{
    struct amb_error error = {0};
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        fprintf(stderr, "connect: %s\n", error.text);
        return 1;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);

    const int64_t backoff[] = {AMB_SEC, 10 * AMB_SEC, 60 * AMB_SEC};
    struct amb_sub *jobs;
    enum amb_status status =
        amb_subscribe(conn, "jobs.resize",
                      AMB_SUB(.group = "resizers", .durable = "resize", .ack = AMB_ACK_EXPLICIT,
                              .ack_wait_ns = 30 * AMB_SEC, .max_deliver = 3, .backoff_ns = backoff,
                              .backoff_count = 3, .credit_msgs = 16),
                      &jobs);
    struct amb_msg *job;
    while (status == AMB_OK && (status = amb_next(jobs, AMB_FOREVER, &job)) == AMB_OK) {
        work(job);
        amb_msg_release(job);
    }
    if (status != AMB_ESTOPPED) {
        fprintf(stderr, "%s\n", amb_last_error(conn).text);
    }
    /* Messages that were fetched and not taken go back to the group; acknowledged ones count. */
    if (amb_drain(conn, 20 * AMB_SEC) != AMB_OK) {
        fprintf(stderr, "drain: %s\n", amb_last_error(conn).text);
    }
    amb_close(conn, AMB_SEC);
    return status != AMB_ESTOPPED;
}
