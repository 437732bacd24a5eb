/* SPDX-License-Identifier: Apache-2.0 */
/* The events of the broker: clients that come and go, subscriptions that are slow or lose messages.
 * Prints so many events (an argument), or until it is interrupted. */
#include <amb/amb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static struct amb_conn *conn;

static void on_signal(int signal)
{
    (void)signal;
    amb_stop(conn);
}

int main(int argc, char **argv)
{
    struct amb_error error = {0};
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        fprintf(stderr, "connect: %s\n", error.text);
        return 1;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    struct amb_sub *sub;
    enum amb_status status = amb_subscribe(conn, "$SYS.>", NULL, &sub);
    struct amb_msg *msg;
    long left = argc > 1 ? atol(argv[1]) : -1;
    while (left-- != 0 && status == AMB_OK &&
           (status = amb_next(sub, AMB_FOREVER, &msg)) == AMB_OK) {
        printf("%s %.*s\n", amb_msg_topic(msg), (int)amb_msg_size(msg),
               (const char *)amb_msg_data(msg));
        fflush(stdout);
        amb_msg_release(msg);
    }
    amb_close(conn, AMB_NOWAIT);
    return status != AMB_OK && status != AMB_ESTOPPED;
}
