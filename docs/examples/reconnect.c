/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader that stays, whatever becomes of its broker. It waits for one that is not there yet, and
 * takes the next of the list when one is lost. Then it is told the messages that it missed.
 */
#include <amb/amb.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

static struct amb_conn *conn;

static void on_signal(int number)
{
    (void)number;
    amb_stop(conn);
}

static void on_event(struct amb_conn *of, const struct amb_event *event, void *arg)
{
    (void)of;
    (void)arg;
    if (event->type == AMB_EVENT_LOST) {
        printf("lost, attempt %" PRIu64 ": %s\n", event->count, event->text);
    } else if (event->type == AMB_EVENT_RESTORED) {
        printf("restored\n");
    }
    fflush(stdout);
}

static void show(struct amb_msg *msg)
{
    enum amb_loss why;
    uint64_t lost = amb_msg_lost(msg, &why);
    if (lost == UINT64_MAX) {
        printf("a new broker: nobody knows what was missed\n");
    } else if (lost != 0) {
        printf("%" PRIu64 " missed\n", lost);
    }
    printf("%s: %.*s\n", amb_msg_topic(msg), (int)amb_msg_size(msg),
           (const char *)amb_msg_data(msg));
    fflush(stdout);
}

int main(void)
{
    struct amb_error error = {0};
    struct amb_sub *sub;
    /* Comma lists work: "unix:///a,tcp://node2:4733". All of these but retry_first are defaults. */
    if (amb_connect(NULL,
                    AMB_OPTIONS(.retry_first = 1, .reconnect_min_ns = 50 * AMB_MS,
                                .reconnect_max_ns = 5 * AMB_SEC, .on_event = on_event,
                                .error = &error),
                    &conn) != AMB_OK) {
        fprintf(stderr, "connect: %s\n", error.text);
        return 1;
    }
    signal(SIGTERM, on_signal);
    enum amb_status status = amb_subscribe(conn, "prices.>", NULL, &sub);
    while (status == AMB_OK) {
        struct amb_msg *msg;
        status = amb_next(sub, 100 * AMB_MS, &msg); /* Waits across an outage. */
        if (status == AMB_OK) {
            show(msg);
            amb_msg_release(msg);
        } else if (status == AMB_ETIMEDOUT) {
            status = AMB_OK;
        }
        (void)amb_poll(conn, AMB_NOWAIT); /* Events only come here. */
    }
    amb_close(conn, AMB_SEC);
    return status != AMB_ESTOPPED;
}
