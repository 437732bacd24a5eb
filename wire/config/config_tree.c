/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_tree.h"

#include "wire/config/config_build.h"
#include "wire/config/config_file.h"
#include "wire/config/config_value.h"
#include "wire/config/libconfig_api.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Longer than any row's path, so that a cut one matches none. */
#define TREE_PATH_MAX 160u

/* A setting comes from libconfig, so that is loaded. */
static const struct amb_libconfig_api *api(void)
{
    const char *why;
    return amb_libconfig(&why);
}

struct amb_config_value amb_config_value_of(const struct config_setting_t *setting)
{
    struct amb_config_value value = {.setting = setting};
    switch (config_setting_type(setting)) {
    case CONFIG_TYPE_STRING:
        value.kind = AMB_CONFIG_VALUE_STRING;
        value.text = api()->config_setting_get_string(setting);
        break;
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_INT64:
        value.kind = AMB_CONFIG_VALUE_INTEGER;
        value.integer = api()->config_setting_get_int64(setting);
        break;
    case CONFIG_TYPE_BOOL:
        value.kind = AMB_CONFIG_VALUE_BOOL;
        value.boolean = api()->config_setting_get_bool(setting) == CONFIG_TRUE;
        break;
    case CONFIG_TYPE_GROUP:
        value.kind = AMB_CONFIG_VALUE_GROUP;
        break;
    case CONFIG_TYPE_LIST:
    case CONFIG_TYPE_ARRAY:
        value.kind = AMB_CONFIG_VALUE_LIST;
        break;
    default:
        value.kind = AMB_CONFIG_VALUE_FLOAT;
        break;
    }
    return value;
}

struct amb_config_place amb_config_place_at(const struct amb_config_build *build,
                                            const struct amb_config_place *place,
                                            const struct config_setting_t *setting)
{
    struct amb_config_place at = *place;
    if (place->origin != AMB_CONFIG_ORIGIN_FILE) {
        return at;
    }
    at.line = config_setting_source_line(setting);
    const char *included = config_setting_source_file(setting);
    if (included != NULL) {
        const char *copy = amb_config_copy(build->store, included);
        at.name = copy != NULL ? copy : place->name;
    }
    return at;
}

size_t amb_config_length(const struct config_setting_t *setting)
{
    return (size_t)api()->config_setting_length(setting);
}

const struct config_setting_t *amb_config_element(const struct config_setting_t *setting,
                                                  size_t index)
{
    /* The getter does not write; only its prototype says it might. */
    return api()->config_setting_get_elem((config_setting_t *)(uintptr_t)setting, (unsigned)index);
}

const char *amb_config_name(const struct config_setting_t *setting)
{
    return config_setting_name(setting);
}

static enum amb_status apply_setting(struct amb_config_build *build,
                                     const struct config_setting_t *setting, const char *path,
                                     const struct amb_config_place *place);

static enum amb_status apply_group(struct amb_config_build *build,
                                   const struct config_setting_t *group, const char *prefix,
                                   const struct amb_config_place *place)
{
    enum amb_status status = AMB_OK;
    size_t count = amb_config_length(group);
    for (size_t i = 0; amb_config_goes_on(build, &status) && i < count; i++) {
        char path[TREE_PATH_MAX];
        const struct config_setting_t *item = amb_config_element(group, i);
        (void)snprintf(path, sizeof(path), "%s%s%s", prefix, prefix[0] == '\0' ? "" : ".",
                       amb_config_name(item));
        struct amb_config_place at = amb_config_place_at(build, place, item);
        status = apply_setting(build, item, path, &at);
    }
    return status;
}

/* Goes down only where the schema has a group, so the depth is the schema's, not the file's. */
static enum amb_status apply_setting(struct amb_config_build *build,
                                     const struct config_setting_t *setting, const char *path,
                                     const struct amb_config_place *place)
{
    const struct amb_config_schema *schema = build->store->schema;
    struct amb_config_value value = amb_config_value_of(setting);
    if (amb_config_key_find(schema->keys, schema->count, path) != NULL ||
        !amb_config_is_group(schema->keys, schema->count, path)) {
        return amb_config_path_set(build, path, &value, place);
    }
    if (value.kind != AMB_CONFIG_VALUE_GROUP) {
        return amb_config_fail(
            build, place, path,
            "wrong type (got a single value or a list, allowed a group { ... })");
    }
    return apply_group(build, setting, path, place);
}

static enum amb_status fail_parse(const struct amb_config_build *build, const config_t *tree,
                                  const struct amb_config_place *place)
{
    struct amb_config_place at = *place;
    if (place->origin == AMB_CONFIG_ORIGIN_FILE) {
        at.line = (unsigned)config_error_line(tree);
        at.name = config_error_file(tree) != NULL ? config_error_file(tree) : place->name;
    }
    const char *text = config_error_text(tree);
    return amb_config_fail(build, &at, NULL, "%s (allowed libconfig syntax: key = value;)",
                           text != NULL ? text : "cannot be parsed");
}

/* libconfig, for a text that came from `place`; ENOTSUP: there is none. */
static enum amb_status load(const struct amb_config_build *build,
                            const struct amb_config_place *place,
                            const struct amb_libconfig_api **out)
{
    const char *why;
    *out = amb_libconfig(&why);
    if (*out != NULL) {
        return AMB_OK;
    }
    enum amb_status status =
        amb_config_fail(build, place, NULL, "cannot be read without libconfig: %s", why);
    return status == AMB_EINVAL ? AMB_ENOTSUP : status;
}

enum amb_status amb_config_tree_read(struct amb_config_build *build, const char *text,
                                     const char *name, const char *folder)
{
    struct amb_config_place place = {AMB_CONFIG_ORIGIN_FILE, name, 0};
    const struct amb_libconfig_api *libconfig;
    enum amb_status status = load(build, &place, &libconfig);
    if (status != AMB_OK) {
        return status;
    }
    config_t tree;
    libconfig->config_init(&tree);
    if (folder != NULL) {
        libconfig->config_set_include_dir(&tree, folder);
    }
    if (libconfig->config_read_string(&tree, text) != CONFIG_TRUE) {
        status = fail_parse(build, &tree, &place);
    } else {
        status = apply_group(build, config_root_setting(&tree), "", &place);
    }
    libconfig->config_destroy(&tree);
    return status;
}

static enum amb_status apply_value(const struct amb_config_target *target, const config_t *tree)
{
    const struct config_setting_t *root = config_root_setting(tree);
    if (amb_config_length(root) != 1) {
        return amb_config_fail(target->build, target->place, target->path,
                               "more than one value (allowed one)");
    }
    struct amb_config_value value = amb_config_value_of(amb_config_element(root, 0));
    return value.kind == AMB_CONFIG_VALUE_GROUP || value.kind == AMB_CONFIG_VALUE_LIST
               ? amb_config_value_set(target, &value)
               : amb_config_refuse(target, "wrong type", &value);
}

enum amb_status amb_config_tree_value(const struct amb_config_target *target, const char *text)
{
    const struct amb_libconfig_api *libconfig;
    size_t size = strlen(text) + sizeof("v = \n;");
    char *wrapped = amb_config_alloc(target->build->store, size);
    if (wrapped == NULL) {
        return AMB_ENOMEM;
    }
    (void)snprintf(wrapped, size, "v = %s\n;", text);
    enum amb_status status = amb_config_text_check(target->build, wrapped, strlen(wrapped),
                                                   target->place->name, NULL, 0);
    if (status == AMB_OK) {
        status = load(target->build, target->place, &libconfig);
    }
    if (status != AMB_OK) {
        return status;
    }
    config_t tree;
    libconfig->config_init(&tree);
    status = libconfig->config_read_string(&tree, wrapped) != CONFIG_TRUE
                 ? fail_parse(target->build, &tree, target->place)
                 : apply_value(target, &tree);
    libconfig->config_destroy(&tree);
    return status;
}
