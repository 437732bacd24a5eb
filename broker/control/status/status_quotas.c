/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/status_quotas.h"

#include "broker/base/party.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/login.h"
#include "broker/control/status/status.h"
#include "broker/control/status/status_private.h"

#include <string.h>

struct gather {
    struct amb_status_query *query;
    struct amb_control *control;
    json_t *rows;
};

/* "": of all users. */
static bool asks_for(const struct amb_status_query *query, const char *user)
{
    return query->pattern_len == 0 || (user != NULL && strcmp(query->pattern, user) == 0);
}

static void add(struct gather *gather, const struct amb_account *account, const char *user,
                uint32_t tenant)
{
    struct amb_status_query *query = gather->query;
    if (!amb_tenant_is_asked(query->tenant, tenant) || !asks_for(query, user)) {
        return;
    }
    for (unsigned i = 0; i < AMB_QUOTA_COUNT; i++) {
        enum amb_quota row = (enum amb_quota)i;
        uint64_t limit = amb_account_limit_of(account, row);
        uint64_t refused = atomic_load_explicit(&account->refused[row], memory_order_relaxed);
        if (limit == AMB_QUOTA_NONE && query->pattern_len == 0) {
            continue;
        }
        if (json_array_size(gather->rows) >= AMB_STATUS_ROWS_MAX) {
            query->omitted++;
            continue;
        }
        json_t *json = json_pack(
            "{s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "of", account->kind, "user",
            user == NULL ? "" : user, "tenant", amb_tenants_name(&gather->control->tenants, tenant),
            "quota", account->quota, "key", amb_quota_key(row), "used",
            amb_status_num(amb_account_used(account, row)), "refused", amb_status_num(refused));
        (void)json_object_set_new(json, "limit",
                                  limit == AMB_QUOTA_NONE ? json_string("none")
                                                          : json_integer(amb_status_num(limit)));
        (void)json_array_append_new(gather->rows, json);
    }
}

static bool add_user(const char *key, void *value, void *arg)
{
    (void)key;
    struct gather *gather = arg;
    const struct amb_user *user = value;
    char text[AMB_AUTH_NAME_MAX];
    if (user->tenant != NULL) { /* "plant:cam7" */
        const char *name =
            amb_login_owner_text(gather->control, (uint32_t)(user->id & UINT32_MAX), text);
        const char *colon = strchr(name, ':');
        add(gather, &user->account, colon == NULL ? name : colon + 1, user->tenant->number);
    }
    return true;
}

json_t *amb_status_gather_quotas(struct amb_status_query *query, struct amb_control *control)
{
    struct gather gather = {query, control, json_array()};
    for (uint32_t i = 0; i < control->tenants.count; i++) {
        add(&gather, &control->tenants.all[i]->account, NULL, i);
    }
    amb_map_each(control->parties.users, add_user, &gather);
    return gather.rows;
}
