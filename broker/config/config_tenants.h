/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list `tenants`, and the rules between tenants, users and roles.
 * Threads: main, at start and at a reload; questions, any. Memory: the configuration's own blocks.
 */
#pragma once

#include "broker/config/config.h"
#include "wire/config/config_elements.h"

extern const struct amb_config_elements amb_config_tenants_kind;

/* The rows of one element: offsets into struct amb_config_tenant. */
const struct amb_config_key *amb_config_tenant_keys(size_t *count);
/* Is it the name of a tenant or of a quota? Its length aside, which its key limits. */
bool amb_config_name_is(const char *name);
/* Once the users are there: a role with ucx, and several tenants; quotas that are not there. */
AMB_MUST_CHECK enum amb_status amb_config_tenants_check(const struct amb_config_build *build);

/* The tenant of that name; NULL: it is not named. */
const struct amb_config_tenant *amb_config_tenant(const struct amb_config_tenants *tenants,
                                                  const char *name);
/* May a user be of it? */
bool amb_config_tenant_is_known(const struct amb_config_tenants *tenants, const char *name);
