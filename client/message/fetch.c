/* SPDX-License-Identifier: Apache-2.0 */
#include "client/message/fetch.h"

#include "client/conn/conn.h"
#include "client/drive/wake.h"
#include "client/memory/view.h"
#include "client/message/arrival.h"
#include "client/message/fetch_private.h"
#include "client/message/sub.h"
#include "wire/base/assert.h"

#include <stdlib.h>

/* Its caller has gone, and the link has nothing of it. */
static void free_if_over(struct amb_fetch *fetch)
{
    if (!fetch->is_abandoned || fetch->state == AMB_FETCH_COMING || fetch->out.is_queued) {
        return;
    }
    if (fetch->state == AMB_FETCH_ASKED && fetch->life == fetch->conn->session.life) {
        return; /* The answer comes yet. */
    }
    amb_list_remove(&fetch->node);
    free(fetch);
}

static void put_view(struct amb_conn *conn, struct amb_view *view)
{
    if (view != NULL) {
        amb_view_return(view);
        atomic_fetch_sub_explicit(&conn->mapped_held, 1, memory_order_relaxed);
    }
}

void amb_fetch_leave(struct amb_fetch *fetch)
{
    fetch->is_abandoned = true;
    put_view(fetch->conn, fetch->view);
    fetch->view = NULL;
    if (fetch->state != AMB_FETCH_COMING) {
        amb_buffers_put(&fetch->conn->receive.buffers, fetch->buffer, fetch->len);
        fetch->buffer = NULL;
    }
    free_if_over(fetch);
}

uint32_t amb_fetch_count(struct amb_conn *conn)
{
    uint32_t count = 0;
    AMB_LIST_FOR_EACH_SAFE (node, &conn->fetch.open) {
        struct amb_fetch *fetch = AMB_CONTAINER_OF(node, struct amb_fetch, node);
        count += fetch->life == conn->session.life;
        free_if_over(fetch); /* Of a former session. */
    }
    return count;
}

enum amb_status amb_fetch_ask(const struct amb_msg *msg, uint64_t offset, uint64_t len,
                              struct amb_fetch **out)
{
    const struct amb_arrival *arrival = amb_msg_arrival(msg);
    struct amb_conn *conn = arrival->conn;
    if (amb_fetch_count(conn) >= AMB_FETCHES_MAX) {
        return AMB_EAGAIN;
    }
    struct amb_fetch *fetch = calloc(1, sizeof(*fetch));
    uint8_t *buffer =
        fetch == NULL || len == 0 ? NULL : amb_buffers_get(&conn->receive.buffers, len);
    if (fetch == NULL || (buffer == NULL && len != 0)) {
        free(fetch);
        return AMB_ENOMEM;
    }
    fetch->conn = conn;
    fetch->id = ++conn->fetch.last;
    fetch->offset = offset;
    fetch->len = len;
    fetch->whole = msg->record->len;
    fetch->buffer = buffer;
    fetch->life = conn->session.life;
    fetch->out.kind = AMB_CONN_TX_FETCH;
    fetch->out.frame = (struct amb_frame){.type = AMB_FRAME_FETCH,
                                          .handle = arrival->sub->handle,
                                          .number = arrival->number,
                                          .first = msg->index,
                                          .seq = fetch->id,
                                          .offset = offset,
                                          .data_len = len};
    amb_list_push_back(&conn->fetch.open, &fetch->node);
    enum amb_status status = amb_conn_tx_send(conn, &fetch->out);
    if (status != AMB_OK && status != AMB_EAGAIN) {
        fetch->state = AMB_FETCH_DONE;
        amb_fetch_leave(fetch);
        return status;
    }
    *out = fetch;
    return AMB_OK;
}

/* The place of all of it. A caller that has gone gives it back. */
static enum amb_status note_place(struct amb_fetch *fetch, const struct amb_frame *frame)
{
    struct amb_conn *conn = fetch->conn;
    struct amb_view *view;
    if (fetch->len != 0 || frame->data_len != fetch->whole) {
        return AMB_EPROTO;
    }
    fetch->place = amb_view_borrow(conn, frame->segment, frame->offset, frame->data_len, &view);
    if (fetch->place == NULL) {
        return AMB_EPROTO;
    }
    if (view->gpu != NULL) { /* The caller of a fetch wants to read it. */
        amb_view_return(view);
        return AMB_EPROTO;
    }
    fetch->view = view;
    atomic_fetch_add_explicit(&conn->mapped_held, 1, memory_order_relaxed);
    if (fetch->is_abandoned) {
        put_view(conn, fetch->view);
        fetch->view = NULL;
    }
    return AMB_OK;
}

/* Is this an answer to that question? */
static bool is_answer(const struct amb_fetch *fetch, const struct amb_frame *frame)
{
    if (fetch->state != AMB_FETCH_ASKED || fetch->life != fetch->conn->session.life) {
        return false;
    }
    if (frame->type == AMB_FRAME_FETCHED_MAP) {
        return fetch->len == 0;
    }
    if (frame->status == AMB_OK) {
        return frame->offset == fetch->offset && frame->data_len == fetch->len;
    }
    return frame->status == AMB_ESTALE || frame->status == AMB_EAGAIN ||
           frame->status == AMB_ENOMEM || frame->status == AMB_ECUDA ||
           (frame->status == AMB_ENOTSUP && fetch->len == 0);
}

enum amb_status amb_fetch_announced(struct amb_conn *conn, const struct amb_frame *frame,
                                    void **dst, struct amb_fetch **out)
{
    AMB_LIST_FOR_EACH (node, &conn->fetch.open) {
        struct amb_fetch *fetch = AMB_CONTAINER_OF(node, struct amb_fetch, node);
        if (fetch->id != frame->seq) {
            continue;
        }
        bool is_map = frame->type == AMB_FRAME_FETCHED_MAP;
        if (!is_answer(fetch, frame) || (is_map && note_place(fetch, frame) != AMB_OK)) {
            return AMB_EPROTO;
        }
        bool is_here = frame->status == AMB_OK;
        fetch->state = is_here && fetch->buffer != NULL ? AMB_FETCH_COMING : AMB_FETCH_DONE;
        fetch->status = (enum amb_status)frame->status;
        if (fetch->state == AMB_FETCH_COMING) {
            *dst = fetch->buffer;
            *out = fetch;
        } else {
            amb_list_remove(&fetch->node); /* Its number is not used again. */
            amb_conn_changed(conn);
            free_if_over(fetch);
        }
        return AMB_OK;
    }
    return AMB_EPROTO;
}

void amb_fetch_arrived(struct amb_fetch *fetch, enum amb_status status)
{
    fetch->state = AMB_FETCH_DONE;
    fetch->status = status == AMB_OK ? AMB_OK : AMB_ESTALE; /* The link is down. */
    amb_list_remove(&fetch->node);
    amb_conn_changed(fetch->conn);
    if (fetch->is_abandoned) {
        amb_fetch_leave(fetch);
    }
}

void amb_fetch_sent(struct amb_conn_tx *out)
{
    free_if_over(AMB_CONTAINER_OF(out, struct amb_fetch, out));
}

void amb_fetches_init(struct amb_conn *conn)
{
    amb_list_init(&conn->fetch.open);
}

void amb_fetches_fini(struct amb_conn *conn)
{
    AMB_LIST_FOR_EACH_SAFE (node, &conn->fetch.open) {
        struct amb_fetch *fetch = AMB_CONTAINER_OF(node, struct amb_fetch, node);
        amb_assert(fetch->is_abandoned && fetch->state != AMB_FETCH_DONE);
        amb_list_remove(&fetch->node);
        /* Else of a worker that UCX has kept: it may write there. */
        if (fetch->state == AMB_FETCH_ASKED) {
            free(fetch);
        }
    }
}

void amb_fetch_recycle(struct amb_conn *conn, const struct amb_side *sides, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        amb_buffers_put(&conn->receive.buffers, sides[i].fetched, sides[i].fetched_len);
        put_view(conn, sides[i].view);
    }
}
