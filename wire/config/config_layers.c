/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/config/config_layers.h"

#include "wire/config/config_file.h"
#include "wire/config/config_tree.h"
#include "wire/config/config_value.h"

#include <string.h>

const char *amb_config_variable_find(const char *const *environment, const char *name)
{
    size_t len = strlen(name);
    for (; environment != NULL && *environment != NULL; environment++) {
        if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=') {
            const char *value = *environment + len + 1;
            return value[0] == '\0' ? NULL : value;
        }
    }
    return NULL;
}

enum amb_status amb_config_text_set(struct amb_config_build *build, const char *path,
                                    const char *text, const struct amb_config_place *place)
{
    struct amb_config_value value = {.kind = AMB_CONFIG_VALUE_UNTYPED, .text = text};
    return amb_config_path_set(build, path, &value, place);
}

enum amb_status amb_config_defaults_apply(struct amb_config_build *build)
{
    static const struct amb_config_place place = {AMB_CONFIG_ORIGIN_DEFAULT, NULL, 0};
    const struct amb_config_schema *schema = build->store->schema;
    enum amb_status status = AMB_OK;
    for (size_t i = 0; status == AMB_OK && i < schema->count; i++) {
        const struct amb_config_key *key = &schema->keys[i];
        if (amb_config_has_field(key)) {
            status = amb_config_text_set(build, key->path, key->default_text, &place);
        }
    }
    return status;
}

static enum amb_status apply_file(struct amb_config_build *build, const char *path)
{
    const char *text, *folder, *name = amb_config_copy(build->store, path);
    if (name == NULL) {
        return AMB_ENOMEM;
    }
    enum amb_status status = amb_config_file_read(build, path, &text, &folder);
    return status == AMB_OK ? amb_config_tree_read(build, text, name, folder) : status;
}

static enum amb_status apply_text(struct amb_config_build *build, const char *text, size_t len)
{
    static const char name[] = "configuration";
    char *copy = amb_config_alloc(build->store, len + 1);
    if (copy == NULL) {
        return AMB_ENOMEM;
    }
    memcpy(copy, text, len);
    enum amb_status status = amb_config_text_check(build, copy, len, name, NULL, 0);
    return status == AMB_OK ? amb_config_tree_read(build, copy, name, NULL) : status;
}

enum amb_status amb_config_file_apply(struct amb_config_build *build, const char *path,
                                      const char *text, size_t len)
{
    if (path != NULL) {
        return apply_file(build, path);
    }
    return text == NULL ? AMB_OK : apply_text(build, text, len);
}
