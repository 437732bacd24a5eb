/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Priorities. Each priority of a topic that somebody publishes with is a topic of its own, with the
 * same name: a log, cursors, lends, limits. These **kin** know each other on every worker:
 *
 *   name ─┬─ high    log: 1 2 3 …                 numbers within it have no gaps, so loss counts
 *         ├─ normal  log: 1 2 3 …  ─ the main one  are exact; `above` makes them the topic's
 *         └─ low     log: 1 2 3 …
 *
 * A reader that reads several of them gives way: messages that wait for it in a higher one go
 * first, always. That is asked once a walk, of readers that have kin; topics are walked by
 * priority. One that replays history at the times at which it came goes by those.
 *
 * Threads: the shard's worker. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_cursor;
struct amb_topic;

/* The topic has come to its shard's tables. A topic that is not the main one has kin.main. */
void amb_priority_enter(struct amb_topic *topic);
/* The cursor has its owner, a subscription or a queue, and finds that one's others. */
void amb_priority_join(struct amb_cursor *cursor);
/* Does something that its owner has not read go before what it reads? */
bool amb_priority_is_outranked(const struct amb_cursor *cursor);
