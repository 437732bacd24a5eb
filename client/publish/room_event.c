/* SPDX-License-Identifier: Apache-2.0 */
#include "client/publish/room_event.h"

#include "client/batch/pub.h"
#include "client/conn/conn.h"
#include "client/drive/arm.h"
#include "client/drive/lock.h"
#include "client/drive/notify.h"
#include "client/drive/wake.h"
#include "client/publish/lease_room.h"
#include "client/publish/room.h"

static struct amb_pub *pub_of(struct amb_list_node *node)
{
    return AMB_CONTAINER_OF(node, struct amb_pub, wish.node);
}

static void leave(struct amb_conn *conn, struct amb_room_wish *wish)
{
    amb_list_remove(&wish->node);
    conn->driver.flow_waits -= wish->is_awaited;
    wish->is_awaited = false;
}

static void want_nothing(struct amb_room_wish *wish)
{
    wish->wants_put = wish->wants_lease = wish->is_mixed = false;
}

static void make_ready(struct amb_conn *conn, struct amb_pub *pub)
{
    leave(conn, &pub->wish);
    want_nothing(&pub->wish);
    if (pub->wish.is_of_library) {
        conn->notify.is_room_ready = true;
    } else {
        amb_list_push_back(&conn->notify.rooms_ready, &pub->wish.node);
    }
    amb_notify_callback(conn);
}

static bool lease_is_ready(struct amb_pub *pub)
{
    const struct amb_room_wish *wish = &pub->wish;
    struct amb_lease_room room = {.pub = pub,
                                  .gpu = wish->gpu,
                                  .is_private = wish->is_private,
                                  .len = wish->lease_len,
                                  .seen = (enum amb_slots_room)wish->seen,
                                  .seen_unpins = wish->seen_unpins};
    return wish->is_lease_ready(&room);
}

/* Would a call answer anything but EAGAIN? It does, too, where it fails. */
static bool is_ready(struct amb_pub *pub)
{
    const struct amb_room_wish *wish = &pub->wish;
    return amb_conn_has_trouble(pub->conn, AMB_TROUBLE_DOWN) || pub->away.refused != AMB_OK ||
           (wish->wants_put && amb_room_is_there(pub, wish->slot_len, wish->large)) ||
           (wish->wants_lease && lease_is_ready(pub));
}

/* Threads that sleep on the link must be woken by flow values, too. */
static void wake_sleepers(struct amb_conn *conn)
{
    enum amb_io_mode mode =
        (enum amb_io_mode)atomic_load_explicit(&conn->io.mode, memory_order_relaxed);
    if (conn->driver.is_asleep && !conn->driver.wants_flow) {
        amb_conn_wake_driver(conn);
    } else if (mode == AMB_IO_WATCH) {
        amb_io_kick(conn);
    }
    amb_conn_arm_for_user(conn);
}

static void await(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    struct amb_room_wish *wish = &pub->wish;
    bool is_new = amb_list_is_empty(&wish->node);
    if (is_new) {
        amb_list_push_back(&conn->notify.rooms_awaited, &wish->node);
        wish->is_awaited = true;
        conn->driver.flow_waits++;
    }
    if (wish->is_awaited && is_ready(pub)) {
        make_ready(conn, pub); /* It came since the call looked. */
    } else if (is_new) {
        wake_sleepers(conn);
    }
}

void amb_room_await_put(struct amb_pub *pub, uint64_t slot_len, uint64_t large)
{
    struct amb_conn *conn = pub->conn;
    if (conn->events.on_event == NULL) {
        return;
    }
    amb_conn_lock(conn);
    amb_pub_push_open(pub); /* It goes first, as for a call that waits. */
    struct amb_room_wish *wish = &pub->wish;
    /* Several have no room: the least of them counts. */
    wish->large = wish->wants_put && wish->large < large ? wish->large : large;
    wish->slot_len = wish->wants_put && slot_len == 0 ? wish->slot_len : slot_len;
    wish->wants_put = true;
    await(pub);
    amb_conn_unlock(conn);
}

void amb_room_await_lease(const struct amb_lease_room *room)
{
    struct amb_pub *pub = room->pub;
    struct amb_room_wish *wish = &pub->wish;
    if (pub->conn->events.on_event == NULL) {
        return;
    }
    wish->is_mixed =
        wish->wants_lease &&
        (wish->is_mixed || wish->is_lease_ready != room->awaited || wish->gpu != room->gpu ||
         wish->is_private != room->is_private || wish->lease_len != room->len);
    wish->wants_lease = true;
    wish->is_lease_ready = room->awaited;
    wish->gpu = room->gpu;
    wish->is_private = room->is_private;
    wish->lease_len = room->len;
    wish->seen = room->seen;
    wish->seen_unpins = room->seen_unpins;
    await(pub);
}

void amb_rooms_look(struct amb_conn *conn)
{
    AMB_LIST_FOR_EACH_SAFE (node, &conn->notify.rooms_awaited) {
        if (pub_of(node)->wish.is_mixed || is_ready(pub_of(node))) {
            make_ready(conn, pub_of(node));
        }
    }
}

bool amb_room_is_ready(const struct amb_conn *conn)
{
    return conn->notify.is_room_ready || !amb_list_is_empty(&conn->notify.rooms_ready);
}

bool amb_room_take(struct amb_conn *conn, struct amb_event *out)
{
    bool is_of_library = conn->notify.is_room_ready;
    if (!amb_room_is_ready(conn)) {
        return false;
    }
    struct amb_pub *pub = is_of_library ? NULL : pub_of(conn->notify.rooms_ready.next);
    if (!amb_event_begin(conn, pub)) {
        return false;
    }
    *out = (struct amb_event){.size = sizeof(*out),
                              .type = AMB_EVENT_ROOM,
                              .time_ns = amb_clock_realtime_ns(),
                              .text = "a message or a lease may find room now"};
    if (is_of_library) {
        conn->notify.is_room_ready = false;
        return true;
    }
    leave(conn, &pub->wish);
    want_nothing(&pub->wish);
    out->pub = pub;
    return true;
}

void amb_room_forget(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    if (pub->wish.is_awaited && pub->wish.is_of_library) {
        make_ready(conn, pub); /* The next call opens another one. */
    }
    leave(conn, &pub->wish);
}
