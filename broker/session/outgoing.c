/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/session/outgoing.h"

#include "broker/memory/segment.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "wire/base/assert.h"

void amb_outgoing_init(struct amb_shard *shard)
{
    amb_pool_init(&shard->outgoing.pool, AMB_OUTGOING_SIZE, AMB_SHARD_POOL_CHUNK, 0);
}

static void outgoing_free(struct amb_session *session, struct amb_outgoing *outgoing)
{
    struct amb_entry *entry = outgoing->entry;
    if (outgoing->naming != NULL) {
        --*outgoing->naming;
    }
    amb_pool_put(&session->shard->outgoing.pool, outgoing);
    if (entry != NULL) {
        amb_entry_unref(entry, session->shard);
    }
}

/* AMB_EAGAIN: it is the link's until amb_outgoing_settled. Else it is back in the pool. */
static enum amb_status outgoing_send(struct amb_session *session, struct amb_outgoing *outgoing)
{
    amb_session_stir(session);
    enum amb_status status = amb_link_send(session->link, &outgoing->tx);
    if (status != AMB_EAGAIN) {
        outgoing_free(session, outgoing);
    }
    return status;
}

/* Its one message lies in GPU memory. The padding there is somebody else's. */
static void outgoing_from_device(struct amb_link_tx *tx)
{
    const struct amb_record *record = tx->meta;
    tx->is_device = true;
    tx->is_pad_apart = true;
    tx->data_pad = (uint32_t)(amb_payload_padded(record->len) - record->len);
}

enum amb_status amb_outgoing_send(struct amb_session *session, const struct amb_frame *frame,
                                  const void *data, const void *meta, struct amb_entry *entry)
{
    amb_assert(session->link != NULL);
    struct amb_outgoing *outgoing = amb_pool_get(&session->shard->outgoing.pool);
    if (outgoing == NULL) {
        return AMB_ENOMEM;
    }
    outgoing->entry = entry;
    outgoing->tx.frame = frame;
    outgoing->tx.data = data;
    outgoing->tx.meta = meta;
    if (entry != NULL) {
        amb_entry_ref(entry);
        outgoing->tx.mem = entry->segment->mem;
    }
    if (__builtin_expect((frame->flags & AMB_FRAME_FLAG_DEVICE) != 0, 0)) {
        outgoing_from_device(&outgoing->tx);
    }
    enum amb_status status = outgoing_send(session, outgoing);
    return status == AMB_EAGAIN ? AMB_OK : status;
}

enum amb_status amb_outgoing_send_answer(struct amb_session *session, const struct amb_frame *frame,
                                         const void *data, struct amb_entry *entry,
                                         amb_outgoing_fn on_settled)
{
    amb_assert(session->link != NULL);
    struct amb_outgoing *outgoing = amb_pool_get(&session->shard->outgoing.pool);
    if (outgoing == NULL) {
        return AMB_ENOMEM;
    }
    outgoing->tx.frame = frame;
    outgoing->on_settled = on_settled;
    if (entry != NULL) {
        outgoing->entry = entry;
        outgoing->tx.data = data;
        amb_entry_ref(entry);
        outgoing->tx.mem = entry->segment->mem;
    }
    return outgoing_send(session, outgoing);
}

enum amb_status amb_outgoing_send_name(struct amb_session *session, const struct amb_frame *frame,
                                       const char *name, uint32_t *naming)
{
    amb_assert(session->link != NULL);
    struct amb_outgoing *outgoing = amb_pool_get(&session->shard->outgoing.pool);
    if (outgoing == NULL) {
        return AMB_ENOMEM;
    }
    outgoing->tx.frame = frame;
    outgoing->tx.data = name;
    outgoing->naming = naming;
    ++*naming;
    enum amb_status status = outgoing_send(session, outgoing);
    return status == AMB_EAGAIN ? AMB_OK : status;
}

enum amb_status amb_outgoing_send_watched(struct amb_session *session,
                                          const struct amb_frame *frame, uint32_t opened,
                                          amb_outgoing_fn on_settled)
{
    amb_assert(session->link != NULL);
    struct amb_outgoing *outgoing = amb_pool_get(&session->shard->outgoing.pool);
    if (outgoing == NULL) {
        return AMB_ENOMEM;
    }
    outgoing->tx.frame = frame;
    outgoing->on_settled = on_settled;
    outgoing->handle = frame->handle;
    outgoing->opened = opened;
    return outgoing_send(session, outgoing);
}

void amb_outgoing_settled(struct amb_session *session, struct amb_link_tx *tx)
{
    struct amb_outgoing *outgoing = AMB_CONTAINER_OF(tx, struct amb_outgoing, tx);
    amb_outgoing_fn on_settled = outgoing->on_settled;
    uint32_t handle = outgoing->handle, opened = outgoing->opened;
    outgoing_free(session, outgoing);
    session->settled++;
    if (on_settled != NULL) {
        on_settled(session, handle, opened);
    }
    amb_session_unstall(session);
}

uint64_t amb_outgoing_heap(const struct amb_session *session)
{
    uint64_t queued = session->link == NULL ? 0 : session->link->queued;
    return session->heap.bytes + queued * AMB_OUTGOING_SIZE;
}
