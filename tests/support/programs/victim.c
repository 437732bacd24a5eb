/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients made to be killed: each does one thing over and over until somebody ends it.
 *
 *     victim
 *
 * Standard input: lines "URL NAME PHASE". For each it forks a victim and prints "pid PID"; when one
 * has ended, "ended PID STATUS" (negative: the signal). Forked from one that has UCX, since loading
 * that takes longer than many a victim lives. PHASE is one of
 *
 *     connect   opens and closes sessions
 *     close     a session with a publisher, a subscription and messages held, and closes all of it
 *     publish   publishes checked messages to victim.NAME as fast as it may
 *     lease     the same in place: takes a few leases, fills them, commits most, drops the rest
 *     hold      publishes, and holds messages of everybody else for a while, in place where
 *               the link allows; checks each when it comes and when it goes
 *
 * A victim's status: 1 if anything but the end of the broker happens to it, 2 if it ever sees a
 * wrong byte.
 */
#include "tests/support/programs/checked.h"

#include <amb/amb.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HELD 64
#define PATIENCE_NS (60 * AMB_SEC) /* of opening things, where cores are few */

static const char *url, *name;
static bool is_leasing; /* publishes in place */

/* A broker that is killed or stopped is no failure of ours. */
static void check(enum amb_status status, const char *what)
{
    if (status == AMB_OK) {
        return;
    }
    if (amb_status_scope(status) == AMB_SCOPE_SESSION) {
        _exit(0);
    }
    (void)fprintf(stderr, "%s: %s: %s\n", name, what, amb_strerror(status));
    _exit(1);
}

static struct amb_conn *open_session(void)
{
    struct amb_conn *conn;
    struct amb_error error = {0};
    enum amb_status status =
        amb_connect(url,
                    AMB_OPTIONS(.name = name, .error = &error, .reconnect_attempts = AMB_NONE,
                                .connect_timeout_ns = PATIENCE_NS, .timeout_ns = PATIENCE_NS),
                    &conn);
    if (status == AMB_EUNREACHABLE || status == AMB_ELOST || status == AMB_ECLOSED) {
        _exit(0);
    }
    if (status != AMB_OK) {
        (void)fprintf(stderr, "%s: connect: %s\n", name, error.text);
        _exit(1);
    }
    return conn;
}

static uint64_t fresh_id(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return ((uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec) ^ (uint64_t)getpid() << 48;
}

static void publish_some(struct amb_pub *pub, uint64_t id, uint64_t first, uint64_t count)
{
    static _Thread_local uint8_t *bytes;
    if (bytes == NULL) {
        bytes = malloc(CHECKED_SIZE_MAX + 8);
    }
    for (uint64_t n = first; n < first + count; n++) {
        size_t size = checked_size(id, n, CHECKED_SIZE_MAX);
        checked_fill(bytes, size, id, n);
        if (n % 7 == 0) { /* Borrowed until settled. */
            check(amb_pub_post(pub, AMB_OUT(.data = bytes, .len = size, .key = "k"), AMB_FOREVER,
                               NULL),
                  "pub_post");
            check(amb_pub_flush(pub, 0, AMB_FOREVER), "pub_flush");
        } else {
            check(amb_pub_send(pub, bytes, size, AMB_FOREVER), "pub_send");
        }
    }
}

#define LEASES 8

/* Messages first... in place. A slot that is filled and not committed was never sent. */
static void lease_some(struct amb_pub *pub, uint64_t id, uint64_t first, uint64_t count)
{
    struct amb_lease *leases[LEASES], *spare;
    size_t sizes[LEASES];
    for (uint64_t i = 0; i < count; i++) {
        sizes[i] = checked_size(id, first + i, CHECKED_SIZE_MAX);
        check(amb_lease(pub, sizes[i], AMB_FOREVER, &leases[i]), "lease");
    }
    check(amb_lease(pub, 1000, AMB_FOREVER, &spare), "lease");
    memset(amb_lease_data(spare), 0xee, 1000);
    for (uint64_t i = 0; i < count; i++) {
        checked_fill(amb_lease_data(leases[i]), sizes[i], id, first + i);
        check(amb_lease_commit(leases[i], NULL, NULL), "lease_commit");
    }
    amb_lease_abandon(spare);
}

static void *publish(void *arg)
{
    struct amb_conn *conn = arg;
    char topic[128];
    (void)snprintf(topic, sizeof(topic), "victim.%s", name);
    struct amb_pub *pub;
    check(amb_pub_open(conn, topic, NULL, &pub), "pub_open");
    uint64_t id = fresh_id();
    for (uint64_t n = 1;; n += LEASES) {
        if (is_leasing) {
            lease_some(pub, id, n, LEASES);
        } else {
            publish_some(pub, id, n, LEASES);
        }
    }
    return NULL;
}

struct held {
    struct amb_msg *msg;
    uint64_t sum;
};

static void put_back(struct held *held)
{
    if (held->msg == NULL) {
        return;
    }
    if (checked_sum(amb_msg_data(held->msg), amb_msg_size(held->msg)) != held->sum) {
        (void)fprintf(stderr, "%s: %s seq %" PRIu64 " has changed while it was held, by %s\n", name,
                      amb_msg_topic(held->msg), amb_msg_seq(held->msg), amb_msg_path(held->msg));
        _exit(2);
    }
    amb_msg_release(held->msg);
    held->msg = NULL;
}

static void hold(struct amb_conn *conn)
{
    struct amb_sub *sub;
    check(amb_subscribe(conn, ">", AMB_SUB(.slow = AMB_SLOW_DROP_OLDEST), &sub), "subscribe");
    struct held held[HELD] = {{0}};
    for (size_t i = 0;; i = (i + 1) % HELD) {
        struct amb_msg *msg;
        check(amb_next(sub, AMB_FOREVER, &msg), "next");
        put_back(&held[i]);
        /* No reader's state: alone the bytes, whoever sent them. */
        struct checked_reader reader = {.max = CHECKED_SIZE_MAX};
        if (checked_next(&reader, amb_msg_data(msg), amb_msg_size(msg), 0) == CHECKED_WRONG) {
            (void)fprintf(stderr, "%s: %s seq %" PRIu64 ": wrong bytes by %s\n", name,
                          amb_msg_topic(msg), amb_msg_seq(msg), amb_msg_path(msg));
            _exit(2);
        }
        held[i] = (struct held){msg, checked_sum(amb_msg_data(msg), amb_msg_size(msg))};
    }
}

/* One session from its beginning to its orderly end. */
static void whole_life(void)
{
    struct amb_conn *conn = open_session();
    struct amb_sub *sub;
    struct amb_pub *pub;
    char topic[128];
    (void)snprintf(topic, sizeof(topic), "victim.%s", name);
    check(amb_subscribe(conn, topic, NULL, &sub), "subscribe");
    check(amb_pub_open(conn, topic, NULL, &pub), "pub_open");
    publish_some(pub, fresh_id(), 1, 20);
    struct amb_msg *kept;
    check(amb_next(sub, AMB_FOREVER, &kept), "next");
    check(amb_pub_close(pub, AMB_FOREVER), "pub_close");
    check(amb_sub_close(sub, AMB_FOREVER), "sub_close");
    check(amb_close(conn, AMB_FOREVER), "close");
    amb_msg_release(kept);
}

static void live(const char *phase)
{
    if (strcmp(phase, "connect") == 0) {
        for (;;) {
            check(amb_close(open_session(), AMB_FOREVER), "close");
        }
    }
    if (strcmp(phase, "close") == 0) {
        for (;;) {
            whole_life();
        }
    }
    struct amb_conn *conn = open_session();
    is_leasing = strcmp(phase, "lease") == 0;
    if (is_leasing || strcmp(phase, "publish") == 0) {
        (void)publish(conn);
    }
    pthread_t thread;
    (void)pthread_create(&thread, NULL, publish, conn);
    hold(conn);
}

static void start_one(char *line)
{
    char *rest;
    url = strtok_r(line, " \n", &rest);
    name = strtok_r(NULL, " \n", &rest);
    const char *phase = strtok_r(NULL, " \n", &rest);
    if (phase == NULL) {
        (void)fprintf(stderr, "victim: URL NAME PHASE expected\n");
        exit(64);
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        live(phase);
        _exit(0);
    }
    (void)printf("pid %d\n", (int)pid);
}

static void reap(void)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        (void)printf("ended %d %d\n", (int)pid,
                     WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
    }
}

static void on_child(int number)
{
    (void)number; /* Interrupts ppoll. */
}

int main(void)
{
    sigset_t blocked, open;
    (void)sigemptyset(&open);
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &blocked, NULL);
    (void)sigaction(SIGCHLD, &(struct sigaction){.sa_handler = on_child}, NULL);
    (void)setvbuf(stdin, NULL, _IONBF, 0);
    (void)dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    for (;;) {
        (void)fflush(stdout);
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        if (ppoll(&input, 1, NULL, &open) > 0) {
            char line[512];
            if (fgets(line, sizeof(line), stdin) == NULL) {
                return 0;
            }
            start_one(line);
        }
        reap();
    }
}
