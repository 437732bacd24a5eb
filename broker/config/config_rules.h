/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list `topics`: each element a group with a schema of its own.
 * Threads: main, at start and at a reload. Memory: the configuration's own blocks.
 */
#pragma once

#include "wire/config/config_build.h"

/* The target is of type RULES. */
AMB_MUST_CHECK enum amb_status amb_config_rules_set(const struct amb_config_target *target,
                                                    const struct amb_config_value *value);
/* field: of type struct amb_topic_rules. */
void amb_config_rules_print(const void *field, FILE *out);
