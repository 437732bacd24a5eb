/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema: one row per key, from which the parser, --print-config, the example file, the
 * reference page and all error texts come. A new key is a field in broker/config/config.h and a row
 * in broker/config/config_schema.c or, for topics, config_schema_rule.c. Threads: any (constants).
 * Memory: static.
 */
#pragma once

#include "broker/config/config.h"
#include "wire/config/config_key.h"

/* The rows of the whole configuration: offsets into struct amb_config. */
extern const struct amb_config_schema amb_broker_schema;
const struct amb_config_key *amb_config_keys(size_t *count);
