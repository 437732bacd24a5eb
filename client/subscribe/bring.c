/* SPDX-License-Identifier: Apache-2.0 */
#include "client/subscribe/bring.h"

#include "client/conn/conn.h"
#include "client/memory/gpu.h"
#include "client/memory/gpu_buffer.h"
#include "client/memory/gpu_release.h"
#include "client/memory/view.h"
#include "client/message/landing_private.h"
#include "client/message/side.h"

#include <string.h>

/* A brought payload as the CPU reads it; NULL: it cannot. */
static const uint8_t *readable(const struct amb_side *side)
{
    return side->mem == AMB_MEM_CUDA ? NULL : (const uint8_t *)(uintptr_t)side->address;
}

/* The payload lies in memory of that GPU: it stays there if it may, or is fetched. */
static enum amb_status bring_from(struct amb_landing *landing, struct amb_msg *msg,
                                  struct amb_gpu *gpu)
{
    struct amb_side *side = amb_side_of(msg);
    uint64_t len = amb_msg_size(msg), from = (uintptr_t)msg->payload;
    if (side == NULL) {
        return AMB_EAGAIN;
    }
    side->bytes = NULL;
    side->is_placed = true;
    if (landing->is_as_sent || (landing->gpu == gpu && !landing->is_copied) || len == 0) {
        side->address = from;
        side->is_in_place = true;
    } else if (!amb_gpu_is_sound(landing->gpu)) {
        return AMB_ECUDA;
    } else if (!amb_landing_get_memory(landing, side, len)) {
        return amb_gpu_is_sound(landing->gpu) ? AMB_EAGAIN : AMB_ECUDA;
    } else {
        enum amb_status status = amb_gpu_fetch(landing->gpu, side->address, gpu, from, len);
        if (status != AMB_OK) {
            amb_landing_put_memory(landing, side, len);
            return status;
        }
    }
    side->gpu = side->is_in_place ? gpu : landing->gpu;
    side->mem = side->is_in_place ? AMB_MEM_CUDA : landing->mem;
    msg->payload = readable(side);
    return AMB_OK;
}

/* Into memory that the host writes. */
static enum amb_status bring_to_host(struct amb_landing *landing, struct amb_msg *msg,
                                     struct amb_side *side, uint64_t len)
{
    if (!amb_landing_get_memory(landing, side, len)) {
        return landing->gpu == NULL || amb_gpu_is_sound(landing->gpu) ? AMB_EAGAIN : AMB_ECUDA;
    }
    memcpy((void *)(uintptr_t)side->address, msg->payload, len);
    side->gpu = landing->gpu;
    side->mem = landing->mem;
    msg->payload = readable(side);
    return AMB_OK;
}

/* A lazy message has no payload, unless that has no bytes. */
static void leave_away(struct amb_msg *msg)
{
    static const uint64_t nothing[2];
    if (amb_msg_arrival(msg)->frame.type == AMB_FRAME_LAZY) {
        msg->payload = msg->record->len != 0 ? NULL : (const uint8_t *)nothing;
    }
}

/* It is there: the link has brought it. */
static enum amb_status bring_nothing(struct amb_landing *landing, struct amb_msg *msg)
{
    struct amb_arrival *arrival = amb_msg_arrival(msg);
    struct amb_side *side = amb_side_of(msg);
    if (side == NULL) {
        return AMB_EAGAIN;
    }
    side->bytes = NULL;
    side->is_placed = true;
    side->buffer = arrival->far;
    side->address = side->buffer->address;
    side->gpu = landing->gpu;
    side->mem = landing->mem;
    msg->payload = NULL;
    arrival->far = NULL;
    return AMB_OK;
}

/* EAGAIN: there is no memory now. Else it never can be brought there. */
static enum amb_status bring(struct amb_landing *landing, struct amb_msg *msg)
{
    if (landing->is_lazy) {
        leave_away(msg);
        return AMB_OK;
    }
    const struct amb_view *view = amb_msg_arrival(msg)->view;
    if (view != NULL && view->gpu != NULL) {
        return bring_from(landing, msg, view->gpu);
    }
    if (amb_msg_arrival(msg)->far != NULL) {
        return bring_nothing(landing, msg);
    }
    if (landing->is_as_sent) {
        return AMB_OK;
    }
    struct amb_side *side = amb_side_of(msg);
    uint64_t len = amb_msg_size(msg);
    if (side == NULL) {
        return AMB_EAGAIN;
    }
    side->bytes = msg->payload;
    side->is_placed = true;
    if (len == 0) {
        return AMB_OK;
    }
    if (!amb_mem_is_on_gpu(landing->mem)) {
        return bring_to_host(landing, msg, side, len);
    }
    if (!amb_gpu_is_sound(landing->gpu)) {
        return AMB_ECUDA;
    }
    if (!amb_landing_get_memory(landing, side, len)) {
        return amb_gpu_is_sound(landing->gpu) ? AMB_EAGAIN : AMB_ECUDA;
    }
    enum amb_status status = amb_gpu_store(landing->gpu, side->address, msg->payload, len);
    if (status != AMB_OK) {
        amb_landing_put_memory(landing, side, len);
        return status;
    }
    side->gpu = landing->gpu;
    side->mem = landing->mem;
    msg->payload = readable(side);
    atomic_fetch_add_explicit(&landing->staged_bytes, len, memory_order_relaxed);
    atomic_fetch_add_explicit(&landing->conn->gpu.staged_out, len, memory_order_relaxed);
    return AMB_OK;
}

/* A message without a payload is not delivered: it counts as lost. */
static void give_up(struct amb_sub *sub, struct amb_msg *msg, enum amb_status status)
{
    struct amb_conn *conn = sub->conn;
    if (sub->landing->gpu != NULL) {
        (void)amb_gpu_fail(conn, sub->landing->gpu, status, "cannot bring a message into memory");
    }
    uint64_t lost = amb_msg_lost(msg, NULL) + 1;
    amb_spinlock_lock(&sub->lock);
    sub->arrivals.carry_loss =
        sub->arrivals.carry_lost == 0 && lost == 1 ? AMB_LOSS_TRANSFER : AMB_LOSS_MIXED;
    sub->arrivals.carry_lost += lost;
    sub->arrivals.lost -= lost - 1; /* Counted again with the message that reports it. */
    sub->arrivals.delivered--;
    amb_spinlock_unlock(&sub->lock);
    amb_msg_release(msg);
}

/* The next one, by who holds the landing's lock. NULL: none is ready, or there is no memory. */
static struct amb_msg *take_one(struct amb_sub *sub)
{
    struct amb_landing *landing = sub->landing;
    for (;;) {
        struct amb_msg *msg = atomic_exchange(&landing->waiting, NULL);
        if (msg == NULL && amb_sub_take_plain(sub, &msg, 1) == 0) {
            return NULL;
        }
        atomic_store_explicit(&landing->seen_frees, atomic_load(&landing->conn->gpu.frees),
                              memory_order_relaxed);
        enum amb_status status = bring(landing, msg);
        if (status == AMB_OK) {
            return msg;
        }
        if (status != AMB_EAGAIN) {
            give_up(sub, msg, status);
            continue;
        }
        atomic_store(&landing->retry_ns, amb_clock_monotonic_ns() + AMB_LANDING_RETRY_NS);
        atomic_store(&landing->waiting, msg);
        /* One that was shut meanwhile has looked already. */
        if (atomic_load(&sub->life.is_shut)) {
            amb_msg_release(amb_landing_let_go(landing));
        }
        return NULL;
    }
}

size_t amb_landing_take(struct amb_sub *sub, struct amb_msg **out, size_t max)
{
    size_t taken = 0;
    (void)amb_conn_gpus_look(sub->conn);
    (void)pthread_mutex_lock(&sub->landing->lock);
    while (taken < max && (out[taken] = take_one(sub)) != NULL) {
        taken++;
    }
    (void)pthread_mutex_unlock(&sub->landing->lock);
    return taken;
}
