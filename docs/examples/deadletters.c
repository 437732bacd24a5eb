/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the messages that no subscriber could handle, and why: first the kept ones, then new
 * ones. */
#include <amb/amb.h>
#include <signal.h>
#include <stdio.h>

static struct amb_conn *conn;

static void on_signal(int signal)
{
    (void)signal;
    amb_stop(conn);
}

static const char *prop(const struct amb_msg *msg, const char *name)
{
    const char *value = amb_msg_prop(msg, name, NULL);
    return value != NULL ? value : "?";
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
    enum amb_status status = amb_subscribe(conn, "$DLQ.>", AMB_SUB(.start = AMB_START_FIRST), &sub);
    struct amb_msg *msg;
    while (status == AMB_OK && (status = amb_next(sub, AMB_FOREVER, &msg)) == AMB_OK) {
        printf("%s %s: %.*s: %s, after %s\n", prop(msg, "$topic"), prop(msg, "$seq"),
               (int)amb_msg_size(msg), (const char *)amb_msg_data(msg), prop(msg, "$reason"),
               prop(msg, "$deliveries"));
        fflush(stdout);
        amb_msg_release(msg);
    }
    if (status != AMB_ESTOPPED) {
        fprintf(stderr, "%s\n", amb_last_error(conn).text);
    }
    amb_close(conn, AMB_NOWAIT);
    return status != AMB_ESTOPPED;
}
