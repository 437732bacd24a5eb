/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/quotas.h"

#include "broker/base/party.h"
#include "broker/config/config_quotas.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/events.h"
#include "wire/base/clock.h"

#include <jansson.h>

#define TICK_NS AMB_NS_PER_SEC
#define NEAR 75u /* per cent of a limit that are told, */
#define FULL 100u

struct amb_account *amb_client_account(const struct amb_client *client)
{
    return client->party == NULL || client->login.user == NULL ? NULL
                                                               : &client->party->user->account;
}

/* Limits ------------------------------------------------------------------------------------- */

void amb_quotas_limit(struct amb_client *client)
{
    struct amb_control *control = client->control;
    struct amb_account *account = amb_client_account(client);
    uint32_t number = client->tenant == NULL ? AMB_TENANT_OPERATORS : client->tenant->number;
    struct amb_tenant *tenant = amb_tenants_at(&control->tenants, number);
    uint64_t limits[AMB_QUOTA_COUNT];
    if (account == NULL || client->party->user->is_free) {
        return;
    }
    amb_user_join(client->party->user, tenant);
    const char *quota =
        amb_config_quota_of_user(control->config, client->login.user->quota, limits);
    amb_account_limit(account, quota, limits);
    quota = amb_config_quota_of_tenant(control->config, tenant->name, limits);
    amb_account_limit(&tenant->account, quota, limits);
}

void amb_quotas_renew(struct amb_control *control)
{
    AMB_LIST_FOR_EACH (node, &control->clients) {
        amb_quotas_limit(AMB_CONTAINER_OF(node, struct amb_client, node));
    }
}

/* Events ------------------------------------------------------------------------------------- */

/* One of a user, or of a tenant. */
struct owner {
    struct amb_control *control;
    const struct amb_user *user; /* NULL: it is a tenant */
    uint32_t tenant;
};

static void tell(const struct owner *owner, const struct amb_account *account, enum amb_quota row,
                 bool is_full)
{
    if (amb_events_are_wanted(owner->control)) {
        char text[AMB_AUTH_NAME_MAX];
        uint32_t number = owner->user == NULL ? 0 : (uint32_t)(owner->user->id & UINT32_MAX);
        const char *user =
            owner->user == NULL ? NULL : amb_login_owner_text(owner->control, number, text);
        amb_events_publish(owner->control, owner->tenant,
                           is_full ? "$SYS.quota.full" : "$SYS.quota.near",
                           json_pack("{s:s, s:s*, s:s, s:s, s:I, s:I}", "of", account->kind, "user",
                                     user, "quota", account->quota, "key", amb_quota_key(row),
                                     "used", (json_int_t)amb_account_used(account, row), "limit",
                                     (json_int_t)amb_account_limit_of(account, row)));
    }
}

/* Has that rate held somebody back since the last look? It then counts as full, though a second may
 * have had a little less than the limit, look for look. */
static bool has_held(struct amb_account *account, enum amb_quota row)
{
    uint64_t refused = atomic_load_explicit(&account->refused[row], memory_order_relaxed);
    bool is_more = refused != account->refused_seen[row];
    account->refused_seen[row] = refused;
    return is_more && amb_quota_is_rate(row);
}

static void look(const struct owner *owner, struct amb_account *account)
{
    for (unsigned i = 0; i < AMB_QUOTA_COUNT; i++) {
        enum amb_quota row = (enum amb_quota)i;
        uint64_t limit = amb_account_limit_of(account, row), used = amb_account_used(account, row);
        if (limit == AMB_QUOTA_NONE || limit == 0) {
            account->told[i] = 0;
            continue;
        }
        bool is_full = has_held(account, row) || used >= limit;
        unsigned is = is_full ? FULL : used >= limit - limit / 4 ? NEAR : 0;
        if (is > account->told[i]) {
            tell(owner, account, row, is == FULL);
            account->told[i] = (uint8_t)is;
        } else if (used < limit / 2 + limit % 2) {
            account->told[i] = 0;
        }
    }
}

static bool look_at_user(const char *key, void *value, void *arg)
{
    (void)key;
    struct amb_control *control = arg;
    struct amb_user *user = value;
    if (user->tenant != NULL) {
        amb_account_rates(&user->account, control->quotas_since_ns);
        const struct owner owner = {control, user, user->tenant->number};
        look(&owner, &user->account);
    }
    return true;
}

void amb_quotas_tick(struct amb_control *control)
{
    if (control->users == NULL ||
        control->now_ns < amb_deadline_ns(control->quotas_seen_ns, TICK_NS)) {
        return;
    }
    control->quotas_since_ns = control->now_ns - control->quotas_seen_ns;
    control->quotas_seen_ns = control->now_ns;
    amb_map_each(control->parties.users, look_at_user, control);
    for (uint32_t i = 0; i < control->tenants.count; i++) {
        const struct owner owner = {control, NULL, i};
        amb_account_rates(&control->tenants.all[i]->account, control->quotas_since_ns);
        look(&owner, &control->tenants.all[i]->account);
    }
}
