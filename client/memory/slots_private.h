/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of slots. Segments come and go in slots_life.c, and slots.c takes slots and
 * gives them back. keep.c has those that the program keeps.
 *
 * Threads: under the connection's lock.
 */
#pragma once

#include "client/memory/slots.h"

static inline struct amb_slots *amb_slots_of(struct amb_list_node *node)
{
    return AMB_CONTAINER_OF(node, struct amb_slots, node);
}

/* It is mapped and sealed: its slots can be taken. */
void amb_slots_make_ready(struct amb_slots *slots);
/* The sum that its bytes are part of. */
uint64_t *amb_slots_sum(const struct amb_slots *slots);
/* Frees a segment of a session that is over as soon as the program has nothing in it. */
void amb_slots_end(struct amb_slots *slots);
/* Frees a segment in which nothing lies; the broker does not hear of it. */
void amb_slots_unmap(struct amb_slots *slots);
