/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What content filters cost a worker, and whose turn it is. A filter is asked for each message and
 * subscription, so a client with hundreds of them, or a publisher with hundreds of properties,
 * could keep a worker for seconds. Therefore
 *
 *   steps    a test, or a property that is looked at, is a step. A turn has AMB_SIFT_STEPS of them,
 *            one session or queue at most a quarter of those.
 *   waiting  a cursor without steps is put into the list of its session or queue (its *sifter*);
 * the sifters stand in a line. Each turn serves the line from its front, with at least half of the
 * steps, and the sifter that needs more goes to the end. index    the properties of a message are
 * found by an index (wire/codec/props_index.h) that is made when the first filter asks, and serves
 * all others: a ring of slots, made once.
 *
 * Readers without filters pay nothing and wait for nobody's filter for longer than one turn.
 *
 * Threads: the shard's worker. Memory: the ring, 512 KiB, with the first message that needs it.
 */
#pragma once

#include "broker/sifter.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_cursor;
struct amb_entry;
struct amb_shard;
struct amb_topic;

/* May its filter be asked now? */
bool amb_sift_may(const struct amb_cursor *cursor);
/* Does the message pass its filter? blob: its properties. Takes the steps that the answer needs. */
bool amb_sift_match(const struct amb_cursor *cursor, const struct amb_entry *entry, uint32_t index,
                    const uint8_t *blob);
/* It has no steps left: its topic is walked again when its turn comes. Harmless twice. */
void amb_sift_wait(struct amb_cursor *cursor);

/* A walk over the marked topics begins. */
void amb_sift_begin(struct amb_shard *shard);
/* ... and is over: those who wait are served, by `walk` of their topics. Returns how many. */
unsigned amb_sift_serve(struct amb_shard *shard, void (*walk)(struct amb_topic *topic));
