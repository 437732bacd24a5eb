/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads that are brought into other memory than they came in: a GPU's, or the application's own.
 * It happens when a message is taken, on the thread that takes it, in the order of arrival. Where
 * there is no memory the message waits in front of the others until some is given back.
 *
 *   arrived ─► amb_landing_take: memory of the allocator or of our pool, copy ─► the program
 *
 * Threads: takers one after the other, by the lock of the landing; a release from any thread.
 */
#include "client/arrivals.h"
#include "client/conn.h"
#include "client/due.h"
#include "client/error.h"
#include "client/fetch.h"
#include "client/gpu.h"
#include "client/lock.h"
#include "client/options.h"
#include "client/region.h"
#include "client/segment.h"
#include "client/sub.h"
#include "client/wake.h"
#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define HOST_ALIGN 64u
#define DEVICE_ALIGN 256u
#define RETRY_NS (10 * AMB_NS_PER_MS)

struct amb_landing {
    struct amb_conn *conn;
    pthread_mutex_t lock;            /* who takes */
    enum amb_mem mem;                /* HOST, PINNED, CUDA, CUDA_MANAGED */
    int device;                      /* for the allocator; -1: host */
    struct amb_gpu *gpu;             /* NULL: memory that is the allocator's, or as sent */
    bool is_as_sent;                 /* nothing is brought anywhere */
    bool is_lazy;                    /* the same: they come when they are asked for */
    bool is_copied;                  /* into memory of its own, also where it could stay */
    struct amb_allocator allocator;  /* alloc NULL: the GPU's pool */
    struct amb_msg *_Atomic waiting; /* taken, and no memory for it yet */
    _Atomic int64_t retry_ns;        /* not before; 0: at once */
    _Atomic uint64_t staged_bytes;
};

/* Does the driver write there? */
static bool is_on_gpu(enum amb_mem mem)
{
    return mem == AMB_MEM_CUDA || mem == AMB_MEM_CUDA_MANAGED;
}

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
    bool is_as_sent = options->mem == AMB_MEM_AS_SENT && allocator.alloc == NULL &&
                      options->copy == 0 && amb_cuda_start() == AMB_OK;
    bool is_lazy = options->lazy != AMB_LAZY_OFF;
    if (allocator.mem == AMB_MEM_HOST && allocator.alloc == NULL && !is_as_sent && !is_lazy) {
        return AMB_OK;
    }
    struct amb_gpu *gpu = NULL;
    if (is_on_gpu(allocator.mem) || (allocator.mem == AMB_MEM_PINNED && allocator.alloc == NULL)) {
        status = amb_gpu_get(conn, options->device, &gpu);
        if (status != AMB_OK) {
            return status;
        }
    }
    struct amb_landing *landing = calloc(1, sizeof(*landing));
    if (landing == NULL) {
        return amb_conn_fail(conn, AMB_ENOMEM, "no memory for a subscription");
    }
    landing->conn = conn;
    landing->is_as_sent = is_as_sent;
    landing->is_lazy = is_lazy;
    landing->mem = allocator.mem;
    landing->is_copied =
        options->copy != 0 || allocator.alloc != NULL || allocator.mem != AMB_MEM_CUDA;
    landing->allocator = allocator;
    landing->gpu = gpu;
    landing->device = is_on_gpu(allocator.mem) ? options->device : -1;
    (void)pthread_mutex_init(&landing->lock, NULL);
    *out = landing;
    return AMB_OK;
}

enum amb_mem amb_landing_wish(const struct amb_landing *landing)
{
    if (landing != NULL && landing->is_as_sent) {
        return AMB_MEM_AS_SENT;
    }
    /* Pinned memory is filled from the host copy that all host readers share. */
    return landing != NULL && is_on_gpu(landing->mem) ? AMB_MEM_CUDA : AMB_MEM_HOST;
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

static bool get_memory(struct amb_landing *landing, struct amb_side *side, uint64_t len)
{
    if (landing->allocator.alloc != NULL) {
        void *memory = landing->allocator.alloc(landing->allocator.ctx, len,
                                                is_on_gpu(landing->mem) ? DEVICE_ALIGN : HOST_ALIGN,
                                                landing->device);
        side->address = (uintptr_t)memory;
        if (memory != NULL) {
            side->region = amb_region_enter(landing->conn, side->address);
        }
        return memory != NULL;
    }
    side->buffer = amb_gpu_buffer_get(landing->gpu, landing->mem, len);
    side->address = side->buffer != NULL ? side->buffer->address : 0;
    return side->buffer != NULL;
}

static void put_memory(struct amb_landing *landing, struct amb_side *side, uint64_t len)
{
    if (side->buffer != NULL) {
        amb_gpu_buffer_put(landing->gpu, side->buffer);
    } else if (side->address != 0 && !side->is_in_place) {
        landing->allocator.free(landing->allocator.ctx, (void *)(uintptr_t)side->address, len,
                                landing->device);
    }
    amb_region_leave(side->region);
    side->region = NULL;
    side->buffer = NULL;
    side->address = 0;
    side->gpu = NULL;
    side->mem = AMB_MEM_DEFAULT;
    side->is_in_place = false;
}

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
    } else if (!get_memory(landing, side, len)) {
        return amb_gpu_is_sound(landing->gpu) ? AMB_EAGAIN : AMB_ECUDA;
    } else {
        enum amb_status status = amb_gpu_fetch(landing->gpu, side->address, gpu, from, len);
        if (status != AMB_OK) {
            put_memory(landing, side, len);
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
    if (!get_memory(landing, side, len)) {
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
    if (amb_msg_delivery(msg)->frame.type == AMB_FRAME_LAZY) {
        msg->payload = msg->record->len != 0 ? NULL : (const uint8_t *)nothing;
    }
}

bool amb_landing_is_by_link(const struct amb_landing *landing)
{
    return landing != NULL && landing->mem == AMB_MEM_CUDA && landing->allocator.alloc == NULL &&
           !landing->is_as_sent && !landing->is_lazy;
}

struct amb_gpu_buffer *amb_landing_far_get(struct amb_landing *landing, uint64_t len)
{
    return amb_gpu_is_sound(landing->gpu) ? amb_gpu_buffer_get(landing->gpu, landing->mem, len)
                                          : NULL;
}

void amb_landing_far_put(struct amb_landing *landing, struct amb_gpu_buffer *buffer)
{
    if (buffer != NULL) {
        amb_gpu_buffer_put(landing->gpu, buffer);
    }
}

/* It is there: the link has brought it. */
static enum amb_status bring_nothing(struct amb_landing *landing, struct amb_msg *msg)
{
    struct amb_delivery *delivery = amb_msg_delivery(msg);
    struct amb_side *side = amb_side_of(msg);
    if (side == NULL) {
        return AMB_EAGAIN;
    }
    side->bytes = NULL;
    side->is_placed = true;
    side->buffer = delivery->far;
    side->address = side->buffer->address;
    side->gpu = landing->gpu;
    side->mem = landing->mem;
    msg->payload = NULL;
    delivery->far = NULL;
    return AMB_OK;
}

/* EAGAIN: there is no memory now. Else it never can be brought there. */
static enum amb_status bring(struct amb_landing *landing, struct amb_msg *msg)
{
    if (landing->is_lazy) {
        leave_away(msg);
        return AMB_OK;
    }
    const struct amb_segment *segment = amb_msg_delivery(msg)->segment;
    if (segment != NULL && segment->gpu != NULL) {
        return bring_from(landing, msg, segment->gpu);
    }
    if (amb_msg_delivery(msg)->far != NULL) {
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
    if (!is_on_gpu(landing->mem)) {
        return bring_to_host(landing, msg, side, len);
    }
    if (!amb_gpu_is_sound(landing->gpu)) {
        return AMB_ECUDA;
    }
    if (!get_memory(landing, side, len)) {
        return amb_gpu_is_sound(landing->gpu) ? AMB_EAGAIN : AMB_ECUDA;
    }
    enum amb_status status = amb_gpu_store(landing->gpu, side->address, msg->payload, len);
    if (status != AMB_OK) {
        put_memory(landing, side, len);
        return status;
    }
    side->gpu = landing->gpu;
    side->mem = landing->mem;
    msg->payload = readable(side);
    atomic_fetch_add_explicit(&landing->staged_bytes, len, memory_order_relaxed);
    atomic_fetch_add_explicit(&landing->conn->staged_out, len, memory_order_relaxed);
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
    sub->carry_loss = sub->carry_lost == 0 && lost == 1 ? AMB_LOSS_TRANSFER : AMB_LOSS_MIXED;
    sub->carry_lost += lost;
    sub->lost -= lost - 1; /* Counted again with the message that tells it. */
    sub->delivered--;
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
        enum amb_status status = bring(landing, msg);
        if (status == AMB_OK) {
            return msg;
        }
        if (status != AMB_EAGAIN) {
            give_up(sub, msg, status);
            continue;
        }
        atomic_store(&landing->retry_ns, amb_clock_monotonic_ns() + RETRY_NS);
        atomic_store(&landing->waiting, msg);
        /* One that was shut meanwhile has looked already. */
        if (atomic_load(&sub->is_shut)) {
            amb_landing_shut(sub);
        }
        return NULL;
    }
}

size_t amb_landing_take(struct amb_sub *sub, struct amb_msg **out, size_t max)
{
    size_t taken = 0;
    (void)amb_gpus_look(sub->conn);
    (void)pthread_mutex_lock(&sub->landing->lock);
    while (taken < max && (out[taken] = take_one(sub)) != NULL) {
        taken++;
    }
    (void)pthread_mutex_unlock(&sub->landing->lock);
    return taken;
}

void amb_landing_shut(struct amb_sub *sub)
{
    struct amb_msg *msg = atomic_exchange(&sub->landing->waiting, NULL);
    amb_msg_release(msg);
}

bool amb_landing_has_ready(const struct amb_sub *sub)
{
    const struct amb_landing *landing = sub->landing;
    int64_t retry = atomic_load_explicit(&landing->retry_ns, memory_order_relaxed);
    bool is_waiting = atomic_load_explicit(&landing->waiting, memory_order_relaxed) != NULL;
    if (is_waiting && retry != 0 && amb_clock_monotonic_ns() < retry) {
        return false;
    }
    return is_waiting || atomic_load_explicit(&sub->has_ready, memory_order_acquire);
}

int64_t amb_landing_patience(const struct amb_sub *sub, int64_t timeout_ns)
{
    bool is_waiting = sub->landing != NULL &&
                      atomic_load_explicit(&sub->landing->waiting, memory_order_relaxed) != NULL;
    return is_waiting && timeout_ns > RETRY_NS ? RETRY_NS : timeout_ns;
}

uint64_t amb_landing_staged(const struct amb_sub *sub)
{
    return sub->landing != NULL
               ? atomic_load_explicit(&sub->landing->staged_bytes, memory_order_relaxed)
               : 0;
}

/* ---- a message that is released ---- */

void amb_side_release(struct amb_msg *msg)
{
    struct amb_delivery *delivery = amb_msg_delivery(msg);
    struct amb_side *side =
        &atomic_load_explicit(&delivery->sides, memory_order_acquire)[msg->index];
    free(atomic_exchange(&side->tensor, NULL));
    if (!side->is_placed) {
        return;
    }
    struct amb_landing *landing = delivery->sub->landing;
    put_memory(landing, side, msg->record->len);
    side->is_placed = false;
    if (atomic_load(&landing->waiting) != NULL) {
        struct amb_conn *conn = delivery->conn;
        atomic_store(&landing->retry_ns, 0);
        amb_conn_wake_all(conn);
        amb_due_signal(conn);
    }
}

/* ---- getters ---- */

static const struct amb_side *placed(const struct amb_msg *msg)
{
    const struct amb_delivery *delivery = amb_msg_delivery(msg);
    const struct amb_side *sides = atomic_load_explicit(&delivery->sides, memory_order_acquire);
    return sides != NULL && sides[msg->index].is_placed ? &sides[msg->index] : NULL;
}

/* Memory that the driver knows; DEFAULT: plain host memory. */
static enum amb_mem mem_of(const struct amb_msg *msg)
{
    const struct amb_side *side = placed(msg);
    return side != NULL && side->mem != AMB_MEM_HOST ? side->mem : AMB_MEM_DEFAULT;
}

/* NULL: no GPU's. */
static struct amb_gpu *gpu_of(const struct amb_msg *msg)
{
    const struct amb_side *side = placed(msg);
    return side != NULL ? side->gpu : NULL;
}

const void *amb_msg_bytes(const struct amb_msg *msg)
{
    return is_on_gpu(mem_of(msg)) ? placed(msg)->bytes : amb_msg_data(msg);
}

struct amb_side *amb_side_of(const struct amb_msg *msg)
{
    struct amb_delivery *delivery = amb_msg_delivery(msg);
    struct amb_side *sides = atomic_load_explicit(&delivery->sides, memory_order_acquire);
    if (sides == NULL) {
        struct amb_side *fresh = calloc(delivery->count, sizeof(*fresh));
        if (fresh == NULL) {
            return NULL;
        }
        if (atomic_compare_exchange_strong(&delivery->sides, &sides, fresh)) {
            sides = fresh;
        } else {
            free(fresh); /* Another thread was faster. */
        }
    }
    return &sides[msg->index];
}

enum amb_mem amb_msg_mem(const struct amb_msg *msg)
{
    enum amb_mem mem = mem_of(msg);
    return mem != AMB_MEM_DEFAULT ? mem : AMB_MEM_HOST;
}

int amb_msg_device(const struct amb_msg *msg)
{
    return is_on_gpu(mem_of(msg)) ? amb_gpu_index(gpu_of(msg)) : -1;
}

const char *amb_msg_path(const struct amb_msg *msg)
{
    const struct amb_delivery *delivery = amb_msg_delivery(msg);
    if (is_on_gpu(mem_of(msg))) {
        return placed(msg)->bytes != NULL  ? "staged"
               : delivery->segment != NULL ? "cuda_ipc"
                                           : delivery->conn->path;
    }
    if (delivery->frame.type == AMB_FRAME_LAZY) {
        return amb_fetch_path(msg);
    }
    return delivery->segment != NULL ? "mapped" : delivery->conn->path;
}

const void *amb_msg_data_on(const struct amb_msg *msg, void *stream)
{
    (void)stream; /* The bytes were whole before the message was given out. */
    return mem_of(msg) != AMB_MEM_DEFAULT ? (const void *)(uintptr_t)placed(msg)->address : NULL;
}

void amb_msg_release_on(struct amb_msg *msg, void *stream)
{
    if (msg == NULL) {
        return;
    }
    struct amb_delivery *delivery = amb_msg_delivery(msg);
    struct amb_conn *conn = delivery->conn;
    if (amb_conn_has_trouble(conn, AMB_TROUBLE_FORKED)) {
        return; /* The parent's. */
    }
    struct amb_gpu *gpu = gpu_of(msg);
    amb_conn_ref(conn); /* Ours: the message's may go while we look. */
    if (gpu == NULL || amb_gpu_release_after(gpu, msg, stream) != AMB_OK) {
        /* Of host memory we do not know the stream's device: wait here. */
        if (amb_cuda_is_live()) {
            (void)!amb_cuda_foreign_sync(stream);
        }
        amb_msg_release(msg);
    } else if (amb_conn_has_trouble(conn, AMB_TROUBLE_CLOSING)) {
        amb_gpus_settle(conn); /* Nobody looks after a close. */
    } else {
        amb_io_kick(conn);
    }
    amb_conn_unref(conn);
}
