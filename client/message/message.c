/* SPDX-License-Identifier: Apache-2.0 */
#include "client/message/message.h"

#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/drive/lock.h"
#include "client/drive/wake.h"
#include "client/memory/aside.h"
#include "client/memory/gpu_release.h"
#include "client/message/arrival.h"
#include "client/message/landing.h"
#include "client/message/returns.h"
#include "client/message/side.h"
#include "client/message/sub.h"
#include "wire/codec/props.h"

#include <stdlib.h>
#include <time.h>

struct amb_msg *amb_msg_ref(struct amb_msg *msg)
{
    if (msg != NULL) {
        atomic_fetch_add_explicit(&msg->refs, 1, memory_order_relaxed);
    }
    return msg;
}

void amb_msg_release(struct amb_msg *msg)
{
    if (msg == NULL) {
        return;
    }
    /* Acquire: the only holder sees what earlier ones did; nobody can add a reference to it. */
    if (atomic_load_explicit(&msg->refs, memory_order_acquire) == 1 ||
        atomic_fetch_sub_explicit(&msg->refs, 1, memory_order_acq_rel) == 1) {
        struct amb_arrival *arrival = amb_msg_arrival(msg);
        if (__builtin_expect(atomic_load_explicit(&arrival->sides, memory_order_relaxed) != NULL,
                             0)) {
            amb_landing_leave(msg);
        }
        amb_arrival_release(arrival, 1);
    }
}

/* It cannot be left to a look: waits for the stream here. ESTATE: the stream captures a graph. */
static enum amb_status release_here(struct amb_msg *msg, void *stream)
{
    if (amb_cuda_is_live() && amb_cuda_program_sync(stream) == AMB_ESTATE) {
        return AMB_ESTATE;
    }
    amb_msg_release(msg);
    return AMB_OK;
}

static enum amb_status release_on(struct amb_conn *conn, struct amb_msg *msg, void *stream,
                                  enum amb_gpu_capturing capturing)
{
    struct amb_gpu *gpu = amb_side_gpu(msg);
    enum amb_status status =
        gpu == NULL ? AMB_ENOTSUP
                    : amb_gpu_release_after(gpu, msg, amb_msg_release, stream, capturing);
    if (status != AMB_OK) {
        return status == AMB_ESTATE ? status : release_here(msg, stream);
    }
    if (amb_conn_has_trouble(conn, AMB_TROUBLE_CLOSING)) {
        amb_conn_gpus_leave(conn); /* Nobody looks after a close. */
    } else {
        amb_io_kick(conn);
    }
    return AMB_OK;
}

static enum amb_status release_on_any(struct amb_msg *msg, void *stream,
                                      enum amb_gpu_capturing capturing)
{
    struct amb_conn *conn = amb_msg_arrival(msg)->conn;
    if (amb_conn_has_trouble(conn, AMB_TROUBLE_FORKED)) {
        return AMB_OK; /* The parent's. */
    }
    amb_conn_ref(conn); /* Ours: the message's may go while we look. */
    enum amb_status status = release_on(conn, msg, stream, capturing);
    if (status == AMB_ESTATE) {
        (void)amb_conn_fail(conn, AMB_ESTATE, "amb_msg_release_on: %s", amb_cuda_captures);
    }
    amb_conn_unref(conn);
    return status;
}

enum amb_status amb_msg_release_on(struct amb_msg *msg, void *stream)
{
    return msg == NULL ? AMB_OK : release_on_any(msg, stream, AMB_GPU_CAPTURING_REFUSED);
}

/* ---- behind a stream, of host memory ---- */

/* Between two looks: from the first to the second, while they are in vain. */
#define NAP_MIN_NS AMB_NS_PER_MS
#define NAP_MAX_NS (8 * AMB_NS_PER_MS)

/* A message whose release waits for a stream that no device has a list for. */
struct amb_patience {
    struct amb_patience *next;
    struct amb_msg *msg;
    void *stream;
};

/* Those in front of more. False: there are none at all, and the next release begins a thread. */
static bool take_patient(struct amb_conn *conn, struct amb_patience **more)
{
    struct amb_patience **last = more;
    (void)pthread_mutex_lock(&conn->gpu.lock);
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = conn->gpu.patient;
    conn->gpu.patient = NULL;
    conn->gpu.is_patient = *more != NULL;
    (void)pthread_mutex_unlock(&conn->gpu.lock);
    return *more != NULL;
}

/* Releases those whose streams have run. Neighbours on a stream are asked for by one question.
 * A capture that goes on is not waited for after a close. Returns whether there was one. */
static bool release_patient(struct amb_conn *conn, struct amb_patience **link)
{
    struct amb_patience *patience;
    bool has_released = false, is_asked = false, is_over = false;
    void *stream = NULL;
    while ((patience = *link) != NULL) {
        if (!is_asked || patience->stream != stream) {
            is_asked = true;
            stream = patience->stream;
            enum amb_status status = amb_cuda_program_query(stream);
            bool is_closed = amb_conn_has_trouble(conn, AMB_TROUBLE_CLOSING);
            is_over = status != AMB_EAGAIN && (status != AMB_ESTATE || is_closed);
        }
        if (is_over) {
            *link = patience->next;
            amb_msg_release(patience->msg);
            free(patience);
            has_released = true;
        } else {
            link = &patience->next;
        }
    }
    return has_released;
}

/* On a thread of its own, one a connection. */
static void wait_for_patient(void *arg)
{
    struct amb_conn *conn = arg;
    struct amb_patience *own = NULL;
    int64_t nap_ns = NAP_MIN_NS;
    while (take_patient(conn, &own)) {
        bool has_released = release_patient(conn, &own);
        nap_ns = has_released ? NAP_MIN_NS : nap_ns < NAP_MAX_NS ? nap_ns * 2 : NAP_MAX_NS;
        if (own != NULL) {
            const struct timespec nap = {.tv_nsec = nap_ns};
            (void)nanosleep(&nap, NULL);
        }
    }
}

void amb_msg_release_when_free(struct amb_msg *msg, void *stream)
{
    if (release_on_any(msg, stream, AMB_GPU_CAPTURING_AWAITED) == AMB_OK) {
        return;
    }
    /* Host memory, of which no device keeps a list; or this thread may not ask the driver. */
    struct amb_conn *conn = amb_msg_arrival(msg)->conn;
    struct amb_patience *patience = malloc(sizeof(*patience));
    bool is_awaited = false;
    amb_conn_ref(conn); /* Ours: the message's goes as soon as the lock does. */
    if (patience != NULL) {
        (void)pthread_mutex_lock(&conn->gpu.lock);
        *patience = (struct amb_patience){.next = conn->gpu.patient, .msg = msg, .stream = stream};
        is_awaited = conn->gpu.is_patient || amb_aside(conn, wait_for_patient, conn);
        conn->gpu.is_patient = is_awaited;
        conn->gpu.patient = is_awaited ? patience : conn->gpu.patient;
        (void)pthread_mutex_unlock(&conn->gpu.lock);
    }
    if (!is_awaited) {
        free(patience);
        amb_msg_release(msg);
    }
    amb_conn_unref(conn);
}

const void *amb_msg_data(const struct amb_msg *msg)
{
    return amb_msg_payload(msg);
}

size_t amb_msg_size(const struct amb_msg *msg)
{
    return msg->record->len;
}

const char *amb_msg_topic(const struct amb_msg *msg)
{
    const struct amb_arrival *arrival = amb_msg_arrival(msg);
    return arrival->topic != NULL ? arrival->topic->name : "";
}

const void *amb_msg_own_prop(const struct amb_msg *msg, const char *name, size_t *len)
{
    struct amb_prop_view view;
    if (msg->record->props_len == 0 ||
        !amb_props_find(msg->props, msg->record->props_len, name, &view)) {
        return NULL;
    }
    if (len != NULL) {
        *len = view.value_len;
    }
    return view.value;
}

const char *amb_msg_key(const struct amb_msg *msg)
{
    return amb_msg_own_prop(msg, AMB_PROP_KEY, NULL);
}

const char *amb_msg_content_type(const struct amb_msg *msg)
{
    return amb_msg_own_prop(msg, AMB_PROP_CONTENT_TYPE, NULL);
}

uint64_t amb_msg_seq(const struct amb_msg *msg)
{
    const struct amb_arrival *arrival = amb_msg_arrival(msg);
    return arrival->seq + arrival->frame.above + msg->index;
}

enum amb_priority amb_msg_priority(const struct amb_msg *msg)
{
    const struct amb_arrival *arrival = amb_msg_arrival(msg);
    return arrival->topic != NULL ? arrival->topic->priority : AMB_PRIORITY_NORMAL;
}

int64_t amb_msg_time(const struct amb_msg *msg)
{
    return amb_msg_arrival(msg)->time_ns;
}

uint32_t amb_msg_deliveries(const struct amb_msg *msg)
{
    return amb_msg_arrival(msg)->frame.attempt + 1;
}

uint64_t amb_msg_lost(const struct amb_msg *msg, enum amb_loss *why)
{
    const struct amb_arrival *arrival = amb_msg_arrival(msg);
    bool is_first = msg->index == 0;
    if (why != NULL) {
        *why = is_first ? arrival->loss : AMB_LOSS_NONE;
    }
    return is_first ? arrival->lost : 0;
}

struct amb_sub *amb_msg_sub(const struct amb_msg *msg)
{
    struct amb_sub *sub = amb_msg_arrival(msg)->sub;
    return sub == NULL || sub->is_inbox ? NULL : sub;
}

const void *amb_msg_prop(const struct amb_msg *msg, const char *name, size_t *len)
{
    return name != NULL ? amb_msg_own_prop(msg, name, len) : NULL;
}

/* The index-th property of the publisher's own; counts those before it. */
static bool walk_props(const struct amb_msg *msg, size_t index, struct amb_prop_view *out,
                       size_t *count)
{
    size_t pos = 0;
    *count = 0;
    while (msg->record->props_len != 0 &&
           amb_props_next(msg->props, msg->record->props_len, &pos, out)) {
        if (out->name[0] == '$') {
            continue; /* The library's own. */
        }
        if (*count == index) {
            return true;
        }
        ++*count;
    }
    return false;
}

size_t amb_msg_prop_count(const struct amb_msg *msg)
{
    struct amb_prop_view view;
    size_t count;
    (void)walk_props(msg, SIZE_MAX, &view, &count);
    return count;
}

enum amb_status amb_msg_prop_at(const struct amb_msg *msg, size_t index, struct amb_prop *out)
{
    struct amb_prop_view view;
    size_t count;
    if (!walk_props(msg, index, &view, &count)) {
        return AMB_ENOTFOUND;
    }
    *out = (struct amb_prop){.name = view.name, .value = view.value, .len = view.value_len};
    return AMB_OK;
}
