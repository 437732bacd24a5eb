/* SPDX-License-Identifier: Apache-2.0 */
#include "client/publish/lease_room.h"

#include "client/batch/batches.h"
#include "client/batch/pub.h"
#include "client/conn/conn.h"
#include "client/drive/drive.h"
#include "client/memory/gpu.h"
#include "client/memory/slots_life.h"
#include "client/publish/lease.h"

/* Readers that hold all slots for so long are slow, or keep what they read. Then there is a second
 * segment, then private memory, whose bytes go through the window. */
#define SLOW_NS (100 * AMB_NS_PER_MS)
/* Readers that do not give one of half of the slots back for so long are slow. */
#define AHEAD_NS AMB_NS_PER_MS

static struct amb_slot_wish slot_of(const struct amb_lease_room *room)
{
    return amb_pub_slot(room->pub, room->len);
}

static bool room_has_changed(void *arg)
{
    const struct amb_lease_room *wait = arg;
    return amb_slots_look(wait->pub->conn, slot_of(wait)) != wait->seen;
}

static bool is_back(void *arg)
{
    const struct amb_lease_room *wait = arg;
    return !amb_slots_are_away(wait->pub->conn, slot_of(wait));
}

static bool gpu_room_has_changed(void *arg)
{
    const struct amb_lease_room *wait = arg;
    return amb_slots_look_gpu(wait->pub->conn, wait->gpu, wait->len) != wait->seen;
}

static bool pinned_room_has_changed(void *arg)
{
    const struct amb_lease_room *wait = arg;
    struct amb_conn *conn = wait->pub->conn;
    return conn->leases.unpins != wait->seen_unpins ||
           amb_slots_look_pinned(conn, wait->gpu, wait->is_private, slot_of(wait)) != wait->seen;
}

/* While the library reconnects, or the broker has not said yet which slots the publisher has; over
 * for good is what the wait itself sees. */
static bool is_up(void *arg)
{
    const struct amb_lease_room *wait = arg;
    return wait->pub->conn->session.down == AMB_OK && wait->pub->lease.group != AMB_GROUP_UNKNOWN;
}

/* Nothing is mapped meanwhile, but memory of our own can be leased. */
static bool is_up_or_has_own(void *arg)
{
    const struct amb_lease_room *wait = arg;
    return is_up(arg) ||
           amb_slots_look_pinned(wait->pub->conn, wait->gpu, true, slot_of(wait)) == AMB_ROOM_FREE;
}

static bool has_private_room(void *arg)
{
    const struct amb_lease_room *wait = arg;
    uint64_t used = wait->pub->conn->leases.buffers.used;
    return used == 0 || used + wait->len <= wait->pub->window.limit_bytes;
}

/* Waits until is_ready, at most max_ns and until the deadline; lock held. ETIMEDOUT also where the
 * caller may not wait at all. */
static enum amb_status wait_for(struct amb_lease_room *room, bool (*is_ready)(void *arg),
                                int64_t max_ns)
{
    int64_t left = max_ns;
    room->awaited = is_ready;
    if (room->deadline_ns != INT64_MAX) {
        int64_t until = room->deadline_ns - amb_clock_monotonic_ns();
        until = until > 0 ? until : 0;
        left = until < left ? until : left;
    }
    struct amb_wait wait = {.is_ready = is_ready,
                            .arg = room,
                            .timeout_ns = left,
                            .flags = AMB_WAIT_FLOW | AMB_WAIT_ASKS,
                            .is_over = &room->pub->is_closing};
    struct amb_leases *leases = &room->pub->conn->leases;
    leases->waits++;
    enum amb_status status = amb_conn_wait(room->pub->conn, &wait);
    leases->waits--;
    return status == AMB_EAGAIN ? AMB_ETIMEDOUT : status;
}

static bool is_past(const struct amb_lease_room *room)
{
    return room->deadline_ns != INT64_MAX && amb_clock_monotonic_ns() >= room->deadline_ns;
}

static bool has_memory(void *arg)
{
    const struct amb_lease_room *wait = arg;
    return !amb_batches_are_full(wait->pub->conn);
}

static enum amb_status take_private(struct amb_lease_room *room, struct amb_lease *lease)
{
    struct amb_conn *conn = room->pub->conn;
    enum amb_status status = wait_for(room, has_private_room, AMB_FOREVER);
    if (status != AMB_OK) {
        return status;
    }
    lease->room = amb_payload_padded(room->len != 0 ? room->len : 1);
    lease->bytes = amb_buffers_get(&conn->leases.buffers, lease->room);
    return lease->bytes != NULL ? AMB_OK : AMB_ENOMEM;
}

/* The program is ahead of its readers: waits for a slot to come back, although there are more. */
static enum amb_status wait_back(struct amb_lease_room *room)
{
    enum amb_status status = wait_for(room, is_back, AHEAD_NS);
    if (status != AMB_ETIMEDOUT) {
        return status;
    }
    if (!is_past(room)) {
        amb_slots_let_go(room->pub->conn, slot_of(room));
    }
    return AMB_OK;
}

enum amb_status amb_lease_room_take(struct amb_lease_room *room, struct amb_lease *lease)
{
    struct amb_conn *conn = room->pub->conn;
    unsigned grown = 0;
    if (amb_slots_are_away(conn, slot_of(room))) {
        enum amb_status status = wait_back(room);
        if (status != AMB_OK) {
            return status;
        }
    }
    bool may_lease = conn->leases.bytes_max != 0 && !room->pub->avoids_slots;
    while (may_lease && conn->session.down == AMB_OK) {
        if (amb_place_take(conn, slot_of(room), &lease->place)) {
            lease->bytes = amb_place_bytes(&lease->place);
            lease->room = lease->place.slots->slot;
            return AMB_OK;
        }
        room->seen = amb_slots_look(conn, slot_of(room));
        int64_t max_ns = room->seen == AMB_ROOM_IN_USE ? SLOW_NS : AMB_FOREVER;
        if (room->seen == AMB_ROOM_NONE || room->seen == AMB_ROOM_LEASED) {
            if (!amb_slots_open(conn, slot_of(room))) {
                break;
            }
            room->seen = AMB_ROOM_COMING;
        } else if (room->seen == AMB_ROOM_IN_USE && amb_slots_are_few(conn, slot_of(room)) &&
                   amb_slots_open(conn, slot_of(room))) {
            room->seen = AMB_ROOM_COMING; /* Or the slot in use comes back, which is sooner. */
            max_ns = AMB_FOREVER;
        }
        enum amb_status status = wait_for(room, room_has_changed, max_ns);
        if (status == AMB_ETIMEDOUT && !is_past(room)) {
            if (grown++ != 0 || !amb_slots_open(conn, slot_of(room))) {
                break;
            }
        } else if (status != AMB_OK) {
            return status;
        }
    }
    return amb_conn_has_trouble(conn, AMB_TROUBLE_DOWN) ? conn->session.down
                                                        : take_private(room, lease);
}

enum amb_status amb_lease_room_take_gpu(struct amb_lease_room *room, struct amb_lease *lease)
{
    struct amb_conn *conn = room->pub->conn;
    const struct amb_gpu_room *gpu_room = amb_gpu_room_of(room->gpu);
    unsigned grown = 0;
    while (!amb_conn_has_trouble(conn, AMB_TROUBLE_DOWN)) {
        if (!amb_gpu_is_sound(room->gpu)) {
            return AMB_ECUDA;
        }
        if (conn->session.down != AMB_OK) {
            enum amb_status status = wait_for(room, is_up, AMB_FOREVER);
            if (status != AMB_OK) {
                return status;
            }
            continue;
        }
        if (!room->pub->gpu.has_room) {
            return AMB_ENOTSUP; /* The next broker has none. */
        }
        if (amb_place_take_gpu(conn, room->gpu, room->len, &lease->place)) {
            lease->gpu = room->gpu;
            lease->room = lease->place.slots->slot;
            return AMB_OK;
        }
        room->seen = amb_slots_look_gpu(conn, room->gpu, room->len);
        int64_t max_ns = room->seen == AMB_ROOM_IN_USE && grown == 0 ? SLOW_NS : AMB_FOREVER;
        if (room->seen == AMB_ROOM_NONE || room->seen == AMB_ROOM_LEASED) {
            bool is_coming = amb_slots_open_gpu(conn, room->gpu, room->len);
            if (!is_coming && room->seen == AMB_ROOM_NONE) {
                return gpu_room->refused != AMB_OK ? gpu_room->refused : AMB_ENOTSUP;
            }
            room->seen = is_coming ? AMB_ROOM_COMING : room->seen;
        }
        enum amb_status status = wait_for(room, gpu_room_has_changed, max_ns);
        if (status == AMB_ETIMEDOUT && !is_past(room)) {
            grown++;
            (void)amb_slots_open_gpu(conn, room->gpu, room->len);
        } else if (status != AMB_OK) {
            return status;
        }
    }
    return conn->session.down;
}

/* More of that kind. False: there is none to come. */
static bool open_pinned(const struct amb_lease_room *room)
{
    uint64_t private_max = room->is_private ? room->pub->window.limit_bytes : 0;
    return amb_slots_open_pinned(room->pub->conn, room->gpu, slot_of(room), private_max);
}

static bool take_pinned(const struct amb_lease_room *room, bool is_private, struct amb_lease *lease)
{
    if (!amb_place_take_pinned(room->pub->conn, room->gpu, is_private, slot_of(room),
                               &lease->place)) {
        return false;
    }
    lease->pin = room->gpu;
    lease->bytes = amb_place_bytes(&lease->place);
    lease->room = lease->place.slots->slot;
    return true;
}

enum amb_status amb_lease_room_take_pinned(struct amb_lease_room *room, struct amb_lease *lease)
{
    struct amb_conn *conn = room->pub->conn;
    enum amb_status status;
    while (!amb_conn_has_trouble(conn, AMB_TROUBLE_DOWN)) {
        room->is_private = room->is_private || conn->leases.bytes_max == 0;
        if (!amb_gpu_is_sound(room->gpu)) {
            return AMB_ECUDA;
        }
        if (take_pinned(room, room->is_private || !is_up(room), lease)) {
            return AMB_OK;
        }
        if (!is_up(room)) {
            status = wait_for(room, is_up_or_has_own, AMB_FOREVER);
            if (status != AMB_OK) {
                return status;
            }
            continue;
        }
        room->seen_unpins = conn->leases.unpins;
        room->seen = amb_slots_look_pinned(conn, room->gpu, room->is_private, slot_of(room));
        if (room->seen == AMB_ROOM_NONE || room->seen == AMB_ROOM_LEASED) {
            bool is_coming = open_pinned(room);
            if (!is_coming && !room->is_private) {
                room->is_private = true;
                continue;
            }
            status = is_coming ? AMB_OK : amb_slots_why_unpinned(conn);
            if (status != AMB_OK) {
                return status;
            }
            room->seen = is_coming ? AMB_ROOM_COMING : room->seen;
        }
        /* A slot of another size that comes back makes room as well: looks again now and then. */
        status = wait_for(room, pinned_room_has_changed,
                          room->seen == AMB_ROOM_COMING ? AMB_FOREVER : SLOW_NS);
        if (status == AMB_ETIMEDOUT && !is_past(room)) {
            /* Readers are slow, or keep what they read; or others have all there may be. */
            room->is_private = true;
        } else if (status != AMB_OK) {
            return status;
        }
    }
    return conn->session.down;
}

enum amb_status amb_lease_room_await_memory(struct amb_lease_room *room)
{
    return has_memory(room) ? AMB_OK : wait_for(room, has_memory, AMB_FOREVER);
}
