/* SPDX-License-Identifier: Apache-2.0 */
/* Messages by callback in the program's own epoll loop, without a thread of the library. */
#include <amb/amb.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

static struct amb_conn *conn;

static void on_signal(int signal)
{
    (void)signal;
    amb_stop(conn);
}

static void print_message(struct amb_msg *msg, void *arg)
{
    uint64_t *count = arg;
    printf("%" PRIu64 " %s %zu bytes\n", ++*count, amb_msg_topic(msg), amb_msg_size(msg));
    fflush(stdout);
    if (amb_msg_wants_reply(msg)) {
        amb_reply(msg, "seen", 4, AMB_NOWAIT); /* Callbacks may call back in. */
    }
}

int main(void)
{
    uint64_t count = 0;
    struct amb_sub *sub;
    if (amb_connect(NULL, AMB_OPTIONS(.progress = AMB_PROGRESS_POLL), &conn) != AMB_OK) {
        return 1;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    if (amb_subscribe(conn, "sensor.>", AMB_SUB(.on_message = print_message, .arg = &count),
                      &sub) != AMB_OK) {
        amb_close(conn, AMB_NOWAIT);
        return 1;
    }
    int loop = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event want = {.events = EPOLLIN, .data.fd = amb_fd(conn)};
    epoll_ctl(loop, EPOLL_CTL_ADD, want.data.fd, &want);

    enum amb_status status = AMB_OK;
    while (amb_status_scope(status) < AMB_SCOPE_SESSION && status != AMB_ESTOPPED) {
        struct epoll_event ready;
        if (epoll_wait(loop, &ready, 1, 250) == 1) {
            /* Level triggered: what is left makes the descriptor readable again. */
            status = amb_poll(conn, AMB_NOWAIT);
        } /* else: 250 ms of the program's own time. */
    }
    close(loop);
    amb_close(conn, AMB_SEC);
    return status != AMB_ESTOPPED;
}
