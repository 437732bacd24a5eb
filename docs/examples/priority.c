/* SPDX-License-Identifier: Apache-2.0 */
/* Reports can wait, an order to stop cannot: it overtakes those that were not taken yet. */
#include <amb/amb.h>
#include <stdio.h>

static int send(struct amb_pub *pub, const char *text, size_t len)
{
    return amb_pub_send(pub, text, len, AMB_SEC) != AMB_OK ||
           amb_pub_flush(pub, 0, 5 * AMB_SEC) != AMB_OK;
}

int main(void)
{
    static const char *const names[] = {"normal", "high", "low"};
    struct amb_error error = {0};
    struct amb_conn *conn;
    struct amb_sub *sub;
    struct amb_pub *reports, *orders;
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        fprintf(stderr, "connect: %s\n", error.text);
        return 1;
    }
    /* One message at a time: the others wait at the broker. A publisher has one priority. */
    if (amb_subscribe(conn, "robot", AMB_SUB(.credit_msgs = 1), &sub) != AMB_OK ||
        amb_pub_open(conn, "robot", AMB_PUB(.priority = AMB_PRIORITY_LOW), &reports) != AMB_OK ||
        amb_pub_open(conn, "robot", AMB_PUB(.priority = AMB_PRIORITY_HIGH), &orders) != AMB_OK) {
        fprintf(stderr, "%s\n", amb_last_error(conn).text);
        return 1;
    }
    int failed = 0;
    for (int i = 0; i < 3; i++) {
        failed |= send(reports, "report", 6);
    }
    failed |= send(orders, "stop!", 5);
    struct amb_msg *msg;
    for (int i = 0; i < 4 && amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK; i++) {
        printf("%s: %.*s\n", names[amb_msg_priority(msg)], (int)amb_msg_size(msg),
               (const char *)amb_msg_data(msg));
        amb_msg_release(msg);
    }
    amb_close(conn, AMB_SEC);
    return failed;
}
