/* SPDX-License-Identifier: Apache-2.0 */
#include "client/message/fetch_range.h"

#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "client/memory/gpu.h"
#include "client/message/arrival.h"
#include "client/message/fetch_private.h"

#include <string.h>

/* The broker's copy of GPU memory is on its way: asked again after so long. */
#define AGAIN_NS (AMB_NS_PER_MS / 2)
/* Without a deadline so often where the broker has no memory for that copy: a second. */
#define STARVED_MAX 2000u

/* Is that session over? One that is there may lack other subscriptions yet. */
static bool is_over(const struct amb_conn *conn, uint32_t life)
{
    return life != conn->session.life || amb_conn_is_cut(conn);
}

enum amb_status amb_fetch_standing(const struct amb_arrival *arrival)
{
    struct amb_conn *conn = arrival->conn;
    enum amb_status status = amb_conn_trouble(conn, AMB_TROUBLE_CLOSING | AMB_TROUBLE_DOWN);
    if (status != AMB_OK) {
        return status;
    }
    return is_over(conn, arrival->life) ? AMB_ESTALE : AMB_OK;
}

bool amb_fetch_is_answered(void *arg)
{
    const struct amb_fetch *fetch = arg;
    return fetch->state == AMB_FETCH_DONE || is_over(fetch->conn, fetch->life);
}

enum amb_status amb_fetch_outcome(const struct amb_fetch *fetch, const struct amb_arrival *arrival)
{
    if (fetch->state == AMB_FETCH_DONE) {
        return fetch->status;
    }
    enum amb_status status = amb_fetch_standing(arrival);
    return status != AMB_OK ? status : AMB_ESTALE;
}

/* Or none will come. */
static bool has_room(void *arg)
{
    const struct amb_arrival *arrival = arg;
    return amb_fetch_count(arrival->conn) < AMB_FETCHES_MAX ||
           is_over(arrival->conn, arrival->life);
}

static bool is_never(void *arg)
{
    (void)arg;
    return false;
}

enum amb_status amb_fetch_range_wait(struct amb_fetch_range *range, bool (*is_ready)(void *arg),
                                     void *arg, int64_t most_ns)
{
    const struct amb_arrival *arrival = amb_msg_arrival(range->msg);
    struct amb_wait wait = {
        .is_ready = is_ready, .arg = arg, .timeout_ns = AMB_FOREVER, .flags = AMB_WAIT_ASKS};
    if (range->deadline_ns != INT64_MAX) {
        int64_t left_ns = range->deadline_ns - amb_clock_monotonic_ns();
        if (left_ns <= 0) {
            return is_ready(arg) ? AMB_OK : AMB_ETIMEDOUT;
        }
        wait.timeout_ns = left_ns;
    }
    bool is_cut = wait.timeout_ns > most_ns;
    wait.timeout_ns = is_cut ? most_ns : wait.timeout_ns;
    enum amb_status status = amb_conn_wait(arrival->conn, &wait);
    if (status == AMB_ETIMEDOUT && is_cut) {
        return AMB_OK;
    }
    if (status != AMB_OK && status != AMB_ETIMEDOUT) {
        enum amb_status why = amb_fetch_standing(arrival);
        return why != AMB_OK ? why : status;
    }
    return status;
}

/* Asks ahead. Lock held, given up only if nothing of it is out yet. */
static enum amb_status ask_ahead(struct amb_fetch_range *range)
{
    struct amb_conn *conn = amb_msg_arrival(range->msg)->conn;
    while (range->count < AMB_FETCH_AHEAD && range->asked < range->len) {
        enum amb_status status = amb_fetch_standing(amb_msg_arrival(range->msg));
        if (status != AMB_OK) {
            return status;
        }
        uint64_t left = range->len - range->asked;
        uint64_t len = left < AMB_FETCH_MAX ? left : AMB_FETCH_MAX;
        unsigned at = (range->first + range->count) % AMB_FETCH_AHEAD;
        status = amb_fetch_ask(range->msg, range->offset + range->asked, len, &range->out[at]);
        if (status == AMB_OK) {
            range->asked += len;
            range->count++;
        } else if (range->count != 0) {
            break; /* Pieces that are out are waited for first. */
        } else if (status == AMB_EAGAIN) {
            status = amb_fetch_range_wait(range, has_room, amb_msg_arrival(range->msg), INT64_MAX);
            if (status != AMB_OK) {
                return status;
            }
        } else {
            return status == AMB_ENOMEM ? status : AMB_ESTALE;
        }
    }
    if (conn->link != NULL && conn->link_state.must_flush) {
        amb_conn_flush_link(conn);
    }
    return AMB_OK;
}

/* The bytes of the oldest piece, to where they are wanted. Lock held, given up meanwhile. */
static enum amb_status carry(struct amb_fetch_range *range, const struct amb_fetch *fetch)
{
    struct amb_conn *conn = fetch->conn;
    uint8_t *to = range->to + range->done;
    enum amb_status status = AMB_OK;
    amb_conn_unlock(conn);
    if (range->gpu != NULL) {
        status = amb_gpu_store(range->gpu, (uintptr_t)to, fetch->buffer, fetch->len);
    } else {
        memcpy(to, fetch->buffer, fetch->len);
    }
    amb_conn_lock(conn);
    range->done += fetch->len;
    return status;
}

/* Takes the oldest piece that is out; on EAGAIN all is asked for again from there on. */
static enum amb_status take_piece(struct amb_fetch_range *range)
{
    struct amb_fetch *fetch = range->out[range->first];
    enum amb_status status = amb_fetch_range_wait(range, amb_fetch_is_answered, fetch, INT64_MAX);
    if (status != AMB_OK) {
        return status;
    }
    status = amb_fetch_outcome(fetch, amb_msg_arrival(range->msg));
    if (status == AMB_OK) {
        status = carry(range, fetch);
    } else if (status == AMB_ENOMEM &&
               (range->deadline_ns != INT64_MAX || range->starved++ < STARVED_MAX)) {
        status = AMB_EAGAIN;
    }
    range->first = (range->first + 1) % AMB_FETCH_AHEAD;
    range->count--;
    amb_fetch_leave(fetch);
    return status;
}

static void leave_all(struct amb_fetch_range *range)
{
    for (; range->count != 0; range->count--) {
        amb_fetch_leave(range->out[range->first]);
        range->first = (range->first + 1) % AMB_FETCH_AHEAD;
    }
}

enum amb_status amb_fetch_range_bring(struct amb_fetch_range *range)
{
    enum amb_status status = AMB_OK;
    while (status == AMB_OK && range->done < range->len) {
        status = ask_ahead(range);
        if (status == AMB_OK) {
            status = take_piece(range);
        }
        if (status == AMB_EAGAIN) {
            leave_all(range);
            range->asked = range->done;
            status = amb_fetch_range_wait(range, is_never, NULL, AGAIN_NS);
        }
    }
    leave_all(range);
    return status;
}
