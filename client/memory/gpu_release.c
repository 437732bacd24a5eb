/* SPDX-License-Identifier: Apache-2.0 */
#include "client/memory/gpu_release.h"

#include "client/conn/conn.h"
#include "client/memory/gpu_private.h"
#include "wire/base/assert.h"

#include <stdlib.h>

/* A message whose release waits for a stream. */
struct amb_gpu_waiting {
    struct amb_gpu_waiting *next;
    void *event;
    struct amb_msg *msg; /* NULL: unused */
    amb_gpu_release_fn release;
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

enum amb_status amb_gpu_release_after(struct amb_gpu *gpu, struct amb_msg *msg,
                                      amb_gpu_release_fn release, void *stream)
{
    struct amb_cuda_scope scope;
    enum amb_status status = amb_cuda_enter(gpu->cuda, &scope);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_gpu_waiting *waiting = waiting_get(gpu);
    status =
        waiting != NULL ? amb_cuda_event_record(gpu->cuda, waiting->event, stream) : AMB_ENOMEM;
    amb_cuda_leave(&scope);
    if (waiting == NULL) {
        return status;
    }
    (void)pthread_mutex_lock(&gpu->lock);
    struct amb_gpu_waiting **list =
        status == AMB_OK ? &gpu->releases.waiting : &gpu->releases.unused;
    waiting->msg = status == AMB_OK ? msg : NULL;
    waiting->release = release;
    waiting->next = *list;
    *list = waiting;
    if (status == AMB_OK) {
        atomic_fetch_add_explicit(&gpu->conn->gpu.waiting_count, 1, memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&gpu->lock);
    return status;
}

/* Takes one that is over, or whose device is lost; must_wait: any, and waits for it. */
static struct amb_msg *take_over(struct amb_gpu *gpu, bool must_wait, amb_gpu_release_fn *release)
{
    struct amb_msg *msg = NULL;
    (void)pthread_mutex_lock(&gpu->lock);
    struct amb_gpu_waiting **link = &gpu->releases.waiting;
    while (*link != NULL && !must_wait &&
           amb_cuda_event_query(gpu->cuda, (*link)->event) == AMB_EAGAIN) {
        link = &(*link)->next;
    }
    struct amb_gpu_waiting *waiting = *link;
    if (waiting != NULL) {
        if (must_wait) {
            (void)!amb_cuda_event_sync(gpu->cuda, waiting->event);
        }
        msg = waiting->msg;
        *release = waiting->release;
        waiting->msg = NULL;
        *link = waiting->next;
        waiting->next = gpu->releases.unused;
        gpu->releases.unused = waiting;
    }
    (void)pthread_mutex_unlock(&gpu->lock);
    return msg;
}

static bool release_due(struct amb_conn *conn, bool must_wait)
{
    /* A close does not trust the counter: the devices' locks order it with late releases. */
    if (!must_wait && atomic_load_explicit(&conn->gpu.waiting_count, memory_order_relaxed) == 0) {
        return false;
    }
    /* The devices stay: they are added in front, and go with the connection's memory. */
    (void)pthread_mutex_lock(&conn->gpu.lock);
    struct amb_gpu *gpu = conn->gpu.devices;
    (void)pthread_mutex_unlock(&conn->gpu.lock);
    for (; gpu != NULL; gpu = gpu->next) {
        struct amb_msg *msg;
        amb_gpu_release_fn release = NULL;
        while ((msg = take_over(gpu, must_wait, &release)) != NULL) {
            atomic_fetch_sub_explicit(&conn->gpu.waiting_count, 1, memory_order_relaxed);
            release(msg);
        }
    }
    return atomic_load_explicit(&conn->gpu.waiting_count, memory_order_relaxed) != 0;
}

bool amb_conn_gpus_look(struct amb_conn *conn)
{
    return release_due(conn, false);
}

void amb_conn_gpus_drain(struct amb_conn *conn)
{
    (void)release_due(conn, true);
}

void amb_gpu_releases_fini(struct amb_gpu *gpu, bool is_entered)
{
    amb_assert(gpu->releases.waiting == NULL);
    struct amb_gpu_waiting *waiting;
    while ((waiting = gpu->releases.unused) != NULL) {
        gpu->releases.unused = waiting->next;
        if (is_entered) {
            amb_cuda_event_destroy(gpu->cuda, waiting->event);
        }
        free(waiting);
    }
}
