/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/outgoing.h"

#include "broker/entry.h"
#include "broker/segment.h"
#include "broker/session.h"
#include "broker/shard.h"
#include "wire/base/assert.h"

static void outgoing_free(struct amb_session *session, struct amb_outgoing *outgoing)
{
    struct amb_entry *entry = outgoing->entry;
    amb_pool_put(&session->shard->txs, outgoing);
    if (entry != NULL) {
        amb_entry_unref(entry, session->shard);
    }
}

enum amb_status amb_outgoing_send(struct amb_session *session, const struct amb_frame *frame,
                                  const void *data, const void *meta, struct amb_entry *entry)
{
    amb_assert(session->link != NULL);
    struct amb_outgoing *outgoing = amb_pool_get(&session->shard->txs);
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
    enum amb_status status = amb_link_send(session->link, &outgoing->tx);
    if (status == AMB_EAGAIN) {
        return AMB_OK; /* amb_outgoing_settled comes. */
    }
    outgoing_free(session, outgoing);
    return status;
}

void amb_outgoing_settled(struct amb_session *session, struct amb_link_tx *tx)
{
    outgoing_free(session, AMB_CONTAINER_OF(tx, struct amb_outgoing, tx));
    amb_session_unstall(session);
}
