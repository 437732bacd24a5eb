/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_lease, amb_lease_data, amb_lease_abandon, amb_lease_keep.
 */
#include "client/publish/lease.h"

#include "client/batch/pub.h"
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/drive/lock.h"
#include "client/drive/wake.h"
#include "client/memory/gpu.h"
#include "client/memory/keep.h"
#include "client/memory/slots.h"
#include "client/publish/lease_room.h"
#include "client/publish/put.h"
#include "client/publish/room_event.h"

#include <stdlib.h>

/* ---- life ---- */

static struct amb_lease *lease_get(struct amb_conn *conn)
{
    struct amb_lease *lease = conn->leases.unused;
    if (lease != NULL) {
        conn->leases.unused = lease->next;
    } else {
        lease = malloc(sizeof(*lease));
        if (lease == NULL) {
            return NULL;
        }
    }
    *lease = (struct amb_lease){.conn = conn};
    amb_list_init(&lease->node);
    return lease;
}

static void lease_put(struct amb_lease *lease)
{
    lease->next = lease->conn->leases.unused;
    lease->conn->leases.unused = lease;
}

void amb_lease_cache_fini(struct amb_conn *conn)
{
    while (conn->leases.unused != NULL) {
        struct amb_lease *lease = conn->leases.unused;
        conn->leases.unused = lease->next;
        free(lease);
    }
}

void amb_leases_orphan(struct amb_pub *pub)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&pub->lease.out)) != NULL) {
        AMB_CONTAINER_OF(node, struct amb_lease, node)->pub = NULL;
    }
    pub->lease.count = 0;
}

/* Counts it: it is out. */
static void lend(struct amb_pub *pub, struct amb_lease *lease, uint64_t len)
{
    struct amb_conn *conn = pub->conn;
    lease->pub = pub;
    lease->len = len;
    lease->mem = lease->gpu != NULL   ? AMB_MEM_CUDA
                 : lease->pin != NULL ? AMB_MEM_PINNED
                                      : AMB_MEM_HOST;
    amb_list_push_back(&pub->lease.out, &lease->node);
    pub->lease.count++;
    if (lease->place.slots != NULL) {
        /* The session lives on for memory of the broker's that somebody may write. */
        atomic_fetch_add_explicit(&conn->mapped_held, 1, memory_order_relaxed);
    }
    amb_conn_ref(conn);
}

void amb_lease_take_back(struct amb_lease *lease, struct amb_lease *out)
{
    struct amb_conn *conn = lease->conn;
    *out = *lease;
    if (lease->pub != NULL) {
        amb_list_remove(&lease->node);
        lease->pub->lease.count--;
    }
    if (lease->place.slots != NULL) {
        atomic_fetch_sub_explicit(&conn->mapped_held, 1, memory_order_relaxed);
    }
    lease_put(lease);
    if (conn->io.is_lingering) {
        amb_io_kick(conn);
    }
}

void amb_lease_free_memory(const struct amb_lease *lease)
{
    if (lease->place.slots != NULL) {
        amb_place_return(&lease->place);
    } else {
        amb_keep_return(lease->conn, lease->keep, lease->bytes, lease->room);
    }
}

/* ---- calls ---- */

typedef enum amb_status (*take_fn)(struct amb_lease_room *room, struct amb_lease *lease);

static enum amb_status lease_open(struct amb_pub *pub, struct amb_gpu *gpu, take_fn take,
                                  uint64_t len, int64_t timeout_ns, struct amb_lease **out)
{
    struct amb_conn *conn = pub->conn;
    struct amb_lease_room room = {.pub = pub, .gpu = gpu, .len = len, .deadline_ns = INT64_MAX};
    if (timeout_ns != AMB_FOREVER) {
        room.deadline_ns =
            timeout_ns > 0 ? amb_deadline_ns(amb_clock_monotonic_ns(), timeout_ns) : 0;
    }
    amb_conn_lock(conn);
    struct amb_lease *lease = lease_get(conn);
    enum amb_status status = lease == NULL ? AMB_ENOMEM : AMB_OK;
    if (status == AMB_OK) {
        status = amb_lease_room_await_memory(&room);
    }
    if (status == AMB_OK) {
        status = take(&room, lease);
    }
    if (status == AMB_OK) {
        lend(pub, lease, len);
    } else if (lease != NULL) {
        lease_put(lease);
    }
    if (status == AMB_ETIMEDOUT && timeout_ns <= 0) {
        status = AMB_EAGAIN;
        amb_room_await_lease(&room);
    }
    amb_conn_unlock(conn);
    if (status == AMB_OK) {
        *out = lease;
    }
    return status;
}

enum amb_status amb_lease_on(struct amb_pub *pub, struct amb_gpu *gpu, uint64_t len,
                             int64_t timeout_ns, struct amb_lease **out)
{
    return gpu != NULL && !pub->gpu.has_room
               ? AMB_ENOTSUP /* The topic, the link or the broker has none. */
               : lease_open(pub, gpu, gpu != NULL ? amb_lease_room_take_gpu : amb_lease_room_take,
                            len, timeout_ns, out);
}

static enum amb_status lease_pinned(struct amb_pub *pub, uint64_t len, int64_t timeout_ns,
                                    struct amb_lease **out)
{
    struct amb_gpu *gpu = pub->lease.gpu;
    enum amb_status status = lease_open(pub, gpu, amb_lease_room_take_pinned, len, timeout_ns, out);
    if (status == AMB_ENOTSUP || status == AMB_ECUDA || status == AMB_ENOMEM) {
        return amb_gpu_fail(pub->conn, gpu, status, "no lease in pinned memory");
    }
    return status;
}

/* Why there is no lease on the publisher's GPU. */
static const char *gpu_obstacle(struct amb_pub *pub, enum amb_status status)
{
    struct amb_conn *conn = pub->conn;
    if (!pub->gpu.has_room && pub->gpu.why[0] != '\0') {
        return pub->gpu.why;
    }
    const char *text = amb_gpu_room_of(pub->lease.gpu)->text; /* Written once, if at all. */
    amb_conn_lock(conn);
    bool is_refused = amb_gpu_room_of(pub->lease.gpu)->refused == status && text[0] != '\0';
    amb_conn_unlock(conn);
    return is_refused ? text : amb_status_text(status);
}

enum amb_status amb_lease(struct amb_pub *pub, size_t len, int64_t timeout_ns,
                          struct amb_lease **out)
{
    if (out == NULL) {
        return AMB_EINVAL;
    }
    *out = NULL;
    if (pub == NULL || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    struct amb_conn *conn = pub->conn;
    enum amb_status status = amb_conn_trouble(conn, AMB_TROUBLE_PUB);
    if (status != AMB_OK) {
        return status;
    }
    if (len > conn->session.max_message) {
        return amb_put_too_large(conn, len);
    }
    amb_pub_enter(pub);
    if (pub->lease.is_pinned) {
        return amb_pub_leave(pub, lease_pinned(pub, len, timeout_ns, out));
    }
    status = amb_lease_on(pub, pub->lease.gpu, len, timeout_ns, out);
    if (pub->lease.gpu != NULL && status != AMB_OK && status != AMB_EAGAIN &&
        status != AMB_ETIMEDOUT) {
        (void)amb_conn_fail(conn, status, "no lease on GPU %d: %s", amb_gpu_index(pub->lease.gpu),
                            gpu_obstacle(pub, status));
    } else if (status == AMB_ENOMEM) {
        (void)amb_conn_fail(conn, status, "no memory for a lease of %llu bytes",
                            (unsigned long long)len);
    }
    return amb_pub_leave(pub, status);
}

void *amb_lease_data(const struct amb_lease *lease)
{
    if (lease == NULL ||
        (lease->place.slots != NULL && amb_conn_has_trouble(lease->conn, AMB_TROUBLE_FORKED))) {
        return NULL; /* Segments are not mapped in a child. */
    }
    return lease->bytes;
}

void *amb_lease_data_on(const struct amb_lease *lease, void *stream)
{
    (void)stream; /* The last reader has said that it is done. */
    if (lease == NULL || amb_conn_has_trouble(lease->conn, AMB_TROUBLE_FORKED)) {
        return NULL;
    }
    if (lease->pin != NULL) {
        return (void *)(uintptr_t)amb_place_pinned_at(&lease->place);
    }
    return lease->gpu != NULL ? amb_place_bytes(&lease->place) : NULL;
}

void amb_lease_abandon(struct amb_lease *lease)
{
    if (lease == NULL || amb_conn_has_trouble(lease->conn, AMB_TROUBLE_FORKED)) {
        return;
    }
    struct amb_conn *conn = lease->conn;
    struct amb_lease own;
    amb_conn_lock(conn);
    amb_lease_take_back(lease, &own);
    amb_lease_free_memory(&own);
    amb_conn_unlock(conn);
    amb_conn_unref(conn);
}

/* ---- beyond the commit ---- */

/* A range of a GPU's pool is another client's as soon as the session is over. */
static bool needs_session(const struct amb_place *place)
{
    return place->slots != NULL && place->slots->gpu != NULL;
}

enum amb_status amb_lease_keep(struct amb_lease *lease, struct amb_keep **out)
{
    if (out == NULL) {
        return AMB_EINVAL;
    }
    *out = NULL;
    if (lease == NULL) {
        return AMB_EINVAL;
    }
    struct amb_conn *conn = lease->conn;
    if (amb_conn_has_trouble(conn, AMB_TROUBLE_FORKED)) {
        return AMB_EFORKED;
    }
    amb_conn_lock(conn);
    enum amb_status status =
        amb_keep_begin(conn, &lease->place, lease->bytes, lease->room, &lease->keep);
    if (status == AMB_OK) {
        *out = lease->keep;
        if (needs_session(&lease->place)) {
            atomic_fetch_add_explicit(&conn->mapped_held, 1, memory_order_relaxed);
        }
        amb_conn_ref(conn);
    }
    amb_conn_unlock(conn);
    return status;
}

void amb_lease_unkeep(struct amb_keep *keep)
{
    if (keep == NULL || amb_conn_has_trouble(keep->conn, AMB_TROUBLE_FORKED)) {
        return;
    }
    struct amb_conn *conn = keep->conn;
    amb_conn_lock(conn);
    if (needs_session(&keep->place)) {
        atomic_fetch_sub_explicit(&conn->mapped_held, 1, memory_order_relaxed);
        if (conn->io.is_lingering) {
            amb_io_kick(conn);
        }
    }
    amb_keep_end(keep);
    amb_conn_unlock(conn);
    amb_conn_unref(conn);
}
