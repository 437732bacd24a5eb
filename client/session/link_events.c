/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of the link: the one place that knows the kinds of the broker's frames. Everything
 * here runs under the connection's lock, inside amb_link_poll or amb_link_flush.
 */
#include "client/session/link_events.h"

#include "client/batch/batches.h"
#include "client/batch/flush.h"
#include "client/batch/pub.h"
#include "client/batch/pub_settle.h"
#include "client/batch/send.h"
#include "client/conn/conn.h"
#include "client/drive/notify.h"
#include "client/drive/tx.h"
#include "client/drive/wake.h"
#include "client/memory/commits.h"
#include "client/memory/gpu_buffer.h"
#include "client/memory/view.h"
#include "client/message/fetch.h"
#include "client/message/landing.h"
#include "client/message/returns.h"
#include "client/message/sub.h"
#include "client/subscribe/ack.h"
#include "client/subscribe/arrivals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cookies are pointers to one of three things: names, payloads that were asked for, deliveries. */
#define COOKIE_NAME ((uintptr_t)1)
#define COOKIE_FETCH ((uintptr_t)2)
/* Batches of so many show a stream that is not about the next message. */
#define BULK_MSGS 32u

static enum amb_status on_topic(struct amb_conn *conn, struct amb_sub *sub,
                                const struct amb_frame *frame, void **dst, void **cookie)
{
    struct amb_topic_name *name;
    if (frame->data_len == 0 || frame->data_len >= sizeof(name->name) || frame->meta_len != 0) {
        return AMB_EPROTO;
    }
    (void)conn;
    name = amb_sub_topic_add(sub, frame->topic, (uint32_t)frame->data_len);
    if (name == NULL) {
        return AMB_ENOMEM;
    }
    name->priority = (enum amb_priority)frame->count;
    if (name->priority != AMB_PRIORITY_NORMAL) {
        amb_sub_has_ranks(sub);
    }
    *dst = name->name;
    *cookie = (void *)((uintptr_t)name | COOKIE_NAME);
    return AMB_OK;
}

/* Where a delivery's body lies. */
struct place {
    uint8_t *body;
    struct amb_view *view;
    void *buffer;
};

/* Counts messages that were lost while there was no session. A look at the session's first delivery
 * of a topic. */
static void count_missed(struct amb_sub *sub, struct amb_topic_name *topic,
                         struct amb_arrival *arrival)
{
    if (__builtin_expect(sub->life.is_restarted, 0)) {
        sub->life.is_restarted = false;
        arrival->lost = UINT64_MAX;
        arrival->loss = AMB_LOSS_BROKER_RESTART;
    } else if (__builtin_expect(topic->resumes_at != 0, 0)) {
        uint64_t missed = arrival->seq > topic->resumes_at ? arrival->seq - topic->resumes_at : 0;
        if (missed > arrival->lost && !sub->is_choosy) {
            arrival->loss = arrival->lost == 0 ? AMB_LOSS_AWAY : AMB_LOSS_MIXED;
            arrival->lost = missed;
        }
        topic->resumes_at = 0;
    }
    topic->next_seq = arrival->seq + arrival->count;
}

/* The delivery that a frame announces, in its place in the order of arrivals. */
static enum amb_status announce(struct amb_sub *sub, const struct amb_frame *frame,
                                const struct place *place, struct amb_arrival **out)
{
    struct amb_conn *conn = sub->conn;
    struct amb_arrival *arrival =
        amb_arrival_create(conn, frame->count - frame->first - frame->rest);
    if (arrival == NULL) {
        return AMB_ENOMEM;
    }
    arrival->frame = *frame;
    struct amb_topic_name *topic = amb_sub_topic_find(sub, frame->topic);
    arrival->topic = topic;
    arrival->life = conn->session.life;
    arrival->body = place->body;
    arrival->view = place->view;
    if (place->view != NULL) {
        arrival->base = place->view->base;
        arrival->base_size = place->view->span;
    }
    arrival->buffer = place->buffer;
    arrival->buffer_len = amb_frame_body_len(frame);
    arrival->body_len = frame->meta_len;
    if (!sub->is_light) {
        arrival->body_len += frame->data_len; /* A lazy payload is kept, if not charged for. */
    }
    arrival->number = frame->number;
    arrival->seq = frame->seq;
    arrival->lost = frame->lost;
    arrival->loss = frame->lost == 0 ? AMB_LOSS_NONE : (enum amb_loss)frame->status;
    arrival->time_ns = frame->time_ns;
    arrival->skip = frame->first;
    enum amb_status status = amb_sub_append(sub, arrival);
    if (status != AMB_OK) {
        arrival->view = NULL; /* Both are the caller's until it is a delivery. */
        arrival->buffer = NULL;
        amb_arrival_discard(arrival);
        return status;
    }
    if (place->view != NULL) {
        atomic_fetch_add_explicit(&conn->mapped_held, 1, memory_order_relaxed);
    }
    conn->link_state.is_bulk = arrival->count >= BULK_MSGS;
    count_missed(sub, topic, arrival);
    if (arrival->lost != 0) {
        amb_event_gap(conn, sub, arrival->lost, arrival->loss, frame->seq + frame->above);
    }
    *out = arrival;
    return AMB_OK;
}

static bool is_next(const struct amb_sub *sub, const struct amb_frame *frame)
{
    return frame->number == sub->release.last + 1 && frame->first + frame->rest < frame->count &&
           amb_sub_topic_find(sub, frame->topic) != NULL;
}

static enum amb_status on_fetched(struct amb_conn *conn, const struct amb_frame *frame, void **dst,
                                  void **cookie)
{
    struct amb_fetch *fetch = NULL;
    enum amb_status status = amb_fetch_announced(conn, frame, dst, &fetch);
    *cookie = (void *)((uintptr_t)fetch | COOKIE_FETCH);
    return status;
}

/* By copy, leased or lazy: a body on the link goes to a buffer of ours. */
static enum amb_status on_deliver(struct amb_conn *conn, struct amb_sub *sub,
                                  const struct amb_frame *frame, void **dst, void **cookie)
{
    if (!is_next(sub, frame) ||
        (frame->type == AMB_FRAME_LAZY && sub->lazy == AMB_LAZY_OFF)) { /* Nobody asked for it. */
        return AMB_EPROTO;
    }
    struct place place = {.view = NULL};
    if (amb_frame_is_leased(frame->type)) {
        if (amb_view_borrow(conn, frame->segment, 0, 0, &place.view) == NULL) {
            return AMB_EPROTO;
        }
        if (place.view->gpu != NULL && amb_landing_mem(sub->landing) == AMB_MEM_HOST) {
            amb_view_return(place.view);
            return AMB_EPROTO; /* Nobody asked for GPU memory. */
        }
    }
    /* No room: the bytes are thrown away, the messages count as lost. */
    uint64_t len = amb_frame_body_len(frame);
    place.body = place.buffer = amb_buffers_get(&conn->receive.buffers, len);
    struct amb_arrival *arrival;
    enum amb_status status = announce(sub, frame, &place, &arrival);
    if (status != AMB_OK) {
        amb_buffers_put(&conn->receive.buffers, place.buffer, len);
        if (place.view != NULL) {
            amb_view_return(place.view);
        }
        return status;
    }
    if (place.buffer == NULL) {
        return amb_sub_ready(arrival, AMB_ENOMEM);
    }
    *dst = place.buffer;
    *cookie = arrival;
    return AMB_OK;
}

/* As a leased batch, whose segment is a device buffer of ours. */
static enum amb_status on_deliver_far(struct amb_sub *sub, const struct amb_frame *frame,
                                      const uint8_t *meta, uint64_t len, struct amb_gpu_buffer *far,
                                      void **cookie)
{
    struct amb_conn *conn = sub->conn;
    struct amb_frame leased = *frame;
    leased.type = AMB_FRAME_MAP_LEASED;
    leased.flags = AMB_FRAME_FLAG_NONE;
    leased.meta_len += (uint32_t)sizeof(uint64_t);
    struct place place = {.buffer = amb_buffers_get(&conn->receive.buffers, leased.meta_len)};
    if (place.buffer == NULL) {
        return AMB_ENOTSUP;
    }
    struct amb_record record;
    memcpy(&record, meta, sizeof(record));
    place.body = place.buffer;
    memcpy(place.body, &record, sizeof(record));
    memset(place.body + sizeof(record), 0, sizeof(uint64_t)); /* It lies at its beginning. */
    memcpy(place.body + sizeof(record) + sizeof(uint64_t), meta + sizeof(record),
           frame->meta_len - sizeof(record));
    struct amb_arrival *arrival;
    enum amb_status status =
        record.len <= len ? announce(sub, &leased, &place, &arrival) : AMB_EPROTO;
    if (status != AMB_OK) {
        amb_buffers_put(&conn->receive.buffers, place.buffer, leased.meta_len);
        return status;
    }
    arrival->body_len = frame->data_len + frame->meta_len; /* That is what it is charged for. */
    arrival->far = far;
    arrival->base = (const uint8_t *)(uintptr_t)far->address;
    arrival->base_size = frame->data_len;
    *cookie = arrival;
    return AMB_OK;
}

static enum amb_status on_device(void *arg, const struct amb_frame *frame, const void *meta,
                                 uint64_t len, void **dst, void **cookie)
{
    struct amb_conn *conn = arg;
    struct amb_sub *sub =
        frame->handle < AMB_HANDLES_MAX ? conn->handles.subs[frame->handle] : NULL;
    if (frame->type != AMB_FRAME_DELIVER || sub == NULL || !amb_landing_is_by_link(sub->landing) ||
        !is_next(sub, frame)) {
        return AMB_ENOTSUP; /* A fault in it is reported as of any other. */
    }
    struct amb_gpu_buffer *far = amb_landing_far_get(sub->landing, frame->data_len);
    if (far == NULL) {
        return AMB_ENOTSUP;
    }
    enum amb_status status = on_deliver_far(sub, frame, meta, len, far, cookie);
    if (status != AMB_OK) {
        amb_landing_far_put(sub->landing, far);
        return status;
    }
    *dst = (void *)(uintptr_t)far->address;
    return AMB_OK;
}

static enum amb_status on_map(struct amb_conn *conn, struct amb_sub *sub,
                              const struct amb_frame *frame)
{
    if (!is_next(sub, frame)) {
        return AMB_EPROTO;
    }
    struct place place = {.buffer = NULL};
    place.body = amb_view_borrow(conn, frame->segment, frame->offset,
                                 frame->data_len + frame->meta_len, &place.view);
    if (place.body == NULL) {
        return AMB_EPROTO;
    }
    struct amb_arrival *arrival;
    enum amb_status status = announce(sub, frame, &place, &arrival);
    if (status != AMB_OK) {
        amb_view_return(place.view);
        return status;
    }
    return amb_sub_ready(arrival, AMB_OK);
}

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct amb_conn *conn = arg;
    (void)mem;
    if (frame->type == AMB_FRAME_SEG_DROP) {
        amb_view_drop(conn, frame->segment);
        return AMB_OK;
    }
    if (frame->type == AMB_FRAME_FREED) {
        return amb_commits_freed_range(conn, frame->number, frame->count);
    }
    if (frame->handle >= AMB_HANDLES_MAX) {
        return AMB_EPROTO;
    }
    if (frame->type == AMB_FRAME_SETTLED) {
        struct amb_pub *pub = conn->handles.pubs[frame->handle];
        return pub == NULL ? AMB_OK : amb_pub_settled(pub, frame);
    }
    if (frame->type == AMB_FRAME_FETCHED || frame->type == AMB_FRAME_FETCHED_MAP) {
        return on_fetched(conn, frame, dst, cookie);
    }
    struct amb_sub *sub = conn->handles.subs[frame->handle];
    if (sub == NULL) {
        return AMB_OK; /* Sent before the broker knew that it is closed. */
    }
    switch (frame->type) {
    case AMB_FRAME_TOPIC:
        return on_topic(conn, sub, frame, dst, cookie);
    case AMB_FRAME_DELIVER:
    case AMB_FRAME_MAP_LEASED:
    case AMB_FRAME_LAZY:
        return on_deliver(conn, sub, frame, dst, cookie);
    case AMB_FRAME_MAP:
        return on_map(conn, sub, frame);
    default:
        return AMB_EPROTO;
    }
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    (void)arg;
    uintptr_t bits = (uintptr_t)cookie;
    if ((bits & COOKIE_NAME) != 0) {
        struct amb_topic_name *name = (void *)(bits & ~COOKIE_NAME);
        name->name[name->len] = '\0';
        amb_sub_topic_named(name);
        return AMB_OK;
    }
    if (__builtin_expect((bits & COOKIE_FETCH) != 0, 0)) {
        amb_fetch_arrived((void *)(bits & ~COOKIE_FETCH), status);
        return AMB_OK;
    }
    return amb_sub_ready(cookie, status);
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    struct amb_conn *conn = arg;
    if (kind == AMB_FLOW_FREED) {
        return handle == 0 ? amb_commits_freed(conn, value) : AMB_EPROTO;
    }
    struct amb_pub *pub = handle < AMB_HANDLES_MAX ? conn->handles.pubs[handle] : NULL;
    if (pub == NULL) {
        return AMB_OK; /* Closed meanwhile. */
    }
    if (kind == AMB_FLOW_ACCEPTED) {
        return amb_pub_accepted(pub, value);
    }
    if (kind == AMB_FLOW_WINDOW) {
        return amb_pub_window(pub, value);
    }
    if (kind == AMB_FLOW_SUBSCRIBERS) {
        pub->is_over_quota = (value & AMB_FLOW_BLOCKED) != 0;
        amb_pub_subscribers(pub, (uint32_t)value);
        return AMB_OK;
    }
    return AMB_EPROTO;
}

static void on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    struct amb_conn *conn = arg;
    struct amb_conn_tx *out = AMB_CONTAINER_OF(tx, struct amb_conn_tx, tx);
    (void)status; /* amb_conn_lost settles messages that were lost with the link. */
    out->is_queued = false;
    amb_conn_changed(conn);
    if (out->kind == AMB_CONN_TX_VIEW) {
        amb_view_sent(AMB_CONTAINER_OF(out, struct amb_view, out));
    } else if (out->kind == AMB_CONN_TX_ACK) {
        amb_ack_frame_put(conn, AMB_CONTAINER_OF(out, struct amb_ack_frame, out));
    } else if (out->kind == AMB_CONN_TX_FETCH) {
        amb_fetch_sent(out);
    } else if (out->kind == AMB_CONN_TX_RANGE) {
        free(out);
    } else {
        struct amb_batch *batch = AMB_CONTAINER_OF(out, struct amb_batch, out);
        amb_pub_batch_sent(batch);
        if (!batch->is_waited && !batch->is_kept) {
            amb_pub_batch_put(conn, batch);
        }
    }
}

/* A flush of any thread may find it. Only a poll ends the session, so somebody must poll. */
static void on_down(void *arg, enum amb_status why, const char *text)
{
    struct amb_conn *conn = arg;
    if (conn->link_state.is_down) {
        return;
    }
    conn->link_state.is_down = true;
    conn->session.link_status = why;
    (void)snprintf(conn->session.link_text, sizeof(conn->session.link_text), "%s",
                   text != NULL ? text : "");
    if (conn->driver.is_asleep) {
        amb_conn_wake_driver(conn);
    } else if (conn->io.has_thread) {
        amb_io_kick(conn);
    } else {
        amb_notify_set(conn);
    }
}

static void on_closed(void *arg)
{
    struct amb_conn *conn = arg;
    conn->link_state.is_closed = true;
    conn->link = NULL;
    amb_conn_changed(conn);
}

const struct amb_link_events amb_conn_link_events = {
    .on_frame = on_frame,
    .on_device = on_device,
    .on_body = on_body,
    .on_flow = on_flow,
    .on_sent = on_sent,
    .on_down = on_down,
    .on_closed = on_closed,
};
