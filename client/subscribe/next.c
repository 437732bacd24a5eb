/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_next, amb_next_many: the program takes messages.
 */
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "client/message/landing.h"
#include "client/message/sub.h"
#include "client/message/sub_end.h"
#include "client/subscribe/bring.h"

static bool has_ready(void *arg)
{
    struct amb_sub *sub = arg;
    return amb_sub_has_ready(sub) || atomic_load_explicit(&sub->life.is_shut, memory_order_relaxed);
}

/* Waits for a message and takes what is there, unless another thread does. */
static enum amb_status wait_next(struct amb_sub *sub, int64_t timeout_ns, struct amb_msg **out,
                                 size_t max, size_t *count)
{
    struct amb_conn *conn = sub->conn;
    struct amb_wait wait = {.is_ready = has_ready,
                            .arg = sub,
                            .timeout_ns = timeout_ns,
                            .flags = AMB_WAIT_STOPPABLE | AMB_WAIT_ASKS};
    int64_t deadline = INT64_MAX;
    if (timeout_ns != AMB_FOREVER && timeout_ns != AMB_NOWAIT) {
        deadline = amb_deadline_ns(amb_clock_monotonic_ns(), timeout_ns);
    }
    for (;;) {
        int64_t whole = wait.timeout_ns;
        wait.timeout_ns = amb_landing_patience(sub, whole);
        bool is_cut = wait.timeout_ns != whole;
        amb_conn_lock(conn);
        enum amb_status status = amb_conn_wait(conn, &wait);
        amb_conn_unlock(conn);
        wait.timeout_ns = whole;
        if (status == AMB_ECANCELED) {
            return status; /* Messages stay where they are. */
        }
        /* Messages that had arrived when the session was lost are still given. */
        *count = amb_sub_take(sub, out, max);
        if (*count != 0) {
            return AMB_OK;
        }
        if (status == AMB_ETIMEDOUT && is_cut) {
            status = AMB_OK; /* Memory was asked for again, no more. */
        }
        if (status == AMB_EAGAIN || status == AMB_ETIMEDOUT) {
            return timeout_ns == AMB_NOWAIT ? AMB_EAGAIN : AMB_ETIMEDOUT;
        }
        if (atomic_load_explicit(&sub->life.is_shut, memory_order_relaxed)) {
            return AMB_ECLOSED;
        }
        if (status != AMB_OK) {
            enum amb_status trouble = amb_conn_trouble(
                conn, AMB_TROUBLE_STOPPED | AMB_TROUBLE_DOWN | AMB_TROUBLE_CLOSING);
            return trouble != AMB_OK ? trouble : status;
        }
        if (deadline != INT64_MAX) {
            int64_t left = deadline - amb_clock_monotonic_ns();
            wait.timeout_ns = left > 0 ? left : AMB_NOWAIT;
        }
    }
}

static enum amb_status next(struct amb_sub *sub, int64_t timeout_ns, struct amb_msg **out,
                            size_t max, size_t *count)
{
    struct amb_conn *conn = sub->conn;
    if (__builtin_expect(amb_conn_has_trouble(conn, AMB_TROUBLE_FORKED | AMB_TROUBLE_STOPPED), 0)) {
        return amb_conn_trouble(conn, AMB_TROUBLE_FORKED | AMB_TROUBLE_STOPPED);
    }
    if (sub->callback.on_message != NULL) {
        return amb_conn_fail(conn, AMB_EINVAL, "on_message is set: messages come in amb_poll");
    }
    /* To bring payloads elsewhere may take a driver seconds: a close waits for that. */
    bool is_quick = sub->landing == NULL;
    *count = is_quick ? amb_sub_take(sub, out, max) : 0;
    if (*count != 0) {
        return AMB_OK;
    }
    amb_conn_enter(conn);
    atomic_fetch_add_explicit(&sub->refs, 1, memory_order_relaxed);
    *count = is_quick ? 0 : amb_sub_take(sub, out, max);
    enum amb_status status = *count != 0 ? AMB_OK : wait_next(sub, timeout_ns, out, max, count);
    amb_sub_unref(sub); /* The last one if it was closed while we waited. */
    return amb_conn_leave(conn, status);
}

enum amb_status amb_next(struct amb_sub *sub, int64_t timeout_ns, struct amb_msg **out)
{
    if (out == NULL) {
        return AMB_EINVAL;
    }
    *out = NULL;
    if (sub == NULL || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    size_t count;
    return next(sub, timeout_ns, out, 1, &count);
}

enum amb_status amb_next_many(struct amb_sub *sub, int64_t timeout_ns, struct amb_msg **out,
                              size_t max, size_t *count)
{
    if (sub == NULL || out == NULL || count == NULL || max == 0) {
        return AMB_EINVAL;
    }
    out[0] = NULL;
    if (timeout_ns < 0) {
        return AMB_EINVAL;
    }
    size_t taken = 0;
    enum amb_status status = next(sub, timeout_ns, out, max, &taken);
    if (status == AMB_OK) {
        *count = taken;
    }
    return status;
}
