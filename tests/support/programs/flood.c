/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a stream of small messages that does nothing else, until somebody ends it.
 *
 *     flood URL TOPIC pub|sub SIZE
 *
 * Prints "ready" when it is about to begin.
 */
#include <amb/amb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(enum amb_status status, const char *what)
{
    if (status != AMB_OK) {
        (void)fprintf(stderr, "flood: %s: %s\n", what, amb_strerror(status));
        exit(1);
    }
}

static void say_ready(void)
{
    (void)printf("ready\n");
    (void)fflush(stdout);
}

static void publish(struct amb_conn *conn, const char *topic, size_t size)
{
    struct amb_pub *pub;
    void *payload = calloc(1, size + 1);
    check(amb_pub_open(conn, topic, AMB_PUB(.confirm = AMB_CONFIRM_NONE), &pub), "pub_open");
    check(amb_pub_wait_subscribers(pub, 1, 20 * AMB_SEC), "wait_subscribers");
    say_ready();
    for (;;) {
        check(amb_pub_send(pub, payload, size, AMB_FOREVER), "pub_send");
    }
}

static void subscribe(struct amb_conn *conn, const char *topic)
{
    struct amb_sub *sub;
    check(amb_subscribe(conn, topic, AMB_SUB(.slow = AMB_SLOW_BLOCK, .slow_block_ns = AMB_FOREVER),
                        &sub),
          "subscribe");
    say_ready();
    for (;;) {
        struct amb_msg *msg;
        check(amb_next(sub, AMB_FOREVER, &msg), "next");
        amb_msg_release(msg);
    }
}

int main(int argc, char **argv)
{
    struct amb_error error = {0};
    struct amb_conn *conn;
    if (argc != 5) {
        (void)fprintf(stderr, "usage: flood URL TOPIC pub|sub SIZE\n");
        return 64;
    }
    if (amb_connect(argv[1],
                    AMB_OPTIONS(.name = argv[3], .error = &error, .reconnect_attempts = AMB_NONE),
                    &conn) != AMB_OK) {
        (void)fprintf(stderr, "flood: %s\n", error.text);
        return 1;
    }
    if (strcmp(argv[3], "pub") == 0) {
        publish(conn, argv[2], strtoul(argv[4], NULL, 10));
    }
    subscribe(conn, argv[2]);
    return 0;
}
