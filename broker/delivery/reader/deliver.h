/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends an entry to a client, in place or by copy, and counts it: for cursors (give.c) and for
 * takes (acks/taker_send.c).
 *
 * Threads: the shard's worker. Memory: never allocates.
 */
#pragma once

#include "broker/base/user.h"
#include "broker/config/config.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/memory/gpupool.h"
#include "broker/memory/segment.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "wire/link/link.h"

#include <stdint.h>

/* Bodies up to this size are copied while the client maps their segment; larger ones wait for it.
 */
#define AMB_DELIVER_COPY_MAX (UINT64_C(64) << 10)

enum amb_deliver_way {
    AMB_DELIVER_COPY,
    AMB_DELIVER_MAP,
    AMB_DELIVER_WAIT,
};

/* May the client hold that, too, in place? Its charge then is compared. */
static inline bool amb_deliver_may_keep(const struct amb_session *session,
                                        const struct amb_entry *entry)
{
    return amb_entry_charge(entry) <= amb_session_map_room(session, entry->segment->gpu == NULL);
}

/* May that client read in memory that the batch's publisher can still write? */
static inline bool amb_deliver_is_trusted(const struct amb_session *session,
                                          const struct amb_entry *entry)
{
    return amb_user_is_same(entry->lease_user, session->user) || entry->lease_user == AMB_USER_ANY;
}

static inline enum amb_deliver_way amb_deliver_way(const struct amb_subscription *sub,
                                                   const struct amb_entry *entry)
{
    struct amb_session *session = sub->session;
    if (!session->may_map || sub->options.copy || !amb_deliver_may_keep(session, entry)) {
        return AMB_DELIVER_COPY;
    }
    if (entry->is_leased && !amb_deliver_is_trusted(session, entry)) {
        return AMB_DELIVER_COPY;
    }
    switch (amb_session_mapping_of(session, entry->segment)) {
    case AMB_MAPPING_READY:
        return AMB_DELIVER_MAP;
    case AMB_MAPPING_ASKED:
        return amb_entry_bytes(entry) > AMB_DELIVER_COPY_MAX ? AMB_DELIVER_WAIT : AMB_DELIVER_COPY;
    case AMB_MAPPING_REFUSED:
    case AMB_MAPPING_RETIRED:
        break;
    }
    return AMB_DELIVER_COPY;
}

/* May the client read a batch in GPU memory there? REFUSED, too, where it does not want to. */
static inline enum amb_mapping_state amb_deliver_in_gpu(const struct amb_subscription *sub,
                                                        const struct amb_entry *entry)
{
    bool wants = sub->options.mem == AMB_MEM_CUDA || sub->options.mem == AMB_MEM_AS_SENT;
    return wants && amb_deliver_may_keep(sub->session, entry)
               ? amb_session_mapping_of(sub->session, entry->segment)
               : AMB_MAPPING_REFUSED;
}

/* Of a batch in GPU memory: may the session's link take its payloads from there? */
static inline bool amb_deliver_may_by_link(const struct amb_session *session,
                                           const struct amb_entry *entry)
{
    return session->link != NULL && session->link->takes_cuda &&
           entry->data_len / entry->count >= session->link->device_min &&
           entry->segment->gpu->is_exported && amb_gpu_pool_is_sound(entry->segment->gpu);
}

static inline void amb_deliver_count(struct amb_session *session, bool is_copy, uint32_t msgs,
                                     uint64_t bytes)
{
    struct amb_shard_stats *stats = &session->shard->stats;
    session->msgs_out += msgs;
    session->bytes_out += bytes;
    amb_stat_add(&stats->msgs_out, msgs);
    amb_stat_add(&stats->bytes_out, bytes);
    amb_stat_add(&stats->batches_out, 1);
    amb_stat_add(is_copy ? &stats->copies : &stats->maps, 1);
}
