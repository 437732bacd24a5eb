/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request and reply. `example-request serve` answers sums; without an argument it asks for one and
 * waits, then asks for another and is called back.
 */
#include <amb/amb.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct amb_conn *conn;

static void on_signal(int number)
{
    (void)number;
    amb_stop(conn);
}

static void answer(struct amb_msg *msg, void *arg)
{
    (void)arg;
    char text[64], sum[32];
    if (!amb_msg_wants_reply(msg) || amb_msg_size(msg) >= sizeof(text)) {
        return;
    }
    memcpy(text, amb_msg_data(msg), amb_msg_size(msg));
    text[amb_msg_size(msg)] = '\0';
    const char *plus = strchr(text, '+');
    long result = strtol(text, NULL, 10) + (plus != NULL ? strtol(plus + 1, NULL, 10) : 0);
    int len = snprintf(sum, sizeof(sum), "%ld", result);
    (void)amb_reply(msg, sum, (size_t)len, AMB_SEC);
}

static int serve(void)
{
    struct amb_sub *sub;
    signal(SIGTERM, on_signal);
    if (amb_subscribe(conn, "math.add", AMB_SUB(.on_message = answer), &sub) != AMB_OK) {
        return 1;
    }
    enum amb_status status;
    while ((status = amb_poll(conn, AMB_FOREVER)) == AMB_OK) {
    }
    return status != AMB_ESTOPPED;
}

static void on_reply(enum amb_status status, struct amb_msg *reply, void *arg)
{
    int *is_done = arg;
    *is_done = 1;
    if (status == AMB_OK) {
        printf("later: %.*s\n", (int)amb_msg_size(reply), (const char *)amb_msg_data(reply));
    } else {
        puts(amb_strerror(status));
    }
}

static int ask(void)
{
    struct amb_msg *reply;
    enum amb_status status = amb_request(conn, "math.add", "40+2", 4, 2 * AMB_SEC, &reply);
    if (status != AMB_OK) { /* ENORESPONDERS: at once, not after 2 s */
        puts(amb_last_error(conn).text);
        return 2;
    }
    printf("now: %.*s\n", (int)amb_msg_size(reply), (const char *)amb_msg_data(reply));
    amb_msg_release(reply);

    int is_done = 0;
    status = amb_request_post(conn, "math.add", AMB_OUT(.data = "1+1", .len = 3), 2 * AMB_SEC,
                              on_reply, &is_done);
    while (status == AMB_OK && !is_done) {
        status = amb_poll(conn, AMB_SEC);
    }
    return status != AMB_OK;
}

int main(int argc, char **argv)
{
    (void)argv;
    if (amb_connect(NULL, NULL, &conn) != AMB_OK) {
        return 1;
    }
    int result = argc > 1 ? serve() : ask();
    return amb_close(conn, AMB_SEC) != AMB_OK ? 1 : result;
}
