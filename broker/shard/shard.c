/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/shard.h"

#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>

const struct amb_shard_upcalls amb_shard_no_upcalls;

/* Doubles *table until it holds `index`; new cells are NULL. */
static bool table_reach(void ***table, uint32_t *cells, uint32_t index)
{
    if (index < *cells) {
        return true;
    }
    uint32_t grown = *cells == 0 ? 64 : *cells;
    while (grown <= index) {
        grown *= 2;
    }
    void **bigger = realloc(*table, (size_t)grown * sizeof(void *));
    if (bigger == NULL) {
        return false;
    }
    memset(bigger + *cells, 0, (size_t)(grown - *cells) * sizeof(void *));
    *table = bigger;
    *cells = grown;
    return true;
}

struct amb_topic **amb_shard_topic_cell(struct amb_shard *shard, uint32_t id)
{
    uint32_t cell = amb_topic_cell(id);
    void **table = (void **)shard->topics.at;
    bool reached = table_reach(&table, &shard->topics.cells, cell);
    shard->topics.at = (struct amb_topic **)table;
    return reached ? &shard->topics.at[cell] : NULL;
}

struct amb_session **amb_shard_session_cell(struct amb_shard *shard, uint32_t index)
{
    amb_assert(index < AMB_SESSIONS_MAX);
    void **table = (void **)shard->sessions.at;
    bool reached = table_reach(&table, &shard->sessions.cells, index);
    shard->sessions.at = (struct amb_session **)table;
    return reached ? &shard->sessions.at[index] : NULL;
}
