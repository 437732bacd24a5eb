/* SPDX-License-Identifier: Apache-2.0 */
/* Late, and still in time: publishes five messages, then subscribes from each place there is. The
 * topic keeps history: topics = ( { match = "history.>"; retain = { messages = 100; }; } ); */
#include <amb/amb.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int show(struct amb_conn *conn, const char *what, const struct amb_sub_options *options)
{
    struct amb_sub *sub;
    struct amb_msg *msg;
    if (amb_subscribe(conn, "history.numbers", options, &sub) != AMB_OK) {
        fprintf(stderr, "%s: %s\n", what, amb_last_error(conn).text);
        return 1;
    }
    printf("%s:", what);
    /* The last one of the five ends it. */
    for (uint64_t seq = 0; seq < 5 && amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK;) {
        enum amb_loss why;
        uint64_t lost = amb_msg_lost(msg, &why);
        if (lost != 0) {
            printf(" (%" PRIu64 " lost)", lost);
        }
        seq = amb_msg_seq(msg);
        printf(" %.*s", (int)amb_msg_size(msg), (const char *)amb_msg_data(msg));
        amb_msg_release(msg);
    }
    printf("\n");
    return amb_sub_close(sub, AMB_SEC) != AMB_OK;
}

int main(void)
{
    struct amb_error error = {0};
    struct amb_conn *conn;
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        fprintf(stderr, "connect: %s\n", error.text);
        return 1;
    }
    const char *numbers[] = {"one", "two", "three", "four", "five"};
    for (int i = 0; i < 5; i++) {
        if (amb_publish(conn, "history.numbers", numbers[i], strlen(numbers[i]), AMB_SEC) !=
            AMB_OK) {
            fprintf(stderr, "publish: %s\n", amb_last_error(conn).text);
            return 1;
        }
    }
    int failed = amb_flush(conn, 5 * AMB_SEC) != AMB_OK;
    failed |= show(conn, "first", AMB_SUB(.start = AMB_START_FIRST));
    failed |= show(conn, "last", AMB_SUB(.start = AMB_START_LAST));
    failed |= show(conn, "last 2", AMB_SUB(.start = AMB_START_LAST_N, .start_at = 2));
    failed |= show(conn, "from 3", AMB_SUB(.start = AMB_START_SEQ, .start_at = 3));
    failed |= show(conn, "since 1970", AMB_SUB(.start = AMB_START_TIME, .start_at = 1));
    amb_close(conn, AMB_SEC);
    return failed;
}
