/* SPDX-License-Identifier: Apache-2.0 */
#include "client/subscribe/position.h"

#include "client/conn/conn.h"
#include "client/conn/error.h"
#include "client/drive/lock.h"
#include "client/message/sub.h"
#include "client/subscribe/arrivals.h"
#include "wire/codec/position.h"

#include <stdlib.h>
#include <string.h>

enum amb_status amb_position_keep(struct amb_sub *sub, const struct amb_sub_options *options)
{
    struct amb_position position;
    if (options->start != AMB_START_POSITION) {
        return AMB_OK;
    }
    if (amb_position_read(options->position, options->position_len, &position) != AMB_OK) {
        return AMB_EINVAL;
    }
    sub->position.resumed = malloc(options->position_len);
    if (sub->position.resumed == NULL) {
        return AMB_ENOMEM;
    }
    memcpy(sub->position.resumed, options->position, options->position_len);
    sub->position.resumed_len = options->position_len;
    return AMB_OK;
}

void amb_position_begun(struct amb_sub *sub, const struct amb_sub_options *options, int64_t time_ns)
{
    struct amb_position position;
    sub->position.since_ns = time_ns;
    if (options->start == AMB_START_FIRST || options->start == AMB_START_SEQ) {
        sub->position.since_ns = 0;
    } else if (options->start == AMB_START_TIME && options->start_at < INT64_MAX) {
        sub->position.since_ns = (int64_t)options->start_at;
    } else if (sub->position.resumed != NULL &&
               amb_position_read(sub->position.resumed, sub->position.resumed_len, &position) ==
                   AMB_OK) {
        bool is_ours = position.epoch == sub->conn->session.epoch;
        sub->position.since_ns = is_ours ? position.since_ns : 0;
        if (!is_ours) { /* Its numbers mean nothing here. */
            free(sub->position.resumed);
            sub->position.resumed = NULL;
        }
    }
}

/* The next message of a topic that was not taken yet, or has not arrived; 0: none was, or has. */
static uint64_t next_of(const struct amb_sub *sub, const struct amb_topic_name *topic,
                        bool is_arrived)
{
    if (is_arrived) {
        return topic->next_seq;
    }
    const struct amb_arrival *begun = amb_sub_begun(sub, topic);
    return begun != NULL ? begun->seq + begun->taken : topic->next;
}

static bool is_same(const struct amb_topic_name *a, const char *name, uint32_t len,
                    enum amb_priority priority)
{
    return a->priority == priority && a->len == len && memcmp(a->name, name, len) == 0;
}

/* Is the topic, of that name, the one that this name was read as last? One may leave and come again
 * under another id. */
static bool is_newest(const struct amb_sub *sub, const struct amb_topic_name *topic)
{
    for (uint32_t i = 0; i <= sub->topics.table.mask; i++) {
        const struct amb_topic_name *other = sub->topics.table.cells[i].name;
        if (other != NULL && other->order > topic->order &&
            is_same(other, topic->name, topic->len, topic->priority)) {
            return false;
        }
    }
    return true;
}

static bool is_read(const struct amb_sub *sub, const struct amb_position_topic *at, bool is_arrived)
{
    for (uint32_t i = 0; sub->topics.table.cells != NULL && i <= sub->topics.table.mask; i++) {
        const struct amb_topic_name *topic = sub->topics.table.cells[i].name;
        if (topic != NULL && is_same(topic, at->name, at->name_len, at->priority) &&
            next_of(sub, topic, is_arrived) != 0) {
            return true;
        }
    }
    return false;
}

/* Both locks held. */
static void write_topics(const struct amb_sub *sub, bool is_arrived,
                         struct amb_position_writer *writer)
{
    for (uint32_t i = 0; sub->topics.table.cells != NULL && i <= sub->topics.table.mask; i++) {
        const struct amb_topic_name *topic = sub->topics.table.cells[i].name;
        if (topic == NULL || next_of(sub, topic, is_arrived) == 0 || !is_newest(sub, topic)) {
            continue;
        }
        const struct amb_position_topic at = {
            .id = sub->topics.table.cells[i].id,
            .next = next_of(sub, topic, is_arrived),
            .name = topic->name,
            .name_len = topic->len,
            .priority = topic->priority,
        };
        amb_position_add(writer, &at);
    }
    struct amb_position_topic former;
    size_t at = 0;
    while (sub->position.resumed != NULL &&
           amb_position_next(sub->position.resumed, sub->position.resumed_len, &at, &former)) {
        if (!is_read(sub, &former, is_arrived)) {
            amb_position_add(writer, &former);
        }
    }
}

enum amb_status amb_sub_position(struct amb_sub *sub, void *position, size_t *len)
{
    if (sub == NULL || len == NULL || (position == NULL && *len != 0)) {
        return AMB_EINVAL;
    }
    struct amb_conn *conn = sub->conn;
    enum amb_status status = amb_conn_trouble(conn, AMB_TROUBLE_FORKED);
    if (status != AMB_OK) {
        return status;
    }
    struct amb_position_writer writer;
    amb_position_begin(&writer, position, *len);
    amb_conn_lock(conn);
    amb_spinlock_lock(&sub->lock);
    write_topics(sub, false, &writer);
    amb_spinlock_unlock(&sub->lock);
    status = amb_position_end(&writer, conn->session.epoch, sub->position.since_ns);
    amb_conn_unlock(conn);
    *len = writer.len;
    return status;
}

uint8_t *amb_position_arrived(struct amb_sub *sub, uint64_t epoch, size_t *len)
{
    uint8_t *bytes = malloc(AMB_POSITION_MAX);
    if (bytes == NULL) {
        return NULL;
    }
    struct amb_position_writer writer;
    amb_position_begin(&writer, bytes, AMB_POSITION_MAX);
    amb_spinlock_lock(&sub->lock);
    write_topics(sub, true, &writer);
    amb_spinlock_unlock(&sub->lock);
    if (amb_position_end(&writer, epoch, sub->position.since_ns) != AMB_OK) {
        free(bytes);
        return NULL;
    }
    *len = writer.len;
    return bytes;
}
