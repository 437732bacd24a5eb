/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes so many messages of a topic and ends; started again it goes on at its place. The broker
 *   keeps the place under a durable name. An acknowledgement says that all up to there is done.
 *   resume COUNT
 */
#include <amb/amb.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct amb_error error = {0};
    struct amb_conn *conn;
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        fprintf(stderr, "connect: %s\n", error.text);
        return 1;
    }
    struct amb_sub *sub;
    enum amb_status status = amb_subscribe(
        conn, "orders.new", AMB_SUB(.durable = "billing", .ack = AMB_ACK_CUMULATIVE), &sub);
    long left = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
    while (status == AMB_OK && left > 0) {
        struct amb_msg *msg;
        status = amb_next(sub, 10 * AMB_SEC, &msg);
        if (status == AMB_OK) {
            printf("%.*s\n", (int)amb_msg_size(msg), (const char *)amb_msg_data(msg));
            left--;
            if (left % 100 == 0) {
                status = amb_msg_ack(msg); /* This one, and all before it. */
            }
            amb_msg_release(msg);
        }
    }
    if (status != AMB_OK) {
        fprintf(stderr, "%s\n", amb_last_error(conn).text);
    }
    /* Waits until the broker has counted the acknowledgements. */
    enum amb_status closed = amb_close(conn, 5 * AMB_SEC);
    return status != AMB_OK || closed != AMB_OK;
}
