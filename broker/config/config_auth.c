/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/config_auth.h"

#include "broker/auth/users.h"
#include "broker/config/config_quotas.h"
#include "broker/config/config_roles.h"
#include "broker/config/config_tenants.h"

static enum amb_status fail(const struct amb_config_build *build, const char *reason)
{
    return amb_config_fail(build, amb_config_place_of(build->store, "auth.users"), "auth.users",
                           "%s", reason);
}

/* NULL: the roles of the user are there, and have no more patterns than a user may. */
static const char *roles_fault(const struct amb_config *config, const struct amb_auth_user *user,
                               const char **role)
{
    size_t patterns = 0;
    for (unsigned i = 0; i < user->role_count; i++) {
        *role = user->roles[i];
        const struct amb_role *found = amb_config_role(&config->roles, *role);
        if (found == NULL) {
            return "no role is called";
        }
        patterns += amb_config_role_patterns(found);
    }
    return patterns > AMB_ROLE_PATTERNS_MAX ? "its roles have more than 128 patterns, with" : NULL;
}

static enum amb_status users_check(const struct amb_config_build *build,
                                   const struct amb_config *config)
{
    for (size_t i = 0; i < amb_auth_users_count(config->auth.users); i++) {
        const struct amb_auth_user *user = amb_auth_users_at(config->auth.users, i);
        const char *name = "", *fault = roles_fault(config, user, &name);
        if (fault == NULL && !amb_config_tenant_is_known(&config->tenants, user->tenant)) {
            name = user->tenant;
            fault = "no tenant is called";
        }
        if (fault == NULL && user->quota != NULL &&
            !amb_config_quota_is_known(&config->quotas, user->quota)) {
            name = user->quota;
            fault = "no quota is called";
        }
        if (fault != NULL) {
            return amb_config_fail(build, amb_config_place_of(build->store, "auth.users"),
                                   "auth.users", "%s:%u: %s \"%s\"", config->auth.users_file,
                                   user->line, fault, name);
        }
    }
    return AMB_OK;
}

enum amb_status amb_config_auth_finish(const struct amb_config_build *build,
                                       const struct amb_config *former)
{
    struct amb_config *config = build->config;
    struct amb_auth_numbers *numbers = former == NULL ? NULL : former->auth.numbers;
    char why[AMB_AUTH_WHY_MAX];
    if (numbers != NULL) {
        config->auth.numbers = amb_auth_numbers_ref(numbers);
    }
    if (config->auth.users_file[0] == '\0') {
        return AMB_OK;
    }
    if (config->auth.token_file[0] != '\0') {
        return fail(build, "auth.token_file is set too (allowed one of them)");
    }
    if (config->auth.token[0] != '\0') {
        return fail(build, "auth.token is set too (allowed one of them)");
    }
    enum amb_status status = amb_auth_users_load(config->auth.users_file, numbers, why, sizeof(why),
                                                 &config->auth.users);
    if (status != AMB_OK) {
        return status == AMB_EINVAL ? fail(build, why) : status;
    }
    if (numbers == NULL) {
        config->auth.numbers = amb_auth_numbers_ref(amb_auth_users_numbers(config->auth.users));
    }
    status = users_check(build, config);
    return status == AMB_OK ? amb_config_tenants_check(build) : status;
}

bool amb_config_auth_asks(const struct amb_config *config)
{
    return config->auth.token[0] != '\0' || config->auth.users != NULL ||
           config->tls.clients == AMB_TLS_CLIENTS_REQUIRED;
}
