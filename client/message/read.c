/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_msg_fetch, amb_msg_read: the payload of a message, or a range of it, wherever it is.
 */
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/conn/wait.h"
#include "client/drive/lock.h"
#include "client/memory/gpu.h"
#include "client/message/arrival.h"
#include "client/message/fetch_private.h"
#include "client/message/fetch_range.h"
#include "client/message/side.h"
#include "client/message/sub.h"
#include "wire/mem/cuda.h"

#include <string.h>

static bool is_lazy(const struct amb_msg *msg)
{
    return amb_msg_arrival(msg)->frame.type == AMB_FRAME_LAZY;
}

/* May it be asked for, by this call? */
static enum amb_status check(const struct amb_msg *msg, int64_t timeout_ns)
{
    struct amb_arrival *arrival = amb_msg_arrival(msg);
    if (amb_conn_has_trouble(arrival->conn, AMB_TROUBLE_FORKED)) {
        return AMB_EFORKED;
    }
    if (arrival->sub->lazy == AMB_LAZY_HEADERS) {
        return amb_conn_fail(arrival->conn, AMB_ESTATE,
                             "the subscription is for headers: their payloads stay away");
    }
    return timeout_ns == AMB_NOWAIT ? AMB_EAGAIN : AMB_OK;
}

/* The reason, as the last error. */
static enum amb_status explain(struct amb_conn *conn, enum amb_status status)
{
    if (status != AMB_OK && status != AMB_ETIMEDOUT) {
        (void)amb_conn_fail(conn, status, "a payload that was asked for: %s",
                            amb_status_text(status));
    }
    return status;
}

static enum amb_status bring(struct amb_fetch_range *range)
{
    struct amb_conn *conn = amb_msg_arrival(range->msg)->conn;
    amb_conn_enter(conn);
    amb_conn_lock(conn);
    enum amb_status status = amb_fetch_range_bring(range);
    amb_conn_unlock(conn);
    return amb_conn_leave(conn, explain(conn, status));
}

/* The message has its payload in place from here on. Lock held. */
static void give_place(struct amb_msg *msg, struct amb_side *side, struct amb_fetch *fetch)
{
    if (side->view == NULL && side->fetched == NULL) {
        side->view = fetch->view;
        fetch->view = NULL; /* The side's from here on. */
        __atomic_store_n(&msg->payload, fetch->place, __ATOMIC_RELEASE); /* See give_buffer. */
    }
}

/* All of it in place; ENOTSUP: in pieces, then. */
static enum amb_status fetch_place(struct amb_msg *msg, struct amb_side *side, int64_t deadline_ns)
{
    struct amb_conn *conn = amb_msg_arrival(msg)->conn;
    struct amb_fetch_range range = {.msg = msg, .deadline_ns = deadline_ns};
    struct amb_fetch *fetch;
    amb_conn_enter(conn);
    amb_conn_lock(conn);
    enum amb_status status = amb_fetch_standing(amb_msg_arrival(msg));
    bool is_ring = status == AMB_OK && conn->link->ops->kind == AMB_LINK_RING;
    if (!is_ring || amb_fetch_ask(msg, 0, 0, &fetch) != AMB_OK) {
        amb_conn_unlock(conn);
        return amb_conn_leave(conn, AMB_ENOTSUP); /* The reason comes where pieces are asked for. */
    }
    amb_conn_flush_link(conn);
    status = amb_fetch_range_wait(&range, amb_fetch_is_answered, fetch, INT64_MAX);
    if (status == AMB_OK) {
        status = amb_fetch_outcome(fetch, amb_msg_arrival(msg));
    }
    if (status == AMB_OK) {
        give_place(msg, side, fetch);
    }
    amb_fetch_leave(fetch);
    amb_conn_unlock(conn);
    return amb_conn_leave(conn, status);
}

/* The message has its payload from here on; of two threads that brought it one is in time. */
static void give_buffer(struct amb_msg *msg, struct amb_side *side, uint8_t *buffer)
{
    struct amb_conn *conn = amb_msg_arrival(msg)->conn;
    amb_conn_lock(conn);
    if (side->fetched == NULL && side->view == NULL) {
        side->fetched = buffer;
        side->fetched_len = msg->record->len;
        /* Release: pairs with amb_msg_data. */
        __atomic_store_n(&msg->payload, buffer, __ATOMIC_RELEASE);
    } else {
        amb_buffers_put(&conn->receive.buffers, buffer, msg->record->len);
    }
    amb_conn_unlock(conn);
}

enum amb_status amb_msg_fetch(struct amb_msg *msg, int64_t timeout_ns)
{
    if (msg == NULL || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    if (!is_lazy(msg) || amb_msg_payload(msg) != NULL) {
        return AMB_OK;
    }
    enum amb_status status = check(msg, timeout_ns);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_conn *conn = amb_msg_arrival(msg)->conn;
    int64_t deadline_ns = amb_wait_deadline(timeout_ns);
    struct amb_side *side = amb_side_of(msg);
    uint8_t *buffer = NULL;
    if (side != NULL) {
        status = fetch_place(msg, side, deadline_ns);
        if (status != AMB_ENOTSUP) {
            return explain(conn, status);
        }
        amb_conn_lock(conn);
        buffer = amb_buffers_get(&conn->receive.buffers, msg->record->len);
        amb_conn_unlock(conn);
    }
    if (buffer == NULL) {
        return amb_conn_fail(conn, AMB_ENOMEM, "no memory for a payload (options.memory_max)");
    }
    struct amb_fetch_range range = {
        .msg = msg, .len = msg->record->len, .to = buffer, .deadline_ns = deadline_ns};
    status = bring(&range);
    if (status == AMB_OK) {
        give_buffer(msg, side, buffer);
    } else {
        amb_conn_lock(conn);
        amb_buffers_put(&conn->receive.buffers, buffer, msg->record->len);
        amb_conn_unlock(conn);
    }
    return status;
}

/* From GPU memory to that of the same or another GPU. */
static enum amb_status copy_across(struct amb_conn *conn, struct amb_gpu *gpu, uint64_t to,
                                   const uint8_t *from, uint64_t len)
{
    struct amb_gpu *source;
    enum amb_status status = amb_gpu_of(conn, from, len, &source);
    if (status != AMB_OK) {
        return status;
    }
    status = amb_gpu_fetch(gpu, to, source, (uintptr_t)from, len);
    return status == AMB_OK ? AMB_OK : amb_gpu_fail(conn, gpu, status, "cannot read a payload");
}

/* From where it is already. */
static enum amb_status copy_out(const struct amb_msg *msg, uint64_t offset, void *dst, uint64_t len,
                                struct amb_gpu *gpu)
{
    struct amb_conn *conn = amb_msg_arrival(msg)->conn;
    const uint8_t *bytes = amb_msg_bytes(msg);
    if (bytes == NULL) {
        const uint8_t *at = amb_msg_data_on(msg, NULL);
        return gpu != NULL ? copy_across(conn, gpu, (uintptr_t)dst, at + offset, len)
                           : amb_gpu_read_whole(conn, dst, at + offset, len);
    }
    if (gpu != NULL) {
        return amb_gpu_store(gpu, (uintptr_t)dst, bytes + offset, len);
    }
    memcpy(dst, bytes + offset, len);
    return AMB_OK;
}

enum amb_status amb_msg_read(struct amb_msg *msg, uint64_t offset, void *dst, size_t len,
                             int64_t timeout_ns)
{
    if (msg == NULL || timeout_ns < 0 || (dst == NULL && len != 0)) {
        return AMB_EINVAL;
    }
    struct amb_conn *conn = amb_msg_arrival(msg)->conn;
    if (offset > msg->record->len || len > msg->record->len - offset) {
        return amb_conn_fail(conn, AMB_EINVAL,
                             "amb_msg_read: a message of %u bytes has no such range",
                             msg->record->len);
    }
    if (len == 0) {
        return AMB_OK;
    }
    bool is_here = !is_lazy(msg) || amb_msg_payload(msg) != NULL;
    enum amb_status status = is_here ? AMB_OK : check(msg, timeout_ns);
    struct amb_gpu *gpu = NULL;
    if (status == AMB_OK && amb_cuda_is_live()) {
        struct amb_mem_place place;
        amb_cuda_locate(dst, &place);
        status = amb_mem_is_on_gpu(place.mem) ? amb_gpu_at(conn, &place, dst, len, &gpu) : AMB_OK;
    }
    if (status != AMB_OK) {
        return status;
    }
    if (is_here) {
        return copy_out(msg, offset, dst, len, gpu);
    }
    struct amb_fetch_range range = {.msg = msg,
                                    .offset = offset,
                                    .len = len,
                                    .to = dst,
                                    .gpu = gpu,
                                    .deadline_ns = amb_wait_deadline(timeout_ns)};
    return bring(&range);
}
