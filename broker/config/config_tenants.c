/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/config_tenants.h"

#include "broker/auth/users.h"
#include "broker/config/config_quotas.h"
#include "wire/config/config_build.h"

#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define TENANT(member) offsetof(struct amb_config_tenant, member)

static const struct amb_config_key tenant_keys[] = {
    {.path = "name",
     .type = AMB_CONFIG_TEXT,
     .offset = TENANT(name),
     .apply = AMB_CONFIG_LIVE,
     .example_value = "\"plant\"",
     .min = 1,
     .max = AMB_USER_NAME_MAX,
     .help = "As the file of users says it: letters, digits and -_@, a letter first; or $."},
    {.path = "quota",
     .type = AMB_CONFIG_TEXT,
     .offset = TENANT(quota),
     .apply = AMB_CONFIG_LIVE,
     .default_text = "",
     .max = AMB_QUOTA_NAME_MAX,
     .help = "The quota of all its users together, one of `quotas`; empty: none."},
};

const struct amb_config_key *amb_config_tenant_keys(size_t *count)
{
    *count = sizeof(tenant_keys) / sizeof(tenant_keys[0]);
    return tenant_keys;
}

static bool is_operators(const char *name)
{
    return strcmp(name, AMB_USER_OPERATORS) == 0;
}

/* As the file of users has it: wire/auth/user_line.h. */
bool amb_config_name_is(const char *name)
{
    return strspn(name, LETTERS) > 0 && strspn(name, LETTERS "0123456789-@") == strlen(name);
}

static enum amb_status tenant_check(const struct amb_config_target *element)
{
    const struct amb_config_tenant *tenant = element->base;
    if (!is_operators(tenant->name) && !amb_config_name_is(tenant->name)) {
        return amb_config_fail(element->build, element->place, element->path,
                               "not a name (allowed letters, digits and -_@, a letter first; or "
                               "\"$\")");
    }
    return AMB_OK;
}

const struct amb_config_elements amb_config_tenants_kind = {
    .keys = amb_config_tenant_keys,
    .size = sizeof(struct amb_config_tenant),
    .name = "name",
    .name_offset = TENANT(name),
    .name_help = "a name as \"plant\"",
    .example = "{ name = \"plant\"; }",
    .check = tenant_check,
};

/* By name ------------------------------------------------------------------------------------- */

const struct amb_config_tenant *amb_config_tenant(const struct amb_config_tenants *tenants,
                                                  const char *name)
{
    return amb_config_elements_find(&amb_config_tenants_kind, tenants->items, tenants->count, name);
}

bool amb_config_tenant_is_known(const struct amb_config_tenants *tenants, const char *name)
{
    return tenants->count == 0 || is_operators(name) || amb_config_tenant(tenants, name) != NULL;
}

/* Quotas -------------------------------------------------------------------------------------- */

static enum amb_status quotas_check(const struct amb_config_build *build)
{
    const struct amb_config *config = build->config;
    for (size_t i = 0; i < config->tenants.count; i++) {
        const struct amb_config_tenant *tenant = &config->tenants.items[i];
        if (tenant->quota[0] != '\0' &&
            !amb_config_quota_is_known(&config->quotas, tenant->quota)) {
            return amb_config_fail(build, amb_config_place_of(build->store, "tenants"), "tenants",
                                   "of \"%s\": no quota is called \"%s\"", tenant->name,
                                   tenant->quota);
        }
    }
    return AMB_OK;
}

/* UCX ----------------------------------------------------------------------------------------- */

static const struct amb_role *role_with_ucx(const struct amb_roles *roles)
{
    for (size_t i = 0; i < roles->count; i++) {
        if (roles->items[i].ucx) {
            return &roles->items[i];
        }
    }
    return NULL;
}

/* A tenant other than `first` that somebody is of, or may be. Operators are trusted with the
 * process anyway. NULL: there is none. */
static const char *tenant_beside(const struct amb_config *config, const char *first)
{
    for (size_t i = 0; i < config->tenants.count; i++) {
        const char *name = config->tenants.items[i].name;
        if (!is_operators(name) && (first == NULL || strcmp(first, name) != 0)) {
            return name;
        }
    }
    for (size_t i = 0; i < amb_auth_users_count(config->auth.users); i++) {
        const char *name = amb_auth_users_at(config->auth.users, i)->tenant;
        if (!is_operators(name) && (first == NULL || strcmp(first, name) != 0)) {
            return name;
        }
    }
    return NULL;
}

enum amb_status amb_config_tenants_check(const struct amb_config_build *build)
{
    const struct amb_config *config = build->config;
    const struct amb_role *role = role_with_ucx(&config->roles);
    const char *first = tenant_beside(config, NULL);
    const char *second = first == NULL ? NULL : tenant_beside(config, first);
    if (role == NULL || second == NULL || config->share_process) {
        return quotas_check(build);
    }
    return amb_config_fail(build, amb_config_place_of(build->store, "transports.share_process"),
                           "transports.share_process",
                           "role \"%s\" has ucx, and users with it can harm all tenants, as \"%s\" "
                           "and \"%s\" (got false, allowed true)",
                           role->name, first, second);
}
