/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A schema as a part of a manual page, in mdoc; and text of any kind as mdoc has it.
 * Threads: any. Memory: none.
 */
#pragma once

#include "wire/config/config_key.h"

#include <stdio.h>

#define AMB_MDOC_DATE "November 27, 2026"

/* Text within a line: signs that mdoc would read are written so that it does not. */
void amb_mdoc_put(const char *text, FILE *out);
/* Sentences, each on a line of its own, and a line feed behind the last one. A stop is added where
 * there is none. */
void amb_mdoc_sentences(const char *text, FILE *out);
/* A list with an entry for each row. */
void amb_config_mdoc_print(const struct amb_config_key *keys, size_t count, FILE *out);
