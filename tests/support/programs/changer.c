/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A publisher that changes what it has published, and a reader that looks.
 *
 *     changer URL TOPIC
 *     changer URL TOPIC read
 *
 * Prints "ready". A line of input has it publish one message in place and print "sent" once the
 * broker has it. The next line has it write other bytes to where that message lay, and print
 * "changed". And so on, to the end of input. read prints "subscribed", takes one message, prints
 * "holding", waits for a line and prints "same" or "changed".
 */
#include <amb/amb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE ((size_t)100 << 10)

static void need(enum amb_status status, const char *what)
{
    if (status != AMB_OK) {
        (void)fprintf(stderr, "changer: %s: %s\n", what, amb_strerror(status));
        exit(1);
    }
}

static void say(const char *text)
{
    (void)printf("%s\n", text);
    (void)fflush(stdout);
}

static int look(struct amb_conn *conn, const char *topic)
{
    struct amb_sub *sub;
    struct amb_msg *msg;
    char line[16];
    need(amb_subscribe(conn, topic, NULL, &sub), "subscribe");
    say("subscribed");
    need(amb_next(sub, 20 * AMB_SEC, &msg), "next");
    say("holding");
    (void)fgets(line, sizeof(line), stdin);
    const uint8_t *bytes = amb_msg_data(msg);
    bool is_same = amb_msg_size(msg) == SIZE;
    for (size_t i = 0; is_same && i < SIZE; i++) {
        is_same = bytes[i] == 'a';
    }
    say(is_same ? "same" : "changed");
    amb_msg_release(msg);
    need(amb_close(conn, 5 * AMB_SEC), "close");
    return 0;
}

int main(int argc, char **argv)
{
    struct amb_conn *conn;
    struct amb_pub *pub;
    char line[16];
    if (argc != 3 && argc != 4) {
        return 64;
    }
    need(amb_connect(argv[1], NULL, &conn), "connect");
    if (argc == 4) {
        return look(conn, argv[2]);
    }
    need(amb_pub_open(conn, argv[2], NULL, &pub), "publisher");
    say("ready");
    while (fgets(line, sizeof(line), stdin) != NULL) {
        struct amb_lease *lease;
        need(amb_lease(pub, SIZE, 10 * AMB_SEC, &lease), "lease");
        uint8_t *bytes = amb_lease_data(lease);
        memset(bytes, 'a', SIZE);
        need(amb_lease_commit(lease, NULL, NULL), "commit");
        need(amb_flush(conn, 10 * AMB_SEC), "flush");
        say("sent");
        if (fgets(line, sizeof(line), stdin) != NULL) {
            memset(bytes, 'b', SIZE); /* Against the rules of the library, not of the memory. */
            say("changed");
        }
    }
    need(amb_close(conn, 5 * AMB_SEC), "close");
    return 0;
}
