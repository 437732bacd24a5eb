/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_subscribe, amb_sub_close.
 */
#include "client/subscribe/subscribe.h"

#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/conn/handle.h"
#include "client/conn/options.h"
#include "client/drive/back.h"
#include "client/drive/control.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "client/drive/notify.h"
#include "client/drive/wake.h"
#include "client/message/landing.h"
#include "client/message/sub.h"
#include "client/message/sub_end.h"
#include "client/subscribe/ack.h"
#include "client/subscribe/arrivals.h"
#include "client/subscribe/position.h"
#include "wire/codec/filter.h"
#include "wire/codec/topic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct amb_sub *sub_create(struct amb_conn *conn, const struct amb_sub_options *options)
{
    struct amb_sub *sub = calloc(1, sizeof(*sub));
    if (sub == NULL) {
        return NULL;
    }
    sub->conn = conn;
    atomic_init(&sub->refs, 1);
    sub->callback.on_message = options->on_message;
    sub->callback.arg = options->arg;
    sub->credit_msgs = options->credit_msgs;
    sub->credit_bytes = options->credit_bytes;
    sub->lazy = options->lazy;
    sub->is_light = options->lazy == AMB_LAZY_HEADERS && options->ack <= AMB_ACK_NONE &&
                    options->group == NULL && options->durable == NULL;
    sub->is_choosy = options->filter != NULL;
    /* Copies must find room: messages that we cannot hold must not be sent. */
    if (sub->credit_bytes > conn->settings.memory_max / 2) {
        sub->credit_bytes = conn->settings.memory_max / 2;
    }
    amb_sub_arrivals_init(&sub->arrivals);
    amb_acks_init(&sub->acks, options->ack);
    amb_release_init(&sub->release, sub->credit_msgs, sub->credit_bytes);
    return sub;
}

/* The broker has ended it. */
static void on_ended(struct amb_conn *conn, struct amb_control_request *request)
{
    struct amb_sub *sub = conn->handles.subs[request->handle];
    if (sub != NULL) {
        sub->life.is_ended = true;
        amb_sub_free_handle(sub);
    }
    free(request);
}

/* Ends a handle at the broker without waiting; it is free when that is answered. */
static void ask_end(struct amb_conn *conn, uint32_t handle)
{
    struct amb_control_request *request = calloc(1, sizeof(*request));
    if (request == NULL) {
        return; /* The handle stays taken: nothing worse than that. */
    }
    request->on_answer = on_ended;
    request->handle = handle;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__Unsubscribe unsubscribe;
    amb__control__unsubscribe__init(&unsubscribe);
    unsubscribe.handle = handle;
    unsubscribe.acks =
        conn->handles.subs[handle] == NULL ? 0 : conn->handles.subs[handle]->acks.sent;
    message.unsubscribe = &unsubscribe;
    message.body_case = AMB__CONTROL__CONTROL__BODY_UNSUBSCRIBE;
    amb_control_ask(conn, &message, request);
}

/* Asks the broker; lock held, given up while it waits. */
static enum amb_status ask_subscribe(struct amb_sub *sub, const char *pattern,
                                     const struct amb_sub_options *options)
{
    struct amb_conn *conn = sub->conn;
    struct amb_control_request request = {0};
    char name[AMB_TOPIC_MAX + 1], group[AMB_SUB_NAME_MAX + 1], durable[AMB_SUB_NAME_MAX + 1];
    char filter[AMB_FILTER_TEXT_MAX + 1];
    int64_t backoff[AMB_SUB_BACKOFF_MAX];
    (void)memcpy(name, pattern, strlen(pattern) + 1);
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__Subscribe subscribe;
    amb__control__subscribe__init(&subscribe);
    subscribe.handle = sub->handle;
    subscribe.pattern = name;
    subscribe.credit_msgs = sub->credit_msgs;
    subscribe.credit_bytes = sub->credit_bytes;
    subscribe.slow = options->slow;
    subscribe.slow_block_ns = options->slow_block_ns;
    subscribe.copy = options->copy;
    subscribe.mem = (uint32_t)amb_landing_mem(sub->landing);
    subscribe.mem_by_link = conn->link != NULL && conn->link->takes_cuda &&
                            amb_landing_is_by_link(sub->landing) && options->copy == 0;
    subscribe.lazy = (uint32_t)options->lazy;
    subscribe.start = options->start;
    subscribe.start_at = options->start_at;
    subscribe.position.data = sub->position.resumed;
    subscribe.position.len = sub->position.resumed_len;
    subscribe.ack = sub->acks.mode;
    subscribe.ack_wait_ns = options->ack_wait_ns;
    subscribe.max_deliver = options->max_deliver;
    subscribe.backoff_ns = backoff;
    subscribe.n_backoff_ns = options->backoff_count;
    for (uint32_t i = 0; i < options->backoff_count; i++) {
        backoff[i] = options->backoff_ns[i];
    }
    (void)snprintf(group, sizeof(group), "%s", options->group != NULL ? options->group : "");
    (void)snprintf(durable, sizeof(durable), "%s",
                   options->durable != NULL ? options->durable : "");
    (void)snprintf(filter, sizeof(filter), "%s", options->filter != NULL ? options->filter : "");
    subscribe.filter = filter;
    subscribe.rate_msgs = options->rate_msgs;
    subscribe.rate_bytes = options->rate_bytes;
    subscribe.replay = options->replay;
    subscribe.group = group;
    subscribe.durable = durable;
    message.subscribe = &subscribe;
    message.body_case = AMB__CONTROL__CONTROL__BODY_SUBSCRIBE;
    enum amb_status status =
        amb_again_keep(&sub->conn->again, &subscribe.base, &sub->life.ask, &sub->life.ask_len);
    if (status != AMB_OK) {
        conn->handles.sub_taken[sub->handle] = false;
        sub->life.is_gone = true;
        return amb_conn_fail(conn, status, "no memory for a subscription");
    }
    amb_control_ask(conn, &message, &request);
    status = amb_control_wait(conn, &request, conn->settings.timeout_ns, 0);
    if (status == AMB_OK) {
        amb_position_begun(sub, options, request.time_ns);
        sub->life.is_narrowed = request.is_narrowed;
        sub->life.is_open = true;
        return AMB_OK;
    }
    if (request.is_done) {
        conn->handles.numbers[sub->handle].delivered = sub->release.last;
        conn->handles.sub_taken[sub->handle] = false;
        sub->life.is_gone = true;
        return amb_conn_fail(conn, status, "cannot subscribe to '%s': %s", pattern, request.text);
    }
    ask_end(conn, sub->handle);
    return amb_conn_fail(conn, status, "cannot subscribe to '%s': %s", pattern,
                         amb_control_silence(status));
}

/*
 * A closed subscription stays in the table until its handle is used again: deliveries that were on
 * their way must still be given back. Takes over the reference.
 */
static void enter(struct amb_sub *sub)
{
    struct amb_conn *conn = sub->conn;
    struct amb_sub *former = conn->handles.subs[sub->handle];
    if (former != NULL) {
        former->life.is_gone = true;
        amb_sub_unref(former);
    }
    conn->handles.subs[sub->handle] = sub;
    sub->release.upto = sub->release.last = conn->handles.numbers[sub->handle].delivered;
}

static bool has_no_callback(void *arg)
{
    const struct amb_sub *sub = arg;
    return amb_event_forget(sub->conn, NULL, sub) &&
           (!sub->callback.is_running || pthread_equal(sub->callback.thread, pthread_self()));
}

/* Until no callback of it runs on another thread. Lock held. */
static void await_callbacks(struct amb_sub *sub)
{
    struct amb_wait wait = {.is_ready = has_no_callback,
                            .arg = sub,
                            .timeout_ns = AMB_FOREVER,
                            .flags = AMB_WAIT_CLOSER | AMB_WAIT_LOST};
    (void)amb_conn_wait(sub->conn, &wait);
}

enum amb_status amb_subscribe(struct amb_conn *conn, const char *pattern,
                              const struct amb_sub_options *options, struct amb_sub **out)
{
    if (out == NULL) {
        return AMB_EINVAL;
    }
    *out = NULL;
    if (conn == NULL || pattern == NULL) {
        return AMB_EINVAL;
    }
    enum amb_status status =
        amb_conn_trouble(conn, AMB_TROUBLE_FORKED | AMB_TROUBLE_DOWN | AMB_TROUBLE_CLOSING);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_landing *landing;
    struct amb_sub_options checked;
    struct amb_complaint complaint;
    status = amb_sub_options_read(options, &checked, &complaint);
    if (status != AMB_OK) {
        return amb_conn_fail(conn, status, "%s", complaint.text);
    }
    const char *reason = "";
    status = amb_pattern_check(pattern, strlen(pattern), &reason);
    if (status != AMB_OK) {
        return amb_conn_fail(conn, status, "not a pattern: %s", reason);
    }
    status = amb_landing_create(conn, &checked, &landing);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_sub *sub = sub_create(conn, &checked);
    if (sub == NULL) {
        amb_landing_destroy(&landing);
        return amb_conn_fail(conn, AMB_ENOMEM, "no memory for a subscription");
    }
    sub->landing = landing;
    status = amb_position_keep(sub, &checked);
    if (status != AMB_OK) {
        amb_sub_unref(sub);
        return amb_conn_fail(conn, status, "amb_sub_options.position: %s",
                             status == AMB_ENOMEM ? "no memory for it" : "not a position");
    }
    amb_conn_enter(conn);
    amb_conn_lock(conn);
    status = amb_back_await(conn);
    if (status != AMB_OK) {
        status = amb_conn_fail(conn, status, "cannot subscribe to '%s': %s", pattern,
                               amb_status_text(status));
        amb_sub_unref(sub);
        amb_conn_unlock(conn);
        return amb_conn_leave(conn, status);
    }
    if (!amb_handle_take(conn->handles.sub_taken, &conn->handles.sub_next, &conn->handles.sub_high,
                         &sub->handle)) {
        amb_conn_unlock(conn);
        amb_sub_unref(sub);
        (void)amb_conn_fail(conn, AMB_ELIMIT, "more than %u subscriptions", AMB_HANDLES_MAX);
        return amb_conn_leave(conn, AMB_ELIMIT);
    }
    enter(sub); /* The first delivery may be here before the answer. */
    status = ask_subscribe(sub, pattern, &checked);
    if (status == AMB_OK) {
        conn->notify.messages_wanted += sub->callback.on_message != NULL;
        if (sub->callback.on_message != NULL && amb_sub_has_ready(sub)) {
            amb_notify_callback(conn); /* It came before the answer, when nobody looked for it. */
        }
    } else {
        amb_sub_shut(sub); /* The table keeps it until the handle is needed. */
        await_callbacks(sub);
    }
    amb_conn_unlock(conn);
    if (status == AMB_OK) {
        *out = sub;
    }
    return amb_conn_leave(conn, status);
}

void amb_sub_detach(struct amb_sub *sub)
{
    struct amb_conn *conn = sub->conn;
    amb_sub_shut(sub);
    amb_conn_changed(conn);
    amb_conn_wake_all(conn);
    await_callbacks(sub);
    conn->notify.messages_wanted -= sub->callback.on_message != NULL;
    (void)amb_event_forget(conn, NULL, sub);
}

void amb_sub_leave(struct amb_sub *sub)
{
    struct amb_conn *conn = sub->conn;
    if (!sub->life.is_ending) {
        sub->life.is_ending = true; /* Without a session there is no broker to hear it. */
        if (conn->session.down == AMB_OK) {
            amb_acks_send(conn); /* How many there were is said with it. */
            ask_end(conn, sub->handle);
        }
    }
}

enum amb_status amb_sub_close(struct amb_sub *sub, int64_t timeout_ns)
{
    if (sub == NULL) {
        return AMB_OK;
    }
    (void)timeout_ns;
    struct amb_conn *conn = sub->conn;
    if (amb_conn_has_trouble(conn, AMB_TROUBLE_FORKED)) {
        return AMB_EFORKED;
    }
    amb_conn_lock(conn);
    amb_sub_detach(sub);
    amb_sub_leave(sub);
    sub->life.is_user_done = true;
    amb_conn_unlock(conn);
    return AMB_OK;
}
