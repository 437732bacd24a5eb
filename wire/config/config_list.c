/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_list.h"

#include "wire/base/assert.h"
#include "wire/base/text.h"
#include "wire/config/config_build.h"
#include "wire/config/config_tree.h"

#include <inttypes.h>
#include <string.h>

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-@"

/* The texts of a list, however it was written, with the place of each. */
struct texts {
    const char **items;
    struct amb_config_place *places;
    size_t count;
};

static void *field_of(const struct amb_config_target *target)
{
    return (char *)target->base + target->key->offset;
}

/* The row of a path that we know. */
static const struct amb_config_key *find_key(const struct amb_config_build *build, const char *path,
                                             enum amb_config_type type)
{
    const struct amb_config_schema *schema = build->store->schema;
    const struct amb_config_key *key = amb_config_key_find(schema->keys, schema->count, path);
    amb_assert(key != NULL && key->type == type);
    return key;
}

static enum amb_status check_count(const struct amb_config_target *target, size_t count)
{
    if (count >= target->key->min && count <= target->key->max) {
        return AMB_OK;
    }
    return amb_config_fail(target->build, target->place, target->path,
                           "wrong number of items (got %zu, allowed %" PRIu64 " to %" PRIu64 ")",
                           count, target->key->min, target->key->max);
}

static enum amb_status alloc_texts(const struct amb_config_target *target, size_t count,
                                   struct texts *out)
{
    out->count = 0;
    out->items = amb_config_alloc(target->build->store, (count + 1) * sizeof(*out->items));
    out->places = amb_config_alloc(target->build->store, (count + 1) * sizeof(*out->places));
    return out->items == NULL || out->places == NULL ? AMB_ENOMEM : AMB_OK;
}

/* "a, b" */
static enum amb_status split_texts(const struct amb_config_target *target, const char *text,
                                   struct texts *out)
{
    char *copy = amb_config_copy(target->build->store, text);
    enum amb_status status = alloc_texts(target, strlen(text), out);
    if (copy == NULL || status != AMB_OK) {
        return AMB_ENOMEM;
    }
    char *save = NULL;
    for (char *item = strtok_r(copy, ", ", &save); item != NULL;
         item = strtok_r(NULL, ", ", &save)) {
        out->places[out->count] = *target->place;
        out->items[out->count++] = item;
    }
    return AMB_OK;
}

static enum amb_status copy_texts(const struct amb_config_target *target,
                                  const struct config_setting_t *list, struct texts *out)
{
    size_t count = amb_config_length(list);
    enum amb_status status = alloc_texts(target, count, out);
    for (size_t i = 0; status == AMB_OK && i < count; i++) {
        const struct config_setting_t *item = amb_config_element(list, i);
        struct amb_config_value value = amb_config_value_of(item);
        out->places[i] = amb_config_place_at(target->build, target->place, item);
        if (value.kind != AMB_CONFIG_VALUE_STRING) {
            struct amb_config_target at = *target;
            at.place = &out->places[i];
            return amb_config_refuse(&at, "wrong type", &value);
        }
        out->items[i] = amb_config_copy(target->build->store, value.text);
        status = out->items[i] == NULL ? AMB_ENOMEM : AMB_OK;
        out->count++;
    }
    return status;
}

static enum amb_status read_texts(const struct amb_config_target *target,
                                  const struct amb_config_value *value, struct texts *out)
{
    enum amb_status status;
    if (value->kind == AMB_CONFIG_VALUE_LIST) {
        status = copy_texts(target, value->setting, out);
    } else if (value->kind == AMB_CONFIG_VALUE_UNTYPED) {
        status = split_texts(target, value->text, out);
    } else {
        return amb_config_refuse(target, "wrong type", value);
    }
    return status == AMB_OK ? check_count(target, out->count) : status;
}

/* Of a device, with these letters. */
static bool is_name(const char *text, const char *letters)
{
    size_t len = strlen(text);
    bool is_folder = strcmp(text, ".") == 0 || strcmp(text, "..") == 0;
    return len > 0 && len <= 63 && strspn(text, letters) == len && !is_folder;
}

/* Names of interfaces go into UCX's comma lists, and into paths of sysfs. NULL: fine. */
static const char *interface_fault(const char *name)
{
    return is_name(name, NAME_LETTERS) ? NULL : "not the name of an interface";
}

const char *amb_config_gpu_fault(const char *name)
{
    return is_name(name, NAME_LETTERS "/") ? NULL : "not the name of a GPU";
}

/* NULL: fine. */
static const char *name_problem(const struct amb_config_key *key, const struct texts *texts,
                                size_t index)
{
    const char *name = texts->items[index];
    const char *fault = key->item_fault != NULL ? key->item_fault(name) : interface_fault(name);
    if (fault != NULL) {
        return fault;
    }
    for (size_t i = 0; i < index; i++) {
        if (strcmp(texts->items[i], name) == 0) {
            return "given twice";
        }
    }
    return NULL;
}

enum amb_status amb_config_strings_set(const struct amb_config_target *target,
                                       const struct amb_config_value *value)
{
    struct amb_config_strings *field = field_of(target);
    bool has_text =
        value->kind == AMB_CONFIG_VALUE_UNTYPED || value->kind == AMB_CONFIG_VALUE_STRING;
    const struct amb_config_word *word =
        has_text ? amb_config_word_find(target->key->words, value->text) : NULL;
    if (word != NULL) { /* The table stays, and so does the word in it. */
        *field = (struct amb_config_strings){&word->word, word->value == 0 ? 0 : 1, NULL};
        return AMB_OK;
    }
    struct texts texts = {NULL, NULL, 0};
    unsigned faults = amb_config_faults_count(target->build);
    enum amb_status status = read_texts(target, value, &texts);
    if (status != AMB_OK) {
        return status;
    }
    for (size_t i = 0; amb_config_goes_on(target->build, &status) && i < texts.count; i++) {
        const char *problem = name_problem(target->key, &texts, i);
        if (problem != NULL) {
            struct amb_config_target at = *target;
            at.place = &texts.places[i];
            status = amb_config_refuse(&at, problem,
                                       &(struct amb_config_value){.kind = AMB_CONFIG_VALUE_STRING,
                                                                  .text = texts.items[i]});
        }
    }
    if (status == AMB_OK && amb_config_faults_count(target->build) == faults) {
        *field = (struct amb_config_strings){texts.items, texts.count, texts.places};
    }
    return status;
}

static enum amb_status set_url(const struct amb_config_target *target, const char *text,
                               const struct amb_config_place *place, struct amb_url *out)
{
    char reason[256] = "", shown[AMB_CONFIG_SHOWN_MAX];
    if (amb_url_parse(text, out, reason, sizeof(reason)) != AMB_OK) {
        return amb_config_fail(
            target->build, place, target->path,
            "%s (got \"%s\", allowed unix:///path?mode=0660&group=NAME or tcp://host:port)", reason,
            amb_text_show(text, shown, sizeof(shown)));
    }
    if (out->expect != 0) {
        return amb_config_fail(target->build, place, target->path,
                               "expect is for clients; topics.expect is for all of a topic's "
                               "(got \"%s\", allowed a URL without it)",
                               amb_text_show(text, shown, sizeof(shown)));
    }
    return AMB_OK;
}

static enum amb_status set_urls(const struct amb_config_target *target, const struct texts *texts)
{
    unsigned faults = amb_config_faults_count(target->build);
    enum amb_status status = AMB_OK;
    struct amb_url *urls =
        amb_config_alloc(target->build->store, (texts->count + 1) * sizeof(struct amb_url));
    if (urls == NULL) {
        return AMB_ENOMEM;
    }
    for (size_t i = 0; amb_config_goes_on(target->build, &status) && i < texts->count; i++) {
        status = set_url(target, texts->items[i], &texts->places[i], &urls[i]);
    }
    if (status == AMB_OK && amb_config_faults_count(target->build) == faults) {
        *(struct amb_config_urls *)field_of(target) = (struct amb_config_urls){urls, texts->count};
    }
    return status;
}

enum amb_status amb_config_urls_set(const struct amb_config_target *target,
                                    const struct amb_config_value *value)
{
    struct texts texts = {NULL, NULL, 0};
    enum amb_status status = read_texts(target, value, &texts);
    return status == AMB_OK ? set_urls(target, &texts) : status;
}

enum amb_status amb_config_urls_put(struct amb_config_build *build, const char *path,
                                    const char *const *urls, size_t count,
                                    const struct amb_config_place *place)
{
    struct amb_config_target target = {build, find_key(build, path, AMB_CONFIG_URLS), build->config,
                                       path, place};
    struct texts texts = {NULL, NULL, 0};
    enum amb_status status = check_count(&target, count);
    if (status == AMB_OK) {
        status = alloc_texts(&target, count, &texts);
    }
    for (; status == AMB_OK && texts.count < count; texts.count++) {
        texts.items[texts.count] = urls[texts.count];
        texts.places[texts.count] = *place;
    }
    if (status == AMB_OK) {
        status = set_urls(&target, &texts);
    }
    if (status == AMB_OK) {
        amb_config_place_set(build->store, path, place);
    }
    return status;
}

/* Why a setting of UCX is not the user's to make; NULL: it is. */
static const char *ucx_problem(const char *name)
{
    static const struct {
        const char *name, *why;
    } forced[] = {
        {"TLS", "the switches of transports choose the lanes"},
        {"NET_DEVICES", "transports.trusted and transports.net_devices choose the devices"},
        {"TCP_PORT_RANGE", "transports.port_range sets it"},
        {"TCP_TX_SEG_SIZE", "both ends must agree on it, or UCX crashes"},
        {"TCP_RX_SEG_SIZE", "both ends must agree on it, or UCX crashes"},
        {"TX_SEG_SIZE", "both ends must agree on it, or UCX crashes"},
        {"RX_SEG_SIZE", "both ends must agree on it, or UCX crashes"},
    };
    for (size_t i = 0; i < sizeof(forced) / sizeof(forced[0]); i++) {
        if (strcmp(name, forced[i].name) == 0) {
            return forced[i].why;
        }
    }
    if (strncmp(name, "UCX_", 4) == 0) {
        return "names are written without UCX_";
    }
    size_t len = strlen(name);
    /* libconfig takes no name that begins with anything but a letter, and we print what we take. */
    bool has_letter = name[0] >= 'A' && name[0] <= 'Z';
    if (!has_letter || len > 63 || strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != len) {
        return "that is not the name of a setting of UCX, as RNDV_THRESH";
    }
    return NULL;
}

/* text NULL: the value was no text. */
static enum amb_status set_pair(const struct amb_config_build *build, const char *group,
                                const char *name, const char *text,
                                const struct amb_config_place *place, struct amb_config_pair *out)
{
    char shown[AMB_CONFIG_SHOWN_MAX], path[AMB_CONFIG_PATH_MAX + AMB_CONFIG_SHOWN_MAX];
    (void)snprintf(path, sizeof(path), "%s.%s", group, amb_text_show(name, shown, sizeof(shown)));
    const char *problem = ucx_problem(name);
    if (problem != NULL) {
        return amb_config_fail(build, place, path, "cannot be set here: %s", problem);
    }
    if (text == NULL || strlen(text) > 255) {
        return amb_config_fail(build, place, path,
                               "wrong type or too long (allowed a text of 0 to 255 bytes)");
    }
    out->name = amb_config_copy(build->store, name);
    out->value = amb_config_copy(build->store, text);
    return out->name == NULL || out->value == NULL ? AMB_ENOMEM : AMB_OK;
}

enum amb_status amb_config_pairs_set(const struct amb_config_target *target,
                                     const struct amb_config_value *value)
{
    struct amb_config_pairs *field = field_of(target);
    if (value->kind == AMB_CONFIG_VALUE_UNTYPED && value->text[0] == '\0') {
        *field = (struct amb_config_pairs){NULL, 0};
        return AMB_OK;
    }
    if (value->kind != AMB_CONFIG_VALUE_GROUP) {
        return amb_config_refuse(target, "wrong type", value);
    }
    size_t count = amb_config_length(value->setting);
    unsigned faults = amb_config_faults_count(target->build);
    enum amb_status status = check_count(target, count);
    struct amb_config_pair *pairs =
        amb_config_alloc(target->build->store, (count + 1) * sizeof(struct amb_config_pair));
    if (pairs == NULL) {
        return AMB_ENOMEM;
    }
    for (size_t i = 0; amb_config_goes_on(target->build, &status) && i < count; i++) {
        const struct config_setting_t *item = amb_config_element(value->setting, i);
        struct amb_config_place place = amb_config_place_at(target->build, target->place, item);
        struct amb_config_value text = amb_config_value_of(item);
        status = set_pair(target->build, target->path, amb_config_name(item), text.text, &place,
                          &pairs[i]);
    }
    if (status == AMB_OK && amb_config_faults_count(target->build) == faults) {
        *field = (struct amb_config_pairs){pairs, count};
    }
    return status;
}

enum amb_status amb_config_pair_put(struct amb_config_build *build, const char *path,
                                    const char *name, const char *value,
                                    const struct amb_config_place *place)
{
    struct amb_config_target target = {build, find_key(build, path, AMB_CONFIG_PAIRS),
                                       build->config, path, place};
    struct amb_config_pairs *field = field_of(&target);
    struct amb_config_pair *pairs =
        amb_config_alloc(build->store, (field->count + 1) * sizeof(struct amb_config_pair));
    if (pairs == NULL) {
        return AMB_ENOMEM;
    }
    size_t at = field->count;
    for (size_t i = 0; i < field->count; i++) {
        pairs[i] = field->items[i];
        at = strcmp(pairs[i].name, name) == 0 ? i : at;
    }
    size_t count = at == field->count ? at + 1 : field->count;
    enum amb_status status = check_count(&target, count);
    if (status == AMB_OK) {
        status = set_pair(build, path, name, value, place, &pairs[at]);
    }
    if (status == AMB_OK) {
        *field = (struct amb_config_pairs){pairs, count};
        amb_config_place_set(build->store, path, place);
    }
    return status;
}
