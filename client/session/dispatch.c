/* SPDX-License-Identifier: Apache-2.0 */
#include "client/session/dispatch.h"

#include "client/batch/away.h"
#include "client/batch/pub_settle.h"
#include "client/conn/conn.h"
#include "client/drive/control.h"
#include "client/drive/lock.h"
#include "client/drive/notify.h"
#include "client/drive/upcalls.h"
#include "client/memory/gpu.h"
#include "client/memory/gpu_release.h"
#include "client/memory/import.h"
#include "client/memory/slots_life.h"
#include "client/memory/view.h"
#include "client/message/sub.h"
#include "client/request/replies.h"
#include "client/session/life.h"
#include "client/session/lost.h"
#include "wire/tls/tls_io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PING_PHASES 4 /* in a heartbeat; the broker ticks as often in one of a second */
#define ADMIN_MAX (UINT32_C(64) << 20)
#define LINK_TRIM_NS (10 * AMB_NS_PER_SEC) /* how often an idle link gives memory back */

static struct amb_control_request *find_request(struct amb_conn *conn, uint64_t id)
{
    AMB_LIST_FOR_EACH (node, &conn->control.requests) {
        struct amb_control_request *request =
            AMB_CONTAINER_OF(node, struct amb_control_request, node);
        if (request->id == id) {
            return request;
        }
    }
    return NULL; /* Somebody stopped waiting for it. */
}

static void take_json(struct amb_conn *conn, struct amb_control_request *request,
                      const Amb__Control__AdminReply *reply)
{
    size_t need = request->json_len + reply->json.len + 1;
    if (need > request->json_cap) {
        size_t cap = need < 4096 ? 4096 : need * 2;
        uint8_t *json = need > ADMIN_MAX ? NULL : realloc(request->json, cap);
        if (json == NULL) {
            amb_control_answer(conn, request, AMB_ENOMEM, "no memory for the answer");
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
        amb_control_answer(conn, request, AMB_OK, "");
    }
}

static enum amb_status error_status(const Amb__Control__Error *error)
{
    return error->status < 0 ? (enum amb_status)error->status : AMB_EPROTO;
}

/* Takes fd. */
static void take_lease(struct amb_conn *conn, struct amb_control_request *request,
                       const Amb__Control__LeaseOpened *opened, int fd)
{
    if (request == NULL || !request->is_for_segment) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    request->segment = opened->segment;
    request->size = opened->size;
    request->fd = fd;
    if (!amb_gpu_range_read(conn, opened->gpu, &request->range)) {
        amb_control_answer(conn, request, AMB_EPROTO, "the broker's GPU memory has no place");
        return;
    }
    amb_control_answer(conn, request, AMB_OK, "");
}

static void handle_answer(struct amb_conn *conn, const Amb__Control__Control *message)
{
    struct amb_control_request *request = find_request(conn, message->id);
    if (request == NULL || request->is_done) {
        return;
    }
    if (message->body_case == AMB__CONTROL__CONTROL__BODY_ERROR) {
        amb_control_answer(conn, request, error_status(message->error), message->error->text);
    } else if (message->body_case == AMB__CONTROL__CONTROL__BODY_PUB_OPENED) {
        request->topic = message->pub_opened->topic;
        request->window = message->pub_opened->window;
        request->last_seq = message->pub_opened->last_seq;
        request->subscribers = message->pub_opened->subscribers;
        request->has_gpu = message->pub_opened->gpu != 0;
        request->rejects_gpu = message->pub_opened->gpu_reject != 0;
        request->group = message->pub_opened->group;
        (void)snprintf(request->gpu_why, sizeof(request->gpu_why), "%s",
                       message->pub_opened->gpu_why);
        amb_control_answer(conn, request, AMB_OK, "");
    } else if (message->body_case == AMB__CONTROL__CONTROL__BODY_OK) {
        request->time_ns = message->ok->time_ns;
        request->is_narrowed = message->ok->narrowed != 0;
        amb_control_answer(conn, request, AMB_OK, "");
    } else if (message->body_case == AMB__CONTROL__CONTROL__BODY_ADMIN_REPLY) {
        take_json(conn, request, message->admin_reply);
    } else {
        amb_control_answer(conn, request, AMB_OK, "");
    }
}

/* Takes fd. */
static void add_segment(struct amb_conn *conn, const Amb__Control__SegAdd *add, int fd)
{
    struct amb_gpu_range range;
    if (add->gpu == NULL) {
        amb_view_add(conn, add->segment, add->size, fd);
        return;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    bool is_read = amb_gpu_range_read(conn, add->gpu, &range);
    amb_view_add_gpu(conn, add->segment, add->size, is_read ? &range : NULL);
}

static void take_notice(struct amb_conn *conn, const Amb__Control__SubNotice *notice)
{
    struct amb_sub *sub =
        notice->handle < AMB_HANDLES_MAX ? conn->handles.subs[notice->handle] : NULL;
    if (sub != NULL && !sub->life.is_ending && !sub->life.is_user_done) {
        amb_event_slow(conn, sub, notice->slow != 0, notice->outstanding);
    }
}

static void handle_message(struct amb_conn *conn, const Amb__Control__Control *message, int fd)
{
    if (message->body_case == AMB__CONTROL__CONTROL__BODY_SEG_ADD) {
        add_segment(conn, message->seg_add, fd);
        return;
    }
    if (message->body_case == AMB__CONTROL__CONTROL__BODY_LEASE_OPENED) {
        take_lease(conn, find_request(conn, message->id), message->lease_opened, fd);
        return;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (message->id != 0) {
        handle_answer(conn, message);
    } else if (message->body_case == AMB__CONTROL__CONTROL__BODY_ERROR) {
        amb_conn_lost(conn, error_status(message->error), message->error->text);
    } else if (message->body_case == AMB__CONTROL__CONTROL__BODY_DRAINING) {
        amb_event_session(conn, AMB_EVENT_DRAINING, AMB_OK, "the broker is shutting down");
        if (conn->again.is_on) { /* It would refuse what another session may take. */
            amb_pubs_pause(conn);
        }
    } else if (message->body_case == AMB__CONTROL__CONTROL__BODY_BYE) {
        amb_conn_lost(conn, AMB_ECLOSED, "the broker is shutting down");
    } else if (message->body_case == AMB__CONTROL__CONTROL__BODY_SUB_NOTICE) {
        take_notice(conn, message->sub_notice);
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

/* One read. False: nothing more is there, or the session is lost. */
static bool read_some(struct amb_conn *conn)
{
    uint8_t data[4096];
    size_t wanted = amb_control_wanted(&conn->control.reader);
    if (wanted > sizeof(data)) {
        wanted = sizeof(data);
    }
    int fd = -1;
    size_t fd_count = 0;
    long n =
        amb_control_receive(conn->control.tls, conn->control.fd, data, wanted, &fd, 1, &fd_count);
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
        amb_conn_close_fd(&conn->control.passed_fd);
        conn->control.passed_fd = fd;
    }
    conn->control.heard_ns = amb_clock_monotonic_ns();
    size_t used = 0;
    Amb__Control__Control *message = NULL;
    enum amb_status status =
        amb_control_read(&conn->control.reader, data, (size_t)n, &used, &message, NULL);
    if (status != AMB_OK) {
        amb_conn_lost(conn, AMB_EPROTO, "the broker sent a malformed control message");
        return false;
    }
    if (message != NULL) {
        int with = conn->control.passed_fd;
        conn->control.passed_fd = -1;
        handle_message(conn, message, with);
        amb_control_free(message);
    }
    return conn->session.down == AMB_OK;
}

void amb_control_service(struct amb_conn *conn)
{
    if (conn->control.fd < 0 || conn->session.down != AMB_OK) {
        return;
    }
    if (amb_control_has_out(conn)) {
        amb_control_flush(conn);
    }
    while (conn->session.down == AMB_OK && read_some(conn)) {
    }
}

void amb_control_hear_out(struct amb_conn *conn)
{
    uint8_t byte;
    while (conn->control.fd >= 0 && conn->session.down == AMB_OK &&
           (conn->control.tls != NULL ||
            recv(conn->control.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1) &&
           read_some(conn)) {
    }
}

int64_t amb_conn_ping_grid(const struct amb_conn *conn, int64_t now_ns)
{
    int64_t step_ns = conn->control.heartbeat_ns / PING_PHASES;
    return step_ns > 0 ? now_ns - now_ns % step_ns : now_ns;
}

bool amb_conn_spin(struct amb_conn *conn)
{
    if (!amb_conn_gpus_may_spin(conn)) {
        return false;
    }
    amb_conn_unlock(conn);
    amb_conn_gpus_spin(conn);
    amb_conn_lock(conn);
    return true;
}

/* Memory of a link that is idle. TLS has some after a second already. */
static void trim(struct amb_conn *conn, int64_t now_ns)
{
    bool is_tls = conn->control.tls != NULL;
    if (is_tls) {
        (void)amb_tls_trim(conn->control.tls);
    }
    if (conn->link != NULL && (is_tls || now_ns - conn->link_state.trimmed_ns >= LINK_TRIM_NS)) {
        conn->link_state.trimmed_ns = now_ns;
        (void)amb_link_trim(conn->link);
    }
}

void amb_conn_timers(struct amb_conn *conn, int64_t now_ns)
{
    (void)amb_conn_gpus_look(conn);
    amb_replies_timer(conn, now_ns);
    if (conn->session.down != AMB_OK) {
        amb_session_let_go(conn);
    }
    if (conn->control.fd < 0 || conn->session.down != AMB_OK) {
        return;
    }
    if (!conn->io.has_thread || pthread_equal(pthread_self(), conn->io.thread)) {
        amb_slots_turn(conn, now_ns);
        if (conn->session.down != AMB_OK) {
            return;
        }
    }
    if (now_ns - conn->control.ping_ns >= conn->control.heartbeat_ns) {
        /* This process may have been stopped: what the broker said meanwhile counts. */
        amb_control_service(conn);
        if (conn->session.down != AMB_OK) {
            return;
        }
        if (now_ns - conn->control.ping_ns < 2 * conn->control.heartbeat_ns &&
            now_ns - conn->control.heard_ns > conn->control.peer_timeout_ns) {
            amb_conn_lost(conn, AMB_ELOST, "the broker has been silent for too long");
            return;
        }
        conn->control.ping_ns = amb_conn_ping_grid(conn, now_ns);
        trim(conn, now_ns);
        Amb__Control__Control message;
        amb__control__control__init(&message);
        Amb__Control__Ping ping;
        amb__control__ping__init(&ping);
        ping.time_ns = now_ns;
        struct amb_gpus_staged staged;
        amb_conn_gpus_staged(conn, &staged);
        ping.staged_in = staged.in;
        ping.staged_out = staged.out;
        ping.staged_in_messages = staged.in_msgs;
        ping.staged_out_messages = staged.out_msgs;
        ping.staged_why = staged.why;
        message.ping = &ping;
        message.body_case = AMB__CONTROL__CONTROL__BODY_PING;
        amb_control_send(conn, &message);
    }
}
