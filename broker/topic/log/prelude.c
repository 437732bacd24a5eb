/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/log/prelude.h"

#include "broker/shard/entry.h"
#include "broker/shard/shard.h"

#include <stdlib.h>

struct amb_prelude *amb_prelude_create(uint64_t upto)
{
    struct amb_prelude *prelude = calloc(1, sizeof(*prelude));
    if (prelude != NULL) {
        prelude->upto = upto;
        amb_list_init(&prelude->of_shard);
    }
    return prelude;
}

void amb_prelude_forget(struct amb_prelude **place)
{
    if (*place != NULL) {
        (*place)->kept = NULL;
        *place = NULL;
    }
}

uint64_t amb_prelude_seq(const struct amb_prelude *prelude)
{
    return amb_prelude_entry(prelude)->first_seq - prelude->missed;
}

void amb_prelude_drop(struct amb_prelude *prelude, struct amb_shard *shard)
{
    while (prelude->next < prelude->count) {
        amb_entry_unref(prelude->entries[prelude->next++], shard);
    }
    prelude->next = prelude->count = 0;
    if (prelude->kept != NULL) {
        amb_prelude_forget(prelude->kept);
    }
}

void amb_prelude_free(struct amb_prelude **prelude, struct amb_shard *shard)
{
    struct amb_prelude *p = *prelude;
    if (p == NULL) {
        return;
    }
    *prelude = NULL;
    if (p->is_asked) {
        p->cursor = NULL;
        return;
    }
    amb_prelude_drop(p, shard);
    free(p);
}

void amb_prelude_fini(struct amb_shard *shard)
{
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&shard->preludes.waiting)) != NULL) {
        free(AMB_CONTAINER_OF(node, struct amb_prelude, of_shard)); /* Pools free its entries. */
    }
}

void amb_prelude_advance(struct amb_prelude *prelude, struct amb_shard *shard)
{
    amb_entry_unref(prelude->entries[prelude->next++], shard);
    prelude->missed = 0;
    if (prelude->next == prelude->count) {
        amb_prelude_drop(prelude, shard);
    }
}
