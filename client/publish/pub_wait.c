/* SPDX-License-Identifier: Apache-2.0 */
#include "client/publish/pub_wait.h"

#include "client/batch/batches.h"
#include "client/batch/flush.h"
#include "client/batch/pub.h"
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/conn/spinlock.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"

#include <string.h>

struct flush_wait {
    struct amb_pub *pub;
    uint64_t seq;
};

static bool is_flushed(void *arg)
{
    const struct flush_wait *flush = arg;
    return flush->pub->settle.settled_seq >= flush->seq;
}

/* Has the open batch leave as soon as it may. Returns the last message's number, with the
 * connection locked. */
static uint64_t push_open(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    amb_spinlock_lock(&pub->lock);
    amb_conn_lock(conn);
    if (atomic_load_explicit(&pub->is_gathering, memory_order_relaxed) &&
        conn->session.down == AMB_OK) {
        atomic_store_explicit(&pub->must_leave, true, memory_order_relaxed);
        (void)amb_pub_flush_open(pub);
    }
    uint64_t posted = atomic_load_explicit(&pub->posted, memory_order_relaxed);
    amb_spinlock_unlock(&pub->lock);
    return posted;
}

void amb_put_push(struct amb_pub *pub)
{
    (void)push_open(pub);
    amb_conn_unlock(pub->conn);
}

enum amb_status amb_pub_flush(struct amb_pub *pub, uint64_t seq, int64_t timeout_ns)
{
    if (pub == NULL || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    struct amb_conn *conn = pub->conn;
    enum amb_status status = amb_conn_trouble(conn, AMB_TROUBLE_FORKED);
    if (status != AMB_OK) {
        return status;
    }
    amb_pub_enter(pub);
    uint64_t posted = push_open(pub);
    struct flush_wait flush = {.pub = pub, .seq = seq == 0 || seq > posted ? posted : seq};
    struct amb_wait wait = {.is_ready = is_flushed,
                            .arg = &flush,
                            .timeout_ns = timeout_ns,
                            .flags = AMB_WAIT_FLOW | AMB_WAIT_ASKS,
                            .is_over = &pub->is_closing};
    status = amb_conn_wait(conn, &wait);
    bool is_refused = false;
    if (status == AMB_OK) {
        /* A refusal is a frame, which a counter may have overtaken. */
        (void)amb_conn_progress(conn);
        status = pub->settle.failure;
        pub->settle.failure = AMB_OK;
        is_refused = status != AMB_OK;
    }
    amb_conn_unlock(conn);
    if (is_refused && status == AMB_ENOMEM) {
        (void)amb_conn_fail(conn, status,
                            "publishing to '%s': the broker has no memory left for messages "
                            "(memory.host.size)",
                            pub->topic);
    } else if (status != AMB_OK) {
        (void)amb_conn_fail(conn, status, "publishing to '%s': %s", pub->topic,
                            amb_conn_reason(conn, status));
    }
    return amb_pub_leave(pub, status);
}

/* A wait of one call on the publisher. Where there is that trouble it does not begin, and the
 * answer is the status of the trouble; else it is that of amb_conn_wait. */
static enum amb_status wait_for(struct amb_pub *pub, uint32_t trouble, const struct amb_wait *wait)
{
    struct amb_conn *conn = pub->conn;
    enum amb_status status = amb_conn_trouble(conn, trouble);
    if (status != AMB_OK) {
        return status;
    }
    amb_pub_enter(pub);
    amb_conn_lock(conn);
    status = amb_conn_wait(conn, wait);
    amb_conn_unlock(conn);
    return amb_pub_leave(pub, status);
}

struct subscribers_wait {
    struct amb_pub *pub;
    uint32_t count;
};

static bool has_subscribers(void *arg)
{
    const struct subscribers_wait *wait = arg;
    return atomic_load_explicit(&wait->pub->subscribers, memory_order_relaxed) >= wait->count;
}

enum amb_status amb_pub_wait_subscribers(struct amb_pub *pub, uint32_t count, int64_t timeout_ns)
{
    if (pub == NULL || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    struct subscribers_wait what = {.pub = pub, .count = count};
    struct amb_wait wait = {.is_ready = has_subscribers,
                            .arg = &what,
                            .timeout_ns = timeout_ns,
                            .flags = AMB_WAIT_FLOW | AMB_WAIT_ASKS,
                            .is_over = &pub->is_closing};
    return wait_for(pub, AMB_TROUBLE_PUB, &wait);
}

enum amb_status amb_pub_wait_borrowed(struct amb_pub *pub, int64_t timeout_ns)
{
    if (pub == NULL || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    struct amb_wait wait = {.is_ready = amb_pub_has_nothing_borrowed,
                            .arg = pub,
                            .timeout_ns = timeout_ns,
                            .flags = AMB_WAIT_FLOW | AMB_WAIT_ASKS | AMB_WAIT_LOST,
                            .is_over = &pub->is_closing};
    return wait_for(pub, AMB_TROUBLE_FORKED, &wait);
}

enum amb_status amb_pub_stat(const struct amb_pub *pub, struct amb_pub_info *info)
{
    if (pub == NULL || info == NULL || info->size < sizeof(info->size)) {
        return AMB_EINVAL;
    }
    struct amb_conn *conn = pub->conn;
    enum amb_status status = amb_conn_trouble(conn, AMB_TROUBLE_FORKED);
    if (status != AMB_OK) {
        return status;
    }
    amb_conn_lock(conn);
    struct amb_pub_info full = {
        .posted = atomic_load_explicit(&pub->posted, memory_order_relaxed),
        .settled = pub->settle.settled_seq,
        .failed = pub->settle.failed,
        .accepted_seq = pub->settle.settled_seq,
        .inflight_bytes = pub->window.sent - pub->settle.settled_bytes,
        .subscribers = atomic_load_explicit(&pub->subscribers, memory_order_relaxed),
        .leases = pub->lease.count,
        .leased = pub->lease.messages,
        .staged_bytes = atomic_load_explicit(&pub->gpu.staged_bytes, memory_order_relaxed),
    };
    full.inflight_msgs = full.posted - full.settled;
    bool is_blocked =
        pub->window.wanted > pub->window.granted || full.inflight_msgs >= pub->window.limit_msgs;
    full.blocked = conn->session.down != AMB_OK       ? AMB_BLOCKED_LOST
                   : is_blocked && pub->is_over_quota ? AMB_BLOCKED_QUOTA
                   : is_blocked                       ? AMB_BLOCKED_WINDOW
                   : amb_batches_are_full(conn)       ? AMB_BLOCKED_MEMORY
                                                      : AMB_BLOCKED_NOT;
    amb_conn_unlock(conn);
    uint32_t size = info->size < sizeof(full) ? info->size : (uint32_t)sizeof(full);
    full.size = info->size;
    memcpy(info, &full, size);
    return AMB_OK;
}
