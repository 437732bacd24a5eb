/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sifting: the cost of content filters to a worker, and the order in which filters are asked. A
 * filter is asked for each message and subscription. So a client with hundreds of filters, or a
 * publisher with hundreds of properties, could keep a worker for seconds. Therefore
 *
 *   steps    A test, or a property that is looked at, is a step.
 *            A turn has AMB_SIFT_STEPS of them.
 *            One session or queue has at most AMB_SIFT_SHARE.
 *   waiting  A cursor without steps waits in the list of its session or queue, its sifter.
 *            The sifters stand in a line.
 *            Each turn serves the line from its front, with at least half of the steps.
 *            A sifter that needs more goes to the end.
 *   quota    The tests of a user's filters are on the bill of its account (filter_tests).
 *            While that is not over, its sifters are paused, and stand in no line.
 *   index    The properties of a message are found by an index (wire/codec/props_index.h).
 *            The first filter has it made, and it serves all others.
 *            Its cells lie in a ring that is made once.
 *
 * A reader without a filter pays nothing, and waits for other readers' filters one turn at most.
 *
 * Threads: the shard's worker. Memory: the cache (ring and list of indexes), about half a MiB, with
 * the first message that needs it.
 */
#pragma once

#include "broker/shard/sifter.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_cursor;
struct amb_entry;
struct amb_shard;
struct amb_topic;

/* May the cursor's filter be asked now? */
bool amb_sift_may(const struct amb_cursor *cursor);
/* Does the message pass the cursor's filter? blob: the message's properties. Takes the steps that
 * the answer needs. */
bool amb_sift_match(const struct amb_cursor *cursor, const struct amb_entry *entry, uint32_t index,
                    const uint8_t *blob);
/* The cursor has no steps left: its topic is walked again when its sifter is served. Harmless
 * twice. */
void amb_sift_wait(struct amb_cursor *cursor);

/* The time at which paused sifters are to be asked again; INT64_MAX: there are none. */
int64_t amb_sift_due(struct amb_shard *shard);

/* A walk over the marked topics begins. */
void amb_sift_begin(struct amb_shard *shard);
/* ... and is over: cursors that wait are served, by `walk` of their topics. Returns how many. */
unsigned amb_sift_serve(struct amb_shard *shard, void (*walk)(struct amb_topic *topic));
