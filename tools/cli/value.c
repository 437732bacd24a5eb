/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/value.h"

#include "tools/common/units.h"
#include "wire/base/text.h"

#include <stdio.h>
#include <string.h>

#define ALLOWED_MAX 320u

const struct amb_config_word *amb_cli_word_named(const struct amb_config_word *words,
                                                 const char *text)
{
    const struct amb_config_word *word = amb_config_word_find(words, text);
    return word != NULL && !word->not_yet ? word : NULL;
}

/* The word that was probably meant; NULL: none is near. */
static const char *nearest(const struct amb_config_word *words, const char *text)
{
    const char *best = NULL;
    unsigned limit = amb_cli_too_far(strlen(text));
    for (; words->word != NULL; words++) {
        unsigned distance = words->not_yet ? limit : amb_text_distance(words->word, text, limit);
        if (distance < limit) {
            best = words->word;
            limit = distance;
        }
    }
    return best;
}

static size_t count_of(const struct amb_config_word *words)
{
    size_t count = 0;
    for (; words->word != NULL; words++) {
        count += !words->not_yet;
    }
    return count;
}

const char *amb_cli_words_shown(const struct amb_config_word *words, char *out, size_t size)
{
    size_t len = 0, count = count_of(words), at = 0;
    out[0] = '\0';
    for (; words->word != NULL; words++) {
        if (words->not_yet) {
            continue;
        }
        const char *before = at == 0 ? "" : at + 1 == count ? " or " : ", ";
        int n = snprintf(out + len, size - len, "%s%s", before, words->word);
        len += n > 0 && (size_t)n < size - len ? (size_t)n : 0;
        at++;
    }
    return out;
}

const char *amb_cli_words_instead(const struct amb_config_word *words, const char *text, char *out,
                                  size_t size)
{
    const char *near = nearest(words, text);
    size_t len = strlen(amb_cli_words_shown(words, out, size));
    if (near != NULL) {
        (void)snprintf(out + len, size - len, " (did you mean %s?)", near);
    }
    return out;
}

static bool is_in_range(const struct amb_cli_option *option, uint64_t number)
{
    return number >= option->min && (option->max == 0 || number <= option->max);
}

static bool take_word(const struct amb_cli_option *option, const char *text,
                      struct amb_cli_value *out)
{
    const struct amb_config_word *word = amb_cli_word_named(option->words, text);
    if (word != NULL) {
        out->word = word->value;
    }
    return word != NULL;
}

static bool take(const struct amb_cli_option *option, const char *text, struct amb_cli_value *out)
{
    switch (option->type) {
    case AMB_CLI_FLAG:
        return false;
    case AMB_CLI_COUNT:
        return amb_units_count(text, UINT64_MAX, &out->number) && is_in_range(option, out->number);
    case AMB_CLI_SIZE:
        return amb_units_size(text, &out->number) && is_in_range(option, out->number);
    case AMB_CLI_TIME:
        return amb_units_duration(text, &out->ns) && is_in_range(option, (uint64_t)out->ns);
    case AMB_CLI_RATE:
        return amb_units_rate(text, &out->rate);
    case AMB_CLI_WORD:
        return take_word(option, text, out);
    case AMB_CLI_FILE:
    case AMB_CLI_FOLDER:
        return text[0] != '\0';
    case AMB_CLI_PATTERN:
    case AMB_CLI_TEXT:
        break;
    }
    return option->fault != NULL ? option->fault(text) == NULL : is_in_range(option, strlen(text));
}

bool amb_cli_value_take(const struct amb_cli_option *option, const char *text,
                        struct amb_cli_value *out, char *why, size_t size)
{
    struct amb_cli_value value = {.text = text};
    if (take(option, text, &value)) {
        *out = value;
        return true;
    }
    char allowed[ALLOWED_MAX];
    const char *takes;
    if (option->type == AMB_CLI_WORD) {
        takes = amb_cli_words_instead(option->words, text, allowed, sizeof(allowed));
    } else if (option->type == AMB_CLI_TEXT && option->fault != NULL) {
        takes = option->fault(text);
    } else {
        takes = amb_cli_allowed(option, allowed, sizeof(allowed));
    }
    (void)snprintf(why, size, "takes %s", takes);
    return false;
}
