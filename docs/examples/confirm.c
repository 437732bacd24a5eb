/* SPDX-License-Identifier: Apache-2.0 */
/* A publisher that wants to know who got its messages: not whether the broker has them, but whether
 * they have been dealt with. */
#include <amb/amb.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void on_settled(struct amb_pub *pub, const struct amb_settled *settled, void *arg)
{
    uint64_t *open = arg;
    (void)pub;
    *open -= settled->last - settled->first + 1;
    if (settled->status != AMB_OK) {
        printf("%" PRIu64 " to %" PRIu64 ": %s\n", settled->first, settled->last,
               amb_strerror(settled->status));
        return;
    }
    printf("%" PRIu64 " to %" PRIu64 ": %u readers, %" PRIu64 " delivered, %" PRIu64 " dropped\n",
           settled->first, settled->last, settled->matched, settled->delivered, settled->dropped);
}

/* The reader's side, which is another program in earnest: it does not like every order. */
static void deal_with(struct amb_sub *orders, unsigned count)
{
    struct amb_msg *msg;
    while (count-- > 0 && amb_next(orders, 5 * AMB_SEC, &msg) == AMB_OK) {
        bool is_good = memcmp(amb_msg_data(msg), "buy", 3) == 0;
        if ((is_good ? amb_msg_ack(msg) : amb_msg_term(msg, "no such order")) != AMB_OK) {
            fputs("cannot answer\n", stderr);
        }
        amb_msg_release(msg);
    }
}

int main(void)
{
    static const char *const texts[] = {"buy", "buy", "sit"};
    struct amb_conn *conn;
    struct amb_sub *orders;
    struct amb_pub *pub;
    uint64_t open = 3;
    if (amb_connect(NULL, NULL, &conn) != AMB_OK) {
        return 1;
    }
    enum amb_status status =
        amb_subscribe(conn, "confirm.orders", AMB_SUB(.ack = AMB_ACK_EXPLICIT), &orders);
    if (status == AMB_OK) {
        status = amb_pub_open(
            conn, "confirm.orders",
            AMB_PUB(.confirm = AMB_CONFIRM_DELIVERED, .on_settled = on_settled, .arg = &open),
            &pub);
    }
    for (int i = 0; i < 3 && status == AMB_OK; i++) {
        status = amb_pub_send(pub, texts[i], 3, AMB_SEC);
    }
    if (status != AMB_OK) {
        fprintf(stderr, "%s\n", amb_last_error(conn).text);
        return 1;
    }
    /* Nothing is delivered before it is dealt with. */
    printf("after 100 ms: %s\n", amb_strerror(amb_pub_flush(pub, 0, 100 * AMB_MS)));
    deal_with(orders, 3);
    while (open > 0 && amb_poll(conn, 5 * AMB_SEC) == AMB_OK) {
    }
    return amb_close(conn, AMB_SEC) != AMB_OK || open > 0;
}
