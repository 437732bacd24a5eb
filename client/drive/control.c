/* SPDX-License-Identifier: Apache-2.0 */
#include "client/drive/control.h"

#include "client/conn/conn.h"
#include "client/drive/drive.h"
#include "client/drive/upcalls.h"
#include "client/drive/wake.h"
#include "wire/base/assert.h"
#include "wire/tls/tls_io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OUT_MAX (UINT32_C(4) << 20) /* bytes that may wait for a broker that does not read */

/* ---- sending ---- */

static ssize_t send_some(struct amb_conn *conn, uint8_t *bytes, size_t len)
{
    if (conn->control.tls != NULL) {
        const struct iovec iov = {.iov_base = bytes, .iov_len = len};
        return amb_tls_send(conn->control.tls, &iov, 1);
    }
    return send(conn->control.fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void amb_control_flush(struct amb_conn *conn)
{
    size_t sent = 0;
    if (conn->control.tls != NULL) {
        (void)amb_tls_push(conn->control.tls); /* The next read finds that it has failed. */
    }
    while (sent < conn->control.out_len) {
        ssize_t n = send_some(conn, conn->control.out + sent, conn->control.out_len - sent);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno != EAGAIN) {
            /* The next read finds the end, and before it the last words of the broker. */
            sent = conn->control.out_len;
        }
        if (n < 0) {
            break;
        }
        sent += (size_t)n;
    }
    if (sent != 0) {
        memmove(conn->control.out, conn->control.out + sent, conn->control.out_len - sent);
        conn->control.out_len -= sent;
    }
}

static bool grow_out(struct amb_conn *conn, size_t more)
{
    size_t need = conn->control.out_len + more;
    if (need <= conn->control.out_cap) {
        return true;
    }
    if (need > OUT_MAX) {
        return false;
    }
    size_t cap = conn->control.out_cap == 0 ? 4096 : conn->control.out_cap;
    while (cap < need) {
        cap *= 2;
    }
    uint8_t *out = realloc(conn->control.out, cap);
    if (out == NULL) {
        return false;
    }
    conn->control.out = out;
    conn->control.out_cap = cap;
    return true;
}

void amb_control_send(struct amb_conn *conn, const Amb__Control__Control *message)
{
    if (conn->control.fd < 0 || conn->session.down != AMB_OK) {
        return;
    }
    size_t size = amb_control_packed_size(message);
    amb_assert(size != 0);
    if (!grow_out(conn, size)) {
        amb_conn_lost(conn, AMB_ELOST, "the broker does not read its control connection");
        return;
    }
    amb_control_pack(message, conn->control.out + conn->control.out_len);
    conn->control.out_len += size;
    amb_control_flush(conn);
    if (amb_control_has_out(conn) && conn->io.has_thread) {
        amb_io_kick(conn); /* It sends the rest, and may sleep without looking for room. */
    }
}

void amb_control_ask(struct amb_conn *conn, Amb__Control__Control *message,
                     struct amb_control_request *request)
{
    request->id = message->id = ++conn->control.last_request;
    amb_list_push_back(&conn->control.requests, &request->node);
    if (conn->session.down != AMB_OK) {
        amb_control_answer(conn, request, conn->session.down, conn->session.down_text);
        return;
    }
    amb_control_send(conn, message);
}

static bool is_answered(void *arg)
{
    const struct amb_control_request *request = arg;
    return request->is_done;
}

enum amb_status amb_control_wait(struct amb_conn *conn, struct amb_control_request *request,
                                 int64_t timeout_ns, uint32_t flags)
{
    struct amb_wait wait = {.is_ready = is_answered,
                            .arg = request,
                            .timeout_ns = timeout_ns,
                            .flags = AMB_WAIT_CONTROL | flags};
    enum amb_status status = amb_conn_wait_asking(conn, &wait);
    amb_list_remove(&request->node);
    return request->is_done ? request->status : status; /* While the program was asked, too. */
}

const char *amb_control_silence(enum amb_status status)
{
    return status == AMB_ECANCELED ? "interrupted" : "the broker does not answer";
}

/* ---- answers ---- */

void amb_control_answer(struct amb_conn *conn, struct amb_control_request *request,
                        enum amb_status status, const char *text)
{
    request->is_done = true;
    request->status = status;
    size_t len = strnlen(text, AMB_CONTROL_TEXT_MAX);
    memcpy(request->text, text, len);
    request->text[len] = '\0';
    amb_conn_changed(conn);
    if (request->on_answer != NULL) {
        amb_list_remove(&request->node);
        request->on_answer(conn, request);
    }
}

void amb_control_fail_all(struct amb_conn *conn, enum amb_status why, const char *text)
{
    AMB_LIST_FOR_EACH_SAFE (node, &conn->control.requests) {
        struct amb_control_request *request =
            AMB_CONTAINER_OF(node, struct amb_control_request, node);
        if (!request->is_done) { /* An answer may have come that nobody has taken yet. */
            amb_control_answer(conn, request, why, text);
        }
    }
}

long amb_control_receive(struct amb_tls *tls, int socket, void *data, size_t len, int *fds,
                         size_t fds_max, size_t *fd_count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    if (tls != NULL) {
        return amb_tls_receive(tls, &iov, 1);
    }
    ssize_t n = recvmsg(socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) {
        return n;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c != NULL; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (*fd_count < fds_max) {
                fds[(*fd_count)++] = fd;
            } else {
                (void)close(fd);
            }
        }
    }
    return n;
}
