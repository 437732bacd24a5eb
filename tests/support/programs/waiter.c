/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client all of whose threads wait for the broker, each in another call, for ever.
 *
 *     waiter URL
 *
 * Prints "waiting" when all of them do, then for each call that comes back "CALL STATUS NS", NS of
 * CLOCK_MONOTONIC. Closes everything, prints "closed STATUS NS" and ends with 0.
 */
#include <amb/amb.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MESSAGE 32768
#define PATIENCE_NS (60 * AMB_SEC) /* to connect: over ucx 10 s are too few where cores are few */

static struct amb_conn *conn, *poll_conn;
static struct amb_sub *silent, *full;
static struct amb_pub *pub, *lonely;
static atomic_int entered;
static char payload[MESSAGE];

static int64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void say(const char *call, enum amb_status status)
{
    (void)printf("%s %d %" PRId64 "\n", call, (int)status, now_ns());
    (void)fflush(stdout);
}

static void check(enum amb_status status, const char *what)
{
    if (status != AMB_OK) {
        (void)fprintf(stderr, "waiter: %s: %s\n", what, amb_strerror(status));
        exit(1);
    }
}

static void *wait_next(void *arg)
{
    (void)arg;
    struct amb_msg *msg;
    atomic_fetch_add(&entered, 1);
    say("next", amb_next(silent, AMB_FOREVER, &msg));
    return NULL;
}

static void *wait_poll(void *arg)
{
    (void)arg;
    atomic_fetch_add(&entered, 1);
    enum amb_status status;
    do { /* OK: ran a callback. */
        status = amb_poll(poll_conn, AMB_FOREVER);
    } while (status == AMB_OK);
    say("poll", status);
    return NULL;
}

static void *wait_send(void *arg)
{
    (void)arg;
    atomic_fetch_add(&entered, 1);
    enum amb_status status;
    do { /* OK: a broker that had no turn for long gave more room after all. */
        status = amb_pub_send(pub, payload, sizeof(payload), AMB_FOREVER);
    } while (status == AMB_OK);
    say("pub_send", status);
    return NULL;
}

static void *wait_flush(void *arg)
{
    (void)arg;
    atomic_fetch_add(&entered, 1);
    enum amb_status status;
    do { /* OK: the same; wait_send posts more. */
        status = amb_pub_flush(pub, 0, AMB_FOREVER);
    } while (status == AMB_OK);
    say("pub_flush", status);
    return NULL;
}

static void *wait_conn_flush(void *arg)
{
    (void)arg;
    atomic_fetch_add(&entered, 1);
    enum amb_status status;
    do {
        status = amb_flush(conn, AMB_FOREVER);
    } while (status == AMB_OK);
    say("flush", status);
    return NULL;
}

static void *wait_subscribers(void *arg)
{
    (void)arg;
    atomic_fetch_add(&entered, 1);
    say("wait_subscribers", amb_pub_wait_subscribers(lonely, 1, AMB_FOREVER));
    return NULL;
}

/* Never waits long, never stops: the end may come in any phase of a round trip. */
static void *keep_asking(void *arg)
{
    (void)arg;
    atomic_fetch_add(&entered, 1);
    enum amb_status status = AMB_OK;
    while (status == AMB_OK) {
        struct amb_pub *other;
        status = amb_pub_open(conn, "waiter.other", NULL, &other);
        if (status == AMB_OK) {
            status = amb_pub_close(other, AMB_FOREVER);
        }
    }
    say("pub_open", status);
    return NULL;
}

static void fill_up(void)
{
    enum amb_status status;
    struct timespec pause = {.tv_nsec = 10000000};
    for (int quiet = 0; quiet < 20;) { /* 200 ms without room: nobody takes anything any more. */
        status = amb_pub_send(pub, payload, sizeof(payload), AMB_NOWAIT);
        if (status == AMB_EAGAIN) {
            quiet++;
            (void)nanosleep(&pause, NULL);
        } else {
            check(status, "pub_send");
            quiet = 0;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: waiter URL\n");
        return 64;
    }
    check(
        amb_connect(argv[1],
                    AMB_OPTIONS(.reconnect_attempts = AMB_NONE, .connect_timeout_ns = PATIENCE_NS),
                    &conn),
        "connect");
    check(
        amb_connect(argv[1],
                    AMB_OPTIONS(.reconnect_attempts = AMB_NONE, .connect_timeout_ns = PATIENCE_NS),
                    &poll_conn),
        "connect");
    check(amb_subscribe(conn, "waiter.silent", NULL, &silent), "subscribe");
    check(amb_subscribe(
              conn, "waiter.full",
              AMB_SUB(.credit_bytes = 65536, .slow = AMB_SLOW_BLOCK, .slow_block_ns = AMB_FOREVER),
              &full),
          "subscribe");
    check(amb_pub_open(conn, "waiter.full", NULL, &pub), "pub_open");
    check(amb_pub_open(conn, "waiter.lonely", NULL, &lonely), "pub_open");
    fill_up();
    void *(*const calls[])(void *) = {wait_next,       wait_poll,        wait_send,  wait_flush,
                                      wait_conn_flush, wait_subscribers, keep_asking};
    enum {
        CALLS = sizeof(calls) / sizeof(calls[0])
    };
    pthread_t threads[CALLS];
    for (int i = 0; i < CALLS; i++) {
        (void)pthread_create(&threads[i], NULL, calls[i], NULL);
    }
    while (atomic_load(&entered) < CALLS) {
        struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
    }
    (void)printf("waiting\n");
    (void)fflush(stdout);
    for (int i = 0; i < CALLS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    (void)amb_sub_close(silent, AMB_FOREVER);
    (void)amb_pub_close(pub, AMB_FOREVER);
    say("closed", amb_close(conn, AMB_FOREVER));
    (void)amb_close(poll_conn, AMB_FOREVER);
    return 0;
}
