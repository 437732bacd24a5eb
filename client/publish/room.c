/* SPDX-License-Identifier: Apache-2.0 */
#include "client/publish/room.h"

#include "client/batch/batches.h"
#include "client/conn/error.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "client/memory/slots.h"
#include "client/publish/commit.h"
#include "client/publish/publish_large.h"
#include "client/publish/room_event.h"
#include "client/publish/small.h"

struct room_wait {
    struct amb_pub *pub;
    uint64_t slot_len; /* a slot for so many bytes would do as well; 0: no slot */
    uint64_t large;  /* as a batch of its own it will take so much memory; 0: it goes with others */
    bool has_memory; /* it has what it needs */
};

static bool has_room(void *arg)
{
    const struct room_wait *room = arg;
    const struct amb_pub *pub = room->pub;
    bool is_full = amb_batches_are_full(pub->conn);
    /* A slot needs no copy, but some memory for its commit. */
    if (room->slot_len != 0 && !is_full &&
        amb_slots_look(pub->conn, amb_pub_slot(pub, room->slot_len)) == AMB_ROOM_FREE) {
        return true;
    }
    if (!room->has_memory &&
        (room->large != 0 ? !amb_batches_have_room(pub->conn, room->large) : is_full)) {
        return false;
    }
    uint64_t unsettled =
        atomic_load_explicit(&pub->posted, memory_order_relaxed) - pub->settle.settled_seq;
    uint64_t inflight = pub->window.sent - pub->settle.settled_bytes;
    return !pub->away.is_on && pub->window.granted >= pub->window.wanted &&
           unsettled < pub->window.limit_msgs &&
           (inflight == 0 || inflight + pub->window.need <= pub->window.limit_bytes) &&
           !atomic_load_explicit(&pub->must_leave, memory_order_relaxed);
}

bool amb_room_is_there(struct amb_pub *pub, uint64_t slot_len, uint64_t large)
{
    struct room_wait room = {.pub = pub, .slot_len = slot_len, .large = large};
    return has_room(&room);
}

/* Until it is worth trying again. */
static enum amb_status wait_room(struct room_wait *room, int64_t deadline_ns)
{
    struct amb_pub *pub = room->pub;
    struct amb_conn *conn = pub->conn;
    int64_t left = AMB_FOREVER;
    if (deadline_ns != INT64_MAX) {
        left = deadline_ns - amb_clock_monotonic_ns();
        if (left <= 0) {
            return AMB_ETIMEDOUT;
        }
    }
    struct amb_wait wait = {.is_ready = has_room,
                            .arg = room,
                            .timeout_ns = left,
                            .flags = AMB_WAIT_FLOW | AMB_WAIT_ASKS,
                            .is_over = &pub->is_closing};
    amb_conn_lock(conn);
    /* Messages of the open batch count against limit_msgs, and must go first. Under the lock: a
     * thread that sends it meanwhile takes this back, and no thread would later. */
    amb_pub_push_open(pub);
    enum amb_status status = amb_conn_wait(conn, &wait);
    amb_conn_unlock(conn);
    return status;
}

static bool goes_small(const struct amb_pub *pub, const struct amb_put *put)
{
    uint64_t whole =
        amb_payload_padded(put->len) + amb_props_padded(put->blob_len) + sizeof(struct amb_record);
    return whole <= pub->conn->session.batch_bytes && put->expect == 0 && !put->is_device;
}

/* The best way that has room. */
static enum amb_status put_once(struct amb_pub *pub, const struct amb_put *put, uint64_t slot_len,
                                bool may_wait, struct amb_batch **large, uint64_t *seq)
{
    if (slot_len != 0) {
        enum amb_status status = amb_put_slot(pub, put, may_wait, seq);
        if (status != AMB_EAGAIN) {
            return status;
        }
    }
    return goes_small(pub, put) ? amb_put_small(pub, put, seq)
                                : amb_put_large(pub, put, large, seq);
}

/* The room that it waits for. */
static struct room_wait room_of(struct amb_pub *pub, const struct amb_put *put, uint64_t slot_len,
                                const struct amb_batch *large)
{
    struct room_wait room = {.pub = pub, .slot_len = slot_len, .has_memory = large != NULL};
    if (!goes_small(pub, put)) {
        room.large = amb_large_memory(pub, put);
    }
    return room;
}

static enum amb_status put_or_wait(struct amb_pub *pub, const struct amb_put *put,
                                   int64_t timeout_ns, uint64_t *seq)
{
    struct amb_conn *conn = pub->conn;
    bool may_lease = put->len >= AMB_PLAIN_LEASE_MIN && conn->leases.bytes_max != 0 &&
                     !pub->avoids_slots && put->expect == 0 && !put->is_device;
    uint64_t slot_len = may_lease ? put->len : 0;
    struct amb_batch *large = NULL;
    enum amb_status status;
    int64_t deadline = 0;
    for (;;) {
        status = put_once(pub, put, slot_len, timeout_ns > 0, &large, seq);
        if (status != AMB_EAGAIN || timeout_ns <= 0) {
            break;
        }
        if (deadline == 0) {
            deadline = timeout_ns == AMB_FOREVER
                           ? INT64_MAX
                           : amb_deadline_ns(amb_clock_monotonic_ns(), timeout_ns);
        }
        struct room_wait room = room_of(pub, put, slot_len, large);
        status = wait_room(&room, deadline);
        if (status != AMB_OK) {
            break;
        }
    }
    if (large != NULL) {
        amb_large_drop(pub, large);
    }
    if (status == AMB_EAGAIN) {
        amb_room_await_put(pub, slot_len, room_of(pub, put, slot_len, NULL).large);
    }
    if (status != AMB_OK && amb_status_scope_of(status) == AMB_SCOPE_SESSION) {
        enum amb_status trouble = amb_conn_trouble(conn, AMB_TROUBLE_DOWN | AMB_TROUBLE_CLOSING);
        return trouble != AMB_OK ? trouble : status;
    }
    return status;
}

enum amb_status amb_put_any(struct amb_pub *pub, const struct amb_put *put, int64_t timeout_ns,
                            uint64_t *seq)
{
    amb_pub_enter(pub);
    return amb_pub_leave(pub, put_or_wait(pub, put, timeout_ns, seq));
}
