/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/client_share.h"

#include "broker/base/party.h"
#include "broker/base/user.h"
#include "broker/config/config.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/quotas.h"
#include "broker/memory/gpupool.h"
#include "broker/rights/rights_map.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

uint64_t amb_client_maps(const struct amb_client *client)
{
    return amb_client_may_map(client) ? amb_rights_maps(client->rights, client->control->config)
                                      : 0;
}

bool amb_client_may_map_gpu(const struct amb_client *client)
{
    enum amb_gpu_trust trust = client->control->config->memory.cuda.trust;
    return amb_client_may_map(client) && trust != AMB_GPU_TRUST_NONE &&
           (trust == AMB_GPU_TRUST_ALL || client->uid == 0 || client->uid == geteuid());
}

const char *amb_client_gpu_obstacle(const struct amb_client *client)
{
    const struct amb_gpus *gpus = client->control->shards[0]->memory.gpus;
    if (gpus == NULL || gpus->count == 0) {
        return gpus != NULL ? gpus->why_not : "the broker has no GPU memory (memory.cuda.size)";
    }
    if (!amb_client_may_map(client)) {
        return "only over the ring, by clients on the broker's host";
    }
    return amb_client_may_map_gpu(client) ? NULL
                                          : "not trusted with GPU memory (memory.cuda.trust)";
}

/* No process of it is seen. So its party is this connection's alone, and nobody finds it again. */
static bool has_party_of_its_own(const struct amb_client *client)
{
    return client->is_unix && client->pid <= 0;
}

/* The pid of a process that we see; the connection of one that we do not see; an address without
 * its port. */
static void party_name(const struct amb_client *client, char *out, size_t size)
{
    if (!client->is_unix) {
        const char *port = strrchr(client->address, ':');
        int len = port == NULL ? (int)strlen(client->address) : (int)(port - client->address);
        (void)snprintf(out, size, "%.*s", len, client->address);
    } else if (has_party_of_its_own(client)) {
        (void)snprintf(out, size, "c%" PRIu64, client->id);
    } else {
        (void)snprintf(out, size, "%d", (int)client->pid);
    }
}

uint64_t amb_client_mapped_max(const struct amb_client *client)
{
    const struct amb_config *config = client->control->config;
    uint64_t max = config->limits.max_mapped_per_session;
    uint64_t left = max > client->party->quarantined ? max - client->party->quarantined : 0;
    const struct amb_user *user = client->party->user;
    uint64_t most = config->memory.host.size / 2;
    uint64_t users = most > user->quarantined ? most - user->quarantined : 0;
    return user->quarantined > client->party->quarantined && users < left ? users : left;
}

/* Else the reason is in why. */
static bool user_has_room(const struct amb_client *client, uint32_t leaving, char *why, size_t size)
{
    struct amb_control *control = client->control;
    const struct amb_user *user = client->party->user;
    uint32_t max = control->config->server.max_connections;
    if (amb_user_has_room(user, AMB_SHARE_SESSIONS, leaving, max, amb_control_sessions(control),
                          control->config->limits.user_share)) {
        return true;
    }
    uint32_t own = user->used[AMB_SHARE_SESSIONS];
    own -= own < leaving ? own : leaving;
    amb_stat_add(&control->stats->refused_limit, 1);
    (void)snprintf(why, size,
                   "limit: %" PRIu32 " of %u connections are one user's "
                   "(limits.user_share, server.max_connections)",
                   own, max);
    return false;
}

static enum amb_status refuse_quota(struct amb_client *client, const struct amb_account *full,
                                    enum amb_quota row, char *why, size_t size)
{
    char text[AMB_QUOTA_TEXT_MAX];
    amb_stat_add(&client->control->stats->refused_limit, 1);
    (void)snprintf(why, size, "%s", amb_quota_text(full, row, text));
    amb_party_unref(&client->party);
    return row == AMB_QUOTA_CONNECTIONS ? AMB_EBUSY : AMB_ELIMIT;
}

enum amb_status amb_client_take_party(struct amb_client *client, uint32_t leaving, char *why,
                                      size_t size)
{
    char name[80];
    party_name(client, name, sizeof(name));
    uint64_t user = amb_user_is_named(client->user) ? AMB_PARTY_NAMED | client->user
                    : client->is_unix               ? (uint64_t)client->uid
                                                    : AMB_PARTY_TCP;
    if (client->party == NULL &&
        amb_parties_find(&client->control->parties, user, name, &client->party) != AMB_OK) {
        (void)snprintf(why, size, "no memory");
        return AMB_ENOMEM;
    }
    client->mapped_max = amb_client_mapped_max(client);
    amb_quotas_limit(client);
    const struct amb_account *full =
        amb_account_refuses(amb_client_account(client), AMB_QUOTA_CONNECTIONS, leaving > 0 ? 0 : 1);
    if (full != NULL) {
        return refuse_quota(client, full, AMB_QUOTA_CONNECTIONS, why, size);
    }
    uint64_t heap = leaving > 0 ? 0
                                : sizeof(struct amb_client) + sizeof(struct amb_session) +
                                      amb_rights_heap(client->rights);
    full = amb_account_refuses(amb_client_account(client), AMB_QUOTA_HEAP, heap);
    if (full != NULL) {
        return refuse_quota(client, full, AMB_QUOTA_HEAP, why, size);
    }
    if (!user_has_room(client, leaving, why, size)) {
        amb_party_unref(&client->party);
        return AMB_EBUSY;
    }
    amb_user_count(client->party->user, AMB_SHARE_SESSIONS, 1);
    amb_heap_pay(&client->heap, amb_client_account(client));
    return AMB_OK;
}

void amb_client_leave_party(struct amb_client *client)
{
    if (client->party == NULL) {
        return;
    }
    client->party->quarantined -= client->charged_bytes;
    client->party->user->quarantined -= client->charged_bytes;
    client->charged_bytes = 0;
    amb_user_count(client->party->user, AMB_SHARE_SESSIONS, -1);
    amb_heap_leave(&client->heap);
    if (client->is_dead || has_party_of_its_own(client)) {
        amb_parties_end(&client->control->parties, client->party);
    }
    amb_party_unref(&client->party);
}

void amb_client_count_sub(struct amb_client *client, int change)
{
    if (client->party != NULL) {
        amb_user_count(client->party->user, AMB_SHARE_SUBSCRIPTIONS, change);
    }
}

void amb_client_charge(struct amb_client *client, uint64_t bytes)
{
    if (client->party != NULL) {
        client->party->quarantined += bytes - client->charged_bytes;
        client->party->user->quarantined += bytes - client->charged_bytes;
        client->charged_bytes = bytes;
    }
}
