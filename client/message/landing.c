/* SPDX-License-Identifier: Apache-2.0 */
#include "client/message/landing_private.h"

#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/conn/options.h"
#include "client/drive/notify.h"
#include "client/drive/wake.h"
#include "client/memory/gpu.h"
#include "client/memory/gpu_buffer.h"
#include "client/memory/region.h"
#include "client/message/side.h"
#include "client/message/sub.h"
#include "client/message/targets.h"
#include "wire/base/assert.h"

#include <stdlib.h>

#define HOST_ALIGN 64u
#define DEVICE_ALIGN 256u

enum amb_status amb_landing_create(struct amb_conn *conn, const struct amb_sub_options *options,
                                   struct amb_landing **out)
{
    struct amb_allocator allocator;
    struct amb_complaint complaint;
    *out = NULL;
    enum amb_status status = amb_allocator_read(options, &allocator, &complaint);
    if (status != AMB_OK) {
        return amb_conn_fail(conn, status, "%s", complaint.text);
    }
    bool is_by_kind = options->allocator_count != 0;
    bool is_as_sent = !is_by_kind && options->mem == AMB_MEM_AS_SENT && allocator.alloc == NULL &&
                      options->copy == 0 && amb_cuda_start() == AMB_OK;
    bool is_lazy = options->lazy != AMB_LAZY_OFF;
    bool is_plain = allocator.mem == AMB_MEM_HOST && allocator.alloc == NULL && !is_as_sent;
    if (is_plain && !is_lazy && !is_by_kind) {
        return AMB_OK;
    }
    struct amb_landing *landing = calloc(1, sizeof(*landing));
    if (landing == NULL) {
        return amb_conn_fail(conn, AMB_ENOMEM, "no memory for a subscription");
    }
    landing->conn = conn;
    landing->mem = is_as_sent ? AMB_MEM_AS_SENT : AMB_MEM_HOST;
    landing->is_lazy = is_lazy;
    status = amb_targets_choose(landing, options, &allocator);
    if (status != AMB_OK) {
        free(landing);
        return status;
    }
    (void)pthread_mutex_init(&landing->lock, NULL);
    *out = landing;
    return AMB_OK;
}

enum amb_mem amb_landing_mem(const struct amb_landing *landing)
{
    return landing != NULL ? landing->mem : AMB_MEM_HOST;
}

void amb_landing_destroy(struct amb_landing **landing)
{
    struct amb_landing *own = *landing;
    *landing = NULL;
    if (own != NULL) {
        amb_assert(atomic_load(&own->waiting) == NULL);
        (void)pthread_mutex_destroy(&own->lock);
        free(own);
    }
}

/* ---- a message's other memory ---- */

bool amb_landing_get_memory(struct amb_landing *landing, const struct amb_target *target,
                            struct amb_gpu *gpu, struct amb_side *side, uint64_t len)
{
    const struct amb_allocator *allocator = &target->allocator;
    if (allocator->alloc != NULL) {
        void *memory = allocator->alloc(allocator->ctx, len,
                                        amb_mem_is_on_gpu(target->mem) ? DEVICE_ALIGN : HOST_ALIGN,
                                        target->device);
        if (memory == NULL) {
            return false;
        }
        side->address = (uintptr_t)memory;
        side->region = amb_region_enter(landing->conn, side->address);
    } else {
        /* Host memory for what lies on a GPU is pinned: its copy engine writes there. */
        enum amb_mem mem = target->mem == AMB_MEM_HOST ? AMB_MEM_PINNED : target->mem;
        side->buffer = amb_gpu_buffer_get(gpu, mem, len);
        if (side->buffer == NULL) {
            return false;
        }
        side->address = side->buffer->address;
    }
    side->target = target;
    side->gpu = gpu;
    side->mem = target->mem;
    return true;
}

void amb_landing_put_memory(struct amb_side *side, uint64_t len)
{
    if (side->buffer != NULL) {
        amb_gpu_buffer_put(side->gpu, side->buffer);
    } else if (side->address != 0 && !side->is_in_place) {
        const struct amb_target *target = side->target;
        target->allocator.free(target->allocator.ctx, (void *)(uintptr_t)side->address, len,
                               target->device);
    }
    amb_region_leave(side->region);
    side->region = NULL;
    side->buffer = NULL;
    side->target = NULL;
    side->address = 0;
    side->gpu = NULL;
    side->mem = AMB_MEM_DEFAULT;
    side->is_in_place = false;
}

bool amb_landing_is_by_link(const struct amb_landing *landing)
{
    return landing != NULL && landing->is_by_link;
}

struct amb_gpu_buffer *amb_landing_far_get(struct amb_landing *landing, uint64_t len)
{
    struct amb_gpu *gpu = landing->targets[0].gpu;
    return amb_gpu_is_sound(gpu) ? amb_gpu_buffer_take(gpu, len) : NULL;
}

void amb_landing_far_put(struct amb_landing *landing, struct amb_gpu_buffer *buffer)
{
    if (buffer != NULL) {
        amb_gpu_buffer_put(landing->targets[0].gpu, buffer);
    }
}

/* Has memory been freed since it was asked for in vain? */
static bool has_freed(const struct amb_landing *landing)
{
    uint32_t frees = atomic_load_explicit(&landing->conn->gpu.frees, memory_order_acquire);
    return frees != atomic_load_explicit(&landing->seen_frees, memory_order_relaxed);
}

bool amb_landing_has_ready(const struct amb_sub *sub)
{
    const struct amb_landing *landing = sub->landing;
    int64_t retry = atomic_load_explicit(&landing->retry_ns, memory_order_relaxed);
    bool is_waiting = atomic_load_explicit(&landing->waiting, memory_order_relaxed) != NULL;
    if (is_waiting && retry != 0 && !has_freed(landing) && amb_clock_monotonic_ns() < retry) {
        return false;
    }
    return is_waiting || atomic_load_explicit(&sub->arrivals.has_ready, memory_order_acquire);
}

int64_t amb_landing_patience(const struct amb_sub *sub, int64_t timeout_ns)
{
    bool is_waiting = sub->landing != NULL &&
                      atomic_load_explicit(&sub->landing->waiting, memory_order_relaxed) != NULL;
    return is_waiting && timeout_ns > AMB_LANDING_RETRY_NS ? AMB_LANDING_RETRY_NS : timeout_ns;
}

struct amb_msg *amb_landing_let_go(struct amb_landing *landing)
{
    return atomic_exchange(&landing->waiting, NULL);
}

uint64_t amb_landing_staged(const struct amb_sub *sub)
{
    return sub->landing != NULL
               ? atomic_load_explicit(&sub->landing->staged_bytes, memory_order_relaxed)
               : 0;
}

/* ---- a message that is released ---- */

void amb_landing_leave(struct amb_msg *msg)
{
    struct amb_arrival *arrival = amb_msg_arrival(msg);
    struct amb_side *side =
        &atomic_load_explicit(&arrival->sides, memory_order_acquire)[msg->index];
    free(atomic_exchange(&side->tensor, NULL));
    if (!side->is_placed) {
        return;
    }
    struct amb_landing *landing = arrival->sub->landing;
    amb_landing_put_memory(side, msg->record->len);
    side->is_placed = false;
    if (atomic_load(&landing->waiting) != NULL) {
        struct amb_conn *conn = arrival->conn;
        atomic_store(&landing->retry_ns, 0);
        amb_conn_wake_all(conn);
        amb_notify_signal(conn);
    }
}
