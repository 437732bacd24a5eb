/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/traced_delivery.h"

#include "broker/delivery/reader/piece.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/memory/segment.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/trace.h"
#include "wire/codec/frame.h"

/* As amb_deliver_count has it. */
static enum amb_trace_how how_of(const struct amb_entry *entry, const struct amb_piece *piece)
{
    return piece->type == AMB_FRAME_LAZY ? AMB_TRACE_LAZY
           : amb_piece_is_map(piece) && entry->is_of_gpu == (entry->segment->gpu != NULL)
               ? AMB_TRACE_MAPPED
           : entry->is_of_gpu && entry->segment->gpu == NULL ? AMB_TRACE_STAGED
                                                             : AMB_TRACE_COPIED;
}

static enum amb_path_why why_of(const struct amb_session *session, const struct amb_entry *entry,
                                enum amb_trace_how how)
{
    const struct amb_paths *paths = &session->paths.out;
    if (how != AMB_TRACE_COPIED && how != AMB_TRACE_STAGED) {
        return AMB_PATH_BEST;
    }
    if (!entry->is_of_gpu) {
        return (enum amb_path_why)paths->why;
    }
    if (how == AMB_TRACE_COPIED) {
        return AMB_PATH_BY_LINK;
    }
    return paths->gpu_why != AMB_PATH_BEST ? (enum amb_path_why)paths->gpu_why
                                           : AMB_PATH_HOST_ALONE;
}

void amb_traced_delivery_written(const struct amb_subscription *sub, const struct amb_entry *entry,
                                 const struct amb_piece *piece, uint32_t ticket)
{
    const struct amb_session *session = sub->session;
    enum amb_trace_how how = how_of(entry, piece);
    struct amb_trace_standing *standing =
        amb_trace_standing(session->shard, ticket, sub->id, session->client_id, false);
    if (standing != NULL) {
        standing->is_given = true;
        standing->stage = AMB_TRACE_WRITTEN; /* It may be held with the rest of the batch. */
    }
    amb_trace_note(session->shard, ticket,
                   (struct amb_trace_record){.stage = AMB_TRACE_WRITTEN,
                                             .how = (uint8_t)how,
                                             .path_why = (uint8_t)why_of(session, entry, how),
                                             .topic = entry->topic,
                                             .reader = sub->id,
                                             .client = session->client_id,
                                             .msgs = piece->count,
                                             .bytes = piece->data_len + piece->meta_len,
                                             .seq = piece->seq + entry->above});
}

void amb_traced_delivery_back(const struct amb_subscription *sub, uint32_t ticket, uint32_t msgs)
{
    amb_trace_note(
        sub->session->shard, ticket,
        (struct amb_trace_record){.stage = msgs > 0 ? AMB_TRACE_BACK : AMB_TRACE_DROPPED,
                                  .why = msgs > 0 ? AMB_TRACE_WHY_NONE : AMB_TRACE_WHY_ENDED,
                                  .reader = sub->id,
                                  .client = sub->session->client_id,
                                  .msgs = msgs});
}
