/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/client_listed.h"

#include "broker/auth/numbers.h"
#include "broker/auth/users.h"
#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/client_share.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/login.h"
#include "broker/count/counters_slots.h"
#include "broker/count/figures.h"
#include "broker/rights/rights_map.h"
#include "wire/base/list.h"
#include "wire/tls/tls.h"

#include <stdio.h>
#include <string.h>

#define MAPS_MAX 68u /* of the 472 bytes, the others take 404 at most */

const char *amb_client_state_name(const struct amb_client *client)
{
    switch (client->state) {
    case AMB_CLIENT_HELLO:
    case AMB_CLIENT_AUTH:
    case AMB_CLIENT_OPENING:
        return "connecting";
    case AMB_CLIENT_LIVE:
        return "live";
    case AMB_CLIENT_ENDING:
        return client->is_quarantined ? "quarantined" : "ending";
    }
    return "unknown";
}

/* As amb_client_maps, without a look at all of its rights each time. */
static uint64_t maps_of(struct amb_client *client)
{
    const struct amb_control *control = client->control;
    uint64_t number = control->config_number + 1;
    if (client->listed_maps_of != number) {
        client->listed_maps = amb_rights_maps(client->rights, control->config);
        client->listed_maps_of = number;
    }
    return amb_client_may_map(client) ? client->listed_maps : 0;
}

/* The trust groups whose memory it may map; +N: so many more that do not fit. */
static void maps_text(struct amb_client *client, char text[MAPS_MAX])
{
    const struct amb_config *config = client->control->config;
    uint64_t maps = maps_of(client);
    size_t len = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < config->trust_groups.count; i++) {
        const char *name = config->trust_groups.names[i];
        if ((maps >> i & 1) == 0) {
            continue;
        }
        if (len + strlen(name) + sizeof(" +64") + 1 > MAPS_MAX) {
            (void)snprintf(text + len, MAPS_MAX - len, "%s+%d", len > 0 ? " " : "",
                           __builtin_popcountll(maps >> i));
            return;
        }
        len += (size_t)snprintf(text + len, MAPS_MAX - len, "%s%s", len > 0 ? " " : "", name);
    }
}

void amb_client_list(struct amb_client *client)
{
    struct amb_counters *counters = client->control->counters;
    if (!client->has_session || counters == NULL) {
        amb_counters_unlist(counters, &client->listed, AMB_COUNTERS_CLIENT);
        return;
    }
    char user[AMB_AUTH_NAME_MAX], maps[MAPS_MAX];
    maps_text(client, maps);
    const struct amb_login *login = &client->login;
    const struct amb_client_words words = {
        .pid = (uint64_t)client->pid,
        .uid = client->uid,
        .worker = client->session.shard,
        .tenant = amb_tenant_number(client->tenant),
        .pairs = client->account == NULL ? 0 : client->account->pairs,
        .quarantined_bytes = client->quarantined_bytes,
        .heap_bytes = client->heap.bytes,
        .heap_peak_bytes = client->heap.peak,
        .heap_limit_bytes = client->heap.limit,
        .heap_refused = client->heap.refused,
    };
    const char *const texts[] = {client->name,
                                 amb_client_state_name(client),
                                 amb_link_kind_name(client->link),
                                 client->address,
                                 amb_login_user_text(client, user),
                                 login->user == NULL ? "" : login->user->tenant,
                                 amb_mechanism_name(login->mechanism),
                                 client->tls == NULL ? "" : amb_tls_suite(client->tls),
                                 client->tls == NULL ? "" : AMB_TLS_PROTOCOL,
                                 maps};
    amb_counters_list(counters, &client->listed, AMB_COUNTERS_CLIENT, client->id, &words,
                      sizeof(words), texts, sizeof(texts) / sizeof(texts[0]));
}

const char *amb_client_owner_text(struct amb_directory *directory, unsigned user, char *out)
{
    return amb_login_owner_text(AMB_CONTAINER_OF(directory, struct amb_control, directory), user,
                                out);
}

const char *amb_client_tenant_text(struct amb_directory *directory, uint32_t tenant)
{
    const struct amb_control *control = AMB_CONTAINER_OF(directory, struct amb_control, directory);
    return control->users == NULL ? "" : amb_tenants_name(&control->tenants, tenant);
}
