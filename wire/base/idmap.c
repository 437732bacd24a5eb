/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/idmap.h"

#include "wire/base/assert.h"

#include <stdbool.h>
#include <stdlib.h>

#define IDMAP_FIRST UINT64_C(32)

/* Neighbouring numbers go to different buckets, and so do those with a common stride. */
static struct amb_idmap_node **idmap_bucket(struct amb_idmap_node **buckets, uint64_t mask,
                                            uint64_t id)
{
    return &buckets[((id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask];
}

static bool idmap_grow(struct amb_idmap *map)
{
    uint64_t size = map->buckets == NULL ? IDMAP_FIRST : (map->mask + 1) * 2;
    struct amb_idmap_node **grown = calloc(size, sizeof(struct amb_idmap_node *));
    if (grown == NULL) {
        return false;
    }
    for (uint64_t i = 0; map->buckets != NULL && i <= map->mask; i++) {
        struct amb_idmap_node *node = map->buckets[i];
        while (node != NULL) {
            struct amb_idmap_node *next = node->next;
            struct amb_idmap_node **bucket = idmap_bucket(grown, size - 1, node->id);
            node->next = *bucket;
            *bucket = node;
            node = next;
        }
    }
    free(map->buckets);
    map->buckets = grown;
    map->mask = size - 1;
    return true;
}

void amb_idmap_fini(struct amb_idmap *map)
{
    free(map->buckets);
    *map = (struct amb_idmap){.buckets = NULL};
}

enum amb_status amb_idmap_put(struct amb_idmap *map, struct amb_idmap_node *node, uint64_t id)
{
    if ((map->buckets == NULL || map->count > map->mask) && !idmap_grow(map) &&
        map->buckets == NULL) {
        return AMB_ENOMEM;
    }
    struct amb_idmap_node **bucket = idmap_bucket(map->buckets, map->mask, id);
    node->id = id;
    node->next = *bucket;
    *bucket = node;
    map->count++;
    return AMB_OK;
}

struct amb_idmap_node *amb_idmap_find(const struct amb_idmap *map, uint64_t id)
{
    if (map->count == 0) {
        return NULL;
    }
    struct amb_idmap_node *node = *idmap_bucket(map->buckets, map->mask, id);
    while (node != NULL && node->id != id) {
        node = node->next;
    }
    return node;
}

void amb_idmap_remove(struct amb_idmap *map, struct amb_idmap_node *node)
{
    struct amb_idmap_node **at = idmap_bucket(map->buckets, map->mask, node->id);
    while (*at != node) {
        amb_assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = node->next;
    node->next = NULL;
    map->count--;
}

struct amb_idmap_node *amb_idmap_any(const struct amb_idmap *map)
{
    for (uint64_t i = 0; map->count > 0 && i <= map->mask; i++) {
        if (map->buckets[i] != NULL) {
            return map->buckets[i];
        }
    }
    return NULL;
}
