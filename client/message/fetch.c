/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_msg_fetch, amb_msg_read.
 */
#include "client/message/fetch.h"

#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "client/drive/wake.h"
#include "client/memory/gpu.h"
#include "client/memory/segment.h"
#include "client/message/delivery.h"
#include "client/message/side.h"
#include "client/message/sub.h"
#include "wire/base/assert.h"
#include "wire/mem/cuda.h"

#include <stdlib.h>
#include <string.h>

/* The broker's copy of GPU memory is on its way: asked again after so long. */
#define AGAIN_NS (AMB_NS_PER_MS / 2)
/* Without a deadline so often where the broker has no memory for that copy: a second. */
#define STARVED_MAX 2000u

enum state {
    ASKED,
    COMING,
    DONE
};

struct amb_fetch {
    struct amb_outgoing out;
    struct amb_list_node node; /* in conn->fetches until its answer is here */
    struct amb_conn *conn;
    uint64_t id, offset, len;    /* 0, 0: all of it, in place */
    uint64_t whole;              /* of the message */
    uint8_t *buffer;             /* NULL: nobody wants it any more, or it is asked for in place */
    const uint8_t *place;        /* where it lies, */
    struct amb_segment *segment; /* in there; a delivery of it is counted for us */
    uint32_t life;               /* of the session that was asked */
    enum state state;
    enum amb_status status;
    bool is_left; /* by its caller */
};

/* ---- pieces ---- */

/* Its caller has left, and the link has nothing of it. */
static void free_if_over(struct amb_fetch *fetch)
{
    if (!fetch->is_left || fetch->state == COMING || fetch->out.is_queued) {
        return;
    }
    if (fetch->state == ASKED && fetch->life == fetch->conn->session.life) {
        return; /* The answer comes yet. */
    }
    amb_list_remove(&fetch->node);
    free(fetch);
}

static void put_segment(struct amb_conn *conn, struct amb_segment *segment)
{
    if (segment != NULL) {
        amb_segment_return(segment);
        atomic_fetch_sub_explicit(&conn->mapped_held, 1, memory_order_relaxed);
    }
}

static void leave(struct amb_fetch *fetch)
{
    fetch->is_left = true;
    put_segment(fetch->conn, fetch->segment);
    fetch->segment = NULL;
    if (fetch->state != COMING) {
        amb_buffers_put(&fetch->conn->receive.buffers, fetch->buffer, fetch->len);
        fetch->buffer = NULL;
    }
    free_if_over(fetch);
}

/* How many the broker still has to answer, or is answering: it counts those too. */
static uint32_t count_out(struct amb_conn *conn)
{
    uint32_t count = 0;
    AMB_LIST_FOR_EACH_SAFE (node, &conn->fetch.open) {
        struct amb_fetch *fetch = AMB_CONTAINER_OF(node, struct amb_fetch, node);
        count += fetch->life == conn->session.life;
        free_if_over(fetch); /* Of a former session. */
    }
    return count;
}

/* len 0: all of it, in place. EAGAIN: not while so much is out. ENOMEM; or the link is down. */
static enum amb_status ask(const struct amb_msg *msg, uint64_t offset, uint64_t len,
                           struct amb_fetch **out)
{
    const struct amb_delivery *delivery = amb_msg_delivery(msg);
    struct amb_conn *conn = delivery->conn;
    if (count_out(conn) >= AMB_FETCHES_MAX) {
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
    fetch->out.kind = AMB_OUTGOING_FETCH;
    fetch->out.frame = (struct amb_frame){.type = AMB_FRAME_FETCH,
                                          .handle = delivery->sub->handle,
                                          .number = delivery->number,
                                          .first = msg->index,
                                          .seq = fetch->id,
                                          .offset = offset,
                                          .data_len = len};
    amb_list_push_back(&conn->fetch.open, &fetch->node);
    enum amb_status status = amb_outgoing_send(conn, &fetch->out);
    if (status != AMB_OK && status != AMB_EAGAIN) {
        fetch->state = DONE;
        leave(fetch);
        return status;
    }
    *out = fetch;
    return AMB_OK;
}

/* The place of all of it. A caller that has left gives it back. */
static enum amb_status note_place(struct amb_fetch *fetch, const struct amb_frame *frame)
{
    struct amb_conn *conn = fetch->conn;
    struct amb_segment *segment;
    if (fetch->len != 0 || frame->data_len != fetch->whole) {
        return AMB_EPROTO;
    }
    fetch->place =
        amb_segment_borrow(conn, frame->segment, frame->offset, frame->data_len, &segment);
    if (fetch->place == NULL) {
        return AMB_EPROTO;
    }
    if (segment->gpu != NULL) { /* Whoever fetches wants to read it. */
        amb_segment_return(segment);
        return AMB_EPROTO;
    }
    fetch->segment = segment;
    atomic_fetch_add_explicit(&conn->mapped_held, 1, memory_order_relaxed);
    if (fetch->is_left) {
        put_segment(conn, fetch->segment);
        fetch->segment = NULL;
    }
    return AMB_OK;
}

/* Is this an answer to that question? */
static bool is_answer(const struct amb_fetch *fetch, const struct amb_frame *frame)
{
    if (fetch->state != ASKED || fetch->life != fetch->conn->session.life) {
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
        fetch->state = is_here && fetch->buffer != NULL ? COMING : DONE;
        fetch->status = (enum amb_status)frame->status;
        if (fetch->state == COMING) {
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
    fetch->state = DONE;
    fetch->status = status == AMB_OK ? AMB_OK : AMB_ESTALE; /* The link is down. */
    amb_list_remove(&fetch->node);
    amb_conn_changed(fetch->conn);
    if (fetch->is_left) {
        leave(fetch);
    }
}

void amb_fetch_sent(struct amb_outgoing *out)
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
        amb_assert(fetch->is_left && fetch->state != DONE);
        amb_list_remove(&fetch->node);
        if (fetch->state == ASKED) { /* Else of a worker that UCX has kept: it may write there. */
            free(fetch);
        }
    }
}

/* ---- a range ---- */

struct range {
    struct amb_msg *msg;
    uint64_t offset, len;
    uint8_t *to;
    struct amb_gpu *gpu; /* whose memory `to` is; NULL: host */
    int64_t deadline_ns;
    uint64_t asked, done; /* of len */
    unsigned starved;     /* answers that the broker had no memory for a copy */
    struct amb_fetch *out[AMB_FETCH_AHEAD];
    unsigned first, count; /* of them, oldest first */
};

/* Is that session over? One that is there may lack other subscriptions yet. */
static bool is_over(const struct amb_conn *conn, uint32_t life)
{
    return life != conn->session.life || amb_conn_is_cut(conn);
}

/* May anything of it be asked for? Lock held. */
static enum amb_status standing(const struct amb_delivery *delivery)
{
    struct amb_conn *conn = delivery->conn;
    enum amb_status status = amb_conn_trouble(conn, AMB_TROUBLE_CLOSING | AMB_TROUBLE_DOWN);
    if (status != AMB_OK) {
        return status;
    }
    return is_over(conn, delivery->life) ? AMB_ESTALE : AMB_OK;
}

static bool is_answered(void *arg)
{
    const struct amb_fetch *fetch = arg;
    return fetch->state == DONE || is_over(fetch->conn, fetch->life);
}

/* What it came to. */
static enum amb_status outcome(const struct amb_fetch *fetch, const struct amb_delivery *delivery)
{
    if (fetch->state == DONE) {
        return fetch->status;
    }
    enum amb_status status = standing(delivery);
    return status != AMB_OK ? status : AMB_ESTALE;
}

/* Or none will come. */
static bool has_room(void *arg)
{
    const struct amb_delivery *delivery = arg;
    return count_out(delivery->conn) < AMB_FETCHES_MAX || is_over(delivery->conn, delivery->life);
}

static bool is_never(void *arg)
{
    (void)arg;
    return false;
}

/* Lock held, given up meanwhile. */
static enum amb_status wait_for(struct range *range, bool (*is_ready)(void *arg), void *arg,
                                int64_t most_ns)
{
    const struct amb_delivery *delivery = amb_msg_delivery(range->msg);
    struct amb_wait wait = {.is_ready = is_ready, .arg = arg, .timeout_ns = AMB_FOREVER};
    if (range->deadline_ns != INT64_MAX) {
        int64_t left_ns = range->deadline_ns - amb_clock_monotonic_ns();
        if (left_ns <= 0) {
            return is_ready(arg) ? AMB_OK : AMB_ETIMEDOUT;
        }
        wait.timeout_ns = left_ns;
    }
    bool is_cut = wait.timeout_ns > most_ns;
    wait.timeout_ns = is_cut ? most_ns : wait.timeout_ns;
    enum amb_status status = amb_conn_wait(delivery->conn, &wait);
    if (status == AMB_ETIMEDOUT && is_cut) {
        return AMB_OK;
    }
    if (status != AMB_OK && status != AMB_ETIMEDOUT) {
        enum amb_status why = standing(delivery);
        return why != AMB_OK ? why : status;
    }
    return status;
}

/* Asks ahead. Lock held, given up only if nothing of it is out yet. */
static enum amb_status ask_ahead(struct range *range)
{
    struct amb_conn *conn = amb_msg_delivery(range->msg)->conn;
    while (range->count < AMB_FETCH_AHEAD && range->asked < range->len) {
        enum amb_status status = standing(amb_msg_delivery(range->msg));
        if (status != AMB_OK) {
            return status;
        }
        uint64_t left = range->len - range->asked;
        uint64_t len = left < AMB_FETCH_MAX ? left : AMB_FETCH_MAX;
        unsigned at = (range->first + range->count) % AMB_FETCH_AHEAD;
        status = ask(range->msg, range->offset + range->asked, len, &range->out[at]);
        if (status == AMB_OK) {
            range->asked += len;
            range->count++;
        } else if (range->count != 0) {
            break; /* What is out is waited for first. */
        } else if (status == AMB_EAGAIN) {
            status = wait_for(range, has_room, amb_msg_delivery(range->msg), INT64_MAX);
            if (status != AMB_OK) {
                return status;
            }
        } else {
            return status == AMB_ENOMEM ? status : AMB_ESTALE;
        }
    }
    if (conn->link != NULL && conn->link_state.must_flush) {
        amb_conn_flush_link(conn);
    }
    return AMB_OK;
}

/* The bytes of the oldest piece, to where they are wanted. Lock held, given up meanwhile. */
static enum amb_status carry(struct range *range, const struct amb_fetch *fetch)
{
    struct amb_conn *conn = fetch->conn;
    uint8_t *to = range->to + range->done;
    enum amb_status status = AMB_OK;
    amb_conn_unlock(conn);
    if (range->gpu != NULL) {
        status = amb_gpu_store(range->gpu, (uintptr_t)to, fetch->buffer, fetch->len);
    } else {
        memcpy(to, fetch->buffer, fetch->len);
    }
    amb_conn_lock(conn);
    range->done += fetch->len;
    return status;
}

/* Takes the oldest piece that is out; on EAGAIN all is asked for again from there on. */
static enum amb_status take_piece(struct range *range)
{
    struct amb_fetch *fetch = range->out[range->first];
    enum amb_status status = wait_for(range, is_answered, fetch, INT64_MAX);
    if (status != AMB_OK) {
        return status;
    }
    status = outcome(fetch, amb_msg_delivery(range->msg));
    if (status == AMB_OK) {
        status = carry(range, fetch);
    } else if (status == AMB_ENOMEM &&
               (range->deadline_ns != INT64_MAX || range->starved++ < STARVED_MAX)) {
        status = AMB_EAGAIN;
    }
    range->first = (range->first + 1) % AMB_FETCH_AHEAD;
    range->count--;
    leave(fetch);
    return status;
}

static void leave_all(struct range *range)
{
    for (; range->count != 0; range->count--) {
        leave(range->out[range->first]);
        range->first = (range->first + 1) % AMB_FETCH_AHEAD;
    }
}

/* Lock held, given up meanwhile. */
static enum amb_status bring(struct range *range)
{
    enum amb_status status = AMB_OK;
    while (status == AMB_OK && range->done < range->len) {
        status = ask_ahead(range);
        if (status == AMB_OK) {
            status = take_piece(range);
        }
        if (status == AMB_EAGAIN) {
            leave_all(range);
            range->asked = range->done;
            status = wait_for(range, is_never, NULL, AGAIN_NS);
        }
    }
    leave_all(range);
    return status;
}

/* ---- the calls ---- */

static bool is_lazy(const struct amb_msg *msg)
{
    return amb_msg_delivery(msg)->frame.type == AMB_FRAME_LAZY;
}

/* May it be asked for, by this call? */
static enum amb_status check(const struct amb_msg *msg, int64_t timeout_ns)
{
    struct amb_delivery *delivery = amb_msg_delivery(msg);
    if (amb_conn_has_trouble(delivery->conn, AMB_TROUBLE_FORKED)) {
        return AMB_EFORKED;
    }
    if (delivery->sub->lazy == AMB_LAZY_HEADERS) {
        return amb_conn_fail(delivery->conn, AMB_ESTATE,
                             "the subscription is for headers: their payloads stay away");
    }
    return timeout_ns == AMB_NOWAIT ? AMB_EAGAIN : AMB_OK;
}

static int64_t deadline_of(int64_t timeout_ns)
{
    return timeout_ns == AMB_FOREVER ? INT64_MAX
                                     : amb_deadline_ns(amb_clock_monotonic_ns(), timeout_ns);
}

/* Tells why not. */
static enum amb_status told(struct amb_conn *conn, enum amb_status status)
{
    if (status != AMB_OK && status != AMB_ETIMEDOUT) {
        (void)amb_conn_fail(conn, status, "a payload that was asked for: %s",
                            amb_status_text(status));
    }
    return status;
}

static enum amb_status run(struct range *range)
{
    struct amb_conn *conn = amb_msg_delivery(range->msg)->conn;
    amb_conn_enter(conn);
    amb_conn_lock(conn);
    enum amb_status status = bring(range);
    amb_conn_unlock(conn);
    return amb_conn_leave(conn, told(conn, status));
}

/* The message has its payload in place from here on. Lock held. */
static void settle_place(struct amb_msg *msg, struct amb_side *side, struct amb_fetch *fetch)
{
    if (side->segment == NULL && side->fetched == NULL) {
        side->segment = fetch->segment;
        fetch->segment = NULL; /* The side's from here on. */
        __atomic_store_n(&msg->payload, fetch->place, __ATOMIC_RELEASE); /* See settle_in. */
    }
}

/* All of it in place; ENOTSUP: in pieces, then. */
static enum amb_status fetch_place(struct amb_msg *msg, struct amb_side *side, int64_t deadline_ns)
{
    struct amb_conn *conn = amb_msg_delivery(msg)->conn;
    struct range range = {.msg = msg, .deadline_ns = deadline_ns};
    struct amb_fetch *fetch;
    amb_conn_enter(conn);
    amb_conn_lock(conn);
    enum amb_status status = standing(amb_msg_delivery(msg));
    bool is_ring = status == AMB_OK && conn->link->ops->kind == AMB_LINK_RING;
    if (!is_ring || ask(msg, 0, 0, &fetch) != AMB_OK) {
        amb_conn_unlock(conn);
        return amb_conn_leave(conn, AMB_ENOTSUP); /* What it is says who asks for pieces. */
    }
    amb_conn_flush_link(conn);
    status = wait_for(&range, is_answered, fetch, INT64_MAX);
    if (status == AMB_OK) {
        status = outcome(fetch, amb_msg_delivery(msg));
    }
    if (status == AMB_OK) {
        settle_place(msg, side, fetch);
    }
    leave(fetch);
    amb_conn_unlock(conn);
    return amb_conn_leave(conn, status);
}

/* The message has its payload from here on; of two threads that brought it one is in time. */
static void settle_in(struct amb_msg *msg, struct amb_side *side, uint8_t *buffer)
{
    struct amb_conn *conn = amb_msg_delivery(msg)->conn;
    amb_conn_lock(conn);
    if (side->fetched == NULL && side->segment == NULL) {
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
    struct amb_conn *conn = amb_msg_delivery(msg)->conn;
    int64_t deadline_ns = deadline_of(timeout_ns);
    struct amb_side *side = amb_side_of(msg);
    uint8_t *buffer = NULL;
    if (side != NULL) {
        status = fetch_place(msg, side, deadline_ns);
        if (status != AMB_ENOTSUP) {
            return told(conn, status);
        }
        amb_conn_lock(conn);
        buffer = amb_buffers_get(&conn->receive.buffers, msg->record->len);
        amb_conn_unlock(conn);
    }
    if (buffer == NULL) {
        return amb_conn_fail(conn, AMB_ENOMEM, "no memory for a payload (options.memory_max)");
    }
    struct range range = {
        .msg = msg, .len = msg->record->len, .to = buffer, .deadline_ns = deadline_ns};
    status = run(&range);
    if (status == AMB_OK) {
        settle_in(msg, side, buffer);
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
    struct amb_conn *conn = amb_msg_delivery(msg)->conn;
    const uint8_t *bytes = amb_msg_bytes(msg);
    if (bytes == NULL) {
        const uint8_t *at = amb_msg_data_on(msg, NULL);
        return gpu != NULL ? copy_across(conn, gpu, (uintptr_t)dst, at + offset, len)
                           : amb_gpu_read(conn, dst, at + offset, len, NULL);
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
    struct amb_conn *conn = amb_msg_delivery(msg)->conn;
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
    if (status == AMB_OK && amb_cuda_is_live() && amb_cuda_is_device(dst)) {
        status = amb_gpu_of(conn, dst, len, &gpu);
    }
    if (status != AMB_OK) {
        return status;
    }
    if (is_here) {
        return copy_out(msg, offset, dst, len, gpu);
    }
    struct range range = {.msg = msg,
                          .offset = offset,
                          .len = len,
                          .to = dst,
                          .gpu = gpu,
                          .deadline_ns = deadline_of(timeout_ns)};
    return run(&range);
}

void amb_fetch_recycle(struct amb_conn *conn, const struct amb_side *sides, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        amb_buffers_put(&conn->receive.buffers, sides[i].fetched, sides[i].fetched_len);
        put_segment(conn, sides[i].segment);
    }
}
