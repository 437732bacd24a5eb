/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_elements.h"

#include "wire/base/text.h"
#include "wire/config/config_spots.h"
#include "wire/config/config_tree.h"
#include "wire/config/config_value.h"

#include <stdlib.h>
#include <string.h>

static enum amb_status set_group(const struct amb_config_target *element,
                                 const struct config_setting_t *group, const char *name);

static const struct amb_config_key *keys_of(const struct amb_config_target *element, size_t *count)
{
    return element->key->elements->keys(count);
}

/* A list in place of a group: its key, and the name gets longer by that. NULL: there is none. */
static const struct amb_config_key *list_key(const struct amb_config_target *element, char *name,
                                             size_t size)
{
    size_t count, len = strlen(name);
    const struct amb_config_key *keys = keys_of(element, &count);
    const char *key = element->key->elements->list_key;
    if (key == NULL || len + strlen(key) + 2 > size) {
        return NULL;
    }
    (void)snprintf(name + len, size - len, ".%s", key);
    const struct amb_config_key *found = amb_config_key_find(keys, count, name);
    if (found == NULL) {
        name[len] = '\0';
    }
    return found;
}

/* prefix: of a group within the element, "retain."; else "". */
static enum amb_status set_key(const struct amb_config_target *element,
                               const struct config_setting_t *item, const char *prefix)
{
    size_t count;
    const struct amb_config_key *keys = keys_of(element, &count);
    char shown[AMB_CONFIG_SHOWN_MAX], path[AMB_CONFIG_PATH_MAX + AMB_CONFIG_SHOWN_MAX];
    struct amb_config_place place = amb_config_place_at(element->build, element->place, item);
    char name[AMB_CONFIG_PATH_MAX];
    (void)snprintf(name, sizeof(name), "%s%.40s", prefix, amb_config_name(item));
    struct amb_config_value value = amb_config_value_of(item);
    if (prefix[0] == '\0' && value.kind == AMB_CONFIG_VALUE_GROUP) {
        return set_group(element, item, name);
    }
    const struct amb_config_key *key = amb_config_key_find(keys, count, name);
    if (key == NULL && prefix[0] == '\0' && value.kind == AMB_CONFIG_VALUE_LIST) {
        key = list_key(element, name, sizeof(name));
    }
    (void)snprintf(path, sizeof(path), "%s.%s", element->path,
                   amb_text_show(name, shown, sizeof(shown)));
    if (key == NULL) {
        return amb_config_unknown(element->build, keys, count, element->path, name, &place);
    }
    if (key->not_yet) {
        return amb_config_not_yet(element->build, path, &place);
    }
    struct amb_config_target target = {element->build, key, element->base, path, &place};
    amb_config_spot_add(element->build->store, element->key->path, key->path, &place);
    return amb_config_value_set(&target, &value);
}

static enum amb_status set_group(const struct amb_config_target *element,
                                 const struct config_setting_t *group, const char *name)
{
    size_t key_count;
    const struct amb_config_key *keys = keys_of(element, &key_count);
    char prefix[AMB_CONFIG_PATH_MAX];
    (void)snprintf(prefix, sizeof(prefix), "%.*s.", (int)sizeof(prefix) - 2, name);
    bool is_known = false;
    for (size_t i = 0; i < key_count; i++) {
        is_known = is_known || strncmp(keys[i].path, prefix, strlen(prefix)) == 0;
    }
    if (!is_known) {
        struct amb_config_place place = amb_config_place_at(element->build, element->place, group);
        return amb_config_unknown(element->build, keys, key_count, element->path, name, &place);
    }
    enum amb_status status = AMB_OK;
    size_t count = amb_config_length(group);
    for (size_t i = 0; amb_config_goes_on(element->build, &status) && i < count; i++) {
        status = set_key(element, amb_config_element(group, i), prefix);
    }
    return status;
}

static enum amb_status set_defaults(const struct amb_config_target *element)
{
    size_t count;
    const struct amb_config_key *keys = keys_of(element, &count);
    enum amb_status status = AMB_OK;
    for (size_t i = 0; status == AMB_OK && i < count; i++) {
        if (keys[i].not_yet || keys[i].default_text == NULL) {
            continue;
        }
        struct amb_config_target target = {element->build, &keys[i], element->base, keys[i].path,
                                           element->place};
        struct amb_config_value value = {.kind = AMB_CONFIG_VALUE_UNTYPED,
                                         .text = keys[i].default_text};
        status = amb_config_value_set(&target, &value);
    }
    return status;
}

static const char *name_of(const struct amb_config_elements *kind, const void *element)
{
    const char *name;
    memcpy(&name, (const char *)element + kind->name_offset, sizeof(name));
    return name;
}

/* before: so many elements stand above it, whose names it may not repeat. */
static enum amb_status check_name(const struct amb_config_target *element, const char *list,
                                  size_t before)
{
    const struct amb_config_elements *kind = element->key->elements;
    const char *name = name_of(kind, element->base);
    if (name == NULL) {
        return amb_config_fail(element->build, element->place, element->path,
                               "%s is missing (allowed %s)", kind->name, kind->name_help);
    }
    for (size_t i = 0; i < before; i++) {
        const char *other = name_of(kind, (const char *)element->base - (before - i) * kind->size);
        if (other != NULL && strcmp(other, name) == 0) { /* NULL: a fault that was told. */
            return amb_config_fail(element->build, element->place, element->path,
                                   "%s[%zu] has the same %s (got \"%s\", allowed once)", list, i,
                                   kind->name, name);
        }
    }
    return AMB_OK;
}

/* element->base is zeroed. */
static enum amb_status set_element(const struct amb_config_target *element,
                                   const struct config_setting_t *group, const char *list,
                                   size_t before)
{
    const struct amb_config_elements *kind = element->key->elements;
    if (amb_config_value_of(group).kind != AMB_CONFIG_VALUE_GROUP) {
        return amb_config_fail(element->build, element->place, element->path,
                               "wrong type (allowed a group as %s)", kind->example);
    }
    unsigned faults = amb_config_faults_count(element->build);
    struct amb_config_store *store = element->build->store;
    enum amb_status status = set_defaults(element);
    size_t count = amb_config_length(group);
    amb_config_spot_add(store, element->key->path, "", element->place);
    for (size_t i = 0; amb_config_goes_on(element->build, &status) && i < count; i++) {
        status = set_key(element, amb_config_element(group, i), "");
    }
    if (status != AMB_OK || amb_config_faults_count(element->build) != faults) {
        return status;
    }
    status = check_name(element, list, before);
    if (status == AMB_OK) {
        amb_config_spots_name(store, name_of(kind, element->base));
    }
    return status == AMB_OK && kind->check != NULL ? kind->check(element) : status;
}

/* The two fields of a list, whatever its elements are. */
static void field_write(void *field, const void *items, size_t count)
{
    memcpy(field, &items, sizeof(items));
    memcpy((char *)field + sizeof(items), &count, sizeof(count));
}

enum amb_status amb_config_elements_set(const struct amb_config_target *target,
                                        const struct amb_config_value *value)
{
    const struct amb_config_elements *kind = target->key->elements;
    void *field = (char *)target->base + target->key->offset;
    amb_config_spots_forget(target->build->store, target->key->path);
    if (value->kind == AMB_CONFIG_VALUE_UNTYPED && value->text[0] == '\0') {
        field_write(field, NULL, 0);
        return AMB_OK;
    }
    if (value->kind != AMB_CONFIG_VALUE_LIST) {
        return amb_config_refuse(target, "wrong type", value);
    }
    size_t count = amb_config_length(value->setting);
    if (count > target->key->max) {
        return amb_config_refuse(target, "too many", value);
    }
    enum amb_status status = AMB_OK;
    char *items = amb_config_alloc(target->build->store, (count + 1) * kind->size);
    if (items == NULL) {
        return AMB_ENOMEM;
    }
    for (size_t i = 0; amb_config_goes_on(target->build, &status) && i < count; i++) {
        char path[AMB_CONFIG_PATH_MAX];
        const struct config_setting_t *group = amb_config_element(value->setting, i);
        struct amb_config_place place = amb_config_place_at(target->build, target->place, group);
        (void)snprintf(path, sizeof(path), "%s[%zu]", target->path, i);
        struct amb_config_target element = {target->build, target->key, items + i * kind->size,
                                            path, &place};
        status = set_element(&element, group, target->path, i);
    }
    if (status == AMB_OK) {
        field_write(field, items, count);
    }
    return status;
}

/* ---- by name ---- */

static int compare(const void *a, const void *b, void *kind)
{
    return strcmp(name_of(kind, a), name_of(kind, b));
}

void amb_config_elements_sort(const struct amb_config_elements *kind, void *items, size_t count)
{
    struct amb_config_elements own = *kind;
    if (count > 1) {
        qsort_r(items, count, kind->size, compare, &own);
    }
}

const void *amb_config_elements_find(const struct amb_config_elements *kind, const void *items,
                                     size_t count, const char *name)
{
    size_t from = 0, to = count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        const char *element = (const char *)items + middle * kind->size;
        int order = strcmp(name, name_of(kind, element));
        if (order == 0) {
            return element;
        }
        from = order > 0 ? middle + 1 : from;
        to = order < 0 ? middle : to;
    }
    return NULL;
}
