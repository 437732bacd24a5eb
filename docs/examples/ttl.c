/* SPDX-License-Identifier: Apache-2.0 */
/* An order that is worth something for a moment only. A reader that is not ready by then does not
 * get it, and hears that it has missed one. */
#include <amb/amb.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static int order(struct amb_pub *pub, const char *text, size_t len, int64_t ttl_ns)
{
    uint64_t seq;
    return amb_pub_post(pub, AMB_OUT(.data = text, .len = len, .ttl_ns = ttl_ns), AMB_SEC, &seq) !=
               AMB_OK ||
           amb_pub_flush(pub, seq, 5 * AMB_SEC) != AMB_OK;
}

int main(void)
{
    struct amb_error error = {0};
    struct amb_conn *conn;
    struct amb_sub *sub;
    struct amb_pub *pub;
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        fprintf(stderr, "connect: %s\n", error.text);
        return 1;
    }
    /* One message at a time: the others wait at the broker. */
    if (amb_subscribe(conn, "orders", AMB_SUB(.credit_msgs = 1), &sub) != AMB_OK ||
        amb_pub_open(conn, "orders", NULL, &pub) != AMB_OK) {
        fprintf(stderr, "%s\n", amb_last_error(conn).text);
        return 1;
    }
    int failed = order(pub, "left", 4, 0);
    failed |= order(pub, "now!", 4, 50 * AMB_MS);
    failed |= order(pub, "right", 5, 0);
    struct amb_msg *msg;
    for (int i = 0; i < 2 && amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK; i++) {
        enum amb_loss why;
        uint64_t lost = amb_msg_lost(msg, &why);
        if (lost != 0) {
            printf("%" PRIu64 " came too late%s\n", lost,
                   why == AMB_LOSS_EXPIRED ? ": expired" : "");
        }
        printf("%.*s\n", (int)amb_msg_size(msg), (const char *)amb_msg_data(msg));
        /* It takes a while to carry out. */
        nanosleep(&(struct timespec){.tv_nsec = 100 * AMB_MS}, NULL);
        amb_msg_release(msg);
    }
    amb_close(conn, AMB_SEC);
    return failed;
}
