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

/* Does it stay where it lies, in memory of that GPU? */
static bool stays(const struct amb_target *target, const struct amb_gpu *gpu, uint64_t len)
{
    return target == NULL || (target->gpu == gpu && !target->is_copied) || len == 0;
}

/* From memory of a GPU to the target's. */
static enum amb_status copy_from(struct amb_landing *landing, const struct amb_side *side,
                                 struct amb_gpu *gpu, uint64_t from, uint64_t len)
{
    if (amb_mem_is_on_gpu(side->mem)) {
        return amb_gpu_fetch(side->gpu, side->address, gpu, from, len);
    }
    return amb_gpu_read_whole(landing->conn, (void *)(uintptr_t)side->address,
                              (const void *)(uintptr_t)from, len);
}

/* The payload lies in memory of that GPU: it stays there if it may, or is fetched. */
static enum amb_status bring_from(struct amb_landing *landing, const struct amb_target *target,
                                  struct amb_msg *msg, struct amb_gpu *gpu)
{
    struct amb_side *side = amb_side_of(msg);
    uint64_t len = amb_msg_size(msg), from = (uintptr_t)msg->payload;
    if (side == NULL) {
        return AMB_EAGAIN;
    }
    side->bytes = NULL;
    side->is_placed = true;
    if (stays(target, gpu, len)) {
        side->address = from;
        side->is_in_place = true;
        side->gpu = gpu;
        side->mem = AMB_MEM_CUDA;
    } else {
        struct amb_gpu *to = target->gpu != NULL ? target->gpu : gpu;
        if (!amb_gpu_is_sound(to)) {
            return AMB_ECUDA;
        }
        if (!amb_landing_get_memory(landing, target, to, side, len)) {
            return amb_gpu_is_sound(to) ? AMB_EAGAIN : AMB_ECUDA;
        }
        enum amb_status status = copy_from(landing, side, gpu, from, len);
        if (status != AMB_OK) {
            amb_landing_put_memory(side, len);
            return status;
        }
    }
    msg->payload = readable(side);
    return AMB_OK;
}

/* Into memory that the host writes. */
static enum amb_status bring_to_host(struct amb_landing *landing, const struct amb_target *target,
                                     struct amb_msg *msg, struct amb_side *side, uint64_t len)
{
    if (!amb_landing_get_memory(landing, target, target->gpu, side, len)) {
        return target->gpu == NULL || amb_gpu_is_sound(target->gpu) ? AMB_EAGAIN : AMB_ECUDA;
    }
    memcpy((void *)(uintptr_t)side->address, msg->payload, len);
    msg->payload = readable(side);
    return AMB_OK;
}

/* Into memory that the driver writes. */
static enum amb_status bring_to_gpu(struct amb_landing *landing, const struct amb_target *target,
                                    struct amb_msg *msg, struct amb_side *side, uint64_t len)
{
    if (!amb_gpu_is_sound(target->gpu)) {
        return AMB_ECUDA;
    }
    if (!amb_landing_get_memory(landing, target, target->gpu, side, len)) {
        return amb_gpu_is_sound(target->gpu) ? AMB_EAGAIN : AMB_ECUDA;
    }
    enum amb_status status = amb_gpu_store(target->gpu, side->address, msg->payload, len);
    if (status != AMB_OK) {
        amb_landing_put_memory(side, len);
        return status;
    }
    msg->payload = readable(side);
    atomic_fetch_add_explicit(&landing->staged_bytes, len, memory_order_relaxed);
    atomic_fetch_add_explicit(&landing->conn->gpu.staged_out, len, memory_order_relaxed);
    atomic_fetch_add_explicit(&landing->conn->gpu.staged_out_msgs, 1, memory_order_relaxed);
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
    side->target = &landing->targets[0];
    side->gpu = side->target->gpu;
    side->mem = side->target->mem;
    msg->payload = NULL;
    arrival->far = NULL;
    return AMB_OK;
}

/* Is a payload that came to host memory where it shall be? */
static bool is_there(const struct amb_target *target)
{
    return target->mem == AMB_MEM_HOST && target->allocator.alloc == NULL;
}

/* EAGAIN: there is no memory now. Else it never can be brought there. */
static enum amb_status bring(struct amb_landing *landing, struct amb_msg *msg)
{
    if (landing->is_lazy) {
        leave_away(msg);
        return AMB_OK;
    }
    const struct amb_target *target = amb_landing_target(landing, msg);
    const struct amb_view *view = amb_msg_arrival(msg)->view;
    if (view != NULL && view->gpu != NULL) {
        return bring_from(landing, target, msg, view->gpu);
    }
    if (amb_msg_arrival(msg)->far != NULL) {
        return bring_nothing(landing, msg);
    }
    if (target == NULL || is_there(target)) {
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
    return amb_mem_is_on_gpu(target->mem) ? bring_to_gpu(landing, target, msg, side, len)
                                          : bring_to_host(landing, target, msg, side, len);
}

/* A message without a payload is not delivered: it counts as lost. */
static void give_up(struct amb_sub *sub, struct amb_msg *msg, enum amb_status status)
{
    struct amb_conn *conn = sub->conn;
    const struct amb_target *target = amb_landing_target(sub->landing, msg);
    if (target != NULL && target->gpu != NULL) {
        (void)amb_gpu_fail(conn, target->gpu, status, "cannot bring a message into memory");
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
