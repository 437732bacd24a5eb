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

/* The first edit distance at which another word of this length was probably not meant. */
static inline unsigned amb_cli_too_far(size_t len)
{
    return len <= 4 ? 2 : 3;
}

/* False: `why` has a sentence of what is wrong: "takes a number of messages, from 1". */
bool amb_cli_value_take(const struct amb_cli_option *option, const char *text,
                        struct amb_cli_value *out, char *why, size_t size);
/* The word, if it is one and supported; else NULL. */
const struct amb_config_word *amb_cli_word_named(const struct amb_config_word *words,
                                                 const char *text);
/* The words in place of a text that is none: "a, b or c (did you mean b?)". Returns out. */
const char *amb_cli_words_instead(const struct amb_config_word *words, const char *text, char *out,
                                  size_t size);
/* "a, b or c"; those that are not supported yet are left out. Returns out. */
const char *amb_cli_words_shown(const struct amb_config_word *words, char *out, size_t size);
