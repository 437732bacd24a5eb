/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/piece.h"

#include "broker/session/outgoing.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "broker/topic/topic.h"

void amb_piece_send(struct amb_session *session, const struct amb_frame *frame,
                    const struct amb_piece *piece, struct amb_entry *entry)
{
    if (amb_outgoing_send(session, frame, piece->data, piece->meta,
                          piece->meta == NULL ? NULL : entry) == AMB_ENOMEM) {
        /* A number was given and is missing: only the end of the session repairs that. */
        session->shard->upcalls->session_ended(session->shard, session->client_id, AMB_ENOMEM,
                                               "no memory for a delivery");
    }
}

enum amb_status amb_piece_name(const struct amb_subscription *sub, const struct amb_topic *topic,
                               const char *name, uint32_t *naming)
{
    const struct amb_frame frame = {
        .type = AMB_FRAME_TOPIC,
        .handle = sub->handle,
        .topic = topic->id,
        .count = topic->priority,
        .data_len = topic->name_len,
    };
    return amb_outgoing_send_name(sub->session, &frame, name, naming);
}
