/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects by a 64-bit number: an intrusive hash table. An object of the map embeds struct
 * amb_idmap_node; numbers are those of one table, each once.
 * Threads: owner only. Memory: the buckets, which double while there are more objects than buckets
 * and never shrink.
 */
#pragma once

#include "wire/base/status.h"

#include <stddef.h>
#include <stdint.h>

struct amb_idmap_node {
    struct amb_idmap_node *next;
    uint64_t id;
};

/* Zero-initialised. */
struct amb_idmap {
    struct amb_idmap_node **buckets;
    uint64_t mask; /* buckets - 1 */
    uint64_t count;
};

/* Forgets what is in it. */
void amb_idmap_fini(struct amb_idmap *map);
/* ENOMEM: without a single bucket; later ones are only for speed. */
AMB_MUST_CHECK enum amb_status amb_idmap_put(struct amb_idmap *map, struct amb_idmap_node *node,
                                             uint64_t id);
/* NULL: not there. */
struct amb_idmap_node *amb_idmap_find(const struct amb_idmap *map, uint64_t id);
/* It is there. */
void amb_idmap_remove(struct amb_idmap *map, struct amb_idmap_node *node);
/* Any one; NULL: empty. */
struct amb_idmap_node *amb_idmap_any(const struct amb_idmap *map);
