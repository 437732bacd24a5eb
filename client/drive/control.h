/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests on the control connection of a running session, and their answers. The session's room
 * reads what comes, see session/dispatch.h.
 *
 *   ask ─► packed, sent ─┬─► answered ─► its waiter wakes, or its on_answer is called
 *                        └─► the session is over ─► the same, with the reason
 *
 * Threads: under the connection's lock. Memory: a request is its caller's; the answer to amb_admin
 * is the heap's.
 */
#pragma once

#include "client/conn/conn.h"
#include "client/conn/gpu_range.h"
#include "wire/base/list.h"
#include "wire/codec/control.h"
#include "wire/tls/tls_io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_control_request;

/* A request has its answer, and is the asker's again; connection's lock held. */
typedef void (*amb_answer_fn)(struct amb_conn *conn, struct amb_control_request *request);

struct amb_control_request {
    struct amb_list_node node;
    amb_answer_fn on_answer; /* instead of a thread that waits; or NULL */
    uint64_t id;
    bool is_done;
    enum amb_status status;
    char text[AMB_CONTROL_TEXT_MAX + 1];
    /* PubOpened */
    uint32_t topic, subscribers;
    uint64_t window, last_seq;
    int64_t time_ns;  /* Ok */
    bool is_narrowed; /* Ok */
    /* LeaseOpened: its on_answer has the descriptor, -1: none came */
    bool is_for_segment; /* no other request is answered so */
    uint64_t segment, size;
    int fd;
    struct amb_gpu_range range; /* where it is, on a GPU */
    bool has_gpu, rejects_gpu;  /* PubOpened, */
    uint32_t group;             /* ... too */
    char gpu_why[AMB_GPU_WHY_BYTES];
    /* AdminReply; the asker's to free */
    uint8_t *json;
    size_t json_len, json_cap;
    uint32_t handle; /* of a publisher or a subscription, for an on_answer */
};

/* Sends one message. Bytes that the socket does not take wait. A failure loses the session. */
void amb_control_send(struct amb_conn *conn, const Amb__Control__Control *message);
/* Sends it as a request, whose answer comes to *request, the caller's, until forgotten. */
void amb_control_ask(struct amb_conn *conn, Amb__Control__Control *message,
                     struct amb_control_request *request);
/* Waits for the answer (gives up the lock). Why it did not come, or its status. Then forgotten. */
enum amb_status amb_control_wait(struct amb_conn *conn, struct amb_control_request *request,
                                 int64_t timeout_ns, uint32_t flags);
/* Words for a status of amb_control_wait that is not the broker's. */
const char *amb_control_silence(enum amb_status status);
/* The session is over: answers every request with `why`. */
void amb_control_fail_all(struct amb_conn *conn, enum amb_status why, const char *text);

/* Gives a request its answer. */
void amb_control_answer(struct amb_conn *conn, struct amb_control_request *request,
                        enum amb_status status, const char *text);
/* Writes bytes that wait to be written. */
void amb_control_flush(struct amb_conn *conn);

/* Does something wait for room in the socket? */
static inline bool amb_control_has_out(const struct amb_conn *conn)
{
    return conn->control.out_len != 0 ||
           (conn->control.tls != NULL && amb_tls_has_unsent(conn->control.tls));
}

/* May there be bytes that the socket does not tell of? */
static inline bool amb_control_has_in(const struct amb_conn *conn)
{
    return conn->control.tls != NULL && conn->session.down == AMB_OK &&
           amb_tls_has_unread(conn->control.tls);
}

/* recvmsg without waiting, or by tls where that is not NULL. Descriptors that came are appended to
 * fds, those beyond fds_max closed; none come by TLS. Returns what recvmsg does. */
long amb_control_receive(struct amb_tls *tls, int socket, void *data, size_t len, int *fds,
                         size_t fds_max, size_t *fd_count);
