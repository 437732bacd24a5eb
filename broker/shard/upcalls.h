/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a shard to the rooms above it. The starter of the shard gives one table for as long
 * as the shard is there. NULL: nobody is told; session_ended and offer_segment must be there before
 * the first session.
 *
 * Threads: called on the shard's worker.
 */
#pragma once

#include "wire/base/status.h"

#include <stdint.h>

struct amb_entry;
struct amb_note;
struct amb_segment;
struct amb_shard;
struct amb_topic;

struct amb_shard_upcalls {
    /* Hand a segment to a client; fd is a duplicate and the callee's. */
    void (*offer_segment)(struct amb_shard *shard, uint64_t client_id, uint64_t segment,
                          uint64_t size, int fd);
    /* The same of one in GPU memory. NULL: clients map none. */
    void (*offer_gpu)(struct amb_shard *shard, uint64_t client_id,
                      const struct amb_segment *segment);
    /* A segment of this shard is about to be unmapped. */
    void (*segment_gone)(struct amb_shard *shard, uint64_t segment);
    /* A session's link is gone for good, or its client broke a rule (EPROTO). */
    void (*session_ended)(struct amb_shard *shard, uint64_t client_id, enum amb_status why,
                          const char *text);
    /* A dead letter: takes over the entry, whose topic is that of the name. NULL: dead letters are
     * not kept. */
    void (*dead_letter)(struct amb_shard *shard, struct amb_entry *entry, uint32_t tenant,
                        const char *topic);
    /* A quiet topic at home here has its first message: amb_directory_heard, then
     * amb_order_topic_awake. NULL: no topic is quiet. */
    void (*topic_heard)(struct amb_topic *topic);
    /* A subscription is slow, or has lost something. */
    void (*noted)(struct amb_shard *shard, const struct amb_note *note);
};
