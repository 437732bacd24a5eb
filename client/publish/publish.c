/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_pub_open, amb_pub_send, amb_pub_post, amb_pub_copy, amb_publish: a publisher, and a message
 * into its open batch, or by the best of other ways.
 */
#include "client/batch/batches.h"
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/conn/options.h"
#include "client/memory/gpu.h"
#include "client/message/side.h"
#include "client/publish/implicit.h"
#include "client/publish/pub_open.h"
#include "client/publish/put.h"
#include "client/publish/room.h"
#include "client/publish/small.h"
#include "client/publish/staged.h"

/* A message up to this size may open a batch on the short way. */
#define FIRST_MAX 4096u

enum amb_status amb_pub_open(struct amb_conn *conn, const char *topic,
                             const struct amb_pub_options *options, struct amb_pub **out)
{
    if (out == NULL) {
        return AMB_EINVAL;
    }
    *out = NULL;
    if (conn == NULL || topic == NULL) {
        return AMB_EINVAL;
    }
    enum amb_status status =
        amb_conn_trouble(conn, AMB_TROUBLE_FORKED | AMB_TROUBLE_DOWN | AMB_TROUBLE_CLOSING);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_pub_options checked;
    struct amb_complaint complaint;
    status = amb_pub_options_read(options, &checked, &complaint);
    if (status != AMB_OK) {
        return amb_conn_fail(conn, status, "%s", complaint.text);
    }
    struct amb_gpu *gpu = NULL;
    bool is_pinned = checked.lease_mem == AMB_MEM_PINNED;
    if (checked.lease_mem == AMB_MEM_CUDA || is_pinned) {
        status = amb_gpu_get(conn, checked.device, &gpu);
        if (status != AMB_OK) {
            return status;
        }
    }
    amb_conn_enter(conn);
    status = amb_pub_open_checked(conn, topic, &checked, NULL, out);
    if (status == AMB_ELIMIT && amb_implicit_evict(conn)) {
        status = amb_pub_open_checked(conn, topic, &checked, NULL, out);
    }
    if (status == AMB_OK) {
        (*out)->lease.gpu = gpu;
        (*out)->lease.is_pinned = is_pinned;
    }
    return amb_conn_leave(conn, status);
}

/* May a message go straight into the batch? The first of a batch must find window_msgs open, and
 * larger ones may have better ways. */
static inline bool takes_at_once(struct amb_pub *pub, const struct amb_batch *batch, size_t len)
{
    if (batch == NULL || !amb_batch_fits(batch, len, 0, pub->batch_msgs) ||
        !amb_staged_may_read(pub)) {
        return false;
    }
    if (batch->count != 0) {
        return true;
    }
    uint64_t unsettled = atomic_load_explicit(&pub->posted, memory_order_relaxed) -
                         atomic_load_explicit(&pub->settled_seq, memory_order_acquire);
    return len <= FIRST_MAX && unsettled < pub->window.limit_msgs &&
           !amb_batches_are_full(pub->conn);
}

enum amb_status amb_pub_send(struct amb_pub *pub, const void *data, size_t len, int64_t timeout_ns)
{
    if (pub == NULL || (data == NULL && len != 0) || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    struct amb_conn *conn = pub->conn;
    if (__builtin_expect(amb_conn_has_trouble(conn, AMB_TROUBLE_PUB), 0)) {
        return amb_conn_trouble(conn, AMB_TROUBLE_PUB);
    }
    if (__builtin_expect(len > conn->session.max_message, 0)) {
        return amb_put_too_large(conn, len);
    }
    amb_spinlock_lock(&pub->lock);
    struct amb_batch *batch = pub->open;
    if (__builtin_expect(takes_at_once(pub, batch, len), 1)) {
        amb_batch_add(batch, data, len);
        uint64_t seq = atomic_load_explicit(&pub->posted, memory_order_relaxed) + 1;
        atomic_store_explicit(&pub->posted, seq, memory_order_release);
        amb_put_added(pub, batch, batch->count == pub->batch_msgs);
        amb_spinlock_unlock(&pub->lock);
        return AMB_OK;
    }
    amb_spinlock_unlock(&pub->lock);
    struct amb_mem_place place;
    if (__builtin_expect(amb_staged_is_wanted(pub, data, len, &place), 0)) {
        return amb_staged_post(pub, AMB_OUT(.data = data, .len = len), &place, true, timeout_ns,
                               NULL);
    }
    const struct amb_put put = {.data = data, .len = len, .mem = place.mem};
    return amb_put_any(pub, &put, timeout_ns, NULL);
}

/* is_lent: the payload stays as it is until the message is settled. */
static enum amb_status publish_out(struct amb_pub *pub, const struct amb_out *message, bool is_lent,
                                   int64_t timeout_ns, uint64_t *seq)
{
    if (pub == NULL || message == NULL || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    struct amb_conn *conn = pub->conn;
    enum amb_status status = amb_conn_trouble(conn, AMB_TROUBLE_PUB);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_out out;
    status = amb_put_read(conn, message, &out);
    if (status != AMB_OK) {
        return status;
    }
    if (out.forward != NULL && amb_msg_device(out.forward) >= 0 &&
        amb_msg_bytes(out.forward) == NULL) {
        out.data = amb_msg_data_on(out.forward, NULL);
        out.len = amb_msg_size(out.forward);
        out.mem = out.len != 0 ? amb_msg_mem(out.forward) : AMB_MEM_DEFAULT;
        out.forward = NULL;
    }
    bool is_staged = false;
    struct amb_mem_place place;
    status = amb_staged_check(pub, &out, &is_staged, &place);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_put put = {0};
    status = amb_put_payload(&out, &put);
    if (status != AMB_OK) {
        return amb_conn_fail(conn, status, "amb_out.iov: a piece is missing or too large");
    }
    if (put.len > conn->session.max_message) {
        return amb_put_too_large(conn, put.len);
    }
    put.is_lent = is_lent;
    put.is_copied = !is_lent && timeout_ns == AMB_NOWAIT;
    put.expect = out.expect_seq;
    put.mem = amb_put_mem(&out, &place);
    if (is_staged && put.expect != 0) {
        return amb_conn_fail(conn, AMB_ENOTSUP,
                             "amb_out.expect_seq is not for GPU memory in this release");
    }
    if (is_staged) {
        return amb_staged_post(pub, &out, &place, !is_lent, timeout_ns, seq);
    }
    uint8_t blob[AMB_PROPS_MAX];
    status = amb_put_props(conn, &out, blob, &put);
    return status != AMB_OK ? status : amb_put_any(pub, &put, timeout_ns, seq);
}

enum amb_status amb_pub_post(struct amb_pub *pub, const struct amb_out *message, int64_t timeout_ns,
                             uint64_t *seq)
{
    return publish_out(pub, message, true, timeout_ns, seq);
}

enum amb_status amb_pub_copy(struct amb_pub *pub, const struct amb_out *message, int64_t timeout_ns,
                             uint64_t *seq)
{
    return publish_out(pub, message, false, timeout_ns, seq);
}

enum amb_status amb_publish(struct amb_conn *conn, const char *topic, const void *data, size_t len,
                            int64_t timeout_ns)
{
    if (conn == NULL || topic == NULL || (data == NULL && len != 0) || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    enum amb_status status =
        amb_conn_trouble(conn, AMB_TROUBLE_FORKED | AMB_TROUBLE_DOWN | AMB_TROUBLE_CLOSING);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_implicit_entry *entry;
    status = amb_implicit_take(conn, topic, NULL, &entry);
    if (status != AMB_OK) {
        return status;
    }
    status = amb_pub_send(amb_implicit_pub(entry), data, len, timeout_ns);
    amb_implicit_give(conn, entry);
    return status;
}
