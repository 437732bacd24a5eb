/* SPDX-License-Identifier: Apache-2.0 */
/* Only messages that pass a condition on their properties, and no faster than asked. There are two
 * subscriptions of one topic, one with a filter, one with a rate. */
#include <amb/amb.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int fail(struct amb_conn *conn, const char *what)
{
    fprintf(stderr, "%s: %s\n", what, amb_last_error(conn).text);
    return 1;
}

static int trade(struct amb_pub *pub, const char *side, const char *price)
{
    const struct amb_prop props[] = {
        {.name = "side", .value = side, .len = strlen(side)},
        {.name = "price", .value = price, .len = strlen(price)},
    };
    return amb_pub_post(
               pub, AMB_OUT(.data = price, .len = strlen(price), .props = props, .prop_count = 2),
               AMB_SEC, NULL) != AMB_OK;
}

int main(void)
{
    struct amb_error error = {0};
    struct amb_conn *conn;
    struct amb_sub *dear, *all;
    struct amb_pub *pub;
    struct amb_msg *msg;
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        fprintf(stderr, "connect: %s\n", error.text);
        return 1;
    }
    /* Wrong ones are refused, with the place. */
    if (amb_subscribe(conn, "trades", AMB_SUB(.filter = "side = buy"), &dear) != AMB_OK) {
        printf("refused: %s\n", amb_last_error(conn).text);
    }
    if (amb_subscribe(conn, "trades", AMB_SUB(.filter = "side = 'buy' and price > 100"), &dear) !=
            AMB_OK ||
        amb_subscribe(conn, "trades", AMB_SUB(.rate_msgs = 100), &all) != AMB_OK) {
        return fail(conn, "subscribe");
    }
    if (amb_pub_open(conn, "trades", NULL, &pub) != AMB_OK) {
        return fail(conn, "open");
    }
    static const char *const prices[] = {"99", "100", "100.5", "120", "7"};
    for (int i = 0; i < 5; i++) {
        if (trade(pub, "buy", prices[i]) || trade(pub, "sell", prices[i])) {
            return fail(conn, "publish");
        }
    }
    for (int i = 0; i < 2; i++) {
        if (amb_next(dear, 5 * AMB_SEC, &msg) != AMB_OK) {
            return fail(conn, "next");
        }
        printf("bought at %.*s, %" PRIu64 " lost\n", (int)amb_msg_size(msg),
               (const char *)amb_msg_data(msg), amb_msg_lost(msg, NULL));
        amb_msg_release(msg);
    }
    int seen = 0;
    while (amb_next(all, AMB_SEC, &msg) == AMB_OK) {
        seen++;
        amb_msg_release(msg);
    }
    printf("%d trades in all\n", seen);
    amb_close(conn, AMB_SEC);
    return 0;
}
