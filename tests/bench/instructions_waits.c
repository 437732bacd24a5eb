/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The price of a wait: instructions and system calls of a thread that finds nothing, goes to sleep
 * and is woken.
 *
 *     instructions-bench waits ring|stream ROUNDS PART
 *
 *   PART        one wait of it
 *   publisher   a message into a worker that sleeps, with its wake-up
 *   broker      the worker: from its wake-up over the message to its next sleep
 *   subscriber  amb_next, from a look that finds nothing to the message
 *   room        amb_pub_send with a full window, until the message is taken
 *
 * Broker and clients are as users have them, with the threads of libamb and of the worker. Nobody
 * yields before a sleep. The threads take turns, so each wait has the same steps:
 *
 *   main    amb_next ─► ppoll: I/O thread rests ─► a message ─┐               ┌─► the message
 *   worker                    asleep in epoll_wait            └─► turns, sleeps ┘
 *
 * epoll_wait and ppoll of this program stand in for libc's. The worker's waits there until main
 * lets it go on, and then sleeps in earnest. The one of main does before its sleep whatever is to
 * wake it. Between two rounds all threads come to rest, and the clock goes on by ROUND_NS.
 *
 * Callgrind collects the instructions of PART alone. The system calls are those that a thread makes
 * between getpgid(MARK_BEGIN) and getpgid(MARK_END), as valgrind lists them (--trace-syscalls).
 *
 * Threads: main, control, the worker, two of libamb. Memory: given back by the process's end.
 */
#include "tests/bench/instructions_bench.h"

#include "broker/shard/shard.h"
#include "client/conn/conn.h"
#include "wire/base/clock.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

/* Groups of processes that there are not. instructions.py knows these numbers. */
#define MARK_BEGIN 2000000001
#define MARK_END 2000000002
#define MARK_ROUND 2000000003
#define ROUND_NS (5 * AMB_NS_PER_MS) /* enough for whatever a thread keeps back */
#define WARM_ROUNDS 5u
#define ROUNDS_MAX 100000ul
#define WAIT_NS (60 * AMB_SEC)
#define LOOK_US 500u     /* between two looks at threads that come to rest */
#define LOOKS_MAX 40000u /* 20 s of them */
#define CALM_LOOKS 3u
#define SOON_MS 100 /* a worker that sleeps for less has a timer */
#define WINDOW_MSGS 4u
#define SIZE 64u

enum part {
    PUBLISHER,
    BROKER,
    SUBSCRIBER,
    ROOM,
    PARTS
};
static const char *const names[PARTS] = {"publisher", "broker", "subscriber", "room"};

static struct amb_conn *pub_conn, *sub_conn;
static struct amb_pub *pub, *room;
static struct amb_sub *sub;
static const char payload[SIZE];

/* ---- what is counted ---- */

static enum part counted = PARTS;
static bool is_planted;          /* $AMB_BENCH_PLANT: a call too many, to see that it is counted */
static _Atomic bool is_counting; /* main's; the worker reads it when it may go on */

static void begin(enum part part)
{
    if (part == counted && atomic_load(&is_counting)) {
        (void)getpgid(MARK_BEGIN);
        CALLGRIND_TOGGLE_COLLECT;
    }
}

static void end(enum part part)
{
    if (part == counted && atomic_load(&is_counting)) {
        CALLGRIND_TOGGLE_COLLECT;
        (void)getpgid(MARK_END);
    }
}

static void plant(void)
{
    if (is_planted) {
        (void)getppid();
    }
}

/* ---- the worker's turn ---- */

static _Atomic bool is_taken; /* the worker goes on when main says so */
static _Atomic int sleep_ms;  /* its last sleep's limit */
static sem_t may_go, is_asleep;

static void sem_take(sem_t *sem)
{
    while (sem_wait(sem) != 0) {
        if (errno != EINTR) {
            bench_fail("sem_wait", AMB_EINTERNAL);
        }
    }
}

BENCH_STAND_IN int epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
    if (fd == bench_worker.shard.poll.epoll_fd && timeout_ms != 0 && atomic_load(&is_taken)) {
        atomic_store(&sleep_ms, timeout_ms);
        end(BROKER);
        (void)sem_post(&is_asleep);
        sem_take(&may_go);
        begin(BROKER);
        plant();
    }
    return epoll_pwait(fd, events, max, timeout_ms, NULL);
}

static bool is_woken(void)
{
    struct pollfd fd = {.fd = bench_worker.shard.poll.epoll_fd, .events = POLLIN};
    return poll(&fd, 1, 0) > 0;
}

/* Until it sleeps, and nothing more is there for it. */
static void let_worker_go(void)
{
    do {
        (void)sem_post(&may_go);
        sem_take(&is_asleep);
    } while (is_woken());
}

/* ---- main's sleep ---- */

static _Thread_local bool is_main;
static enum part waiter;           /* the part that main is in */
static void (*before_sleep)(void); /* once */

BENCH_STAND_IN int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                         const sigset_t *mask)
{
    if (is_main && before_sleep != NULL) {
        void (*wake)(void) = before_sleep;
        before_sleep = NULL;
        end(waiter);
        wake();
        begin(waiter);
        plant();
    }
    struct timespec left = timeout != NULL ? *timeout : (struct timespec){0};
    return (int)syscall(SYS_ppoll, fds, count, timeout != NULL ? &left : NULL, mask, _NSIG / 8);
}

/* ---- rest ---- */

/* The I/O thread sleeps so, and has not been woken since. */
static bool is_in(const struct amb_conn *conn, enum amb_io_mode mode)
{
    struct pollfd fd = {.fd = conn->io.wake_fd, .events = POLLIN};
    return atomic_load(&conn->io.mode) == (uint32_t)mode && poll(&fd, 1, 0) == 0;
}

/* is_calm has to say so several times in a row: a thread that has just been woken does not show it
 * yet. */
static void wait_calm(bool (*is_calm)(const struct amb_conn *conn), const struct amb_conn *conn)
{
    unsigned calm = 0;
    for (unsigned looks = 0; calm < CALM_LOOKS; looks++) {
        if (looks > LOOKS_MAX) {
            bench_fail("the threads do not come to rest", AMB_ETIMEDOUT);
        }
        (void)usleep(LOOK_US);
        calm = is_calm(conn) ? calm + 1 : 0;
    }
}

/* The I/O thread has seen that main sleeps on the link, and leaves that to it. */
static bool is_deep(const struct amb_conn *conn)
{
    return is_in(conn, AMB_IO_DEEP);
}

static bool is_watching(const struct amb_conn *conn)
{
    return is_in(conn, AMB_IO_WATCH);
}

static bool are_all_calm(const struct amb_conn *conn)
{
    (void)conn;
    if (is_woken()) {
        let_worker_go();
        return false;
    }
    return is_watching(pub_conn) && is_watching(sub_conn);
}

static void settle(void)
{
    bench_pass(ROUND_NS);
    if (atomic_load(&sleep_ms) < SOON_MS) {
        let_worker_go();
    }
    wait_calm(are_all_calm, NULL);
}

/* ---- rounds ---- */

/* Lets go the messages that wait for company. Their settlement is not waited for. */
static void push(struct amb_pub *publisher)
{
    enum amb_status status = amb_pub_flush(publisher, 0, AMB_NOWAIT);
    if (status != AMB_OK && status != AMB_EAGAIN && status != AMB_ETIMEDOUT) {
        bench_fail("flush", status);
    }
}

static void wake_subscriber(void)
{
    wait_calm(is_deep, sub_conn);
    begin(PUBLISHER);
    enum amb_status status = amb_pub_send(pub, payload, SIZE, AMB_NOWAIT);
    push(pub);
    end(PUBLISHER);
    bench_must("send", status);
    let_worker_go();
}

static void wake_publisher(void)
{
    wait_calm(is_deep, pub_conn);
    let_worker_go();
}

/* Both waits end without a sleep only if a message, or room, was there too early. */
static void must_have_slept(const char *what, enum amb_status status)
{
    bench_must(what, status);
    if (before_sleep != NULL) {
        bench_fail(what, AMB_ESTATE);
    }
}

static void receive_round(void)
{
    struct amb_msg *msg = NULL;
    before_sleep = wake_subscriber;
    waiter = SUBSCRIBER;
    begin(SUBSCRIBER);
    enum amb_status status = amb_next(sub, WAIT_NS, &msg);
    end(SUBSCRIBER);
    must_have_slept("receive", status);
    amb_msg_release(msg);
}

static void room_round(void)
{
    unsigned sent = 0;
    push(room); /* With a look at what has been settled meanwhile. */
    while (amb_pub_send(room, payload, SIZE, AMB_NOWAIT) == AMB_OK) {
        sent++;
        push(room); /* Only between two batches is the number of messages looked at. */
    }
    if (sent != WINDOW_MSGS) {
        bench_fail("the window", AMB_ESTATE);
    }
    wait_calm(is_watching, pub_conn);
    before_sleep = wake_publisher;
    waiter = ROOM;
    begin(ROOM);
    enum amb_status status = amb_pub_send(room, payload, SIZE, WAIT_NS);
    end(ROOM);
    must_have_slept("send", status);
    push(room);
}

static void run(unsigned long rounds, bool is_measured)
{
    for (unsigned long i = 0; i < rounds; i++) {
        settle();
        atomic_store(&is_counting, is_measured);
        if (is_measured) {
            (void)getpgid(MARK_ROUND);
        }
        if (counted == ROOM) {
            room_round();
        } else {
            receive_round();
        }
        atomic_store(&is_counting, false);
    }
}

static void set_up(const char *link)
{
    char url[sizeof(bench_url) + 16];
    struct amb_options *options =
        AMB_OPTIONS(.spin_ns = AMB_SPIN_NEVER, .reconnect_attempts = AMB_NONE);
    (void)snprintf(url, sizeof(url), "%s?link=%s", bench_url, link);
    bench_must("connect", amb_connect(url, options, &pub_conn));
    bench_must("connect", amb_connect(url, options, &sub_conn));
    bench_must("subscribe", amb_subscribe(sub_conn, "wait", AMB_SUB(.slow = AMB_SLOW_BLOCK), &sub));
    bench_must("open", amb_pub_open(pub_conn, "wait", NULL, &pub));
    bench_must("open", amb_pub_open(pub_conn, "room", AMB_PUB(.window_msgs = WINDOW_MSGS), &room));
    bench_must("wait", amb_pub_wait_subscribers(pub, 1, WAIT_NS));
    /* A topic's first message waits until control has told all readers of it. */
    struct amb_msg *msg = NULL;
    bench_must("send", amb_pub_send(pub, payload, SIZE, AMB_NOWAIT));
    bench_must("flush", amb_pub_flush(pub, 0, WAIT_NS));
    bench_must("receive", amb_next(sub, WAIT_NS, &msg));
    amb_msg_release(msg);
    bench_must("send", amb_pub_send(room, payload, SIZE, AMB_NOWAIT));
    bench_must("flush", amb_pub_flush(room, 0, WAIT_NS));
}

/* From here on the worker goes on only when main says so. */
static void take_worker(void)
{
    bench_freeze();
    atomic_store(&is_taken, true);
    bench_must("send", amb_pub_send(room, payload, SIZE, AMB_NOWAIT));
    push(room);
    sem_take(&is_asleep);
}

int bench_waits(int argc, char **argv)
{
    unsigned long rounds = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
    for (unsigned i = 0; argc == 3 && i < PARTS; i++) {
        counted = strcmp(argv[2], names[i]) == 0 ? (enum part)i : counted;
    }
    if (rounds < 1 || rounds > ROUNDS_MAX || counted == PARTS) {
        (void)fprintf(stderr, "usage: instructions-bench waits ring|stream ROUNDS "
                              "publisher|broker|subscriber|room\n");
        return 64;
    }
    is_main = true;
    is_planted = getenv("AMB_BENCH_PLANT") != NULL;
    if (sem_init(&may_go, 0, 0) != 0 || sem_init(&is_asleep, 0, 0) != 0) {
        bench_fail("sem_init", AMB_EINTERNAL);
    }
    bench_start_broker(true);
    set_up(argv[0]);
    take_worker();
    run(WARM_ROUNDS, false);
    run(rounds, true);
    (void)printf("{\"link\":\"%s\",\"part\":\"%s\",\"rounds\":%lu}\n", argv[0], names[counted],
                 rounds);
    bench_end();
}
