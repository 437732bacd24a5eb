/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/config_auth.h"

#include "broker/auth/users.h"

static enum amb_status fail(const struct amb_config_build *build, const char *reason)
{
    return amb_config_fail(build, amb_config_place_of(build->store, "auth.users"), "auth.users",
                           "%s", reason);
}

enum amb_status amb_config_auth_finish(const struct amb_config_build *build,
                                       const struct amb_config *former)
{
    struct amb_config *config = build->config;
    char why[AMB_AUTH_WHY_MAX];
    if (config->auth.users_file[0] == '\0') {
        return AMB_OK;
    }
    if (config->auth.token_file[0] != '\0') {
        return fail(build, "auth.token_file is set too (allowed one of them)");
    }
    if (config->auth.token[0] != '\0') {
        return fail(build, "auth.token is set too (allowed one of them)");
    }
    enum amb_status status =
        amb_auth_users_load(config->auth.users_file, former == NULL ? NULL : former->auth.users,
                            why, sizeof(why), &config->auth.users);
    return status == AMB_EINVAL ? fail(build, why) : status;
}

bool amb_config_auth_asks(const struct amb_config *config)
{
    return config->auth.token[0] != '\0' || config->auth.users != NULL ||
           config->tls.clients == AMB_TLS_CLIENTS_REQUIRED;
}
