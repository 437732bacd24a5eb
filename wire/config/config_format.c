/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_format.h"

#include "wire/base/text.h"
#include "wire/config/config_elements.h"
#include "wire/config/config_groups.h"

#include <inttypes.h>
#include <string.h>

/* Quoted as libconfig reads it. */
static void print_quoted(const char *text, FILE *out)
{
    (void)fputc('"', out);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            (void)fprintf(out, "\\%c", c);
        } else if (c < 0x20 || c == 0x7f) {
            (void)fprintf(out, "\\x%02x", c);
        } else {
            (void)fputc(c, out);
        }
    }
    (void)fputc('"', out);
}

static void print_strings(const struct amb_config_strings *strings,
                          const struct amb_config_word *words, FILE *out)
{
    const struct amb_config_word *word = amb_config_word_of(words, 0);
    if (strings->count == 0 && word != NULL) {
        print_quoted(word->word, out);
        return;
    }
    if (strings->count == 1 && amb_config_word_find(words, strings->items[0]) != NULL) {
        print_quoted(strings->items[0], out);
        return;
    }
    (void)fprintf(out, "( ");
    for (size_t i = 0; i < strings->count; i++) {
        (void)fputs(i == 0 ? "" : ", ", out);
        print_quoted(strings->items[i], out);
    }
    (void)fprintf(out, "%s)", strings->count == 0 ? "" : " ");
}

static void print_urls(const struct amb_config_urls *urls, FILE *out)
{
    (void)fprintf(out, "( ");
    for (size_t i = 0; i < urls->count; i++) {
        char url[512];
        amb_url_format(&urls->items[i], url, sizeof(url));
        (void)fputs(i == 0 ? "" : ", ", out);
        print_quoted(url, out);
    }
    (void)fprintf(out, " )");
}

static void print_pairs(const struct amb_config_pairs *pairs, FILE *out)
{
    (void)fprintf(out, "{ ");
    for (size_t i = 0; i < pairs->count; i++) {
        (void)fprintf(out, "%s = ", pairs->items[i].name);
        print_quoted(pairs->items[i].value, out);
        (void)fprintf(out, "; ");
    }
    (void)fprintf(out, "}");
}

static void print_number(const struct amb_config_key *key, uint64_t number, FILE *out)
{
    char text[AMB_TEXT_MAX];
    const struct amb_config_word *word = amb_config_word_of(key->words, (int64_t)number);
    if (word != NULL) {
        print_quoted(word->word, out);
        return;
    }
    if (key->type == AMB_CONFIG_COUNT) {
        (void)fprintf(out, "%" PRIu64, number);
        return;
    }
    if (key->type == AMB_CONFIG_SIZE) {
        amb_text_format_size(number, text, sizeof(text));
    } else {
        amb_text_format_time((int64_t)number, text, sizeof(text));
    }
    print_quoted(text, out);
}

static void print_elements(const struct amb_config_elements *kind, const void *field, FILE *out);

void amb_config_value_print(const struct amb_config_key *key, const void *base, FILE *out)
{
    const void *field = (const char *)base + key->offset;
    int word;
    switch (key->type) {
    case AMB_CONFIG_BOOL:
        (void)fprintf(out, "%s", *(const bool *)field ? "true" : "false");
        return;
    case AMB_CONFIG_COUNT:
        print_number(key, *(const uint32_t *)field, out);
        return;
    case AMB_CONFIG_SIZE:
        print_number(key, *(const uint64_t *)field, out);
        return;
    case AMB_CONFIG_TIME:
        print_number(key, (uint64_t) * (const int64_t *)field, out);
        return;
    case AMB_CONFIG_WORD:
        memcpy(&word, field, sizeof(word));
        print_quoted(amb_config_word_of(key->words, word)->word, out);
        return;
    case AMB_CONFIG_TEXT:
        print_quoted(key->secret ? "" : *(const char *const *)field, out);
        return;
    case AMB_CONFIG_STRINGS:
        print_strings(field, key->words, out);
        return;
    case AMB_CONFIG_URLS:
        print_urls(field, out);
        return;
    case AMB_CONFIG_PAIRS:
        print_pairs(field, out);
        return;
    case AMB_CONFIG_ELEMENTS:
        print_elements(key->elements, field, out);
        return;
    }
}

/* Bytes of "group." in front of a key's name; 0: it is in none. */
static size_t group_len(const char *path)
{
    const char *dot = strchr(path, '.');
    return dot == NULL ? 0 : (size_t)(dot - path) + 1;
}

/* Keys of one group within an element stand together. */
static void print_element_key(const struct amb_config_key *keys, size_t count, size_t k,
                              const void *element, FILE *out)
{
    const char *path = keys[k].path;
    size_t group = group_len(path);
    if (group > 0 && (k == 0 || strncmp(keys[k - 1].path, path, group) != 0)) {
        (void)fprintf(out, "%.*s = { ", (int)group - 1, path);
    }
    (void)fprintf(out, "%s = ", path + group);
    amb_config_value_print(&keys[k], element, out);
    bool is_last = k + 1 == count || strncmp(keys[k + 1].path, path, group) != 0;
    (void)fprintf(out, group > 0 && is_last ? "; }; " : "; ");
}

static void print_elements(const struct amb_config_elements *kind, const void *field, FILE *out)
{
    size_t key_count, count;
    const struct amb_config_key *keys = kind->keys(&key_count);
    const char *items;
    memcpy(&items, field, sizeof(items));
    memcpy(&count, (const char *)field + sizeof(items), sizeof(count));
    (void)fprintf(out, "(");
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, "%s\n    { ", i == 0 ? "" : ",");
        for (size_t k = 0; k < key_count; k++) {
            if (!keys[k].not_yet) {
                print_element_key(keys, key_count, k, items + i * kind->size, out);
            }
        }
        (void)fprintf(out, "}");
    }
    (void)fprintf(out, "%s)", count == 0 ? " " : "\n");
}

struct walk {
    const struct amb_config_store *store;
    const void *config;
};

static void print_key(const struct amb_config_key *key, unsigned depth, const void *arg, FILE *out)
{
    const struct walk *walk = arg;
    if (!amb_config_has_field(key)) {
        return;
    }
    const struct amb_config_place *place = amb_config_place_of(walk->store, key->path);
    const char *dot = strrchr(key->path, '.');
    char where[AMB_CONFIG_ERROR_MAX / 4];
    amb_config_place_format(place, where, sizeof(where));
    (void)fprintf(out, "%*s%s = ", (int)(4 * depth), "", dot == NULL ? key->path : dot + 1);
    amb_config_value_print(key, walk->config, out);
    bool is_hidden = key->secret && place->origin != AMB_CONFIG_ORIGIN_DEFAULT;
    (void)fprintf(out, "; # %s%s\n", where, is_hidden ? ", not shown" : "");
}

static void print_group(const char *group, unsigned depth, const void *arg, FILE *out)
{
    (void)arg;
    const char *dot = strrchr(group, '.');
    (void)fprintf(out, "%*s%s = {\n", (int)(4 * depth), "", dot == NULL ? group : dot + 1);
}

void amb_config_rows_print(const struct amb_config_store *store, const void *config, FILE *out)
{
    static const struct amb_config_visitor visitor = {print_group, print_key};
    const struct walk walk = {store, config};
    amb_config_visit(store->schema->keys, store->schema->count, &visitor, &walk, out);
}
