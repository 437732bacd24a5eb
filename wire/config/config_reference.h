/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A schema for people: the parts of the reference pages and of example files.
 * Threads: any. Memory: none.
 */
#pragma once

#include "wire/config/config_key.h"

#include <stdio.h>

/* The default as it stands in a file; of a row without a field, its example. */
void amb_config_default_print(const struct amb_config_key *key, FILE *out);
/* Text in a cell of a Markdown table: signs that Markdown would read are written so that it does
 * not. */
void amb_config_cell_print(const char *text, FILE *out);
/* A Markdown table, one line a row. */
void amb_config_table_print(const struct amb_config_key *keys, size_t count, FILE *out);
