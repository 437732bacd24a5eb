/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list `quotas`: limits of users, and of tenants, over all of their sessions.
 *
 *   a key that a quota does not have is that of the quota "default"; one that this does not have
 *   either is the built-in one. A tenant has the limits that its quota names, and no others.
 *
 * Threads: main, at start and at a reload; questions, any. Memory: the configuration's own blocks.
 */
#pragma once

#include "broker/config/config.h"
#include "wire/config/config_elements.h"

#define AMB_QUOTA_DEFAULT "default"

extern const struct amb_config_elements amb_config_quotas_kind;

/* The rows of one element: offsets into struct amb_config_quota. */
const struct amb_config_key *amb_config_quota_keys(size_t *count);
/* Is there a quota of that name? */
bool amb_config_quota_is_known(const struct amb_config_quotas *quotas, const char *name);

/* The limits of a user with that quota; NULL: the default one. Returns the quota's name. */
const char *amb_config_quota_of_user(const struct amb_config *config, const char *name,
                                     uint64_t limits[AMB_QUOTA_COUNT]);
/* The same of a tenant; "" if it has no quota. */
const char *amb_config_quota_of_tenant(const struct amb_config *config, const char *tenant,
                                       uint64_t limits[AMB_QUOTA_COUNT]);
