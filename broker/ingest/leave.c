/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/ingest/leave.h"

#include "broker/ingest/ingest.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_memory.h"
#include "wire/base/assert.h"

#include <string.h>

/* The batch that is coming to a segment that takes nothing new; NULL: none is. */
static struct amb_entry *entry_to_move(struct amb_session *session, void *cookie,
                                       uint8_t *const *at)
{
    struct amb_entry *entry = cookie;
    if (at == NULL || !amb_ingest_is_batch(cookie) || entry->payload.buf.segment == NULL) {
        return NULL;
    }
    struct amb_bufpool *pool = entry->payload.buf.segment->pool;
    return pool == amb_shard_pool(session->shard, entry->group) ? NULL : entry;
}

static void entry_use(struct amb_entry *entry, const struct amb_buf *buf)
{
    entry->payload.buf = *buf;
    if (entry->payload.kind == AMB_PAYLOAD_SLOTS) {
        amb_entry_in_slots(entry, AMB_PAYLOAD_SLOTS, entry->segment, entry->data_len);
    } else {
        amb_entry_in_buffer(entry, AMB_PAYLOAD_BUFFER);
    }
}

void amb_ingest_leave(struct amb_session *session)
{
    struct amb_shard *shard = session->shard;
    void *cookie = NULL;
    uint8_t **at = amb_link_body(session->link, &cookie);
    struct amb_entry *entry = entry_to_move(session, cookie, at);
    if (entry == NULL) {
        return;
    }
    struct amb_buf from = entry->payload.buf, to;
    if (amb_bufpool_alloc(amb_shard_pool(shard, entry->group), from.cap, &to) != AMB_OK) {
        *at = NULL;
        enum amb_status status = amb_ingest_body(session, cookie, AMB_ENOMEM);
        amb_assert(status == AMB_OK);
        return;
    }
    uint64_t come = (uint64_t)(*at - from.data);
    amb_assert(come < from.cap);
    memcpy(to.data, from.data, come);
    entry_use(entry, &to);
    *at = to.data + come;
    amb_buf_free(&from);
}
