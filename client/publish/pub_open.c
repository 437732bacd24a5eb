/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishers come and go.
 */
#include "client/publish/pub_open.h"

#include "client/batch/away.h"
#include "client/batch/flush.h"
#include "client/batch/pub.h"
#include "client/batch/pub_callback.h"
#include "client/batch/pub_settle.h"
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
#include "client/publish/lease.h"
#include "client/publish/room_event.h"
#include "wire/codec/topic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct amb_pub *pub_create(struct amb_conn *conn, const char *topic,
                                  const struct amb_pub_options *options, amb_asking_fn on_asked)
{
    struct amb_pub *pub = aligned_alloc(64, (sizeof(*pub) + 63) & ~(size_t)63);
    if (pub == NULL) {
        return NULL;
    }
    memset(pub, 0, sizeof(*pub));
    pub->conn = conn;
    pub->batch_msgs = conn->session.batch_msgs;
    pub->window.limit_msgs = options->window_msgs;
    pub->window.limit_bytes = options->window_bytes;
    pub->callback.on_settled = options->on_settled;
    pub->callback.arg = options->arg;
    pub->awaits_delivery = options->confirm == AMB_CONFIRM_DELIVERED;
    pub->has_settled_frames =
        options->on_settled != NULL || on_asked != NULL || pub->awaits_delivery;
    pub->asking.on_settled = on_asked;
    amb_list_init(&pub->asking.asked);
    memcpy(pub->topic, topic, strlen(topic) + 1);
    amb_pub_away_init(&pub->away);
    amb_pub_lease_init(&pub->lease);
    amb_room_wish_init(&pub->wish);
    pub->is_named = options->name != NULL;
    pub->avoids_slots = pub->is_named || amb_topic_is_inbox(topic, strlen(topic));
    amb_list_init(&pub->queue);
    amb_batch_rule_init(&pub->rule, options->linger_ns);
    bool is_open = conn->settings.is_poll_mode || options->linger_ns > AMB_WARY_LINGER_NS;
    atomic_init(&pub->wary, is_open ? AMB_WARY_OPEN : 0u);
    if (conn->link_state.has_costly_poll && options->linger_ns == AMB_PUB_LINGER_NS) {
        amb_batch_rule_patient(&pub->rule, conn->session.batch_bytes);
    }
    return pub;
}

/* Goes on where the handle's last publisher left off; lock held. */
static void pub_begin(struct amb_pub *pub)
{
    const struct amb_handle_numbers *past = &pub->conn->handles.numbers[pub->handle];
    atomic_store_explicit(&pub->sent_batches, past->batches, memory_order_relaxed);
    atomic_store_explicit(&pub->accepted_batches, past->batches, memory_order_relaxed);
    pub->window.sent = pub->window.granted = past->bytes;
    amb_settle_init(&pub->settle, pub->callback.on_settled != NULL, past->batches, past->bytes);
    pub->settle.awaits_delivery = pub->awaits_delivery;
}

static void take_opened(struct amb_pub *pub, const struct amb_control_request *request)
{
    /* A WINDOW or SUBSCRIBERS value may have come first: it is newer. */
    if (request->window > pub->window.granted) {
        pub->window.granted = request->window;
    }
    pub->lease.group = request->group;
    pub->gpu.has_room = request->has_gpu;
    pub->gpu.rejects_staging = request->rejects_gpu;
    memcpy(pub->gpu.why, request->gpu_why, sizeof(pub->gpu.why));
    if (!pub->knows_subscribers) {
        atomic_store_explicit(&pub->subscribers, request->subscribers, memory_order_relaxed);
    }
}

/* The broker has all its batches: the handle is free. */
static void on_closed(struct amb_conn *conn, struct amb_control_request *request)
{
    conn->handles.pub_taken[request->handle] = false;
    free(request);
}

/* Closes a handle at the broker without waiting. conn->handles.numbers says how many batches there
 * are. */
static void ask_close(struct amb_conn *conn, uint32_t handle)
{
    struct amb_control_request *request = calloc(1, sizeof(*request));
    if (request == NULL) {
        return; /* The handle stays taken: nothing worse than that. */
    }
    request->on_answer = on_closed;
    request->handle = handle;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__PubClose close;
    amb__control__pub_close__init(&close);
    close.handle = handle;
    close.batches = conn->handles.numbers[handle].batches;
    message.pub_close = &close;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_CLOSE;
    amb_control_ask(conn, &message, request);
}

bool amb_pubs_are_closing(const struct amb_conn *conn)
{
    AMB_LIST_FOR_EACH (node, &conn->control.requests) {
        if (AMB_CONTAINER_OF(node, struct amb_control_request, node)->on_answer == on_closed) {
            return true;
        }
    }
    return false;
}

/* Asks the broker; lock held, given up while it waits. */
static enum amb_status ask_open(struct amb_pub *pub, const struct amb_pub_options *options)
{
    struct amb_conn *conn = pub->conn;
    struct amb_control_request request = {0};
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__PubOpen open;
    amb__control__pub_open__init(&open);
    open.handle = pub->handle;
    open.topic = pub->topic;
    open.confirm = options->confirm;
    open.priority = options->priority;
    open.settled = pub->has_settled_frames;
    open.is_private = pub->asking.on_settled != NULL;
    char name[AMB_PUB_NAME_MAX + 1] = "";
    if (pub->is_named) {
        (void)snprintf(name, sizeof(name), "%s", options->name);
    }
    open.name = name;
    message.pub_open = &open;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPEN;
    enum amb_status status =
        amb_again_keep(&pub->conn->again, &open.base, &pub->away.ask, &pub->away.ask_len);
    if (status != AMB_OK) {
        conn->handles.pub_taken[pub->handle] = false;
        return amb_conn_fail(conn, status, "no memory for a publisher");
    }
    amb_control_ask(conn, &message, &request);
    status = amb_control_wait(conn, &request, conn->settings.timeout_ns, 0);
    if (status == AMB_OK) {
        take_opened(pub, &request);
        pub->is_open = true;
        if (pub->is_named) { /* It goes on behind what its last life has sent. */
            if (request.last_seq > INT64_MAX) {
                amb_conn_lost(conn, AMB_EPROTO, "the broker counts more messages than there are");
                return AMB_EPROTO;
            }
            atomic_store_explicit(&pub->posted, request.last_seq, memory_order_relaxed);
            atomic_store_explicit(&pub->settled_seq, request.last_seq, memory_order_relaxed);
            pub->settle.settled_seq = request.last_seq;
        }
        return AMB_OK;
    }
    if (request.is_done) {
        conn->handles.pub_taken[pub->handle] = false;
        return amb_conn_fail(conn, status, "cannot publish to '%s': %s", pub->topic, request.text);
    }
    ask_close(conn, pub->handle);
    return amb_conn_fail(conn, status, "cannot publish to '%s': %s", pub->topic,
                         amb_control_silence(status));
}

enum amb_status amb_pub_open_checked(struct amb_conn *conn, const char *topic,
                                     const struct amb_pub_options *options, amb_asking_fn on_asked,
                                     struct amb_pub **out)
{
    const char *reason = "";
    size_t len = strlen(topic);
    enum amb_status status = amb_topic_check(topic, len, &reason);
    if (status != AMB_OK) {
        return amb_conn_fail(conn, status, "not a topic: %s", reason);
    }
    struct amb_pub *pub = pub_create(conn, topic, options, on_asked);
    if (pub == NULL) {
        return amb_conn_fail(conn, AMB_ENOMEM, "no memory for a publisher");
    }
    amb_conn_lock(conn);
    status = amb_back_await(conn);
    if (status != AMB_OK) {
        amb_pub_free(pub);
        status = amb_conn_fail(conn, status, "cannot publish to '%s': %s", topic,
                               amb_status_text(status));
        amb_conn_unlock(conn);
        return status;
    }
    if (!amb_handle_take(conn->handles.pub_taken, &conn->handles.pub_next, &conn->handles.pub_high,
                         &pub->handle)) {
        amb_conn_unlock(conn);
        amb_pub_free(pub);
        return amb_conn_fail(conn, AMB_ELIMIT, "more than %u publishers", AMB_HANDLES_MAX);
    }
    pub_begin(pub);
    pub->number = ++conn->handles.pubs_opened;
    conn->handles.pubs[pub->handle] = pub; /* The link may speak of it before the answer is here. */
    status = ask_open(pub, options);
    if (status == AMB_OK) {
        conn->notify.settled_wanted += pub->callback.on_settled != NULL;
        amb_conn_arm_for_user(conn); /* For counters, too. */
    } else {
        conn->handles.pubs[pub->handle] = NULL;
        amb_pub_free(pub); /* No event has named it. */
    }
    amb_conn_unlock(conn);
    if (status == AMB_OK) {
        *out = pub;
    }
    return status;
}

/* Is a callback of it running on another thread? */
static bool has_no_callback(void *arg)
{
    const struct amb_pub *pub = arg;
    return amb_event_forget(pub->conn, pub, NULL) &&
           (!pub->callback.is_running || pthread_equal(pub->callback.thread, pthread_self()));
}

/* Other threads turn back, and memory of the user that the link still reads must come back first.
 * Lock held. */
static void wait_until_free(struct amb_pub *pub)
{
    const uint32_t flags = AMB_WAIT_CLOSER | AMB_WAIT_LOST;
    struct amb_wait wait = {.arg = pub, .timeout_ns = AMB_FOREVER};
    atomic_store_explicit(&pub->is_closing, true, memory_order_relaxed);
    /* The waits give up the lock, and a call may begin meanwhile. */
    do {
        amb_conn_await_out(pub->conn, &pub->inside);
        wait.is_ready = amb_pub_has_nothing_borrowed;
        wait.flags = flags | AMB_WAIT_FLOW;
        (void)amb_conn_wait(pub->conn, &wait);
        wait.is_ready = has_no_callback;
        wait.flags = flags;
        (void)amb_conn_wait(pub->conn, &wait);
    } while (atomic_load(&pub->inside) != 0);
}

void amb_pub_detach(struct amb_pub *pub, enum amb_status why)
{
    struct amb_conn *conn = pub->conn;
    wait_until_free(pub);
    if (atomic_load_explicit(&pub->is_gathering, memory_order_relaxed)) {
        atomic_store_explicit(&pub->is_gathering, false, memory_order_relaxed);
        atomic_fetch_sub_explicit(&conn->gathering, 1, memory_order_relaxed);
    }
    amb_pub_drop_unsent(pub);
    amb_leases_orphan(pub);
    amb_room_forget(pub);
    amb_pub_settle_all(pub, why);
    conn->notify.settled_wanted -= pub->callback.on_settled != NULL;
    conn->handles.pubs[pub->handle] = NULL;
    conn->handles.numbers[pub->handle].batches =
        atomic_load_explicit(&pub->sent_batches, memory_order_relaxed);
    conn->handles.numbers[pub->handle].bytes = pub->window.sent - pub->window.leased;
    (void)amb_event_forget(conn, pub, NULL);
    if (conn->session.down != AMB_OK) {
        /* Another session knows nothing of it. */
        conn->handles.pub_taken[pub->handle] = false;
    } else if (!amb_conn_has_trouble(conn, AMB_TROUBLE_CLOSING)) {
        ask_close(conn, pub->handle);
    }
}

/* ---- in another session ---- */

static void on_resumed(struct amb_conn *conn, struct amb_control_request *request)
{
    struct amb_pub *pub = conn->handles.pubs[request->handle];
    enum amb_status status = request->status;
    if (pub != NULL && pub->away.is_on && status == AMB_OK) {
        take_opened(pub, request);
        pub->away.is_on = false;
        if (pub->is_named) {
            amb_pub_send_again(pub, request->last_seq);
        }
    } else if (pub != NULL && amb_status_scope_of(status) != AMB_SCOPE_SESSION &&
               status != AMB_OK) {
        pub->away.refused = status; /* Its next flush returns it. */
        pub->lease.group = 0;
        (void)amb_conn_fail(conn, status, "cannot publish to '%s' any more: %s", pub->topic,
                            request->text);
        amb_pub_push_open(pub);
    }
    free(request);
    amb_back_one(conn);
}

void amb_pub_resume(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    struct amb_control_request *request = calloc(1, sizeof(*request));
    Amb__Control__PubOpen *open =
        amb__control__pub_open__unpack(NULL, pub->away.ask_len, pub->away.ask);
    if (!pub->is_open || conn->session.down != AMB_OK || request == NULL || open == NULL) {
        bool is_short = pub->is_open && conn->session.down == AMB_OK;
        free(request);
        amb__control__pub_open__free_unpacked(open, NULL);
        if (is_short) {
            amb_conn_lost(conn, AMB_ENOMEM, "no memory to reconnect");
        }
        return;
    }
    atomic_store_explicit(&pub->sent_batches, 0, memory_order_relaxed);
    atomic_store_explicit(&pub->accepted_batches, 0, memory_order_relaxed);
    pub->window.sent = pub->window.granted = pub->window.leased = pub->window.wanted =
        pub->window.need = 0;
    pub->knows_subscribers = false;
    pub->lease.group = AMB_GROUP_UNKNOWN;
    amb_settle_restart(&pub->settle);
    open->first_seq = pub->settle.settled_seq + 1;
    request->on_answer = on_resumed;
    request->handle = pub->handle;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.pub_open = open;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPEN;
    conn->again.missing++;
    amb_control_ask(conn, &message, request);
    amb__control__pub_open__free_unpacked(open, NULL);
}

enum amb_status amb_pub_close(struct amb_pub *pub, int64_t timeout_ns)
{
    if (pub == NULL) {
        return AMB_OK;
    }
    struct amb_conn *conn = pub->conn;
    if (amb_conn_has_trouble(conn, AMB_TROUBLE_FORKED)) {
        return AMB_EFORKED; /* Its memory is part of a copy that nobody may use. */
    }
    enum amb_status status = AMB_OK;
    if (timeout_ns > 0) {
        status = amb_pub_flush(pub, 0, timeout_ns);
    }
    amb_conn_lock(conn);
    amb_pub_detach(pub, AMB_ECANCELED);
    if (status == AMB_OK && timeout_ns > 0) {
        status = pub->settle.failure;
    }
    amb_conn_unlock(conn);
    amb_pub_call_settled(pub);
    amb_conn_lock(conn);
    amb_conn_await_out(conn, &pub->inside); /* Others may have begun since then. */
    if (pub->callback.is_running) {
        pub->callback.must_free = true; /* We are inside it: amb_poll frees it. */
    } else {
        amb_pub_free(pub);
    }
    amb_conn_unlock(conn);
    return status;
}
