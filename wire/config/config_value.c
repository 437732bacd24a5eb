/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_value.h"

#include "wire/base/assert.h"
#include "wire/base/text.h"
#include "wire/codec/topic.h"
#include "wire/config/config_build.h"
#include "wire/config/config_elements.h"
#include "wire/config/config_list.h"
#include "wire/config/config_tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_text(const struct amb_config_value *value)
{
    return value->kind == AMB_CONFIG_VALUE_UNTYPED || value->kind == AMB_CONFIG_VALUE_STRING;
}

static void *field_of(const struct amb_config_target *target)
{
    return (char *)target->base + target->key->offset;
}

/* OK with *found NULL: not one of the row's words. */
static enum amb_status find_word(const struct amb_config_target *target,
                                 const struct amb_config_value *value,
                                 const struct amb_config_word **found)
{
    *found = is_text(value) ? amb_config_word_find(target->key->words, value->text) : NULL;
    if (*found != NULL && (*found)->not_yet) {
        return amb_config_fail(target->build, target->place, target->path,
                               "\"%s\" is not yet supported in this release", (*found)->word);
    }
    return AMB_OK;
}

static enum amb_status set_bool(const struct amb_config_target *target,
                                const struct amb_config_value *value)
{
    bool *field = field_of(target);
    if (value->kind == AMB_CONFIG_VALUE_BOOL) {
        *field = value->boolean;
        return AMB_OK;
    }
    if (value->kind == AMB_CONFIG_VALUE_UNTYPED) {
        bool is_true = strcmp(value->text, "true") == 0;
        if (is_true || strcmp(value->text, "false") == 0) {
            *field = is_true;
            return AMB_OK;
        }
    }
    return amb_config_refuse(target, "wrong type", value);
}

/* NULL, or why the text is no number of the row's type. */
static const char *parse_text_number(enum amb_config_type type,
                                     const struct amb_config_value *value, uint64_t *out)
{
    int64_t ns;
    if (value->text[0] == '-') {
        return "out of range";
    }
    if (type == AMB_CONFIG_SIZE) {
        return amb_text_parse_size(value->text, out) ? NULL : "not a size";
    }
    if (type == AMB_CONFIG_TIME) {
        if (!amb_text_parse_time(value->text, &ns)) {
            return "not a time";
        }
        *out = (uint64_t)ns;
        return NULL;
    }
    if (value->kind == AMB_CONFIG_VALUE_STRING) {
        return "wrong type";
    }
    return amb_text_parse_count(value->text, out) ? NULL : "not a number";
}

/* NULL, or why the value is no number of the row's type. */
static const char *parse_number(enum amb_config_type type, const struct amb_config_value *value,
                                uint64_t *out)
{
    if (is_text(value)) {
        return parse_text_number(type, value, out);
    }
    if (value->kind != AMB_CONFIG_VALUE_INTEGER) {
        return "wrong type";
    }
    if (value->integer < 0) {
        return "out of range";
    }
    if (type == AMB_CONFIG_TIME && value->integer != 0) {
        return "a time needs a unit";
    }
    *out = (uint64_t)value->integer;
    return NULL;
}

static void store_number(const struct amb_config_target *target, uint64_t number)
{
    void *field = field_of(target);
    if (target->key->type == AMB_CONFIG_COUNT) {
        *(uint32_t *)field = (uint32_t)number;
    } else if (target->key->type == AMB_CONFIG_SIZE) {
        *(uint64_t *)field = number;
    } else {
        *(int64_t *)field = (int64_t)number;
    }
}

static enum amb_status set_number(const struct amb_config_target *target,
                                  const struct amb_config_value *value)
{
    const struct amb_config_key *key = target->key;
    const struct amb_config_word *word;
    enum amb_status status = find_word(target, value, &word);
    if (status != AMB_OK) {
        return status;
    }
    if (word != NULL) {
        store_number(target, (uint64_t)word->value);
        return AMB_OK;
    }
    uint64_t number = 0;
    const char *problem = parse_number(key->type, value, &number);
    if (problem == NULL && (number < key->min || number > key->max)) {
        problem = "out of range";
    }
    if (problem == NULL && key->power_of_two && (number & (number - 1)) != 0) {
        problem = "not a power of two";
    }
    if (problem != NULL) {
        return amb_config_refuse(target, problem, value);
    }
    store_number(target, number);
    return AMB_OK;
}

static enum amb_status set_word(const struct amb_config_target *target,
                                const struct amb_config_value *value)
{
    const struct amb_config_word *word;
    enum amb_status status = find_word(target, value, &word);
    if (status != AMB_OK) {
        return status;
    }
    if (word == NULL) {
        return amb_config_refuse(target, is_text(value) ? "unknown word" : "wrong type", value);
    }
    /* The fields are different enums, all of int's size. */
    int number = (int)word->value;
    memcpy(field_of(target), &number, sizeof(number));
    return AMB_OK;
}

/* Digits up to `end`; false: none, or no port. */
static bool is_port(const char *text, char end, unsigned long *out)
{
    char *rest;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    *out = strtoul(text, &rest, 10);
    return *rest == end && *out > 0 && *out <= 65535;
}

static bool is_port_range(const char *text)
{
    unsigned long low, high;
    const char *dash = strchr(text, '-');
    return dash != NULL && is_port(text, '-', &low) && is_port(dash + 1, '\0', &high) &&
           low <= high;
}

/* NULL, or the fault of a text that has a grammar of its own. */
static const char *text_problem(const struct amb_config_key *key, const char *text)
{
    const char *reason = "not a pattern";
    size_t len = strlen(text);
    if (len < key->min) {
        return "too short";
    }
    if (len > key->max) {
        return "too long";
    }
    if (amb_text_has_control(text, len)) {
        return "has a control character";
    }
    if (strcmp(key->path, "match") == 0) {
        return amb_pattern_check(text, len, &reason) == AMB_OK ? NULL : reason;
    }
    if (strcmp(key->path, "transports.port_range") == 0 && len > 0 && !is_port_range(text)) {
        return "not a range of ports as \"5000-5100\"";
    }
    return NULL;
}

static enum amb_status set_text(const struct amb_config_target *target,
                                const struct amb_config_value *value)
{
    if (!is_text(value)) {
        return amb_config_refuse(target, "wrong type", value);
    }
    const char *problem = text_problem(target->key, value->text);
    if (problem != NULL) {
        return amb_config_refuse(target, problem, value);
    }
    const char *copy = amb_config_copy(target->build->store, value->text);
    if (copy == NULL) {
        return AMB_ENOMEM;
    }
    *(const char **)field_of(target) = copy;
    return AMB_OK;
}

/* In a variable or an option, groups and lists of groups are written in libconfig's syntax. */
static bool needs_tree(const struct amb_config_key *key, const struct amb_config_value *value)
{
    if (value->kind != AMB_CONFIG_VALUE_UNTYPED || value->text[0] == '\0') {
        return false;
    }
    if (key->type == AMB_CONFIG_PAIRS || key->type == AMB_CONFIG_ELEMENTS) {
        return true;
    }
    bool is_list = key->type == AMB_CONFIG_STRINGS || key->type == AMB_CONFIG_URLS;
    return is_list && (value->text[0] == '(' || value->text[0] == '[');
}

enum amb_status amb_config_value_set(const struct amb_config_target *target,
                                     const struct amb_config_value *value)
{
    amb_assert(amb_config_has_field(target->key));
    if (needs_tree(target->key, value)) {
        return amb_config_tree_value(target, value->text);
    }
    switch (target->key->type) {
    case AMB_CONFIG_BOOL:
        return set_bool(target, value);
    case AMB_CONFIG_COUNT:
    case AMB_CONFIG_SIZE:
    case AMB_CONFIG_TIME:
        return set_number(target, value);
    case AMB_CONFIG_WORD:
        return set_word(target, value);
    case AMB_CONFIG_TEXT:
        return set_text(target, value);
    case AMB_CONFIG_STRINGS:
        return amb_config_strings_set(target, value);
    case AMB_CONFIG_URLS:
        return amb_config_urls_set(target, value);
    case AMB_CONFIG_PAIRS:
        return amb_config_pairs_set(target, value);
    case AMB_CONFIG_ELEMENTS:
        return amb_config_elements_set(target, value);
    }
    return AMB_EINTERNAL;
}

enum amb_status amb_config_path_set(struct amb_config_build *build, const char *path,
                                    const struct amb_config_value *value,
                                    const struct amb_config_place *place)
{
    const struct amb_config_schema *schema = build->store->schema;
    const struct amb_config_key *key = amb_config_key_find(schema->keys, schema->count, path);
    if (key == NULL) {
        return amb_config_unknown(build, schema->keys, schema->count, "", path, place);
    }
    if (key->not_yet) {
        return amb_config_not_yet(build, key->path, place);
    }
    if (key->elsewhere) {
        return place->origin == AMB_CONFIG_ORIGIN_FILE
                   ? AMB_OK
                   : amb_config_fail(build, place, path, "not a key of this program");
    }
    struct amb_config_target target = {build, key, build->config, path, place};
    enum amb_status status = amb_config_value_set(&target, value);
    if (status == AMB_OK) {
        build->store->places[key - schema->keys] = *place;
    }
    return status;
}
