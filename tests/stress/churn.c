/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topics, publishers and readers that come and go, on four workers of a real brokerd with room for
 * a few topics only. Publishers open, publish, and close at once or after a flush; all topics are
 * forgotten and made anew meanwhile, at other homes. One reader of everything must get each message
 * that was sent, whatever closes first. A close overtakes nothing, and a reader by a wildcard finds
 * a topic that comes again.
 *
 *   stress-churn BROKERD SECONDS [OBSERVER...]
 *
 * OBSERVER: a command, behind which the broker's socket and process come
 * (tests/support/observer.py).
 */
#include "tests/support/process/brokerd_process.h"
#include "wire/base/clock.h"

#include <amb/amb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAMES 200u
#define WRITERS 6u
#define FLITTERS 2u

enum stage {
    WRITING,
    READING, /* messages that are still on their way */
    OVER,
};

static char url[128];
static _Atomic int stage = WRITING;
static _Atomic uint64_t sent, got, lost, opened;

static struct amb_conn *connect_or_fail(void)
{
    struct amb_conn *conn;
    enum amb_status status = amb_connect(url, AMB_OPTIONS(.reconnect_attempts = AMB_NONE), &conn);
    if (status != AMB_OK) {
        test_fail("connect: %s", amb_strerror(status));
    }
    return conn;
}

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 8;
}

static void *read_everything(void *arg)
{
    struct amb_sub *sub = arg;
    while (atomic_load(&stage) != OVER) {
        struct amb_msg *msg;
        if (amb_next(sub, 50 * AMB_MS, &msg) == AMB_OK) {
            atomic_fetch_add(&got, 1);
            amb_msg_release(msg);
        }
    }
    struct amb_sub_info info = {.size = sizeof(info)};
    if (amb_sub_stat(sub, &info) == AMB_OK) {
        atomic_store(&lost, info.lost);
    }
    return NULL;
}

/* Readers that disturb: of one name or of all, for a moment. */
static void *flit(void *arg)
{
    unsigned seed = *(unsigned *)arg;
    struct amb_conn *conn = connect_or_fail();
    while (atomic_load(&stage) == WRITING) {
        char pattern[32] = "churn.*";
        unsigned number = next_random(&seed);
        if (number % 2 == 0) {
            (void)snprintf(pattern, sizeof(pattern), "churn.%u", number / 2 % NAMES);
        }
        struct amb_sub *sub;
        enum amb_status status = amb_subscribe(conn, pattern, NULL, &sub);
        if (status != AMB_OK) {
            test_fail("subscribe to %s: %s", pattern, amb_last_error(conn).text);
        }
        struct amb_msg *msg;
        if (amb_next(sub, AMB_MS, &msg) == AMB_OK) {
            amb_msg_release(msg);
        }
        (void)amb_sub_close(sub, AMB_NOWAIT);
    }
    (void)amb_close(conn, AMB_SEC);
    return NULL;
}

static void publish_some(struct amb_conn *conn, unsigned number)
{
    char topic[32];
    (void)snprintf(topic, sizeof(topic), "churn.%u", number / 16 % NAMES);
    struct amb_pub *pub;
    enum amb_status status = amb_pub_open(conn, topic, NULL, &pub);
    if (status != AMB_OK) {
        test_fail("open %s: %s", topic, amb_last_error(conn).text);
    }
    atomic_fetch_add(&opened, 1);
    for (unsigned i = 0; i <= number % 5; i++) {
        if (amb_pub_send(pub, topic, strlen(topic), AMB_SEC) != AMB_OK) {
            test_fail("send: %s", amb_last_error(conn).text);
        }
        atomic_fetch_add(&sent, 1);
        /* It leaves now, so that the close that follows has something to overtake. */
        status = amb_pub_flush(pub, 0, AMB_NOWAIT);
        if (status != AMB_OK && status != AMB_EAGAIN) {
            test_fail("flush: %s", amb_last_error(conn).text);
        }
    }
    /* Half of them without waiting, if nothing waits for room: only that would be canceled. */
    struct amb_pub_info info = {.size = sizeof(info)};
    bool waits =
        number % 2 == 0 || amb_pub_stat(pub, &info) != AMB_OK || info.blocked != AMB_BLOCKED_NOT;
    status = amb_pub_close(pub, waits ? 10 * AMB_SEC : AMB_NOWAIT);
    if (status != AMB_OK) {
        test_fail("close: %s", amb_strerror(status));
    }
}

static void *write_here_and_there(void *arg)
{
    unsigned seed = *(unsigned *)arg;
    struct amb_conn *conn = connect_or_fail();
    while (atomic_load(&stage) == WRITING) {
        publish_some(conn, next_random(&seed));
    }
    (void)amb_close(conn, AMB_SEC);
    return NULL;
}

static void nap(int64_t ns)
{
    const struct timespec time = {.tv_sec = ns / AMB_SEC, .tv_nsec = ns % AMB_SEC};
    (void)nanosleep(&time, NULL);
}

static void run(int64_t seconds)
{
    struct amb_conn *conn = connect_or_fail();
    struct amb_sub *all;
    if (amb_subscribe(conn, "churn.>",
                      AMB_SUB(.slow = AMB_SLOW_BLOCK, .slow_block_ns = 60 * AMB_SEC),
                      &all) != AMB_OK) {
        test_fail("subscribe: %s", amb_last_error(conn).text);
    }
    pthread_t reader, threads[WRITERS + FLITTERS];
    unsigned seeds[WRITERS + FLITTERS];
    (void)pthread_create(&reader, NULL, read_everything, all);
    for (unsigned i = 0; i < WRITERS + FLITTERS; i++) {
        seeds[i] = i * 7919 + 1;
        (void)pthread_create(&threads[i], NULL, i < WRITERS ? write_here_and_there : flit,
                             &seeds[i]);
    }
    nap(seconds * AMB_SEC);
    atomic_store(&stage, READING);
    for (unsigned i = 0; i < WRITERS + FLITTERS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    for (unsigned i = 0; i < 100 && atomic_load(&got) < atomic_load(&sent); i++) {
        nap(50 * AMB_MS);
    }
    atomic_store(&stage, OVER);
    (void)pthread_join(reader, NULL);
    (void)amb_close(conn, AMB_SEC);
}

int main(int argc, char **argv)
{
    static const char *const options[] = {"server.workers=4", "limits.topic_idle=1s",
                                          "limits.max_topics=60", NULL};
    if (argc < 3) {
        (void)fprintf(stderr, "usage: stress-churn BROKERD SECONDS [OBSERVER...]\n");
        return 64;
    }
    struct brokerd brokerd;
    brokerd_start(&brokerd, argv[1], options, 0);
    (void)snprintf(url, sizeof(url), "unix://%s", brokerd.socket_path);
    pid_t observer = argc > 3 ? brokerd_observer_start(&brokerd, argv + 3) : 0;
    run(atol(argv[2]));
    if (observer > 0) {
        brokerd_observer_end(observer);
    }
    brokerd_stop(&brokerd);
    uint64_t in = atomic_load(&sent), out = atomic_load(&got);
    (void)printf("%llu publishers, %llu messages sent, %llu read, %llu told lost\n",
                 (unsigned long long)atomic_load(&opened), (unsigned long long)in,
                 (unsigned long long)out, (unsigned long long)atomic_load(&lost));
    if (in != out || atomic_load(&lost) != 0 || in == 0) {
        test_fail("not every message was read");
    }
    return 0;
}
