/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of options: a text by its option's type and range.
 * Threads: any. Memory: none.
 */
#pragma once

#include "tools/cli/cli.h"

/* One that was given. The type says which member holds: of COUNT and SIZE the number, of TIME ns,
 * of RATE the rate, of WORD the word. Others have the text alone. */
struct amb_cli_value {
    const char *text; /* NULL: of a flag */
    uint64_t number;
    int64_t ns, word;
    double rate;
};

/* False: `why` has a sentence of what is wrong: "takes a number of messages, from 1". */
bool amb_cli_value_take(const struct amb_cli_option *option, const char *text,
                        struct amb_cli_value *out, char *why, size_t size);
/* The word that was probably meant; NULL: none is near. */
const char *amb_cli_word_nearest(const struct amb_config_word *words, const char *text);
/* "a, b or c"; those that are not supported yet are left out. Returns out. */
const char *amb_cli_words_shown(const struct amb_config_word *words, char *out, size_t size);
