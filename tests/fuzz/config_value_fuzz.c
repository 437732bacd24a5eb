/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One value of one key, as it is written in a file, a variable or an option. There are numbers,
 * sizes, times, words, texts, lists, URLs, groups and rules, each by its row of the schema. An
 * accepted value prints as text that gives the same value; a refused one has a reason. No file and
 * no configuration as a whole: that is `config`, which also walks names, layers and what keys say
 * together.
 *
 *   byte 0  the row
 *   byte 1  0: untyped text  1: a string  2: libconfig's syntax  3: a text that libconfig parses,
 *           for what the check for @include lets through must not make it open a file
 *           4: NAME=value, a setting of UCX  5: one URL, as --listen
 */
#include "broker/config/config_schema.h"
#include "broker/config/config_schema_rule.h"
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/base/text.h"
#include "wire/config/config_build.h"
#include "wire/config/config_file.h"
#include "wire/config/config_format.h"
#include "wire/config/config_list.h"
#include "wire/config/config_tree.h"
#include "wire/config/config_value.h"
#include "wire/config/libconfig_api.h"

#define HEAD_BYTES 2u
#define PLACE_NAME "fuzz"

/* libconfig 1.5 forgets the string it was scanning when it meets a syntax error. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libconfig";
}

static struct amb_config_store store = {.schema = &amb_broker_schema};
static struct amb_config config = {.store = &store};
static char error[AMB_CONFIG_ERROR_MAX];
static struct amb_config_build build = {
    .store = &store, .config = &config, .error = error, .error_size = sizeof(error)};
static const struct amb_libconfig_api *libconfig;
static const struct amb_config_place place = {AMB_CONFIG_ORIGIN_FILE, PLACE_NAME, 1};

/* A row that takes values, and the struct that its offset is in. */
struct row {
    const struct amb_config_key *key;
    void *base;
};

FUZZ_PLAIN static struct row row_of(uint8_t index)
{
    static struct amb_topic_rule rule;
    size_t count, rule_count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    const struct amb_config_key *rule_keys = amb_config_rule_keys(&rule_count);
    size_t at = index % (count + rule_count);
    return at < count ? (struct row){&keys[at], &config}
                      : (struct row){&rule_keys[at - count], &rule};
}

static const struct amb_config_key *key_of(const char *path)
{
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    return amb_config_key_find(keys, count, path);
}

static void check_status(enum amb_status status)
{
    amb_assert(status == AMB_OK || status == AMB_EINVAL);
    if (status != AMB_OK) {
        size_t len = strnlen(error, sizeof(error));
        amb_assert(len < sizeof(error) && strncmp(error, PLACE_NAME ":", 5) == 0);
        for (size_t i = 0; i < len; i++) {
            amb_assert(error[i] != '\n');
        }
    }
}

/* A text that is taken for a number with a unit is one, and was not cut. */
static void check_numbers(const char *text)
{
    static const struct {
        const char *name;
        long double factor;
    } units[] = {{"", 1},        {"K", 0x1p10L}, {"M", 0x1p20L}, {"G", 0x1p30L},
                 {"T", 0x1p40L}, {"ns", 1},      {"us", 1e3L},   {"ms", 1e6L},
                 {"s", 1e9L},    {"m", 60e9L},   {"h", 3600e9L}, {"d", 86400e9L}};
    uint64_t size = 0;
    int64_t ns = 0;
    bool is_size = amb_text_parse_size(text, &size), is_time = amb_text_parse_time(text, &ns);
    for (size_t i = 0; (is_size || is_time) && i < sizeof(units) / sizeof(units[0]); i++) {
        char *rest;
        long double value = strtold(text, &rest);
        if (strcmp(rest, units[i].name) == 0) {
            amb_assert(!is_size || (long double)size == value * units[i].factor);
            amb_assert(!is_time || (long double)ns == value * units[i].factor);
            return;
        }
    }
    amb_assert(!is_size && !is_time);
}

static enum amb_status set(const struct row *row, const struct amb_config_value *value)
{
    struct amb_config_target target = {&build, row->key, row->base, row->key->path, &place};
    memset(error, 'x', sizeof(error));
    enum amb_status status = amb_config_value_set(&target, value);
    check_status(status);
    return status;
}

/* As the tree reads it, whatever kind of value it is. */
static enum amb_status set_parsed(const struct row *row, const char *text)
{
    if (amb_config_text_check(&build, text, strlen(text), PLACE_NAME, NULL, 0) != AMB_OK) {
        return AMB_EINVAL;
    }
    enum amb_status status = AMB_EINVAL;
    config_t tree;
    libconfig->config_init(&tree);
    if (libconfig->config_read_string(&tree, text) == CONFIG_TRUE &&
        amb_config_length(config_root_setting(&tree)) > 0) {
        struct amb_config_value value =
            amb_config_value_of(amb_config_element(config_root_setting(&tree), 0));
        status = set(row, &value);
    }
    libconfig->config_destroy(&tree);
    return status;
}

/* Allocated by `text`, which is "v = " and then what the row prints. */
static const char *print(const struct row *row)
{
    static char *text;
    static size_t size;
    static FILE *stream;
    if (stream == NULL) {
        stream = open_memstream(&text, &size);
        amb_assert(stream != NULL);
    }
    rewind(stream);
    (void)fputs("v = ", stream);
    amb_config_value_print(row->key, row->base, stream);
    (void)fputs("\n;", stream);
    (void)fputc('\0', stream);
    amb_assert(fflush(stream) == 0);
    return text;
}

static void check_round_trip(const struct row *row)
{
    if (row->key->secret) {
        return;
    }
    char *before = strdup(print(row));
    amb_assert(before != NULL);
    amb_assert(set_parsed(row, before) == AMB_OK);
    amb_assert(strcmp(print(row), before) == 0);
    free(before);
}

/* A text that was passed for harmless opens no file. */
static void check_includes(const char *text, size_t len)
{
    memset(error, 'x', sizeof(error));
    enum amb_status status = amb_config_text_check(&build, text, len, PLACE_NAME, NULL, 0);
    check_status(status);
    if (status != AMB_OK) {
        return;
    }
    config_t tree;
    libconfig->config_init(&tree);
    if (libconfig->config_read_string(&tree, text) != CONFIG_TRUE) {
        const char *why = config_error_text(&tree);
        amb_assert(why == NULL || strstr(why, "include file") == NULL);
    }
    libconfig->config_destroy(&tree);
}

/* An option that adds to a group. */
static void set_pair(char *text)
{
    char *equals = strchr(text, '=');
    if (equals == NULL) {
        return;
    }
    *equals = '\0';
    memset(error, 'x', sizeof(error));
    enum amb_status status =
        amb_config_pair_put(&build, "transports.ucx", text, equals + 1, &place);
    check_status(status);
    if (status == AMB_OK) {
        check_round_trip(&(struct row){key_of("transports.ucx"), &config});
    }
}

static void set_url(const char *text)
{
    memset(error, 'x', sizeof(error));
    enum amb_status status = amb_config_urls_put(&build, "listen", &text, 1, &place);
    check_status(status);
    if (status == AMB_OK) {
        check_round_trip(&(struct row){key_of("listen"), &config});
    }
}

FUZZ_PLAIN static void forget(void)
{
    config.transports.ucx = (struct amb_config_pairs){NULL, 0};
    amb_config_store_fini(&store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < HEAD_BYTES) {
        return 0;
    }
    static const char before[] = "v = ";
    const char *why;
    libconfig = amb_libconfig(&why);
    amb_assert(libconfig != NULL);
    struct row row = row_of(data[0]);
    unsigned how = data[1] % 6;
    size_t front = how == 2 ? sizeof(before) - 1 : 0, size = len - HEAD_BYTES;
    char *text = malloc(front + size + 1);
    if (text == NULL) {
        abort();
    }
    memcpy(text, before, front);
    if (size > 0) {
        memcpy(text + front, data + HEAD_BYTES, size);
    }
    text[front + size] = '\0';
    struct amb_config_value value = {
        .kind = how == 0 ? AMB_CONFIG_VALUE_UNTYPED : AMB_CONFIG_VALUE_STRING, .text = text};
    if (how == 0) {
        check_numbers(text);
    }
    if (how == 3) {
        check_includes(text, size);
    } else if (how == 4) {
        set_pair(text);
    } else if (how == 5) {
        set_url(text);
    } else if (amb_config_has_field(row.key) &&
               (how == 2 ? set_parsed(&row, text) : set(&row, &value)) == AMB_OK) {
        check_round_trip(&row);
    }
    forget();
    free(text);
    return 0;
}
