/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_sub_stat: how it stands with a subscription.
 */
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/drive/lock.h"
#include "client/message/arrival.h"
#include "client/message/landing.h"
#include "client/message/sub.h"

#include <string.h>

/* Sums up what is out: one look at each delivery. Both locks held. */
static void count_outstanding(const struct amb_sub *sub, struct amb_sub_info *info)
{
    AMB_LIST_FOR_EACH (node, &sub->conn->receive.outstanding) {
        const struct amb_arrival *d = AMB_CONTAINER_OF(node, struct amb_arrival, known);
        if (d->sub != sub) {
            continue;
        }
        uint32_t refs = atomic_load_explicit(&d->refs, memory_order_relaxed);
        uint32_t pending = d->count - d->taken;
        info->pending_msgs += pending;
        info->pending_bytes += pending != 0 ? d->body_len : 0;
        if (refs > pending) {
            info->held_msgs += refs - pending;
            info->held_bytes += d->body_len;
        }
    }
}

enum amb_status amb_sub_stat(const struct amb_sub *sub, struct amb_sub_info *info)
{
    if (sub == NULL || info == NULL || info->size < sizeof(info->size)) {
        return AMB_EINVAL;
    }
    struct amb_conn *conn = sub->conn;
    enum amb_status status = amb_conn_trouble(conn, AMB_TROUBLE_FORKED);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_sub *own = (struct amb_sub *)(uintptr_t)sub;
    struct amb_sub_info full = {0};
    amb_conn_lock(conn);
    amb_spinlock_lock(&own->lock);
    count_outstanding(sub, &full);
    full.delivered = sub->arrivals.delivered;
    full.lost = sub->arrivals.lost;
    full.narrowed = sub->life.is_narrowed;
    full.last_seq = sub->arrivals.last_seq;
    full.staged_bytes = amb_landing_staged(sub);
    full.credit_msgs = sub->credit_msgs;
    full.credit_bytes = sub->credit_bytes;
    amb_spinlock_unlock(&own->lock);
    amb_conn_unlock(conn);
    uint32_t size = info->size < sizeof(full) ? info->size : (uint32_t)sizeof(full);
    full.size = info->size;
    memcpy(info, &full, size);
    return AMB_OK;
}
