/* SPDX-License-Identifier: Apache-2.0 */
/* A table of last values: a late reader gets the newest message of each key, then new messages. The
 * topic keeps them: topics = ( { match = "values.>"; retain = { keys = 100; }; } ); */
#include <amb/amb.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int put(struct amb_pub *pub, const char *key, const char *value)
{
    return amb_pub_post(pub, AMB_OUT(.data = value, .len = strlen(value), .key = key), AMB_SEC,
                        NULL) != AMB_OK;
}

/* Prints the next message; how many were lost before it. */
static uint64_t show(struct amb_conn *conn, struct amb_sub *sub)
{
    struct amb_msg *msg;
    if (amb_next(sub, 5 * AMB_SEC, &msg) != AMB_OK) {
        fprintf(stderr, "next: %s\n", amb_last_error(conn).text);
        return 1;
    }
    uint64_t lost = amb_msg_lost(msg, NULL);
    printf("%s %.*s\n", amb_msg_key(msg), (int)amb_msg_size(msg), (const char *)amb_msg_data(msg));
    amb_msg_release(msg);
    return lost;
}

int main(void)
{
    struct amb_error error = {0};
    struct amb_conn *conn;
    struct amb_pub *pub;
    struct amb_sub *sub;
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        fprintf(stderr, "connect: %s\n", error.text);
        return 1;
    }
    if (amb_pub_open(conn, "values.cities", NULL, &pub) != AMB_OK) {
        fprintf(stderr, "open: %s\n", amb_last_error(conn).text);
        return 1;
    }
    int failed = put(pub, "oslo", "1") | put(pub, "rome", "11") | put(pub, "oslo", "2") |
                 put(pub, "rome", "12") | put(pub, "paris", "10") | put(pub, "oslo", "3");
    failed |= amb_pub_flush(pub, 0, 5 * AMB_SEC) != AMB_OK;
    if (failed ||
        amb_subscribe(conn, "values.cities", AMB_SUB(.start = AMB_START_LAST), &sub) != AMB_OK) {
        fprintf(stderr, "subscribe: %s\n", amb_last_error(conn).text);
        return 1;
    }
    uint64_t lost = show(conn, sub) + show(conn, sub) + show(conn, sub);
    printf("%" PRIu64 " lost\n", lost);
    failed = put(pub, "oslo", "4") | (amb_pub_flush(pub, 0, 5 * AMB_SEC) != AMB_OK);
    lost += show(conn, sub);
    amb_close(conn, AMB_SEC);
    return failed || lost != 0;
}
