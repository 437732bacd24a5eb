/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values as libconfig text that gives the same values.
 * Threads: any. Memory: none.
 */
#pragma once

#include "wire/config/config_build.h"

/* The value as libconfig text, one line for scalars. Never a secret. */
void amb_config_value_print(const struct amb_config_key *key, const void *base, FILE *out);
/* All rows of the store's schema, each with its origin in a comment. config: the struct that the
 * schema's offsets are in. */
void amb_config_rows_print(const struct amb_config_store *store, const void *config, FILE *out);
