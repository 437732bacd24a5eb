/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_request, amb_reply: two messages that belong together. A request is a message of a publisher
 * that hears how many subscriptions each batch reached. So it is known at once that nobody reads a
 * topic. See replies.h for the way back.
 */
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "client/drive/wake.h"
#include "client/message/arrival.h"
#include "client/message/message.h"
#include "client/message/side.h"
#include "client/publish/implicit.h"
#include "client/publish/pub_wait.h"
#include "client/publish/put.h"
#include "client/publish/room.h"
#include "client/publish/staged.h"
#include "client/request/replies.h"
#include "wire/codec/props.h"
#include "wire/codec/topic.h"

#include <stdlib.h>
#include <string.h>

#define TROUBLE (AMB_TROUBLE_FORKED | AMB_TROUBLE_DOWN | AMB_TROUBLE_CLOSING)

/* The properties that a message of ours has beside the program's. */
struct own_props {
    const char *inbox; /* of a request */
    uint64_t number;
};

static enum amb_status add_own(struct amb_conn *conn, const struct own_props *own, uint8_t *blob,
                               struct amb_put *put)
{
    uint8_t number[sizeof(uint64_t)];
    for (unsigned i = 0; i < sizeof(number); i++) {
        number[i] = (uint8_t)(own->number >> (8 * i));
    }
    struct amb_props_writer writer;
    amb_props_writer_init(&writer, blob, AMB_PROPS_MAX);
    writer.len = put->blob_len;
    enum amb_status status = amb_props_add(&writer, AMB_PROP_REQUEST, number, sizeof(number));
    if (status == AMB_OK && own->inbox != NULL) {
        status = amb_props_add(&writer, AMB_PROP_REPLY, own->inbox, strlen(own->inbox));
    }
    if (status != AMB_OK) {
        return amb_conn_fail(conn, status,
                             "no room for the address of the reply: key, content "
                             "type and properties take too much");
    }
    put->blob = blob;
    put->blob_len = (uint32_t)writer.len;
    return AMB_OK;
}

/* Puts a copy of the message. */
static enum amb_status put_message(struct amb_pub *pub, const struct amb_out *message,
                                   const struct own_props *own, int64_t ttl_ns, int64_t timeout_ns,
                                   uint64_t *seq)
{
    struct amb_conn *conn = pub->conn;
    struct amb_out out;
    enum amb_status status = amb_put_read(conn, message, &out);
    if (status != AMB_OK) {
        return status;
    }
    bool is_staged = false;
    struct amb_mem_place place;
    status = amb_staged_check(pub, &out, &is_staged, &place);
    /* One that is sent on may lie where the host cannot read it. */
    is_staged = is_staged || (out.forward != NULL && amb_msg_device(out.forward) >= 0 &&
                              amb_msg_bytes(out.forward) == NULL);
    if (status != AMB_OK || is_staged) {
        return status != AMB_OK ? status
                                : amb_conn_fail(conn, AMB_ENOTSUP,
                                                "requests and replies from GPU memory are not "
                                                "there yet in this release");
    }
    struct amb_put put = {0};
    status = amb_put_payload(&out, &put);
    if (status != AMB_OK) {
        return amb_conn_fail(conn, status, "amb_out.iov: a piece is missing or too large");
    }
    put.is_lent = false;
    put.mem = amb_put_mem(&out, &place);
    if (put.len > conn->session.max_message) {
        return amb_put_too_large(conn, put.len);
    }
    if (out.ttl_ns == 0 || (ttl_ns != 0 && ttl_ns < out.ttl_ns)) {
        out.ttl_ns = ttl_ns; /* Nobody shall work on what nobody waits for any more. */
    }
    uint8_t blob[AMB_PROPS_MAX];
    status = amb_put_props(conn, &out, blob, &put);
    if (status == AMB_OK) {
        status = add_own(conn, own, blob, &put);
    }
    return status != AMB_OK ? status : amb_put_any(pub, &put, timeout_ns, seq);
}

/* ---- requests ---- */

/* Puts an entered request; on failure it is left. */
static enum amb_status ask(struct amb_conn *conn, const char *topic, const struct amb_out *message,
                           int64_t timeout_ns, struct amb_asked *asked)
{
    struct amb_implicit_entry *entry;
    enum amb_status status = amb_implicit_take(conn, topic, amb_asking_settled, &entry);
    if (status == AMB_OK) {
        struct amb_pub *pub = amb_implicit_pub(entry);
        const struct own_props own = {.inbox = conn->replies->topic, .number = asked->number};
        uint64_t seq = 0;
        int64_t ttl = timeout_ns == AMB_FOREVER ? 0 : timeout_ns;
        status = put_message(pub, message, &own, ttl, timeout_ns, &seq);
        if (status == AMB_OK) {
            amb_conn_lock(conn);
            amb_replies_put(conn, asked, pub, seq);
            amb_conn_unlock(conn);
            amb_put_push(pub);
        }
        amb_implicit_give(conn, entry);
    }
    if (status != AMB_OK) {
        amb_conn_lock(conn);
        amb_replies_leave(conn, asked);
        amb_conn_unlock(conn);
    }
    return status;
}

static enum amb_status enter(struct amb_conn *conn, int64_t timeout_ns, struct amb_asked *asked)
{
    enum amb_status status = amb_replies_open(conn);
    if (status != AMB_OK) {
        return status;
    }
    asked->deadline_ns = timeout_ns == AMB_FOREVER
                             ? INT64_MAX
                             : amb_deadline_ns(amb_clock_monotonic_ns(), timeout_ns);
    amb_conn_lock(conn);
    status = amb_replies_enter(conn, asked);
    amb_conn_unlock(conn);
    return status == AMB_OK
               ? status
               : amb_conn_fail(conn, status, "request: %s",
                               status == AMB_ELIMIT ? "too many wait for their replies already"
                                                    : amb_status_text(status));
}

static bool is_answered(void *arg)
{
    const struct amb_asked *asked = arg;
    amb_replies_turn(asked->arg);
    return asked->is_done;
}

/* Waits for the reply of a request that was put; it is left then. */
static enum amb_status await(struct amb_conn *conn, struct amb_asked *asked)
{
    int64_t left = AMB_FOREVER;
    if (asked->deadline_ns != INT64_MAX) {
        left = asked->deadline_ns - amb_clock_monotonic_ns();
    }
    struct amb_wait wait = {.is_ready = is_answered,
                            .arg = asked,
                            .timeout_ns = left > 0 ? left : AMB_NOWAIT,
                            .flags = AMB_WAIT_FLOW | AMB_WAIT_STOPPABLE};
    amb_conn_lock(conn);
    enum amb_status status = amb_conn_wait(conn, &wait);
    if (asked->is_done) {
        status = asked->status;
    } else if (status == AMB_EAGAIN) {
        status = AMB_ETIMEDOUT;
    }
    amb_replies_leave(conn, asked);
    amb_conn_unlock(conn);
    return status;
}

static enum amb_status ask_and_wait(struct amb_conn *conn, const char *topic,
                                    const struct amb_out *message, int64_t timeout_ns,
                                    struct amb_msg **reply)
{
    struct amb_asked asked = {.arg = conn};
    amb_list_init(&asked.node);
    enum amb_status status = enter(conn, timeout_ns, &asked);
    if (status == AMB_OK) {
        status = ask(conn, topic, message, timeout_ns, &asked);
    }
    if (status != AMB_OK) {
        return status;
    }
    status = await(conn, &asked);
    *reply = asked.reply;
    if (status == AMB_ENORESPONDERS) {
        return amb_conn_fail(conn, status, "nobody answers on '%s'", topic);
    }
    return status == AMB_OK ? status
                            : amb_conn_fail(conn, status, "request to '%s': %s", topic,
                                            amb_conn_reason(conn, status));
}

enum amb_status amb_request(struct amb_conn *conn, const char *topic, const void *data, size_t len,
                            int64_t timeout_ns, struct amb_msg **reply)
{
    if (reply == NULL) {
        return AMB_EINVAL;
    }
    *reply = NULL;
    if (conn == NULL || topic == NULL || (data == NULL && len != 0) || timeout_ns <= 0) {
        return AMB_EINVAL;
    }
    enum amb_status status = amb_conn_trouble(conn, TROUBLE);
    if (status != AMB_OK) {
        return status;
    }
    amb_conn_enter(conn);
    status = ask_and_wait(conn, topic, AMB_OUT(.data = data, .len = len), timeout_ns, reply);
    return amb_conn_leave(conn, status);
}

static enum amb_status post(struct amb_conn *conn, const char *topic, const struct amb_out *message,
                            int64_t timeout_ns, struct amb_asked *asked)
{
    enum amb_status status = enter(conn, timeout_ns, asked);
    if (status == AMB_OK) {
        status = ask(conn, topic, message, timeout_ns, asked);
    }
    amb_conn_lock(conn);
    if (conn->io.has_thread && conn->replies != NULL) {
        amb_io_kick(conn); /* It watches the deadline. */
    } else if (conn->driver.is_asleep) {
        amb_conn_wake_driver(conn); /* Or this thread, which knew of no deadline yet. */
    }
    amb_conn_unlock(conn);
    return status;
}

enum amb_status amb_request_post(struct amb_conn *conn, const char *topic,
                                 const struct amb_out *message, int64_t timeout_ns,
                                 amb_reply_fn on_reply, void *arg)
{
    if (conn == NULL || topic == NULL || message == NULL || on_reply == NULL || timeout_ns <= 0) {
        return AMB_EINVAL;
    }
    enum amb_status status = amb_conn_trouble(conn, TROUBLE);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_asked *asked = calloc(1, sizeof(*asked));
    if (asked == NULL) {
        return amb_conn_fail(conn, AMB_ENOMEM, "no memory for a request");
    }
    amb_list_init(&asked->node);
    amb_list_init(&asked->of_pub);
    asked->on_reply = on_reply;
    asked->arg = arg;
    amb_conn_enter(conn);
    status = post(conn, topic, message, timeout_ns, asked);
    if (status != AMB_OK) {
        free(asked);
    }
    return amb_conn_leave(conn, status);
}

/* ---- replies ---- */

bool amb_msg_wants_reply(const struct amb_msg *msg)
{
    return amb_msg_own_prop(msg, AMB_PROP_REPLY, NULL) != NULL;
}

/* Where a reply goes. False: the message is no request, or its address is none. */
static bool read_address(const struct amb_msg *request, struct own_props *own, const char **topic)
{
    size_t len = 0, number_len = 0;
    *topic = amb_msg_own_prop(request, AMB_PROP_REPLY, &len);
    const uint8_t *number = amb_msg_own_prop(request, AMB_PROP_REQUEST, &number_len);
    if (*topic == NULL || number == NULL || number_len != sizeof(own->number) ||
        strncmp(*topic, AMB_INBOX_PREFIX, strlen(AMB_INBOX_PREFIX)) != 0 || strlen(*topic) != len) {
        return false;
    }
    *own = (struct own_props){.inbox = NULL};
    for (unsigned i = 0; i < sizeof(own->number); i++) {
        own->number |= (uint64_t)number[i] << (8 * i);
    }
    return true;
}

static enum amb_status reply(struct amb_msg *request, const struct amb_out *message,
                             int64_t timeout_ns)
{
    struct amb_conn *conn = amb_msg_arrival(request)->conn;
    enum amb_status status = amb_conn_trouble(conn, TROUBLE);
    if (status != AMB_OK) {
        return status;
    }
    struct own_props own;
    const char *topic;
    if (!read_address(request, &own, &topic)) {
        return amb_conn_fail(conn, AMB_ESTATE, "the message is no request");
    }
    amb_conn_enter(conn);
    struct amb_implicit_entry *entry;
    status = amb_implicit_take(conn, topic, NULL, &entry);
    if (status == AMB_OK) {
        struct amb_pub *pub = amb_implicit_pub(entry);
        status = put_message(pub, message, &own, 0, timeout_ns, NULL);
        if (status == AMB_OK) {
            amb_put_push(pub);
        }
        amb_implicit_give(conn, entry);
    }
    return amb_conn_leave(conn, status);
}

enum amb_status amb_reply(struct amb_msg *request, const void *data, size_t len, int64_t timeout_ns)
{
    if (request == NULL || (data == NULL && len != 0) || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    return reply(request, AMB_OUT(.data = data, .len = len), timeout_ns);
}

enum amb_status amb_reply_post(struct amb_msg *request, const struct amb_out *message,
                               int64_t timeout_ns)
{
    if (request == NULL || message == NULL || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    return reply(request, message, timeout_ns);
}
