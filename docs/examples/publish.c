/* SPDX-License-Identifier: Apache-2.0 */
/* Publishes one message. */
#include <amb/amb.h>
#include <stdio.h>

int main(void)
{
    struct amb_error error = {0};
    struct amb_conn *conn;
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        fprintf(stderr, "connect: %s\n", error.text);
        return 1;
    }

    enum amb_status status = amb_publish(conn, "greetings", "hello", 5, AMB_SEC);
    if (status != AMB_OK) {
        fprintf(stderr, "publish: %s\n", amb_last_error(conn).text);
    }

    /* Returns when the broker has it. */
    enum amb_status closed = amb_close(conn, 5 * AMB_SEC);
    if (closed != AMB_OK) {
        fprintf(stderr, "close: %s\n", amb_strerror(closed));
    }
    return status != AMB_OK || closed != AMB_OK;
}
