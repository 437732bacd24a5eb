/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_key.h"

#include "wire/base/assert.h"
#include "wire/base/text.h"
#include "wire/config/config_elements.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Is `path` something below `group`? */
static bool is_below(const char *path, const char *group)
{
    size_t len = strlen(group);
    return strncmp(path, group, len) == 0 && path[len] == '.';
}

const struct amb_config_key *amb_config_key_find(const struct amb_config_key *table, size_t count,
                                                 const char *path)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(table[i].path, path) == 0) {
            return &table[i];
        }
        if (!amb_config_has_field(&table[i]) && is_below(path, table[i].path)) {
            return &table[i];
        }
    }
    return NULL;
}

bool amb_config_is_group(const struct amb_config_key *table, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++) {
        if (is_below(table[i].path, path)) {
            return true;
        }
    }
    return false;
}

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot == NULL ? path : dot + 1;
}

const char *amb_config_nearest(const struct amb_config_key *table, size_t count, const char *path)
{
    const char *best = NULL;
    size_t length = strlen(last_part(path));
    unsigned best_distance = length <= 4 ? 1 : 3;
    for (size_t i = 0; i < count; i++) {
        unsigned distance = amb_text_distance(table[i].path, path, best_distance);
        if (distance <= best_distance && (best == NULL || distance < best_distance)) {
            best = table[i].path;
            best_distance = distance;
        }
    }
    if (best != NULL) {
        return best;
    }
    /* Right name, wrong place: "workers" is meant to be "server.workers". */
    for (size_t i = 0; i < count; i++) {
        if (amb_text_distance(last_part(table[i].path), last_part(path), 1) <= 1 && length > 2) {
            return table[i].path;
        }
    }
    return NULL;
}

bool amb_config_nearest_group(const struct amb_config_key *table, size_t count, const char *path,
                              char out[AMB_CONFIG_PATH_MAX])
{
    unsigned best = strlen(path) <= 4 ? 2 : 3; /* the first that is too far */
    bool is_found = false;
    for (size_t i = 0; i < count && strchr(path, '.') == NULL; i++) {
        char group[AMB_CONFIG_PATH_MAX];
        const char *dot = strchr(table[i].path, '.');
        if (dot == NULL) {
            continue;
        }
        (void)snprintf(group, sizeof(group), "%.*s", (int)(dot - table[i].path), table[i].path);
        unsigned distance = amb_text_distance(group, path, best);
        if (distance < best && distance != 0) {
            best = distance;
            is_found = true;
            memcpy(out, group, sizeof(group));
        }
    }
    return is_found;
}

void amb_config_env_name(const char *path, char *out, size_t size)
{
    amb_assert(size > sizeof("AMBROKER_"));
    size_t n = (size_t)snprintf(out, size, "AMBROKER_");
    for (; *path != '\0' && n + 1 < size; path++, n++) {
        char c = *path == '.' ? '_' : *path;
        out[n] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
    }
    out[n] = '\0';
}

const char *amb_config_apply_name(enum amb_config_apply apply)
{
    switch (apply) {
    case AMB_CONFIG_RESTART:
        return "restart";
    case AMB_CONFIG_NEW_SESSIONS:
        return "new sessions";
    case AMB_CONFIG_LIVE:
        return "live";
    }
    return "";
}

/* `"a", "b" or "c"`, the words that can be used. */
static void list_words(const struct amb_config_word *words, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    size_t usable = 0;
    for (const struct amb_config_word *w = words; w->word != NULL; w++) {
        usable += !w->not_yet;
    }
    for (const struct amb_config_word *w = words; w->word != NULL && n < size; w++) {
        if (w->not_yet) {
            continue;
        }
        usable--;
        const char *after = usable == 0 ? "" : usable == 1 ? " or " : ", ";
        n += (size_t)snprintf(out + n, size - n, "\"%s\"%s", w->word, after);
    }
}

static void format_range(const struct amb_config_key *key, char *out, size_t size)
{
    char low[AMB_TEXT_MAX], high[AMB_TEXT_MAX];
    if (key->type == AMB_CONFIG_TIME) {
        amb_text_format_time((int64_t)key->min, low, sizeof(low));
        amb_text_format_time((int64_t)key->max, high, sizeof(high));
    } else if (key->type == AMB_CONFIG_SIZE) {
        amb_text_format_size(key->min, low, sizeof(low));
        /* 4G - 64K reads better than 4194240K. */
        if (key->max == (UINT64_C(4) << 30) - (UINT64_C(64) << 10)) {
            (void)snprintf(high, sizeof(high), "4G - 64K");
        } else {
            amb_text_format_size(key->max, high, sizeof(high));
        }
    } else {
        (void)snprintf(low, sizeof(low), "%" PRIu64, key->min);
        (void)snprintf(high, sizeof(high), "%" PRIu64, key->max);
    }
    (void)snprintf(out, size, "%s to %s", low, high);
}

void amb_config_allowed(const struct amb_config_key *key, char *out, size_t size)
{
    char words[160] = "", range[2 * AMB_TEXT_MAX + 8];
    if (key->words != NULL) {
        list_words(key->words, words, sizeof(words));
    }
    const char *or_words = key->words != NULL ? " or " : "";
    const char *power = key->power_of_two ? ", a power of two" : "";
    format_range(key, range, sizeof(range));
    switch (key->type) {
    case AMB_CONFIG_BOOL:
        (void)snprintf(out, size, "true or false");
        return;
    case AMB_CONFIG_COUNT:
        (void)snprintf(out, size, "%s%sa number, %s", words, or_words, range);
        return;
    case AMB_CONFIG_SIZE:
        (void)snprintf(out, size, "%s%sa size as \"64M\", %s%s", words, or_words, range, power);
        return;
    case AMB_CONFIG_TIME:
        (void)snprintf(out, size, "%s%sa time as \"500ms\", %s", words, or_words, range);
        return;
    case AMB_CONFIG_WORD:
        (void)snprintf(out, size, "%s", words);
        return;
    case AMB_CONFIG_TEXT:
        (void)snprintf(out, size, "a text of %s bytes", range);
        return;
    case AMB_CONFIG_STRINGS:
        (void)snprintf(out, size, "%s%sa list of texts as ( \"a\", \"b\" ), %s of them", words,
                       or_words, range);
        return;
    case AMB_CONFIG_URLS:
        (void)snprintf(out, size, "a list of URLs, %s of them", range);
        return;
    case AMB_CONFIG_PAIRS:
        (void)snprintf(out, size, "a group { NAME = \"value\"; }, %s of them", range);
        return;
    case AMB_CONFIG_ELEMENTS:
        (void)snprintf(out, size, "a list of groups as ( %s ), %s of them", key->elements->example,
                       range);
        return;
    }
}

const struct amb_config_word *amb_config_word_find(const struct amb_config_word *words,
                                                   const char *text)
{
    for (; words != NULL && words->word != NULL; words++) {
        if (strcmp(words->word, text) == 0) {
            return words;
        }
    }
    return NULL;
}

const struct amb_config_word *amb_config_word_of(const struct amb_config_word *words, int64_t value)
{
    for (; words != NULL && words->word != NULL; words++) {
        if (words->value == value) {
            return words;
        }
    }
    return NULL;
}
