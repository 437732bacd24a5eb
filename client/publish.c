/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_pub_*: a message into the open batch of its publisher, or out on its own if it is large.
 */
#include "client/batches.h"
#include "client/conn.h"
#include "client/drive.h"
#include "client/due.h"
#include "client/error.h"
#include "client/lock.h"
#include "client/options.h"
#include "client/put.h"
#include "client/side.h"
#include "client/staged.h"
#include "client/tensor.h"
#include "client/wake.h"
#include "wire/base/copy.h"
#include "wire/codec/props.h"

#include <string.h>

/* How often a link whose poll is a system call is asked whether a batch has arrived. */
#define BUSY_POLL_NS (20 * AMB_NS_PER_US)
/* A look takes what is there, up to so many full turns of it. */
#define RECEIVE_TURNS_MAX 16u
/* A message up to this size may open a batch on the short way. */
#define FIRST_MAX 4096u

/* ---- the small ones ---- */

/* Looks whether the broker has taken the last batch, unless somebody else does that already. */
static bool still_in_flight(struct amb_pub *pub, int64_t now_ns)
{
    struct amb_conn *conn = pub->conn;
    if (!amb_pub_in_flight(pub)) {
        return false;
    }
    if (conn->is_busy) {
        if ((pub->rule.is_flowing && !pub->is_settled_told) ||
            now_ns - pub->last_poll_ns < BUSY_POLL_NS) {
            return true;
        }
        pub->last_poll_ns = now_ns;
    }
    if (amb_conn_trylock(conn)) {
        conn->activity++;
        /* Whoever publishes without ever having to wait reads what comes here alone: receipts of
         * all its publishers, and slots that came back. */
        for (unsigned i = 0; i < RECEIVE_TURNS_MAX && amb_conn_receive(conn) >= AMB_POLL_BUDGET;
             i++) {
        }
        amb_conn_unlock(conn);
    }
    return amb_pub_in_flight(pub);
}

/* The batch waits for company: somebody must send it if nobody calls again. */
static void leave_to_linger(struct amb_pub *pub)
{
    struct amb_conn *conn = pub->conn;
    /* seq_cst: pairs with the store in nap() of io.c. */
    uint32_t mode = atomic_load_explicit(&conn->io_mode, memory_order_seq_cst);
    if (mode == AMB_IO_WATCH || mode == AMB_IO_DEEP) {
        amb_io_kick(conn);
    } else if (mode == AMB_IO_NONE) {
        amb_due_timer(conn, pub->rule.linger_ns);
    }
}

void amb_put_added(struct amb_pub *pub, const struct amb_batch *batch, bool is_full)
{
    struct amb_conn *conn = pub->conn;
    bool is_first = batch->count == 1;
    if (!is_first && !is_full && (batch->count & pub->rule.mask) != 0) {
        return; /* Clock and counters are not looked at for every message. */
    }
    int64_t now = amb_clock_monotonic_ns();
    if (is_first && !atomic_load_explicit(&pub->is_staged, memory_order_relaxed)) {
        amb_batch_rule_open(&pub->rule, now);
        atomic_store_explicit(&pub->is_staged, true, memory_order_relaxed);
        /* seq_cst: pairs with the load in nap() of io.c. */
        atomic_fetch_add_explicit(&conn->staged, 1, memory_order_seq_cst);
    }
    if (is_full || amb_batch_rule_ask(&pub->rule, batch->count, amb_batch_size(batch),
                                      still_in_flight(pub, now), now)) {
        amb_conn_lock(conn);
        conn->activity++;
        enum amb_status status = amb_pub_flush_open(pub);
        if (status == AMB_EAGAIN && conn->must_flush && conn->link != NULL) {
            amb_conn_flush_link(conn);
        }
        amb_conn_unlock(conn);
        if (status == AMB_OK) {
            return;
        }
    }
    if (is_first) {
        leave_to_linger(pub);
    }
}

/* Makes room in the open batch. EAGAIN, too: it must go alone now. Publisher's lock held. */
static enum amb_status make_room(struct amb_pub *pub, uint64_t len, uint32_t blob_len)
{
    struct amb_conn *conn = pub->conn;
    enum amb_status status = AMB_OK;
    if (pub->open == NULL || !amb_list_is_empty(&pub->queue) ||
        !amb_batch_fits(pub->open, len, blob_len, pub->batch_msgs)) {
        amb_conn_lock(conn);
        if (pub->open != NULL || !amb_list_is_empty(&pub->queue)) {
            conn->activity++;
            status = amb_pub_flush_open(pub);
            if (status == AMB_EAGAIN) {
                atomic_store_explicit(&pub->must_leave, true, memory_order_relaxed);
                /* The look that everyone who must wait does first may find the window. */
                (void)amb_conn_progress(conn);
                status = amb_pub_flush_open(pub);
                if (status == AMB_EAGAIN && amb_pub_hold(pub)) {
                    status = AMB_OK;
                }
            }
        }
        if (status == AMB_OK && (pub->open == NULL || (pub->open->count == 0 &&
                                                       pub->open->data_cap != conn->batch_bytes))) {
            amb_pub_batch_put(conn, pub->open);
            pub->open = amb_pub_batch_get(conn);
            status = pub->open != NULL ? AMB_OK : AMB_ENOMEM;
        }
        if (status == AMB_OK && !amb_batch_fits(pub->open, len, blob_len, pub->batch_msgs)) {
            status = AMB_EAGAIN;
        }
        amb_conn_push(conn, true); /* What it wants. */
        amb_conn_unlock(conn);
    }
    if (status == AMB_OK && pub->open->count == 0) {
        uint64_t unsettled = atomic_load_explicit(&pub->posted, memory_order_relaxed) -
                             atomic_load_explicit(&pub->settled_seq, memory_order_acquire);
        status = unsettled >= pub->window_msgs || amb_batches_are_full(conn) ? AMB_EAGAIN : status;
    }
    return status;
}

enum amb_status amb_put_small(struct amb_pub *pub, const struct amb_put *put, uint64_t *seq)
{
    amb_spinlock_lock(&pub->lock);
    enum amb_status status = make_room(pub, put->len, put->blob_len);
    if (status == AMB_OK) {
        struct amb_batch *batch = pub->open;
        if (put->iov == NULL) {
            amb_batch_add(batch, put->data, put->len);
        } else {
            amb_batch_add_pieces(batch, put->iov, put->iov_count, put->len);
        }
        if (put->blob_len != 0 || put->key_hash != 0 || put->ttl_ms != 0) {
            status =
                amb_batch_add_props(batch, put->blob, put->blob_len, put->key_hash, put->ttl_ms);
            if (status != AMB_OK) {
                amb_batch_undo(batch);
            }
        }
    }
    if (status == AMB_OK) {
        uint64_t number = atomic_load_explicit(&pub->posted, memory_order_relaxed) + 1;
        atomic_store_explicit(&pub->posted, number, memory_order_release);
        if (seq != NULL) {
            *seq = number;
        }
        amb_put_added(pub, pub->open, pub->open->count == pub->batch_msgs);
    }
    amb_spinlock_unlock(&pub->lock);
    return status;
}

void amb_put_gather(uint8_t *to, const struct amb_put *put)
{
    for (uint32_t i = 0; i < put->iov_count; i++) {
        if (put->iov[i].len != 0) {
            amb_copy(to, put->iov[i].data, put->iov[i].len);
            to += put->iov[i].len;
        }
    }
}

/* ---- waiting for room ---- */

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
    if (!room->has_memory && (room->large != 0 ? !amb_batches_have_room(pub->conn, room->large)
                                               : amb_batches_are_full(pub->conn))) {
        return false;
    }
    if (room->slot_len != 0 && amb_slots_look(pub->conn, room->slot_len) == AMB_ROOM_FREE) {
        return true;
    }
    uint64_t unsettled =
        atomic_load_explicit(&pub->posted, memory_order_relaxed) - pub->settle.settled_seq;
    uint64_t inflight = pub->sent_bytes - pub->settle.settled_bytes;
    return !pub->is_away && pub->window >= pub->wanted && unsettled < pub->window_msgs &&
           (inflight == 0 || inflight + pub->need <= pub->window_bytes) &&
           !atomic_load_explicit(&pub->must_leave, memory_order_relaxed);
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
                            .flags = AMB_WAIT_FLOW,
                            .is_over = &pub->is_closing};
    amb_conn_lock(conn);
    /* What is staged counts against window_msgs and must go first. Under the lock: whoever sends it
     * meanwhile takes this back, and nobody would after him. */
    if (atomic_load_explicit(&pub->is_staged, memory_order_relaxed)) {
        atomic_store_explicit(&pub->must_leave, true, memory_order_relaxed);
    }
    enum amb_status status = amb_conn_wait(conn, &wait);
    amb_conn_unlock(conn);
    return status;
}

void amb_pub_enter(struct amb_pub *pub)
{
    amb_conn_enter(pub->conn);
    atomic_fetch_add_explicit(&pub->inside, 1, memory_order_relaxed);
}

enum amb_status amb_pub_leave(struct amb_pub *pub, enum amb_status status)
{
    struct amb_conn *conn = pub->conn;
    /* Release: pairs with the acquire of the one who closes. */
    atomic_fetch_sub_explicit(&pub->inside, 1, memory_order_release);
    return amb_conn_leave(conn, status);
}

static bool goes_small(const struct amb_pub *pub, const struct amb_put *put)
{
    uint64_t whole =
        amb_payload_padded(put->len) + amb_props_padded(put->blob_len) + sizeof(struct amb_record);
    return whole <= pub->conn->batch_bytes && put->expect == 0 && !put->is_device;
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

/* What it waits for. */
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

/* ---- calls ---- */

enum amb_status amb_put_too_large(struct amb_conn *conn, uint64_t len)
{
    return amb_conn_fail(conn, AMB_ETOOLARGE, "%llu bytes, and the broker takes up to %llu",
                         (unsigned long long)len, (unsigned long long)conn->max_message);
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
    return len <= FIRST_MAX && unsettled < pub->window_msgs && !amb_batches_are_full(pub->conn);
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
    if (__builtin_expect(len > conn->max_message, 0)) {
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
    if (__builtin_expect(amb_staged_is_wanted(pub, data, len), 0)) {
        return amb_staged_post(pub, AMB_OUT(.data = data, .len = len), true, timeout_ns, NULL);
    }
    const struct amb_put put = {.data = data, .len = len};
    return amb_put_any(pub, &put, timeout_ns, NULL);
}

/* FNV-1a, never 0. */
static uint32_t hash_key(const char *key)
{
    uint32_t hash = UINT32_C(2166136261);
    for (; *key != '\0'; key++) {
        hash = (hash ^ (uint8_t)*key) * UINT32_C(16777619);
    }
    return hash != 0 ? hash : 1;
}

/* Writes key, content type and properties of a message as one blob. */
static enum amb_status write_props(struct amb_conn *conn, const struct amb_out *message,
                                   uint8_t *blob, struct amb_put *put)
{
    if (message->key == NULL && message->content_type == NULL && message->tensor == NULL &&
        message->prop_count == 0) {
        return AMB_OK;
    }
    struct amb_props_writer writer;
    amb_props_writer_init(&writer, blob, AMB_PROPS_MAX);
    enum amb_status status = AMB_OK;
    if (message->key != NULL) {
        status = amb_props_add(&writer, AMB_PROP_KEY, message->key, strlen(message->key));
        put->key_hash = hash_key(message->key);
    }
    if (status == AMB_OK && message->content_type != NULL) {
        status = amb_props_add(&writer, AMB_PROP_CONTENT_TYPE, message->content_type,
                               strlen(message->content_type));
    }
    if (status == AMB_OK && message->tensor != NULL) {
        uint8_t tensor[AMB_TENSOR_BYTES];
        size_t len;
        if (amb_tensor_write(message->tensor, tensor, &len) != AMB_OK) {
            return amb_conn_fail(conn, AMB_EINVAL,
                                 "amb_out.tensor: no bits, a negative dimension, "
                                 "or more than %u of them",
                                 AMB_TENSOR_DIMS);
        }
        status = amb_props_add(&writer, AMB_PROP_TENSOR, tensor, len);
    }
    for (uint32_t i = 0; status == AMB_OK && i < message->prop_count; i++) {
        const struct amb_prop *prop = &message->props[i];
        if (prop->name == NULL || prop->name[0] == '$' || (prop->value == NULL && prop->len != 0)) {
            return amb_conn_fail(conn, AMB_EINVAL,
                                 "property %u: its name is empty or begins with "
                                 "'$', or its value is missing",
                                 i);
        }
        status = amb_props_add(&writer, prop->name, prop->value, prop->len);
    }
    if (status != AMB_OK) {
        return amb_conn_fail(conn, status,
                             status == AMB_ETOOLARGE
                                 ? "key, content type and properties exceed %u bytes"
                                 : "a property's name is longer than 255 bytes or malformed",
                             AMB_PROPS_MAX);
    }
    put->blob = blob;
    put->blob_len = (uint32_t)writer.len;
    return AMB_OK;
}

enum amb_status amb_put_props(struct amb_conn *conn, const struct amb_out *message, uint8_t *blob,
                              struct amb_put *put)
{
    int64_t ttl_ms = message->ttl_ns / AMB_MS + (message->ttl_ns % AMB_MS != 0);
    put->ttl_ms = ttl_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ttl_ms;
    return write_props(conn, message, blob, put);
}

enum amb_status amb_put_payload(const struct amb_out *message, struct amb_put *put)
{
    if (message->forward != NULL) {
        put->data = amb_msg_bytes(message->forward);
        put->len = amb_msg_size(message->forward);
    } else if (message->iov != NULL) {
        put->iov = message->iov;
        put->iov_count = message->iov_count;
        for (uint32_t i = 0; i < message->iov_count; i++) {
            if ((message->iov[i].data == NULL && message->iov[i].len != 0) ||
                message->iov[i].len > UINT64_MAX - put->len) {
                return AMB_EINVAL;
            }
            put->len += message->iov[i].len;
        }
    } else {
        put->data = message->data;
        put->len = message->len;
    }
    put->is_lent = true;
    return AMB_OK;
}

enum amb_status amb_pub_post(struct amb_pub *pub, const struct amb_out *message, int64_t timeout_ns,
                             uint64_t *seq)
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
    struct amb_complaint complaint;
    status = amb_out_read(message, &out, &complaint);
    if (status != AMB_OK) {
        return amb_conn_fail(conn, status, "%s", complaint.text);
    }
    if (out.forward != NULL && amb_msg_device(out.forward) >= 0 &&
        amb_msg_bytes(out.forward) == NULL) {
        out.data = amb_msg_data_on(out.forward, NULL);
        out.len = amb_msg_size(out.forward);
        out.mem = out.len != 0 ? amb_msg_mem(out.forward) : AMB_MEM_DEFAULT;
        out.forward = NULL;
    }
    bool is_staged = false;
    status = amb_staged_check(pub, &out, &is_staged);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_put put = {0};
    status = amb_put_payload(&out, &put);
    if (status != AMB_OK) {
        return amb_conn_fail(conn, status, "amb_out.iov: a piece is missing or too large");
    }
    if (put.len > conn->max_message) {
        return amb_put_too_large(conn, put.len);
    }
    put.expect = out.expect_seq;
    if (is_staged && put.expect != 0) {
        return amb_conn_fail(conn, AMB_ENOTSUP,
                             "amb_out.expect_seq is not for GPU memory in this release");
    }
    if (is_staged) {
        return amb_staged_post(pub, &out, false, timeout_ns, seq);
    }
    uint8_t blob[AMB_PROPS_MAX];
    status = amb_put_props(conn, &out, blob, &put);
    return status != AMB_OK ? status : amb_put_any(pub, &put, timeout_ns, seq);
}
