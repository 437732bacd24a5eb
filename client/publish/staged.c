/* SPDX-License-Identifier: Apache-2.0 */
#include "client/publish/staged.h"

#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/drive/lock.h"
#include "client/memory/gpu.h"
#include "client/memory/gpu_fence.h"
#include "client/publish/lease.h"
#include "client/publish/lease_commit.h"
#include "client/publish/put.h"
#include "client/publish/room.h"
#include "wire/codec/props.h"

#include <stdio.h>

static bool is_device_kind(enum amb_mem mem)
{
    return mem == AMB_MEM_CUDA || mem == AMB_MEM_CUDA_MANAGED;
}

bool amb_staged_is_wanted(struct amb_pub *pub, const void *data, uint64_t len,
                          struct amb_mem_place *place)
{
    place->mem = AMB_MEM_DEFAULT;
    if (!amb_cuda_is_live()) {
        return false;
    }
    /* From here on each message is looked at, see amb_staged_may_read. */
    atomic_fetch_or_explicit(&pub->wary, AMB_WARY_LIVE, memory_order_relaxed);
    if (len == 0) {
        return false;
    }
    amb_cuda_locate(data, place);
    return is_device_kind(place->mem);
}

/* A kind that the program names is believed for host memory, and looked at for a device's. */
static enum amb_status check_kind(struct amb_pub *pub, const struct amb_out *out, bool *is_staged,
                                  struct amb_mem_place *place)
{
    struct amb_conn *conn = pub->conn;
    if (is_device_kind(out->mem)) {
        enum amb_status status = amb_cuda_start();
        if (status != AMB_OK) {
            return amb_conn_fail(conn, status, "amb_out.mem is CUDA: %s", amb_cuda_why_not());
        }
        amb_cuda_locate(out->data, place);
        if (place->is_unknown && out->len != 0) {
            return amb_conn_fail(conn, AMB_ECUDA,
                                 "amb_out.mem is CUDA, and the driver does not say where data is: "
                                 "a GPU may have failed");
        }
        if (place->mem != out->mem && out->len != 0) {
            return amb_conn_fail(conn, AMB_EKIND,
                                 "amb_out.mem is CUDA, and data points to other memory");
        }
        *is_staged = out->len != 0;
    } else if (out->mem == AMB_MEM_DEFAULT) {
        *is_staged = amb_staged_is_wanted(pub, out->data, out->len, place);
        for (uint32_t i = 0; i < out->iov_count; i++) {
            if (amb_staged_is_wanted(pub, out->iov[i].data, out->iov[i].len, place)) {
                return amb_conn_fail(conn, AMB_EKIND, "amb_out.iov: piece %u is GPU memory", i);
            }
        }
    }
    return AMB_OK;
}

enum amb_status amb_staged_check(struct amb_pub *pub, const struct amb_out *out, bool *is_staged,
                                 struct amb_mem_place *place)
{
    *is_staged = false;
    place->mem = AMB_MEM_DEFAULT;
    enum amb_status status = out->forward == NULL ? check_kind(pub, out, is_staged, place) : AMB_OK;
    if (status == AMB_OK && out->stream != NULL && !*is_staged) {
        status = amb_gpu_wait(pub->conn, out->stream);
    }
    return status;
}

/* Straight into a slot, and committed there. */
static enum amb_status post_leased(struct amb_pub *pub, struct amb_gpu *gpu,
                                   const struct amb_out *out, int64_t timeout_ns, uint64_t *seq)
{
    struct amb_lease *lease;
    enum amb_status status = amb_lease_on(pub, NULL, out->len, timeout_ns, &lease);
    if (status != AMB_OK) {
        return status == AMB_ENOMEM
                   ? amb_conn_fail(pub->conn, status, "no host memory to stage %llu bytes",
                                   (unsigned long long)out->len)
                   : status;
    }
    lease->mem = out->mem;
    status = amb_gpu_read(gpu, amb_lease_data(lease), out->data, out->len, out->stream);
    if (status != AMB_OK) {
        amb_lease_abandon(lease);
        return status;
    }
    struct amb_out rest = *out;
    rest.mem = AMB_MEM_DEFAULT;
    rest.data = NULL;
    rest.stream = NULL;
    return amb_lease_commit(lease, &rest, seq);
}

/* By way of a buffer of the connection's into the open batch. */
static enum amb_status post_small(struct amb_pub *pub, struct amb_gpu *gpu,
                                  const struct amb_out *out, int64_t timeout_ns, uint64_t *seq)
{
    struct amb_conn *conn = pub->conn;
    uint8_t blob[AMB_PROPS_MAX];
    struct amb_put put = {.len = out->len, .mem = out->mem};
    enum amb_status status = amb_put_props(conn, out, blob, &put);
    if (status != AMB_OK) {
        return status;
    }
    amb_conn_lock(conn);
    void *bytes = amb_buffers_get(&conn->receive.buffers, out->len);
    amb_conn_unlock(conn);
    if (bytes == NULL) {
        return amb_conn_fail(conn, AMB_ENOMEM, "no host memory to stage %llu bytes",
                             (unsigned long long)out->len);
    }
    status = amb_gpu_read(gpu, bytes, out->data, out->len, out->stream);
    put.data = bytes;
    if (status == AMB_OK) {
        status = amb_put_any(pub, &put, timeout_ns, seq);
    }
    amb_conn_lock(conn);
    amb_buffers_put(&conn->receive.buffers, bytes, out->len);
    amb_conn_unlock(conn);
    return status;
}

/* Is it about a way to the broker's GPU memory, and not about the message? */
static bool is_no_way(enum amb_status status)
{
    return status == AMB_ENOTSUP || status == AMB_ENOTFOUND || status == AMB_EFORBIDDEN ||
           status == AMB_ENOMEM || status == AMB_ELIMIT || status == AMB_EPROTO ||
           status == AMB_EBUSY;
}

/* Why a message on that GPU does not stay there. */
static void why_staged(struct amb_pub *pub, struct amb_gpu *gpu, enum amb_status status,
                       char text[AMB_GPU_WHY_BYTES])
{
    struct amb_conn *conn = pub->conn;
    amb_conn_lock(conn);
    const struct amb_gpu_room *room = gpu != NULL ? amb_gpu_room_of(gpu) : NULL;
    const char *why = amb_status_text(status);
    if (!pub->gpu.has_room && pub->gpu.why[0] != '\0') {
        why = pub->gpu.why;
    } else if (room != NULL && room->text[0] != '\0') {
        why = room->text;
    }
    (void)snprintf(text, AMB_GPU_WHY_BYTES, "%s", why);
    amb_conn_unlock(conn);
}

/* One copy on the device, into a range of the broker's. A failure that is_no_way knows is not the
 * last error yet. */
static enum amb_status post_on_gpu(struct amb_pub *pub, struct amb_gpu *gpu,
                                   const struct amb_out *out, bool is_waited, int64_t timeout_ns,
                                   uint64_t *seq)
{
    struct amb_lease *lease;
    enum amb_status status = amb_lease_on(pub, gpu, out->len, timeout_ns, &lease);
    if (status != AMB_OK) {
        return status == AMB_ECUDA
                   ? amb_gpu_fail(pub->conn, gpu, status, "cannot copy what to publish")
                   : status;
    }
    lease->mem = out->mem;
    struct amb_gpu_fence *fence = NULL;
    uint64_t to = (uintptr_t)amb_lease_data_on(lease, out->stream);
    status = amb_gpu_copy(gpu, to, (uintptr_t)out->data, out->len, out->stream, is_waited, &fence);
    if (status != AMB_OK) {
        amb_lease_abandon(lease);
        return status == AMB_ENOMEM ? AMB_ECUDA : status;
    }
    struct amb_out rest = *out;
    rest.data = NULL;
    return amb_lease_commit_after(lease, &rest, fence, seq);
}

/* Most properties fit a head. */
#define CROSS_PROPS_MAX 2048u

/* Will UCX take it as it lies? For kinds other than cuMemAlloc's UCX may have no handle for its
 * peer, or one of the first segment only (ucx#11461). It ends the process or the session then. */
static bool is_for_link(const void *data, char why[AMB_GPU_WHY_BYTES])
{
    struct amb_mem_place place;
    amb_cuda_classify(data, &place);
    if (!place.is_exportable) {
        (void)snprintf(why, AMB_GPU_WHY_BYTES, "%s is not given to UCX", place.why_not);
    }
    return place.is_exportable;
}

/* From where it lies, by a link that takes such memory (UCX with CUDA). ENOTSUP: there is none, or
 * it does not take that; why says the latter. */
static enum amb_status post_by_link(struct amb_pub *pub, struct amb_gpu *gpu,
                                    const struct amb_out *out, bool is_waited, int64_t timeout_ns,
                                    uint64_t *seq, char why[AMB_GPU_WHY_BYTES])
{
    struct amb_conn *conn = pub->conn;
    amb_conn_lock(conn);
    bool can = conn->link != NULL && conn->link->takes_cuda && !pub->avoids_slots &&
               out->len >= conn->link->device_min;
    amb_conn_unlock(conn);
    uint8_t blob[AMB_PROPS_MAX];
    struct amb_put put = {.data = out->data,
                          .len = out->len,
                          .mem = out->mem,
                          .is_device = true,
                          .is_lent = !is_waited};
    if (!can || !is_for_link(out->data, why)) {
        return AMB_ENOTSUP;
    }
    enum amb_status status = amb_put_props(conn, out, blob, &put);
    if (status != AMB_OK || put.blob_len > CROSS_PROPS_MAX) {
        return status != AMB_OK ? status : AMB_ENOTSUP;
    }
    struct amb_gpu_fence *fence = NULL;
    status = amb_gpu_fence(gpu, out->stream, &fence);
    if (status == AMB_OK && fence != NULL) {
        status = amb_gpu_fence_wait(fence);
    }
    if (status != AMB_OK) {
        return amb_gpu_fail(conn, gpu, status == AMB_ESTATE ? status : AMB_ECUDA,
                            "cannot read what to publish");
    }
    return amb_put_any(pub, &put, timeout_ns, seq);
}

static enum amb_status reject(struct amb_pub *pub, const char *why)
{
    return amb_conn_fail(pub->conn, AMB_EKIND,
                         "'%s' takes GPU memory only where it stays on its GPU "
                         "(gpu = \"reject\"): %s",
                         pub->topic, why);
}

/* By way of the host; why: it cannot stay where it is. */
static enum amb_status post_by_host(struct amb_pub *pub, struct amb_gpu *gpu,
                                    const struct amb_out *out, const char *why, int64_t timeout_ns,
                                    uint64_t *seq)
{
    enum amb_status status = out->len >= AMB_PLAIN_LEASE_MIN
                                 ? post_leased(pub, gpu, out, timeout_ns, seq)
                                 : post_small(pub, gpu, out, timeout_ns, seq);
    if (status == AMB_OK) {
        atomic_fetch_add_explicit(&pub->gpu.staged_bytes, out->len, memory_order_relaxed);
        amb_conn_gpus_count_in(pub->conn, out->len, why);
    }
    return status;
}

enum amb_status amb_staged_post(struct amb_pub *pub, const struct amb_out *out,
                                const struct amb_mem_place *place, bool is_waited,
                                int64_t timeout_ns, uint64_t *seq)
{
    struct amb_gpu *gpu;
    struct amb_out known = *out;
    char why[AMB_GPU_WHY_BYTES];
    known.mem = place->mem;
    amb_pub_enter(pub);
    enum amb_status status = amb_gpu_at(pub->conn, place, out->data, out->len, &gpu);
    if (status == AMB_OK) {
        status = post_on_gpu(pub, gpu, &known, is_waited, timeout_ns, seq);
        if (is_no_way(status)) {
            why_staged(pub, gpu, status, why);
            status = pub->gpu.rejects_staging
                         ? reject(pub, why)
                         : post_by_link(pub, gpu, &known, is_waited, timeout_ns, seq, why);
            if (is_no_way(status)) {
                status = post_by_host(pub, gpu, &known, why, timeout_ns, seq);
            }
        }
    }
    return amb_pub_leave(pub, status);
}
