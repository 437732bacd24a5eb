/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of a connection's configuration, lowest first. */
#include "client/config/client_config.h"

#include "client/config/client_schema.h"
#include "wire/base/assert.h"
#include "wire/config/config_layers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define CONFIG_VARIABLE "AMB_CONFIG"

static bool is_given(const struct amb_client_source *source, const char *path)
{
    for (size_t i = 0; i < source->option_count; i++) {
        if (strcmp(source->options[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

/* A variable below an option is not looked at: the program may correct it. In a program with more
 * rights than its user none is: they say whom it trusts, and which files it reads. */
static enum amb_status apply_environment(struct amb_config_build *build,
                                         const struct amb_client_source *source)
{
    enum amb_status status = AMB_OK;
    size_t count = getauxval(AT_SECURE) == 0 ? amb_client_schema.count : 0;
    for (size_t i = 0; status == AMB_OK && i < count; i++) {
        const char *path = amb_client_schema.keys[i].path;
        const char *name = amb_client_variable(path);
        const char *value =
            name == NULL ? NULL : amb_config_variable_find(source->environment, name);
        const struct amb_config_place place = {AMB_CONFIG_ORIGIN_ENVIRONMENT, name, 0};
        if (value != NULL && !is_given(source, path)) {
            status = amb_config_text_set(build, path, value, &place);
        }
    }
    return status;
}

/* A text of the program's is for its user to judge: it is no longer or stranger than before. */
static enum amb_status take_text(struct amb_config_build *build, const struct amb_config_key *key,
                                 const char *text, const struct amb_config_place *place)
{
    const char *copy = amb_config_copy(build->store, text);
    if (copy == NULL) {
        return AMB_ENOMEM;
    }
    *(const char **)(void *)((char *)build->config + key->offset) = copy;
    amb_config_place_set(build->store, key->path, place);
    return AMB_OK;
}

static enum amb_status apply_options(struct amb_config_build *build,
                                     const struct amb_client_source *source)
{
    enum amb_status status = AMB_OK;
    for (size_t i = 0; status == AMB_OK && i < source->option_count; i++) {
        const struct amb_client_option *option = &source->options[i];
        const struct amb_config_place place = {AMB_CONFIG_ORIGIN_OPTION, option->name, 0};
        const struct amb_config_key *key =
            amb_config_key_find(amb_client_schema.keys, amb_client_schema.count, option->path);
        amb_assert(key != NULL && amb_config_has_field(key));
        if (option->text == NULL) {
            amb_config_place_set(build->store, option->path, &place);
        } else if (key->type == AMB_CONFIG_TEXT) {
            status = take_text(build, key, option->text, &place);
        } else {
            status = amb_config_text_set(build, option->path, option->text, &place);
        }
    }
    return status;
}

static enum amb_status check(const struct amb_config_build *build,
                             const struct amb_client_config *config)
{
    const struct amb_config_place *min = amb_config_place_of(build->store, "client.reconnect.min");
    const struct amb_config_place *max = amb_config_place_of(build->store, "client.reconnect.max");
    /* The program's own pause goes first, and its value is not here. */
    bool is_known =
        min->origin != AMB_CONFIG_ORIGIN_OPTION && max->origin != AMB_CONFIG_ORIGIN_OPTION;
    if (!is_known || config->reconnect.min_ns <= config->reconnect.max_ns) {
        return AMB_OK;
    }
    return amb_config_fail(build, min, "client.reconnect.min", "longer than client.reconnect.max");
}

static enum amb_status apply_all(struct amb_config_build *build,
                                 const struct amb_client_source *source)
{
    enum amb_status status = amb_config_defaults_apply(build);
    if (status == AMB_OK) {
        status = amb_config_file_apply(build, source->path, source->text, source->text_len);
    }
    if (status == AMB_OK) {
        status = apply_environment(build, source);
    }
    if (status == AMB_OK) {
        status = apply_options(build, source);
    }
    return status == AMB_OK ? check(build, build->config) : status;
}

enum amb_status amb_client_config_create(const struct amb_client_source *source, char *error,
                                         size_t error_size, struct amb_client_config **out)
{
    amb_assert(error_size > 0);
    struct amb_client_config *config = calloc(1, sizeof(*config));
    struct amb_config_store *store = calloc(1, sizeof(*store));
    if (config == NULL || store == NULL) {
        free(config);
        free(store);
        (void)snprintf(error, error_size, "no memory for the configuration");
        return AMB_ENOMEM;
    }
    store->schema = &amb_client_schema;
    config->store = store;
    struct amb_config_build build = {
        .store = store, .config = config, .error = error, .error_size = error_size};
    enum amb_status status = apply_all(&build, source);
    if (status != AMB_OK) {
        if (status == AMB_ENOMEM) {
            (void)snprintf(error, error_size, "no memory for the configuration");
        }
        amb_client_config_destroy(&config);
        return status;
    }
    *out = config;
    return AMB_OK;
}

void amb_client_config_destroy(struct amb_client_config **config)
{
    if (*config == NULL) {
        return;
    }
    amb_config_store_fini((*config)->store);
    free((*config)->store);
    free(*config);
    *config = NULL;
}

const char *amb_client_config_path(void)
{
    const char *path = secure_getenv(CONFIG_VARIABLE);
    return path != NULL && path[0] != '\0' ? path : NULL;
}

void amb_client_config_place(const struct amb_client_config *config, const char *key, char *out,
                             size_t size)
{
    amb_config_place_format(amb_config_place_of(config->store, key), out, size);
}

bool amb_client_config_is_given(const struct amb_client_config *config, const char *key)
{
    return amb_config_place_of(config->store, key)->origin != AMB_CONFIG_ORIGIN_DEFAULT;
}

bool amb_client_config_in_file(const struct amb_client_config *config, const char *key, char *out,
                               size_t size)
{
    amb_client_config_place(config, key, out, size);
    return amb_config_place_of(config->store, key)->origin == AMB_CONFIG_ORIGIN_FILE;
}
