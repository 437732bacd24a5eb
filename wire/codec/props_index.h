/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index over the properties of one message, by name: for many searches, such as the filters of
 * hundreds of subscriptions make. Making an index reads the blob twice. A search reads one or two
 * places of a table, not the blob.
 *
 * Names are hashed with a secret of the process, so a publisher cannot make them collide.
 *
 * Threads: any, each with an index of its own. Memory: the caller's.
 */
#pragma once

#include "wire/codec/props.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of one property: its name's hash, and where in the blob it begins, plus 1. All 0: free. */
struct amb_props_cell {
    uint32_t hash, at;
};

struct amb_props_index {
    const uint8_t *blob;
    uint32_t len;
    uint32_t mask; /* cells - 1 */
    struct amb_props_cell *cells;
};

uint32_t amb_props_name_hash(const char *name, size_t len);

/* Slots for a checked blob: a power of two, at least twice the number of its properties, which is
 * *count. */
uint32_t amb_props_index_cells(const uint8_t *blob, uint32_t len, uint32_t *count);
/* Fills index->cells from index->blob. index->mask + 1 cells are there, all zero. */
void amb_props_index_fill(struct amb_props_index *index);
/* The first property of that name, as amb_props_find. hash: of the name. */
bool amb_props_index_find(const struct amb_props_index *index, const char *name, size_t name_len,
                          uint32_t hash, struct amb_prop_view *out);
