/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list `roles`: the keys of one element, and the rules for its patterns.
 * Threads: main, at start and at a reload; questions, any. Memory: the configuration's own blocks.
 */
#pragma once

#include "broker/config/config.h"
#include "wire/config/config_elements.h"

extern const struct amb_config_elements amb_config_roles_kind;

/* The rows of one element: offsets into struct amb_role. */
const struct amb_config_key *amb_config_role_keys(size_t *count);
/* Patterns in all lists of the role. */
size_t amb_config_role_patterns(const struct amb_role *role);
/* The level of that name; false: there is none. */
bool amb_config_admin_level(const char *name, enum amb_admin *out);

/* The role of that name; NULL: there is none. */
const struct amb_role *amb_config_role(const struct amb_roles *roles, const char *name);
/* "file:line" of one of a role's patterns, as amb_config_where. */
void amb_config_pattern_where(const struct amb_config_strings *patterns, size_t index, char *out,
                              size_t size);
