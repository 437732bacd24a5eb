/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader that holds messages through whatever happens to it, and says what it sees.
 *
 *     holder URL PATTERN COUNT [--fork]
 *
 * Takes COUNT messages and keeps them, then takes and gives back all that comes. Prints, a line
 * each:
 *     holding COUNT BYTES             from here on
 *     child PID CALL=STATUS ...       --fork: what the calls of a forked child answer; it lives on
 *     parent STATUS                   --fork: a message taken after the fork
 *     ended STATUS NS                 its session is over; NS between the last answer and this one
 *     checked COUNT WRONG             every held message looked at once more
 * then waits for the end of standard input, checks again, gives everything back and ends. Exit: 0,
 * or 2 if a held message has changed.
 */
#include "tests/support/programs/checked.h"

#include <amb/amb.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct held {
    struct amb_msg *msg;
    uint64_t sum;
};

static int64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static size_t check_held(const struct held *held, size_t count)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        wrong += checked_sum(amb_msg_data(held[i].msg), amb_msg_size(held[i].msg)) != held[i].sum;
    }
    (void)printf("checked %zu %zu\n", count, wrong);
    (void)fflush(stdout);
    return wrong;
}

static void child_main(struct amb_conn *conn, struct amb_sub *sub, struct amb_pub *pub)
{
    struct amb_msg *msg;
    struct amb_sub *other_sub;
    struct amb_pub *other_pub;
    (void)printf("child %d next=%d publish=%d send=%d flush=%d poll=%d subscribe=%d pub_open=%d",
                 (int)getpid(), (int)amb_next(sub, AMB_SEC, &msg),
                 (int)amb_publish(conn, "fork.a", "x", 1, AMB_SEC),
                 (int)amb_pub_send(pub, "x", 1, AMB_SEC), (int)amb_flush(conn, AMB_SEC),
                 (int)amb_poll(conn, AMB_SEC), (int)amb_subscribe(conn, "fork.a", NULL, &other_sub),
                 (int)amb_pub_open(conn, "fork.b", NULL, &other_pub));
    (void)printf(" fd=%d\n", amb_fd(conn));
    (void)fflush(stdout);
    for (;;) {
        (void)pause();
    }
}

static void fork_now(struct amb_conn *conn, struct amb_sub *sub)
{
    struct amb_pub *pub;
    if (amb_pub_open(conn, "fork.own", NULL, &pub) != AMB_OK || fflush(stdout) != 0) {
        exit(1);
    }
    if (fork() == 0) {
        child_main(conn, sub, pub);
    }
    enum amb_status status = amb_pub_send(pub, "x", 1, AMB_SEC);
    struct amb_msg *msg = NULL;
    if (status == AMB_OK) {
        status = amb_pub_close(pub, AMB_SEC);
    }
    if (status == AMB_OK) {
        status = amb_next(sub, 5 * AMB_SEC, &msg);
    }
    amb_msg_release(msg);
    (void)printf("parent %d\n", (int)status);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        (void)fprintf(stderr, "usage: holder URL PATTERN COUNT [--fork]\n");
        return 64;
    }
    struct amb_error error = {0};
    struct amb_conn *conn;
    struct amb_sub *sub;
    if (amb_connect(argv[1],
                    AMB_OPTIONS(.name = "holder", .error = &error, .reconnect_attempts = AMB_NONE),
                    &conn) != AMB_OK ||
        amb_subscribe(conn, argv[2], AMB_SUB(.slow = AMB_SLOW_DROP_OLDEST), &sub) != AMB_OK) {
        (void)fprintf(stderr, "holder: %s\n", error.text);
        return 1;
    }
    size_t count = strtoul(argv[3], NULL, 10), bytes = 0;
    struct held *held = calloc(count, sizeof(*held));
    enum amb_status status = AMB_OK;
    for (size_t i = 0; i < count && status == AMB_OK; i++) {
        status = amb_next(sub, AMB_FOREVER, &held[i].msg);
        if (status == AMB_OK) {
            held[i].sum = checked_sum(amb_msg_data(held[i].msg), amb_msg_size(held[i].msg));
            bytes += amb_msg_size(held[i].msg);
        }
    }
    (void)printf("holding %zu %zu\n", count, bytes);
    (void)fflush(stdout);
    if (argc > 4 && strcmp(argv[4], "--fork") == 0) {
        fork_now(conn, sub);
    }
    int64_t last_ns = now_ns();
    for (;;) {
        struct amb_msg *msg;
        last_ns = now_ns();
        status = amb_next(sub, AMB_FOREVER, &msg);
        if (status != AMB_OK) {
            break;
        }
        amb_msg_release(msg);
    }
    (void)printf("ended %d %" PRId64 "\n", (int)status, now_ns() - last_ns);
    size_t wrong = check_held(held, count);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    wrong += check_held(held, count);
    (void)amb_close(conn, AMB_SEC);
    for (size_t i = 0; i < count; i++) {
        amb_msg_release(held[i].msg);
    }
    free(held);
    return wrong == 0 ? 0 : 2;
}
