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

/* By copy, for that reason. */
static inline enum amb_deliver_way amb_deliver_copied(struct amb_session *session,
                                                      enum amb_path_why why)
{
    session->paths.out.why = (uint8_t)why;
    return AMB_DELIVER_COPY;
}

/* Why a client maps no such segment. */
enum amb_path_why amb_deliver_why_refused(const struct amb_session *session,
                                          const struct amb_segment *segment);

static inline enum amb_deliver_way amb_deliver_way(const struct amb_subscription *sub,
                                                   const struct amb_entry *entry)
{
    struct amb_session *session = sub->session;
    if (!session->may_map) {
        return amb_deliver_copied(session, AMB_PATH_LINK);
    }
    if (sub->options.copy) {
        return amb_deliver_copied(session, AMB_PATH_ASKED);
    }
    if (!amb_deliver_may_keep(session, entry)) {
        return amb_deliver_copied(session, AMB_PATH_ROOM);
    }
    if (entry->is_leased && !amb_deliver_is_trusted(session, entry)) {
        return amb_deliver_copied(session, AMB_PATH_FOREIGN);
    }
    switch (amb_session_mapping_of(session, entry->segment)) {
    case AMB_MAPPING_READY:
        return AMB_DELIVER_MAP;
    case AMB_MAPPING_ASKED:
        return amb_entry_bytes(entry) > AMB_DELIVER_COPY_MAX
                   ? AMB_DELIVER_WAIT
                   : amb_deliver_copied(session, AMB_PATH_MAPPING);
    case AMB_MAPPING_REFUSED:
    case AMB_MAPPING_RETIRED:
        break;
    }
    return amb_deliver_copied(session, amb_deliver_why_refused(session, entry->segment));
}

/* May the client read a batch in GPU memory there? REFUSED, too, where it does not want to. */
static inline enum amb_mapping_state amb_deliver_in_gpu(const struct amb_subscription *sub,
                                                        const struct amb_entry *entry)
{
    struct amb_session *session = sub->session;
    bool wants = sub->options.mem == AMB_MEM_CUDA || sub->options.mem == AMB_MEM_AS_SENT;
    bool may_keep = amb_deliver_may_keep(session, entry);
    enum amb_mapping_state state =
        wants && may_keep ? amb_session_mapping_of(session, entry->segment) : AMB_MAPPING_REFUSED;
    session->paths.out.gpu_why = (uint8_t)(state == AMB_MAPPING_READY ? AMB_PATH_BEST
                                           : !session->may_map_gpu    ? AMB_PATH_LINK
                                           : !wants                   ? AMB_PATH_WANTS_HOST
                                           : !may_keep                ? AMB_PATH_ROOM
                                                                      : AMB_PATH_REFUSED);
    return state;
}

/* Of a batch in GPU memory: may the session's link take its payloads from there? */
static inline bool amb_deliver_may_by_link(const struct amb_session *session,
                                           const struct amb_entry *entry)
{
    return session->link != NULL && session->link->takes_cuda &&
           entry->data_len / entry->count >= session->link->device_min &&
           entry->segment->gpu->is_exported && amb_gpu_pool_is_sound(entry->segment->gpu);
}

/* The way of a delivery whose payloads lie, or lay, on a GPU. */
void amb_deliver_count_gpu(struct amb_subscription *sub, const struct amb_entry *entry,
                           bool is_copy, uint32_t msgs, uint64_t bytes);

/* The way of a delivery that is not a lazy one. */
static inline void amb_deliver_count_path(struct amb_subscription *sub,
                                          const struct amb_entry *entry, bool is_copy,
                                          uint32_t msgs, uint64_t bytes)
{
    struct amb_paths *paths = &sub->session->paths.out;
    if (__builtin_expect(entry->is_of_gpu, 0)) {
        amb_deliver_count_gpu(sub, entry, is_copy, msgs, bytes);
        return;
    }
    amb_path_count(paths, amb_path_class_of(msgs, bytes),
                   is_copy ? AMB_PATH_COPIED : AMB_PATH_IN_PLACE, (enum amb_path_why)paths->why,
                   msgs, bytes, sub->session->shard->now_ns);
}

/* `bytes` of the entry go to the subscription, in a frame of that type. */
static inline void amb_deliver_count(struct amb_subscription *sub, const struct amb_entry *entry,
                                     uint8_t type, uint32_t msgs, uint64_t bytes)
{
    struct amb_session *session = sub->session;
    struct amb_shard_stats *stats = session->shard->stats;
    bool is_copy = type != AMB_FRAME_MAP && type != AMB_FRAME_MAP_LEASED;
    if (type != AMB_FRAME_LAZY) {
        amb_deliver_count_path(sub, entry, is_copy, msgs, bytes);
    }
    session->msgs_out += msgs;
    session->bytes_out += bytes;
    amb_stat_add(&stats->msgs_out, msgs);
    amb_stat_add(&stats->bytes_out, bytes);
    amb_stat_add(&stats->batches_out, 1);
    amb_stat_add(is_copy ? &stats->copies : &stats->maps, 1);
    amb_stat_delay(stats, session->shard->now_ns - entry->arrived_ns);
}
