/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/gpu_release.h"

#include "client/conn/conn.h"
#include "client/memory/aside.h"
#include "client/memory/gpu_private.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"

#include <stdlib.h>
#include <time.h>

/* A message whose release waits for a stream. */
struct amb_gpu_waiting {
    struct amb_gpu_waiting *next;
    void *event;
    struct amb_msg *msg; /* NULL: unused */
    bool is_recorded;    /* the event; else the stream captured, and is looked at again */
    bool is_of_capture;  /* the stream captured when it was given back, and no event is recorded */
    amb_gpu_release_fn release;
};

/* The releases that wait for one stream, the oldest first. */
struct amb_gpu_release_queue {
    struct amb_gpu_release_queue *next;
    void *stream;
    bool is_per_thread; /* the handle means another stream in each thread: that of `thread` */
    pthread_t thread;
    struct amb_gpu_waiting *first, **last;
};

static struct amb_gpu_waiting *waiting_get(struct amb_gpu *gpu)
{
    (void)pthread_mutex_lock(&gpu->lock);
    struct amb_gpu_waiting *waiting = gpu->releases.unused;
    if (waiting != NULL) {
        gpu->releases.unused = waiting->next;
    }
    (void)pthread_mutex_unlock(&gpu->lock);
    if (waiting == NULL) {
        waiting = calloc(1, sizeof(*waiting));
        if (waiting != NULL && amb_cuda_event_create(gpu->cuda, &waiting->event) != AMB_OK) {
            free(waiting);
            waiting = NULL;
        }
    }
    return waiting;
}

/* The queue of a stream; NULL: no memory. Of the per-thread handle each thread has another stream.
 * The device's lock is held. */
static struct amb_gpu_release_queue *queue_get(struct amb_gpu *gpu, void *stream)
{
    pthread_t self = pthread_self();
    struct amb_gpu_release_queue *queue = gpu->releases.queues;
    while (queue != NULL && (queue->stream != stream ||
                             (queue->is_per_thread && !pthread_equal(queue->thread, self)))) {
        queue = queue->next;
    }
    if (queue != NULL) {
        return queue;
    }
    queue = gpu->releases.unused_queues;
    if (queue != NULL) {
        gpu->releases.unused_queues = queue->next;
    } else if ((queue = calloc(1, sizeof(*queue))) == NULL) {
        return NULL;
    }
    queue->stream = stream;
    queue->thread = self;
    queue->is_per_thread = stream == AMB_CUDA_STREAM_PER_THREAD;
    queue->last = &queue->first;
    queue->next = gpu->releases.queues;
    gpu->releases.queues = queue;
    return queue;
}

static void waiting_put(struct amb_gpu *gpu, struct amb_gpu_waiting *waiting)
{
    waiting->msg = NULL;
    waiting->next = gpu->releases.unused;
    gpu->releases.unused = waiting;
}

/* Its place behind all that wait for the stream. False: no memory, and it is unused again. */
static bool wait_in_queue(struct amb_gpu *gpu, struct amb_gpu_waiting *waiting, void *stream)
{
    (void)pthread_mutex_lock(&gpu->lock);
    struct amb_gpu_release_queue *queue = queue_get(gpu, stream);
    if (queue == NULL) {
        waiting_put(gpu, waiting);
    } else {
        waiting->next = NULL;
        *queue->last = waiting;
        queue->last = &waiting->next;
        atomic_fetch_add_explicit(&gpu->conn->gpu.waiting_count, 1, memory_order_relaxed);
        atomic_store_explicit(&gpu->conn->gpu.has_new, true, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&gpu->lock);
    return queue != NULL;
}

enum amb_status amb_gpu_release_after(struct amb_gpu *gpu, struct amb_msg *msg,
                                      amb_gpu_release_fn release, void *stream,
                                      enum amb_gpu_capturing capturing)
{
    struct amb_cuda_scope scope;
    enum amb_status status = amb_cuda_enter_to_wait(gpu->cuda, &scope);
    if (status == AMB_ECUDA) { /* Nothing runs there any more. */
        release(msg);
        return AMB_OK;
    }
    if (status != AMB_OK) {
        return status;
    }
    struct amb_gpu_waiting *waiting = waiting_get(gpu);
    status =
        waiting != NULL ? amb_cuda_event_follow(gpu->cuda, waiting->event, stream) : AMB_ENOMEM;
    bool is_awaited = status == AMB_ESTATE && capturing == AMB_GPU_CAPTURING_AWAITED;
    if (waiting != NULL && (status == AMB_OK || is_awaited)) {
        waiting->is_recorded = status == AMB_OK;
        waiting->is_of_capture = is_awaited;
        waiting->msg = msg;
        waiting->release = release;
        status = wait_in_queue(gpu, waiting, stream) ? AMB_OK : AMB_ENOMEM;
    } else if (waiting != NULL) {
        (void)pthread_mutex_lock(&gpu->lock);
        waiting_put(gpu, waiting);
        (void)pthread_mutex_unlock(&gpu->lock);
    }
    bool is_here = status != AMB_OK && status != AMB_ESTATE && status != AMB_ENOTSUP;
    if (is_here) { /* There is no event: waits for the stream, in the device's context. */
        status = amb_cuda_program_sync(stream) == AMB_ESTATE ? AMB_ESTATE : AMB_OK;
    }
    amb_cuda_leave(&scope);
    if (is_here && status == AMB_OK) {
        release(msg);
    }
    return status;
}

/* Takes the queue's oldest out of it. */
static struct amb_gpu_waiting *queue_pop(struct amb_gpu *gpu, struct amb_gpu_release_queue **link)
{
    struct amb_gpu_release_queue *queue = *link;
    struct amb_gpu_waiting *waiting = queue->first;
    queue->first = waiting->next;
    if (queue->first == NULL) {
        *link = queue->next;
        queue->next = gpu->releases.unused_queues;
        gpu->releases.unused_queues = queue;
    }
    return waiting;
}

/* The stream captured when it was given back or recorded. Behind the end of that capture, has the
 * GPU done with it? A stream of another context is asked itself, for no event can be recorded
 * there. */
static bool is_over_late(struct amb_gpu *gpu, struct amb_gpu_waiting *waiting, void *stream)
{
    struct amb_cuda_scope scope;
    if (amb_cuda_enter(gpu->cuda, &scope) != AMB_OK) {
        return !amb_gpu_is_sound(gpu);
    }
    enum amb_status status = amb_cuda_event_follow(gpu->cuda, waiting->event, stream);
    amb_cuda_leave(&scope);
    waiting->is_recorded = status == AMB_OK;
    waiting->is_of_capture = waiting->is_of_capture && status != AMB_OK;
    if (status == AMB_ENOTSUP) {
        status = amb_cuda_program_query(stream);
        return status == AMB_OK || status == AMB_ECUDA;
    }
    return false;
}

/* Has the GPU done with it? After a close a capture is not waited for, for nobody may end it. But
 * work that was on the stream before its capture began still is. */
static bool is_over(struct amb_gpu *gpu, struct amb_gpu_waiting *waiting, void *stream,
                    bool is_closed)
{
    if (!waiting->is_recorded) {
        return (is_closed && waiting->is_of_capture) || is_over_late(gpu, waiting, stream);
    }
    enum amb_status status = amb_cuda_event_query(gpu->cuda, waiting->event);
    waiting->is_recorded = status != AMB_ESTATE;
    return status != AMB_EAGAIN && status != AMB_ESTATE;
}

#define TAKE_MAX 64u

struct taken {
    unsigned count;
    struct amb_msg *msgs[TAKE_MAX];
    amb_gpu_release_fn releases[TAKE_MAX];
};

/* It is over. */
static void take_one(struct amb_gpu *gpu, struct amb_gpu_waiting *waiting, struct taken *out)
{
    out->msgs[out->count] = waiting->msg;
    out->releases[out->count++] = waiting->release;
    waiting_put(gpu, waiting);
}

/* Those that are over, or whose device is lost; each queue is asked for one more than that. */
static void take_over(struct amb_gpu *gpu, bool is_closed, struct taken *out)
{
    struct amb_gpu_release_queue **link = &gpu->releases.queues;
    while (out->count < TAKE_MAX && *link != NULL) {
        if (is_over(gpu, (*link)->first, (*link)->stream, is_closed)) {
            take_one(gpu, queue_pop(gpu, link), out);
        } else {
            link = &(*link)->next;
        }
    }
}

static void take(struct amb_gpu *gpu, bool is_closed, struct taken *out)
{
    out->count = 0;
    (void)pthread_mutex_lock(&gpu->lock);
    if (gpu->releases.queues != NULL) {
        amb_cuda_row_begin();
        take_over(gpu, is_closed, out);
        amb_cuda_row_end();
    }
    (void)pthread_mutex_unlock(&gpu->lock);
}

/* Of one device; returns how many. */
static uint32_t release_over(struct amb_gpu *gpu, bool is_closed)
{
    struct taken taken;
    uint32_t count = 0;
    do {
        take(gpu, is_closed, &taken);
        atomic_fetch_sub_explicit(&gpu->conn->gpu.waiting_count, taken.count, memory_order_relaxed);
        for (unsigned i = 0; i < taken.count; i++) {
            taken.releases[i](taken.msgs[i]);
        }
        count += taken.count;
    } while (taken.count == TAKE_MAX);
    return count;
}

/* Returns how many. */
static uint32_t release_due(struct amb_conn *conn, bool is_closed)
{
    uint32_t count = 0;
    /* The devices stay: they are added in front, and go with the connection's memory. */
    (void)pthread_mutex_lock(&conn->gpu.lock);
    struct amb_gpu *gpu = conn->gpu.devices;
    (void)pthread_mutex_unlock(&conn->gpu.lock);
    for (; gpu != NULL; gpu = gpu->next) {
        count += release_over(gpu, is_closed);
    }
    return count;
}

bool amb_conn_gpus_look(struct amb_conn *conn)
{
    if (atomic_load_explicit(&conn->gpu.waiting_count, memory_order_relaxed) == 0) {
        return false;
    }
    (void)release_due(conn, false);
    return atomic_load_explicit(&conn->gpu.waiting_count, memory_order_relaxed) != 0;
}

/* Between two looks: each is a call of the driver. */
#define SPIN_NS (20 * AMB_NS_PER_US)
#define SPIN_PAUSE_NS AMB_NS_PER_US
/* After so many in vain in a row only one of so many is made, so that streams that are long are
 * not spun for. */
#define SPIN_VAIN 4u
#define SPIN_SELDOM 16u

bool amb_conn_gpus_may_spin(struct amb_conn *conn)
{
    return atomic_load_explicit(&conn->gpu.has_new, memory_order_relaxed) &&
           atomic_load_explicit(&conn->gpu.waiting_count, memory_order_relaxed) != 0;
}

void amb_conn_gpus_spin(struct amb_conn *conn)
{
    uint32_t waiting = atomic_load_explicit(&conn->gpu.waiting_count, memory_order_relaxed);
    atomic_store_explicit(&conn->gpu.has_new, false, memory_order_relaxed);
    uint32_t vain = atomic_fetch_add_explicit(&conn->gpu.vain_spins, 1, memory_order_relaxed);
    if (vain >= SPIN_VAIN && vain % SPIN_SELDOM != 0) {
        return;
    }
    int64_t now = amb_clock_monotonic_ns(), end = now + SPIN_NS;
    bool is_left = true;
    while (is_left && now < end) {
        amb_clock_yield_until(now + SPIN_PAUSE_NS);
        is_left = amb_conn_gpus_look(conn);
        now = amb_clock_monotonic_ns();
    }
    if (!is_left ||
        atomic_load_explicit(&conn->gpu.waiting_count, memory_order_relaxed) < waiting) {
        atomic_store_explicit(&conn->gpu.vain_spins, 0, memory_order_relaxed);
    }
}

/* Of a closed connection, between two looks: from the first to the second, while they are in vain.
 * The driver is not waited for: that would be for one stream, and others end before it. */
#define NAP_MIN_NS (50 * AMB_NS_PER_US)
#define NAP_MAX_NS (5 * AMB_NS_PER_MS)

/* Does not trust the counter: the devices' locks order it with late releases. The lock in conn->gpu
 * is held. */
static bool has_waiting(struct amb_conn *conn)
{
    bool has = false;
    for (struct amb_gpu *gpu = conn->gpu.devices; gpu != NULL && !has; gpu = gpu->next) {
        (void)pthread_mutex_lock(&gpu->lock);
        has = gpu->releases.queues != NULL;
        (void)pthread_mutex_unlock(&gpu->lock);
    }
    return has;
}

/* is_leaver: the next release looks for another one, once nothing is left. */
static bool is_drained(struct amb_conn *conn, bool is_leaver)
{
    (void)pthread_mutex_lock(&conn->gpu.lock);
    bool has = has_waiting(conn);
    conn->gpu.is_leaving = conn->gpu.is_leaving && (has || !is_leaver);
    (void)pthread_mutex_unlock(&conn->gpu.lock);
    return !has;
}

static void drain(struct amb_conn *conn, bool is_leaver)
{
    int64_t nap_ns = NAP_MIN_NS;
    for (;;) {
        bool is_in_vain = release_due(conn, true) == 0;
        if (is_drained(conn, is_leaver)) {
            return;
        }
        nap_ns = !is_in_vain ? NAP_MIN_NS : nap_ns < NAP_MAX_NS / 2 ? nap_ns * 2 : NAP_MAX_NS;
        const struct timespec nap = {.tv_nsec = nap_ns};
        (void)nanosleep(&nap, NULL);
    }
}

void amb_conn_gpus_drain(struct amb_conn *conn)
{
    drain(conn, false);
}

static void drain_aside(void *arg)
{
    amb_gpus_own_thread();
    drain(arg, true);
}

void amb_conn_gpus_leave(struct amb_conn *conn)
{
    (void)pthread_mutex_lock(&conn->gpu.lock);
    bool is_leaver = !conn->gpu.is_leaving && has_waiting(conn);
    conn->gpu.is_leaving = conn->gpu.is_leaving || is_leaver;
    (void)pthread_mutex_unlock(&conn->gpu.lock);
    if (is_leaver && !amb_aside(conn, drain_aside, conn)) {
        drain(conn, true);
    }
}

void amb_gpu_releases_fini(struct amb_gpu *gpu, bool is_entered)
{
    amb_assert(gpu->releases.queues == NULL);
    struct amb_gpu_release_queue *queue;
    struct amb_gpu_waiting *waiting;
    while ((queue = gpu->releases.unused_queues) != NULL) {
        gpu->releases.unused_queues = queue->next;
        free(queue);
    }
    while ((waiting = gpu->releases.unused) != NULL) {
        gpu->releases.unused = waiting->next;
        if (is_entered) {
            amb_cuda_event_destroy(gpu->cuda, waiting->event);
        }
        free(waiting);
    }
}
