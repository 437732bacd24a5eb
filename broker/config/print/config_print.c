/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/print/config_print.h"

#include "broker/config/config_build.h"
#include "broker/config/config_groups.h"
#include "wire/base/assert.h"
#include "wire/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
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

/* Bytes of "group." in front of a key's name; 0: it is in none. */
static size_t rule_group_len(const char *path)
{
    const char *dot = strchr(path, '.');
    return dot == NULL ? 0 : (size_t)(dot - path) + 1;
}

/* Keys of one group within a rule stand together. */
static void print_rule_key(const struct amb_config_key *keys, size_t count, size_t k,
                           const struct amb_topic_rule *rule, FILE *out)
{
    const char *path = keys[k].path;
    size_t group = rule_group_len(path);
    if (group > 0 && (k == 0 || strncmp(keys[k - 1].path, path, group) != 0)) {
        (void)fprintf(out, "%.*s = { ", (int)group - 1, path);
    }
    (void)fprintf(out, "%s = ", path + group);
    amb_config_value_print(&keys[k], rule, out);
    bool is_last = k + 1 == count || strncmp(keys[k + 1].path, path, group) != 0;
    (void)fprintf(out, group > 0 && is_last ? "; }; " : "; ");
}

static void print_rules(const struct amb_topic_rules *rules, FILE *out)
{
    size_t count;
    const struct amb_config_key *keys = amb_config_rule_keys(&count);
    (void)fprintf(out, "(");
    for (size_t i = 0; i < rules->count; i++) {
        (void)fprintf(out, "%s\n    { ", i == 0 ? "" : ",");
        for (size_t k = 0; k < count; k++) {
            if (!keys[k].not_yet) {
                print_rule_key(keys, count, k, &rules->items[i], out);
            }
        }
        (void)fprintf(out, "}");
    }
    (void)fprintf(out, "%s)", rules->count == 0 ? " " : "\n");
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
    case AMB_CONFIG_RULES:
        print_rules(field, out);
        return;
    }
}

static void print_key(const struct amb_config_key *key, unsigned depth, const void *arg, FILE *out)
{
    const struct amb_config *config = arg;
    if (key->not_yet) {
        return;
    }
    const char *dot = strrchr(key->path, '.');
    char where[AMB_CONFIG_ERROR_MAX / 4];
    amb_config_where(config, key->path, where, sizeof(where));
    (void)fprintf(out, "%*s%s = ", (int)(4 * depth), "", dot == NULL ? key->path : dot + 1);
    amb_config_value_print(key, config, out);
    bool is_hidden =
        key->secret && amb_config_place_of(config, key->path)->origin != AMB_CONFIG_ORIGIN_DEFAULT;
    (void)fprintf(out, "; # %s%s\n", where, is_hidden ? ", not shown" : "");
}

static void print_group(const char *group, unsigned depth, const void *arg, FILE *out)
{
    (void)arg;
    const char *dot = strrchr(group, '.');
    (void)fprintf(out, "%*s%s = {\n", (int)(4 * depth), "", dot == NULL ? group : dot + 1);
}

void amb_config_print(const struct amb_config *config, FILE *out)
{
    static const struct amb_config_visitor visitor = {print_group, print_key};
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    amb_config_visit(keys, count, &visitor, config, out);
}

/* Adds ", name"; once something did not fit, the list ends in "...". */
static void append_name(char *list, size_t size, const char *name)
{
    static const char cut[] = "...";
    size_t len = strlen(list);
    if (len >= 3 && strcmp(list + len - 3, cut) == 0) {
        return;
    }
    /* Room for ", ..." stays behind every name. */
    const char *comma = len == 0 ? "" : ", ";
    bool fits = len + strlen(comma) + strlen(name) + sizeof(", ...") <= size;
    (void)snprintf(list + len, size - len, "%s%s", comma, fits ? name : cut);
}

/* Heap text of a value, so that all types compare alike; NULL without memory. */
static char *value_text(const struct amb_config_key *key, const struct amb_config *config)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) {
        return NULL;
    }
    struct amb_config_key shown = *key;
    shown.secret = false;
    amb_config_value_print(&shown, config, stream);
    return fclose(stream) == 0 ? text : NULL;
}

void amb_config_diff(const struct amb_config *before, const struct amb_config *after, char *restart,
                     size_t restart_size, char *live, size_t live_size)
{
    amb_assert(restart_size > 8 && live_size > 8);
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    restart[0] = live[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (keys[i].not_yet) {
            continue;
        }
        char *a = value_text(&keys[i], before), *b = value_text(&keys[i], after);
        bool differs = a == NULL || b == NULL || strcmp(a, b) != 0;
        free(a);
        free(b);
        if (differs && keys[i].apply == AMB_CONFIG_RESTART) {
            append_name(restart, restart_size, keys[i].path);
        } else if (differs) {
            append_name(live, live_size, keys[i].path);
        }
    }
}
