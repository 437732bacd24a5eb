/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_lease, amb_lease_data, amb_lease_commit, amb_lease_abandon.
 */
#include "client/publish/lease.h"

#include "client/batch/batches.h"
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/conn/options.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "client/drive/wake.h"
#include "client/memory/gpu.h"
#include "client/memory/gpu_fence.h"
#include "client/memory/slots.h"
#include "client/memory/slots_life.h"
#include "client/publish/commit.h"
#include "client/publish/put.h"

#include <stdlib.h>

/* Readers that hold all slots for so long are slow, or keep what they read: then a second segment,
 * then private memory, whose bytes go through the window. */
#define SLOW_NS (100 * AMB_NS_PER_MS)
/* Readers that do not give one of half of the slots back for so long are slow. */
#define AHEAD_NS AMB_NS_PER_MS

/* ---- room ---- */

struct room_wait {
    struct amb_pub *pub;
    struct amb_gpu *gpu; /* NULL: plain host memory */
    bool is_private;     /* pinned memory of this process alone */
    uint64_t len;
    enum amb_slots_room seen;
    int64_t deadline_ns;
};

static bool room_has_changed(void *arg)
{
    const struct room_wait *wait = arg;
    return amb_slots_look(wait->pub->conn, wait->len) != wait->seen;
}

static bool is_back(void *arg)
{
    const struct room_wait *wait = arg;
    return !amb_slots_are_away(wait->pub->conn, wait->len);
}

static bool gpu_room_has_changed(void *arg)
{
    const struct room_wait *wait = arg;
    return amb_slots_look_gpu(wait->pub->conn, wait->gpu, wait->len) != wait->seen;
}

static bool pinned_room_has_changed(void *arg)
{
    const struct room_wait *wait = arg;
    return amb_slots_look_pinned(wait->pub->conn, wait->gpu, wait->is_private, wait->len) !=
           wait->seen;
}

/* While the library reconnects; over for good is what the wait itself sees. */
static bool is_up(void *arg)
{
    const struct room_wait *wait = arg;
    return wait->pub->conn->session.down == AMB_OK;
}

/* Nothing is mapped meanwhile, but what we have of our own can be leased. */
static bool is_up_or_has_own(void *arg)
{
    const struct room_wait *wait = arg;
    return is_up(arg) ||
           amb_slots_look_pinned(wait->pub->conn, wait->gpu, true, wait->len) == AMB_ROOM_FREE;
}

static bool has_private_room(void *arg)
{
    const struct room_wait *wait = arg;
    uint64_t used = wait->pub->conn->leases.buffers.used;
    return used == 0 || used + wait->len <= wait->pub->window.limit_bytes;
}

/* Waits until is_ready, at most max_ns and until the deadline; lock held. ETIMEDOUT also where the
 * caller may not wait at all. */
static enum amb_status wait_for(struct room_wait *room, bool (*is_ready)(void *arg), int64_t max_ns)
{
    int64_t left = max_ns;
    if (room->deadline_ns != INT64_MAX) {
        int64_t until = room->deadline_ns - amb_clock_monotonic_ns();
        until = until > 0 ? until : 0;
        left = until < left ? until : left;
    }
    struct amb_wait wait = {.is_ready = is_ready,
                            .arg = room,
                            .timeout_ns = left,
                            .flags = AMB_WAIT_FLOW,
                            .is_over = &room->pub->is_closing};
    struct amb_leases *leases = &room->pub->conn->leases;
    leases->waits++;
    enum amb_status status = amb_conn_wait(room->pub->conn, &wait);
    leases->waits--;
    return status == AMB_EAGAIN ? AMB_ETIMEDOUT : status;
}

static bool is_past(const struct room_wait *room)
{
    return room->deadline_ns != INT64_MAX && amb_clock_monotonic_ns() >= room->deadline_ns;
}

static bool has_memory(void *arg)
{
    const struct room_wait *wait = arg;
    return !amb_batches_are_full(wait->pub->conn);
}

static enum amb_status take_private(struct room_wait *room, struct amb_lease *lease)
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
static enum amb_status wait_back(struct room_wait *room)
{
    enum amb_status status = wait_for(room, is_back, AHEAD_NS);
    if (status != AMB_ETIMEDOUT) {
        return status;
    }
    if (!is_past(room)) {
        amb_slots_let_go(room->pub->conn, room->len);
    }
    return AMB_OK;
}

/* A slot, as soon as there is one; private memory where there will be none. Lock held, may be given
 * up. */
static enum amb_status take_room(struct room_wait *room, struct amb_lease *lease)
{
    struct amb_conn *conn = room->pub->conn;
    unsigned grown = 0;
    if (amb_slots_are_away(conn, room->len)) {
        enum amb_status status = wait_back(room);
        if (status != AMB_OK) {
            return status;
        }
    }
    bool may_lease = conn->leases.bytes_max != 0 && !room->pub->avoids_slots;
    while (may_lease && conn->session.down == AMB_OK) {
        if (amb_place_take(conn, room->len, &lease->place)) {
            lease->bytes = amb_place_bytes(&lease->place);
            lease->room = lease->place.slots->slot;
            return AMB_OK;
        }
        room->seen = amb_slots_look(conn, room->len);
        int64_t max_ns = room->seen == AMB_ROOM_IN_USE ? SLOW_NS : AMB_FOREVER;
        if (room->seen == AMB_ROOM_NONE || room->seen == AMB_ROOM_LEASED) {
            if (!amb_slots_open(conn, room->len)) {
                break;
            }
            room->seen = AMB_ROOM_COMING;
        } else if (room->seen == AMB_ROOM_IN_USE && amb_slots_are_few(conn, room->len) &&
                   amb_slots_open(conn, room->len)) {
            room->seen = AMB_ROOM_COMING; /* Or the slot in use comes back, which is sooner. */
            max_ns = AMB_FOREVER;
        }
        enum amb_status status = wait_for(room, room_has_changed, max_ns);
        if (status == AMB_ETIMEDOUT && !is_past(room)) {
            if (grown++ != 0 || !amb_slots_open(conn, room->len)) {
                break;
            }
        } else if (status != AMB_OK) {
            return status;
        }
    }
    return amb_conn_has_trouble(conn, AMB_TROUBLE_DOWN) ? conn->session.down
                                                        : take_private(room, lease);
}

/* The same on a GPU, where there is no private memory: who gets no more slots waits for his own. */
static enum amb_status take_gpu_room(struct room_wait *room, struct amb_lease *lease)
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
static bool open_pinned(const struct room_wait *room)
{
    uint64_t private_max = room->is_private ? room->pub->window.limit_bytes : 0;
    return amb_slots_open_pinned(room->pub->conn, room->gpu, room->len, private_max);
}

static bool take_pinned(const struct room_wait *room, bool is_private, struct amb_lease *lease)
{
    if (!amb_place_take_pinned(room->pub->conn, room->gpu, is_private, room->len, &lease->place)) {
        return false;
    }
    lease->pin = room->gpu;
    lease->bytes = amb_place_bytes(&lease->place);
    lease->room = lease->place.slots->slot;
    return true;
}

/* Pinned host memory: the broker's, and where it gives no more, or nobody could read it there, of
 * this process alone. */
static enum amb_status take_pinned_room(struct room_wait *room, struct amb_lease *lease)
{
    struct amb_conn *conn = room->pub->conn;
    enum amb_status status;
    while (!amb_conn_has_trouble(conn, AMB_TROUBLE_DOWN)) {
        room->is_private = room->is_private || conn->leases.bytes_max == 0;
        if (!amb_gpu_is_sound(room->gpu)) {
            return AMB_ECUDA;
        }
        if (take_pinned(room, room->is_private || conn->session.down != AMB_OK, lease)) {
            return AMB_OK;
        }
        if (conn->session.down != AMB_OK) {
            status = wait_for(room, is_up_or_has_own, AMB_FOREVER);
            if (status != AMB_OK) {
                return status;
            }
            continue;
        }
        room->seen = amb_slots_look_pinned(conn, room->gpu, room->is_private, room->len);
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
        /* What comes back of another size makes room as well: looks again now and then. */
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

/* ---- life ---- */

static struct amb_lease *lease_get(struct amb_conn *conn)
{
    struct amb_lease *lease = conn->leases.unused;
    if (lease != NULL) {
        conn->leases.unused = lease->next;
    } else {
        lease = malloc(sizeof(*lease));
        if (lease == NULL) {
            return NULL;
        }
    }
    *lease = (struct amb_lease){.conn = conn};
    amb_list_init(&lease->node);
    return lease;
}

static void lease_put(struct amb_lease *lease)
{
    lease->next = lease->conn->leases.unused;
    lease->conn->leases.unused = lease;
}

void amb_lease_cache_fini(struct amb_conn *conn)
{
    while (conn->leases.unused != NULL) {
        struct amb_lease *lease = conn->leases.unused;
        conn->leases.unused = lease->next;
        free(lease);
    }
}

void amb_leases_orphan(struct amb_pub *pub)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&pub->lease.out)) != NULL) {
        AMB_CONTAINER_OF(node, struct amb_lease, node)->pub = NULL;
    }
    pub->lease.count = 0;
}

/* Counts it: it is out. */
static void lend(struct amb_pub *pub, struct amb_lease *lease, uint64_t len)
{
    struct amb_conn *conn = pub->conn;
    lease->pub = pub;
    lease->len = len;
    amb_list_push_back(&pub->lease.out, &lease->node);
    pub->lease.count++;
    if (lease->place.slots != NULL) {
        /* The session lives on for memory of the broker's that somebody may write. */
        atomic_fetch_add_explicit(&conn->mapped_held, 1, memory_order_relaxed);
    }
    amb_conn_ref(conn);
}

/* The handle is gone; its memory is *out's. Lock held. */
static void take_back(struct amb_lease *lease, struct amb_lease *out)
{
    struct amb_conn *conn = lease->conn;
    *out = *lease;
    if (lease->pub != NULL) {
        amb_list_remove(&lease->node);
        lease->pub->lease.count--;
    }
    if (lease->place.slots != NULL) {
        atomic_fetch_sub_explicit(&conn->mapped_held, 1, memory_order_relaxed);
    }
    lease_put(lease);
    if (conn->io.is_lingering) {
        amb_io_kick(conn);
    }
}

static void memory_return(const struct amb_lease *lease)
{
    if (lease->place.slots != NULL) {
        amb_place_return(&lease->place);
    } else {
        amb_buffers_put(&lease->conn->leases.buffers, lease->bytes, lease->room);
        amb_leases_wake(lease->conn);
    }
}

/* ---- calls ---- */

typedef enum amb_status (*take_fn)(struct room_wait *room, struct amb_lease *lease);

static enum amb_status lease_open(struct amb_pub *pub, struct amb_gpu *gpu, take_fn take,
                                  uint64_t len, int64_t timeout_ns, struct amb_lease **out)
{
    struct amb_conn *conn = pub->conn;
    struct room_wait room = {.pub = pub, .gpu = gpu, .len = len, .deadline_ns = INT64_MAX};
    if (timeout_ns != AMB_FOREVER) {
        room.deadline_ns =
            timeout_ns > 0 ? amb_deadline_ns(amb_clock_monotonic_ns(), timeout_ns) : 0;
    }
    amb_conn_lock(conn);
    struct amb_lease *lease = lease_get(conn);
    enum amb_status status = lease == NULL ? AMB_ENOMEM : AMB_OK;
    if (status == AMB_OK && !has_memory(&room)) { /* A commit will not wait. */
        status = wait_for(&room, has_memory, AMB_FOREVER);
    }
    if (status == AMB_OK) {
        status = take(&room, lease);
    }
    if (status == AMB_OK) {
        lend(pub, lease, len);
    } else if (lease != NULL) {
        lease_put(lease);
    }
    amb_conn_unlock(conn);
    if (status == AMB_OK) {
        *out = lease;
    }
    return status == AMB_ETIMEDOUT && timeout_ns <= 0 ? AMB_EAGAIN : status;
}

enum amb_status amb_lease_on(struct amb_pub *pub, struct amb_gpu *gpu, uint64_t len,
                             int64_t timeout_ns, struct amb_lease **out)
{
    return gpu != NULL && !pub->gpu.has_room
               ? AMB_ENOTSUP /* The topic, the link or the broker has none. */
               : lease_open(pub, gpu, gpu != NULL ? take_gpu_room : take_room, len, timeout_ns,
                            out);
}

static enum amb_status lease_pinned(struct amb_pub *pub, uint64_t len, int64_t timeout_ns,
                                    struct amb_lease **out)
{
    struct amb_gpu *gpu = pub->lease.gpu;
    enum amb_status status = lease_open(pub, gpu, take_pinned_room, len, timeout_ns, out);
    if (status == AMB_ENOTSUP || status == AMB_ECUDA || status == AMB_ENOMEM) {
        return amb_gpu_fail(pub->conn, gpu, status, "no lease in pinned memory");
    }
    return status;
}

/* Why there is no lease on the publisher's GPU. */
static const char *gpu_obstacle(struct amb_pub *pub, enum amb_status status)
{
    struct amb_conn *conn = pub->conn;
    if (!pub->gpu.has_room && pub->gpu.why[0] != '\0') {
        return pub->gpu.why;
    }
    const char *text = amb_gpu_room_of(pub->lease.gpu)->text; /* Written once, if at all. */
    amb_conn_lock(conn);
    bool is_refused = amb_gpu_room_of(pub->lease.gpu)->refused == status && text[0] != '\0';
    amb_conn_unlock(conn);
    return is_refused ? text : amb_status_text(status);
}

enum amb_status amb_lease(struct amb_pub *pub, size_t len, int64_t timeout_ns,
                          struct amb_lease **out)
{
    if (out == NULL) {
        return AMB_EINVAL;
    }
    *out = NULL;
    if (pub == NULL || timeout_ns < 0) {
        return AMB_EINVAL;
    }
    struct amb_conn *conn = pub->conn;
    enum amb_status status = amb_conn_trouble(conn, AMB_TROUBLE_PUB);
    if (status != AMB_OK) {
        return status;
    }
    if (len > conn->session.max_message) {
        return amb_put_too_large(conn, len);
    }
    amb_pub_enter(pub);
    if (pub->lease.is_pinned) {
        return amb_pub_leave(pub, lease_pinned(pub, len, timeout_ns, out));
    }
    status = amb_lease_on(pub, pub->lease.gpu, len, timeout_ns, out);
    if (pub->lease.gpu != NULL && status != AMB_OK && status != AMB_EAGAIN &&
        status != AMB_ETIMEDOUT) {
        (void)amb_conn_fail(conn, status, "no lease on GPU %d: %s", amb_gpu_index(pub->lease.gpu),
                            gpu_obstacle(pub, status));
    } else if (status == AMB_ENOMEM) {
        (void)amb_conn_fail(conn, status, "no memory for a lease of %llu bytes",
                            (unsigned long long)len);
    }
    return amb_pub_leave(pub, status);
}

void *amb_lease_data(const struct amb_lease *lease)
{
    if (lease == NULL ||
        (lease->place.slots != NULL && amb_conn_has_trouble(lease->conn, AMB_TROUBLE_FORKED))) {
        return NULL; /* Segments are not mapped in a child. */
    }
    return lease->bytes;
}

void *amb_lease_data_on(const struct amb_lease *lease, void *stream)
{
    (void)stream; /* Whoever read there last has said that he is done. */
    if (lease == NULL || amb_conn_has_trouble(lease->conn, AMB_TROUBLE_FORKED)) {
        return NULL;
    }
    if (lease->pin != NULL) {
        return (void *)(uintptr_t)amb_place_pinned_at(&lease->place);
    }
    return lease->gpu != NULL ? amb_place_bytes(&lease->place) : NULL;
}

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

/* What the commit waits for: all that was put on its stream so far. On failure that is over, so
 * that the memory can be given back. */
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
                                    : amb_commit_private(pub, put, own->bytes, own->room, seq);
}

/* Takes lease and fence; status: what has gone wrong before. */
static enum amb_status lease_commit(struct amb_lease *lease, const struct amb_out *message,
                                    enum amb_status status, struct amb_gpu_fence *fence,
                                    uint64_t *seq)
{
    struct amb_conn *conn = lease->conn;
    struct amb_put put = {.data = NULL};
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
    take_back(lease, &own);
    struct amb_pub *pub = own.pub;
    if (status == AMB_OK && amb_conn_has_trouble(conn, AMB_TROUBLE_DOWN)) {
        status = conn->session.down;
    } else if (status == AMB_OK &&
               (pub == NULL || atomic_load_explicit(&pub->is_closing, memory_order_relaxed))) {
        status = AMB_ECLOSED;
    }
    if (status == AMB_OK) {
        /* Under the lock, so that who closes it sees either this or nothing of us. */
        atomic_fetch_add_explicit(&pub->inside, 1, memory_order_relaxed);
    } else {
        if (fence != NULL) {
            (void)amb_gpu_fence_wait(fence);
        }
        memory_return(&own);
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
    return lease_commit(lease, message, status, fence, seq);
}

void amb_lease_abandon(struct amb_lease *lease)
{
    if (lease == NULL || amb_conn_has_trouble(lease->conn, AMB_TROUBLE_FORKED)) {
        return;
    }
    struct amb_conn *conn = lease->conn;
    struct amb_lease own;
    amb_conn_lock(conn);
    take_back(lease, &own);
    memory_return(&own);
    amb_conn_unlock(conn);
    amb_conn_unref(conn);
}
