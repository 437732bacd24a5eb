/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the messages of a topic until it is interrupted or the broker goes away. */
#include <amb/amb.h>
#include <signal.h>
#include <stdio.h>

static struct amb_conn *conn;

static void on_signal(int signal)
{
    (void)signal;
    amb_stop(conn); /* The one call that a signal handler may make. */
}

int main(void)
{
    struct amb_error error = {0};
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        fprintf(stderr, "connect: %s\n", error.text);
        return 1;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);

    struct amb_sub *sub;
    enum amb_status status = amb_subscribe(conn, "greetings", NULL, &sub);
    struct amb_msg *msg;
    while (status == AMB_OK && (status = amb_next(sub, AMB_FOREVER, &msg)) == AMB_OK) {
        printf("%s: %.*s\n", amb_msg_topic(msg), (int)amb_msg_size(msg),
               (const char *)amb_msg_data(msg));
        fflush(stdout);
        amb_msg_release(msg);
    }
    if (status != AMB_ESTOPPED) {
        fprintf(stderr, "%s\n", amb_last_error(conn).text);
    }
    amb_close(conn, AMB_NOWAIT);
    return status != AMB_ESTOPPED;
}
