/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amb_msg_copy: a message alone, in a buffer of ours: payload, record and properties, one behind
 * the other. It is a delivery of its own that the broker knows nothing of.
 */
#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/drive/lock.h"
#include "client/message/arrival.h"
#include "client/message/returns.h"
#include "client/message/side.h"

#include <string.h>

/* Where the parts of a copy lie in its buffer. */
struct parts {
    uint64_t record, props, len;
};

static struct parts parts_of(const struct amb_record *record)
{
    struct parts parts = {.record = amb_payload_padded(record->len)};
    parts.props = parts.record + sizeof(*record);
    parts.len = parts.props + amb_props_padded(record->props_len);
    return parts;
}

static void fill(struct amb_arrival *copy, const struct amb_msg *msg, const void *payload)
{
    const struct amb_arrival *arrival = amb_msg_arrival(msg);
    const struct parts parts = parts_of(msg->record);
    copy->topic = arrival->topic;
    copy->seq = amb_msg_seq(msg);
    copy->lost = amb_msg_lost(msg, &copy->loss);
    copy->time_ns = arrival->time_ns;
    copy->frame = (struct amb_frame){
        .type = AMB_FRAME_DELIVER, .count = 1, .attempt = arrival->frame.attempt};
    atomic_store_explicit(&copy->taken, 1, memory_order_relaxed);
    struct amb_msg *own = &copy->msgs[0];
    atomic_init(&own->refs, 1);
    own->index = 0;
    own->payload = copy->body;
    own->record = (const struct amb_record *)(const void *)(copy->body + parts.record);
    own->props = copy->body + parts.props;
    if (msg->record->len != 0) {
        memcpy(copy->body, payload, msg->record->len);
    }
    memcpy(copy->body + parts.record, msg->record, sizeof(*msg->record));
    if (msg->record->props_len != 0) {
        memcpy(copy->body + parts.props, msg->props, msg->record->props_len);
    }
}

/* Nobody waits for it, amb_drain neither. NULL: no memory. */
static struct amb_arrival *make(struct amb_conn *conn, uint64_t len)
{
    amb_conn_lock(conn);
    struct amb_arrival *copy = amb_arrival_create(conn, 1);
    if (copy != NULL) {
        amb_list_remove(&copy->known);
        copy->body_len = copy->buffer_len = len;
        copy->body = copy->buffer = amb_buffers_get(&conn->receive.buffers, len);
        if (copy->body == NULL) {
            amb_arrival_discard(copy);
            copy = NULL;
        }
    }
    amb_conn_unlock(conn);
    return copy;
}

enum amb_status amb_msg_copy(const struct amb_msg *msg, struct amb_msg **out)
{
    if (out == NULL) {
        return AMB_EINVAL;
    }
    *out = NULL;
    if (msg == NULL) {
        return AMB_EINVAL;
    }
    struct amb_conn *conn = amb_msg_arrival(msg)->conn;
    if (amb_conn_has_trouble(conn, AMB_TROUBLE_FORKED)) {
        return AMB_EFORKED;
    }
    const void *payload = amb_msg_bytes(msg);
    if (payload == NULL && msg->record->len != 0) {
        return amb_conn_fail(conn, AMB_ESTATE,
                             "amb_msg_copy: the payload is on a GPU, or lazy and not fetched");
    }
    struct amb_arrival *copy = make(conn, parts_of(msg->record).len);
    if (copy == NULL) {
        return amb_conn_fail(conn, AMB_ENOMEM, "amb_msg_copy: no memory (options.memory_max)");
    }
    fill(copy, msg, payload);
    *out = &copy->msgs[0];
    return AMB_OK;
}
