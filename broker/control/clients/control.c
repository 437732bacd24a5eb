/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/control.h"

#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/directory/directory_topic.h"
#include "broker/shard/shard.h"
#include "broker/worker/shard_setup.h"
#include "wire/base/assert.h"
#include "wire/base/log.h"

#include <openssl/crypto.h>
#include <stdlib.h>

void amb_control_use_config(struct amb_control *control, const struct amb_config *config)
{
    const struct amb_config *former = control->config;
    control->config = amb_config_ref(config);
    control->config_number++;
    control->directory.config = config;
    amb_config_unref(&former);
    if (!amb_directory_ids_fit(&control->directory, config->limits.max_topics)) {
        amb_error("limits.max_topics: no memory for the numbers of so many topics");
    }
    for (unsigned i = 0; i < control->shard_count && !control->directory.is_over; i++) {
        struct amb_order_config *order = amb_order_new(&amb_order_config, NULL, NULL);
        if (order == NULL) {
            amb_error("worker %u keeps its limits and rules: no memory", i);
            continue;
        }
        order->config = amb_config_ref(config);
        amb_order_post(control->shards[i], &order->order);
    }
}

/* Session indices ----------------------------------------------------------------------------- */

static bool indices_grow(struct amb_session_indices *indices)
{
    uint32_t grown = indices->count == 0 ? 16 : indices->count * 2;
    uint32_t *generations = realloc(indices->generations, grown * sizeof(*generations));
    if (generations == NULL) {
        return false;
    }
    indices->generations = generations;
    struct amb_client **clients = realloc(indices->clients, grown * sizeof(struct amb_client *));
    if (clients == NULL) {
        return false;
    }
    indices->clients = clients;
    for (uint32_t i = indices->count; i < grown; i++) {
        generations[i] = 0;
        clients[i] = NULL;
    }
    indices->count = grown;
    return true;
}

static enum amb_status indices_take(struct amb_session_indices *indices, uint32_t *index,
                                    uint32_t *generation)
{
    uint32_t free_index = indices->first_free;
    while (free_index < indices->count && indices->generations[free_index] % 2 == 1) {
        free_index++;
    }
    indices->first_free = free_index;
    if (free_index == AMB_SESSIONS_MAX) {
        return AMB_ELIMIT;
    }
    if (free_index == indices->count && !indices_grow(indices)) {
        return AMB_ENOMEM;
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
    indices->clients[id->index] = NULL;
    indices->sessions--;
    if (id->index < indices->first_free) {
        indices->first_free = id->index;
    }
}

void amb_control_session_assign(struct amb_control *control, const struct amb_session_id *id,
                                struct amb_client *client)
{
    struct amb_session_indices *indices = &control->indices[id->shard];
    amb_assert(indices->generations[id->index] == id->generation);
    indices->clients[id->index] = client;
}

struct amb_client *amb_control_session_client(const struct amb_control *control, uint32_t index,
                                              uint32_t generation, uint64_t secret)
{
    for (unsigned i = 0; i < control->shard_count; i++) {
        const struct amb_session_indices *indices = &control->indices[i];
        struct amb_client *client = index < indices->count ? indices->clients[index] : NULL;
        if (client != NULL && indices->generations[index] == generation &&
            CRYPTO_memcmp(&client->secret, &secret, sizeof(secret)) == 0) {
            return client;
        }
    }
    return NULL;
}
