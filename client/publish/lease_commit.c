/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_lease_commit: a lease becomes a message, where it lies.
 */
#include "client/publish/lease_commit.h"

#include "client/batch/pub.h"
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/conn/options.h"
#include "client/drive/lock.h"
#include "client/memory/gpu.h"
#include "client/memory/gpu_fence.h"
#include "client/publish/commit.h"
#include "client/publish/lease.h"
#include "client/publish/put.h"

static enum amb_status read_message(const struct amb_lease *lease, const struct amb_out *message,
                                    uint8_t *blob, struct amb_put *put)
{
    struct amb_conn *conn = lease->conn;
    struct amb_out out;
    struct amb_complaint complaint;
    enum amb_status status = amb_commit_out_read(message, &out, &complaint);
    if (status != AMB_OK) {
        return amb_conn_fail(conn, status, "%s", complaint.text);
    }
    if (lease->pin != NULL && out.mem > AMB_MEM_PINNED) {
        return amb_conn_fail(conn, AMB_ENOTSUP, "amb_out: the lease is pinned host memory");
    }
    if (lease->gpu == NULL && lease->pin == NULL &&
        (out.stream != NULL || out.mem > AMB_MEM_PINNED)) {
        return amb_conn_fail(conn, AMB_ENOTSUP,
                             "amb_out: the lease is host memory; mem and stream must be 0");
    }
    put->len = out.len != 0 ? out.len : lease->len;
    if (put->len > lease->len) {
        return amb_conn_fail(conn, AMB_EINVAL, "%llu bytes of a lease of %llu",
                             (unsigned long long)put->len, (unsigned long long)lease->len);
    }
    return amb_put_props(conn, &out, blob, put);
}

/* Also of a message that is wrong, or does not say its size: what is on it writes all the same. */
static void *stream_of(const struct amb_out *message)
{
    bool has_stream = message != NULL &&
                      (message->size == 0 ||
                       message->size >= offsetof(struct amb_out, stream) + sizeof(message->stream));
    return has_stream ? message->stream : NULL;
}

/* The fence of a commit: the end of all that was put on its stream so far. On failure that is over,
 * so that the memory can be given back; but for ESTATE: the stream captures a graph. */
static enum amb_status commit_fence(const struct amb_lease *lease, const struct amb_out *message,
                                    struct amb_gpu_fence **fence)
{
    struct amb_gpu *gpu = lease->gpu != NULL ? lease->gpu : lease->pin;
    enum amb_status status = amb_gpu_fence(gpu, stream_of(message), fence);
    return status == AMB_OK ? AMB_OK : amb_gpu_fail(lease->conn, gpu, status, "cannot commit");
}

static enum amb_status commit(struct amb_pub *pub, const struct amb_lease *own,
                              const struct amb_put *put, struct amb_gpu_fence *fence, uint64_t *seq)
{
    if (own->gpu != NULL) {
        return amb_commit_place_gpu(pub, put, &own->place, fence, seq);
    }
    if (own->pin != NULL) {
        return amb_commit_place_pinned(pub, put, &own->place, fence, seq);
    }
    return own->place.slots != NULL ? amb_commit_place(pub, put, &own->place, seq)
                                    : amb_commit_private(pub, put, own, seq);
}

/* The connection's lock is held. */
static enum amb_status may_commit(const struct amb_lease *lease)
{
    const struct amb_pub *pub = lease->pub;
    if (amb_conn_has_trouble(lease->conn, AMB_TROUBLE_DOWN)) {
        return lease->conn->session.down;
    }
    return pub == NULL || atomic_load_explicit(&pub->is_closing, memory_order_relaxed) ? AMB_ECLOSED
                                                                                       : AMB_OK;
}

/* Takes lease and fence; status: what has gone wrong before. */
static enum amb_status lease_commit(struct amb_lease *lease, const struct amb_out *message,
                                    enum amb_status status, struct amb_gpu_fence *fence,
                                    uint64_t *seq)
{
    struct amb_conn *conn = lease->conn;
    struct amb_put put = {.mem = lease->mem};
    uint8_t blob[AMB_PROPS_MAX];
    if (message != NULL && status == AMB_OK) {
        status = read_message(lease, message, blob, &put);
    }
    put.len = message != NULL ? put.len : lease->len;
    if (status != AMB_OK && fence != NULL) {
        (void)amb_gpu_fence_wait(fence); /* Nobody gets the memory while it is written. */
        fence = NULL;
    }
    struct amb_lease own;
    amb_conn_lock(conn);
    status = status == AMB_OK ? may_commit(lease) : status;
    if (status != AMB_OK && fence != NULL) {
        /* Still a lease: the session lives on for it. */
        amb_conn_unlock(conn);
        (void)amb_gpu_fence_wait(fence);
        amb_conn_lock(conn);
    }
    amb_lease_take_back(lease, &own);
    struct amb_pub *pub = own.pub;
    if (status == AMB_OK) {
        /* Under the lock: a close sees either this or nothing of us. */
        atomic_fetch_add_explicit(&pub->inside, 1, memory_order_relaxed);
    } else {
        amb_lease_free_memory(&own);
    }
    amb_conn_unlock(conn);
    if (status == AMB_OK) {
        status = commit(pub, &own, &put, fence, seq);
        /* Release: pairs with the acquire of the one who closes. */
        atomic_fetch_sub_explicit(&pub->inside, 1, memory_order_release);
    }
    amb_conn_unref(conn);
    return status;
}

enum amb_status amb_lease_commit_after(struct amb_lease *lease, const struct amb_out *message,
                                       struct amb_gpu_fence *fence, uint64_t *seq)
{
    return lease_commit(lease, message, AMB_OK, fence, seq);
}

enum amb_status amb_lease_commit(struct amb_lease *lease, const struct amb_out *message,
                                 uint64_t *seq)
{
    if (lease == NULL) {
        return AMB_EINVAL;
    }
    if (amb_conn_has_trouble(lease->conn, AMB_TROUBLE_FORKED)) {
        return AMB_EFORKED; /* The parent's. */
    }
    struct amb_gpu_fence *fence = NULL;
    bool is_awaited = lease->gpu != NULL || lease->pin != NULL;
    enum amb_status status = is_awaited ? commit_fence(lease, message, &fence) : AMB_OK;
    if (status == AMB_ESTATE) {
        return status; /* Its memory may still be written, so it stays its holder's. */
    }
    return lease_commit(lease, message, status, fence, seq);
}
