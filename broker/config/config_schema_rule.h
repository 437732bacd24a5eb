/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the schema (config_schema.h) that one element of `topics` has. Threads: any
 * (constants). Memory: static.
 */
#pragma once

#include "broker/config/config.h"
#include "wire/config/config_elements.h"

extern const struct amb_config_elements amb_config_rules_kind;

/* The rows: offsets into struct amb_topic_rule. */
const struct amb_config_key *amb_config_rule_keys(size_t *count);
