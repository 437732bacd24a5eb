/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/prelude.h"

#include "broker/entry.h"

#include <stdlib.h>

void amb_prelude_advance(struct amb_prelude **prelude, struct amb_shard *shard)
{
    struct amb_prelude *p = *prelude;
    amb_entry_unref(p->entries[p->next++], shard);
    if (p->next == p->count) {
        free(p);
        *prelude = NULL;
    }
}

void amb_prelude_free(struct amb_prelude **prelude, struct amb_shard *shard)
{
    while (*prelude != NULL && (*prelude)->next < (*prelude)->count) {
        amb_prelude_advance(prelude, shard);
    }
    free(*prelude); /* There was nothing in it. */
    *prelude = NULL;
}

void amb_prelude_lend(struct amb_prelude **prelude, struct amb_shard *shard)
{
    struct amb_prelude *p = *prelude;
    for (uint32_t i = 0; p != NULL && i < p->count; i++) {
        struct amb_entry *shadow = amb_entry_lend(p->entries[i], shard);
        if (shadow == NULL) {
            amb_prelude_free(prelude, shard); /* Shadows made so far are home's, too. */
            return;
        }
        amb_entry_unref(p->entries[i], shard);
        p->entries[i] = shadow;
    }
}
