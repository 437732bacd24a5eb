/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reader is given messages of one entry: as a map descriptor, by copy, from GPU memory or from
 * its host copy. The reader needs room in its link, credit, and the topic's name first.
 *
 *   batch of a pool    one delivery, or a slice of its own for less than half of it by copy
 *   leased batch       one delivery in place; by copy one for each message, straight from its slot
 *   batch on a GPU     there, for a client that wants and may; else its host copy (twin.h)
 *
 * Threads: the shard's worker. Memory: none but frames from the shard's pool.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_cursor;
struct amb_entry;

/* Delivers the messages from cursor->within to `end`. False: not all of them now. */
bool amb_give(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t end);
/* The same for a reader that asks for payloads if it wants them. */
bool amb_give_lazy(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t end);
