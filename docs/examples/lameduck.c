/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A publisher that outlives its broker. A broker that is asked to end says so first, and takes the
 * messages that are under way. New messages wait for the next broker.
 */
#include <amb/amb.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

static struct amb_conn *volatile conn;

static void on_signal(int number)
{
    (void)number;
    amb_stop(conn);
}

static void on_event(struct amb_conn *of, const struct amb_event *event, void *arg)
{
    (void)of;
    (void)arg;
    switch ((int)event->type) {
    case AMB_EVENT_DRAINING:
        puts("the broker will end");
        break;
    case AMB_EVENT_RESTORED:
        puts("there is another one");
        break;
    default:
        break;
    }
    fflush(stdout);
}

int main(void)
{
    struct amb_conn *opened;
    struct amb_pub *pub;
    uint64_t sent = 0;
    if (amb_connect(NULL, AMB_OPTIONS(.on_event = on_event, .reconnect_max_ns = 200 * AMB_MS),
                    &opened) != AMB_OK) {
        return 1;
    }
    conn = opened;
    signal(SIGTERM, on_signal);
    /* With a name, what was under way when the session ended is sent again, and comes once. */
    enum amb_status status = amb_pub_open(opened, "ticks", AMB_PUB(.name = "clock"), &pub);
    while (status == AMB_OK) {
        status = amb_pub_send(pub, "tick", 4, AMB_NOWAIT);
        sent += status == AMB_OK;
        if (status == AMB_OK || status == AMB_EAGAIN) { /* no room: later */
            status = amb_poll(opened, 20 * AMB_MS);     /* Events only come here. */
            status = status == AMB_ETIMEDOUT ? AMB_OK : status;
        }
    }
    if (status == AMB_ESTOPPED) {
        status = amb_flush(opened, 5 * AMB_SEC);
    }
    printf("%" PRIu64 " ticks, %s\n", sent, amb_strerror(status));
    amb_close(opened, AMB_SEC);
    return status != AMB_OK;
}
