/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/control.h"

#include "broker/config/config.h"
#include "broker/shard/shard.h"
#include "broker/worker/shard_setup.h"
#include "wire/base/assert.h"
#include "wire/base/log.h"

#include <stdlib.h>
#include <string.h>

void amb_control_use_config(struct amb_control *control, const struct amb_config *config)
{
    control->config = config;
    control->directory.config = config;
    for (unsigned i = 0; i < control->shard_count && !control->directory.is_over; i++) {
        struct amb_order_limits *order = amb_order_new(&amb_order_limits, NULL, NULL);
        if (order == NULL) {
            amb_error("worker %u keeps its limits: no memory", i);
            continue;
        }
        order->limits = &config->limits;
        amb_order_post(control->shards[i], &order->order);
    }
}

/* Session indices ----------------------------------------------------------------------------- */

static enum amb_status indices_take(struct amb_session_indices *indices, uint32_t *index,
                                    uint32_t *generation)
{
    uint32_t free_index = 0;
    while (free_index < indices->count && indices->generations[free_index] % 2 == 1) {
        free_index++;
    }
    if (free_index == AMB_SESSIONS_MAX) {
        return AMB_ELIMIT;
    }
    if (free_index == indices->count) {
        uint32_t grown = indices->count == 0 ? 16 : indices->count * 2;
        uint32_t *generations = realloc(indices->generations, grown * sizeof(uint32_t));
        if (generations == NULL) {
            return AMB_ENOMEM;
        }
        memset(generations + indices->count, 0, (grown - indices->count) * sizeof(uint32_t));
        indices->generations = generations;
        indices->count = grown;
    }
    *index = free_index;
    *generation = ++indices->generations[free_index];
    indices->sessions++;
    return AMB_OK;
}

enum amb_status amb_control_session_take(struct amb_control *control, struct amb_session_id *out)
{
    unsigned best = 0;
    for (unsigned i = 1; i < control->shard_count; i++) {
        if (control->indices[i].sessions < control->indices[best].sessions) {
            best = i;
        }
    }
    out->shard = best;
    return indices_take(&control->indices[best], &out->index, &out->generation);
}

uint32_t amb_control_sessions(const struct amb_control *control)
{
    uint32_t sessions = 0;
    for (unsigned i = 0; i < control->shard_count; i++) {
        sessions += control->indices[i].sessions;
    }
    return sessions;
}

void amb_control_session_give(struct amb_control *control, const struct amb_session_id *id)
{
    struct amb_session_indices *indices = &control->indices[id->shard];
    amb_assert(indices->generations[id->index] == id->generation);
    indices->generations[id->index]++;
    indices->sessions--;
}
