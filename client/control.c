/* SPDX-License-Identifier: Apache-2.0 */
#include "client/control.h"

#include "client/conn.h"
#include "client/poll.h"
#include "client/segment.h"
#include "client/sub.h"
#include "wire/base/assert.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OUT_MAX (UINT32_C(4) << 20) /* bytes that may wait for a broker that does not read */
#define ADMIN_MAX (UINT32_C(64) << 20)

/* ---- sending ---- */

static void flush_out(struct amb_conn *conn)
{
    size_t sent = 0;
    while (sent < conn->out_len) {
        ssize_t n = send(conn->control_fd, conn->out + sent, conn->out_len - sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            if (errno != EAGAIN) {
                conn->out_len = 0;
                amb_conn_lost(conn, AMB_ELOST, "the broker closed the control connection");
                return;
            }
            break;
        }
        sent += (size_t)n;
    }
    if (sent != 0) {
        memmove(conn->out, conn->out + sent, conn->out_len - sent);
        conn->out_len -= sent;
    }
}

static bool grow_out(struct amb_conn *conn, size_t more)
{
    size_t need = conn->out_len + more;
    if (need <= conn->out_cap) {
        return true;
    }
    if (need > OUT_MAX) {
        return false;
    }
    size_t cap = conn->out_cap == 0 ? 4096 : conn->out_cap;
    while (cap < need) {
        cap *= 2;
    }
    uint8_t *out = realloc(conn->out, cap);
    if (out == NULL) {
        return false;
    }
    conn->out = out;
    conn->out_cap = cap;
    return true;
}

void amb_control_send(struct amb_conn *conn, const Amb__Control__Control *message)
{
    if (conn->control_fd < 0 || conn->down != AMB_OK) {
        return;
    }
    size_t size = amb_control_packed_size(message);
    amb_assert(size != 0);
    if (!grow_out(conn, size)) {
        amb_conn_lost(conn, AMB_ELOST, "the broker does not read its control connection");
        return;
    }
    amb_control_pack(message, conn->out + conn->out_len);
    conn->out_len += size;
    flush_out(conn);
}

void amb_control_ask(struct amb_conn *conn, Amb__Control__Control *message,
                     struct amb_request *request)
{
    request->id = message->id = ++conn->last_request;
    amb_list_push_back(&conn->requests, &request->node);
    if (conn->down != AMB_OK) {
        request->is_done = true;
        request->status = conn->down;
        return;
    }
    amb_control_send(conn, message);
}

static bool is_answered(void *arg)
{
    const struct amb_request *request = arg;
    return request->is_done;
}

enum amb_status amb_control_wait(struct amb_conn *conn, struct amb_request *request,
                                 int64_t timeout_ns, uint32_t flags)
{
    struct amb_wait wait = {.is_ready = is_answered,
                            .arg = request,
                            .timeout_ns = timeout_ns,
                            .flags = AMB_WAIT_CONTROL | flags};
    enum amb_status status = amb_conn_wait(conn, &wait);
    amb_list_remove(&request->node);
    return status == AMB_OK ? request->status : status;
}

void amb_control_ask_close(struct amb_conn *conn, enum amb_orphan what, uint32_t handle)
{
    struct amb_request *request = calloc(1, sizeof(*request));
    if (request == NULL) {
        return; /* The handle stays taken: nothing worse than that. */
    }
    request->orphan = what;
    request->handle = handle;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__PubClose close;
    amb__control__pub_close__init(&close);
    Amb__Control__Unsubscribe unsubscribe;
    amb__control__unsubscribe__init(&unsubscribe);
    if (what == AMB_ORPHAN_PUB_CLOSE) {
        close.handle = handle;
        message.pub_close = &close;
        message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_CLOSE;
    } else {
        unsubscribe.handle = handle;
        message.unsubscribe = &unsubscribe;
        message.body_case = AMB__CONTROL__CONTROL__BODY_UNSUBSCRIBE;
    }
    amb_control_ask(conn, &message, request);
}

/* ---- answers ---- */

static void finish(struct amb_conn *conn, struct amb_request *request, enum amb_status status,
                   const char *text)
{
    request->is_done = true;
    request->status = status;
    size_t len = strnlen(text, AMB_CONTROL_TEXT_MAX);
    memcpy(request->text, text, len);
    request->text[len] = '\0';
    amb_conn_changed(conn);
    if (request->orphan == AMB_ORPHAN_NONE) {
        return;
    }
    if (request->orphan == AMB_ORPHAN_PUB_CLOSE) {
        conn->pub_taken[request->handle] = false;
    } else if (conn->subs[request->handle] != NULL) {
        amb_sub_left(conn->subs[request->handle]);
    }
    amb_list_remove(&request->node);
    free(request);
}

void amb_control_fail_all(struct amb_conn *conn, enum amb_status why, const char *text)
{
    AMB_LIST_FOR_EACH_SAFE (node, &conn->requests) {
        finish(conn, AMB_CONTAINER_OF(node, struct amb_request, node), why, text);
    }
}

static struct amb_request *find_request(struct amb_conn *conn, uint64_t id)
{
    AMB_LIST_FOR_EACH (node, &conn->requests) {
        struct amb_request *request = AMB_CONTAINER_OF(node, struct amb_request, node);
        if (request->id == id) {
            return request;
        }
    }
    return NULL; /* Somebody stopped waiting for it. */
}

static void take_json(struct amb_conn *conn, struct amb_request *request,
                      const Amb__Control__AdminReply *reply)
{
    size_t need = request->json_len + reply->json.len + 1;
    if (need > request->json_cap) {
        size_t cap = need < 4096 ? 4096 : need * 2;
        uint8_t *json = need > ADMIN_MAX ? NULL : realloc(request->json, cap);
        if (json == NULL) {
            finish(conn, request, AMB_ENOMEM, "no memory for the answer");
            return;
        }
        request->json = json;
        request->json_cap = cap;
    }
    if (reply->json.len != 0) {
        memcpy(request->json + request->json_len, reply->json.data, reply->json.len);
    }
    request->json_len += reply->json.len;
    request->json[request->json_len] = '\0';
    if (reply->last != 0) {
        finish(conn, request, AMB_OK, "");
    }
}

static enum amb_status error_status(const Amb__Control__Error *error)
{
    return error->status < 0 ? (enum amb_status)error->status : AMB_EPROTO;
}

static void handle_answer(struct amb_conn *conn, const Amb__Control__Control *message)
{
    struct amb_request *request = find_request(conn, message->id);
    if (request == NULL || request->is_done) {
        return;
    }
    if (message->body_case == AMB__CONTROL__CONTROL__BODY_ERROR) {
        finish(conn, request, error_status(message->error), message->error->text);
    } else if (message->body_case == AMB__CONTROL__CONTROL__BODY_PUB_OPENED) {
        request->topic = message->pub_opened->topic;
        request->window = message->pub_opened->window;
        request->subscribers = message->pub_opened->subscribers;
        finish(conn, request, AMB_OK, "");
    } else if (message->body_case == AMB__CONTROL__CONTROL__BODY_ADMIN_REPLY) {
        take_json(conn, request, message->admin_reply);
    } else {
        finish(conn, request, AMB_OK, "");
    }
}

void amb_control_handle(struct amb_conn *conn, const Amb__Control__Control *message, int fd)
{
    if (message->body_case == AMB__CONTROL__CONTROL__BODY_SEG_ADD) {
        amb_segment_add(conn, message->seg_add->segment, message->seg_add->size, fd);
        return;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (message->id != 0) {
        handle_answer(conn, message);
    } else if (message->body_case == AMB__CONTROL__CONTROL__BODY_ERROR) {
        amb_conn_lost(conn, error_status(message->error), message->error->text);
    } else if (message->body_case == AMB__CONTROL__CONTROL__BODY_BYE) {
        amb_conn_lost(conn, AMB_ECLOSED, "the broker is shutting down");
    } else if (message->body_case == AMB__CONTROL__CONTROL__BODY_PING) {
        Amb__Control__Control answer;
        amb__control__control__init(&answer);
        Amb__Control__Pong pong;
        amb__control__pong__init(&pong);
        pong.time_ns = message->ping->time_ns;
        answer.pong = &pong;
        answer.body_case = AMB__CONTROL__CONTROL__BODY_PONG;
        amb_control_send(conn, &answer);
    }
}

/* ---- receiving ---- */

long amb_control_receive(int socket, void *data, size_t len, int *fds, size_t fds_max,
                         size_t *fd_count)
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

/* One read. False: nothing more is there, or the session is lost. */
static bool read_some(struct amb_conn *conn)
{
    uint8_t data[4096];
    size_t wanted = amb_control_wanted(&conn->reader);
    if (wanted > sizeof(data)) {
        wanted = sizeof(data);
    }
    int fd = -1;
    size_t fd_count = 0;
    long n = amb_control_receive(conn->control_fd, data, wanted, &fd, 1, &fd_count);
    if (n < 0 && errno == EINTR) {
        return true;
    }
    if (n < 0 && errno == EAGAIN) {
        return false;
    }
    if (n <= 0) {
        amb_conn_lost(conn, AMB_ELOST, "the broker closed the control connection");
        return false;
    }
    if (fd_count != 0) {
        if (conn->reader_fd >= 0) {
            (void)close(conn->reader_fd);
        }
        conn->reader_fd = fd;
    }
    conn->heard_ns = amb_clock_monotonic_ns();
    size_t used = 0;
    Amb__Control__Control *message = NULL;
    enum amb_status status =
        amb_control_read(&conn->reader, data, (size_t)n, &used, &message, NULL);
    if (status != AMB_OK) {
        amb_conn_lost(conn, AMB_EPROTO, "the broker sent a malformed control message");
        return false;
    }
    if (message != NULL) {
        int with = conn->reader_fd;
        conn->reader_fd = -1;
        amb_control_handle(conn, message, with);
        amb_control_free(message);
    }
    return conn->down == AMB_OK;
}

void amb_control_service(struct amb_conn *conn)
{
    if (conn->control_fd < 0 || conn->down != AMB_OK) {
        return;
    }
    if (conn->out_len != 0) {
        flush_out(conn);
    }
    while (conn->down == AMB_OK && read_some(conn)) {
    }
}

void amb_conn_timers(struct amb_conn *conn, int64_t now_ns)
{
    if (conn->control_fd < 0 || conn->down != AMB_OK) {
        return;
    }
    if (now_ns - conn->ping_ns >= conn->heartbeat_ns) {
        /* This process may have been stopped: what the broker said meanwhile counts. */
        amb_control_service(conn);
        if (conn->down != AMB_OK) {
            return;
        }
        if (now_ns - conn->ping_ns < 2 * conn->heartbeat_ns &&
            now_ns - conn->heard_ns > conn->peer_timeout_ns) {
            amb_conn_lost(conn, AMB_ELOST, "the broker has been silent for too long");
            return;
        }
        conn->ping_ns = now_ns;
        Amb__Control__Control message;
        amb__control__control__init(&message);
        Amb__Control__Ping ping;
        amb__control__ping__init(&ping);
        ping.time_ns = now_ns;
        message.ping = &ping;
        message.body_case = AMB__CONTROL__CONTROL__BODY_PING;
        amb_control_send(conn, &message);
    }
}
