/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/config_quick.h"

#include "broker/config/config_schema.h"
#include "wire/config/config_layers.h"

#include <string.h>

static const struct amb_config_place place = {AMB_CONFIG_ORIGIN_DEV, NULL, 0};

/* Does nothing above the profile say anything of who may come in? */
static bool is_silent(const struct amb_config_build *build)
{
    size_t count;
    const struct amb_config_key *keys = amb_config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        const char *path = keys[i].path;
        bool counts = strncmp(path, "auth.", 5) == 0 || strcmp(path, "roles") == 0 ||
                      (strncmp(path, "tls.", 4) == 0 && strcmp(path, "tls.threads") != 0);
        if (counts && amb_config_has_field(&keys[i]) &&
            amb_config_place_of(build->store, path)->origin > AMB_CONFIG_ORIGIN_DEV) {
            return false;
        }
    }
    return true;
}

static const struct amb_url *find_door(const struct amb_config *config)
{
    for (size_t i = 0; i < config->listen.count; i++) {
        if (config->listen.items[i].scheme == AMB_URL_TLS) {
            return &config->listen.items[i];
        }
    }
    return NULL;
}

static enum amb_status set_strings(struct amb_config_build *build, struct amb_config_strings *out,
                                   const char *const *texts, size_t count)
{
    const char **items = amb_config_alloc(build->store, (count + 1) * sizeof(*items));
    struct amb_config_place *places = amb_config_alloc(build->store, (count + 1) * sizeof(*places));
    if (items == NULL || places == NULL) {
        return AMB_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        items[i] = texts[i];
        places[i] = place;
    }
    *out = (struct amb_config_strings){.items = items, .places = places, .count = count};
    return AMB_OK;
}

static enum amb_status set_role(struct amb_config_build *build)
{
    static const char *const all[] = {">", "$SYS.>", "$DLQ.>"};
    struct amb_config *config = build->config;
    struct amb_role *role = amb_config_alloc(build->store, sizeof(*role));
    if (role == NULL) {
        return AMB_ENOMEM;
    }
    *role = (struct amb_role){.name = AMB_CONFIG_QUICK_USER,
                              .request = true,
                              .reply = true,
                              .admin = AMB_ADMIN_ADMIN,
                              .ucx = true};
    config->roles = (struct amb_roles){.items = role, .count = 1};
    enum amb_status status = set_strings(build, &role->publish.allow, all, 1);
    if (status == AMB_OK) {
        status = set_strings(build, &role->subscribe.allow, all, 3);
    }
    return status;
}

/* A reload makes no files: those in force stay. False: there are none of a quick start. */
static bool find_former(const struct amb_config *former, struct amb_config_quick *out)
{
    if (former == NULL || former->auth.users_file[0] == '\0' ||
        amb_config_place_of(former->store, "auth.users")->origin != AMB_CONFIG_ORIGIN_DEV) {
        return false;
    }
    (void)snprintf(out->certificate, sizeof(out->certificate), "%s", former->tls.certificate);
    (void)snprintf(out->key, sizeof(out->key), "%s", former->tls.key);
    (void)snprintf(out->users, sizeof(out->users), "%s", former->auth.users_file);
    return true;
}

static enum amb_status find_or_make(const struct amb_config_build *build,
                                    const struct amb_config_source *source,
                                    const struct amb_url *door, struct amb_config_quick *out)
{
    char reason[AMB_CONFIG_QUICK_WHY_MAX] = "";
    enum amb_status status = source->quick(door, source->environment, out, reason);
    return status == AMB_OK || status == AMB_ENOMEM
               ? status
               : amb_config_fail(build, amb_config_place_of(build->store, "listen"), "listen", "%s",
                                 reason);
}

enum amb_status amb_config_quick_apply(struct amb_config_build *build,
                                       const struct amb_config_source *source)
{
    const struct amb_config *config = build->config;
    const struct amb_url *door = find_door(config);
    struct amb_config_quick files;
    enum amb_status status = AMB_OK;
    if (!source->dev || door == NULL || !is_silent(build)) {
        return AMB_OK;
    }
    if (source->quick != NULL) {
        status = find_or_make(build, source, door, &files);
    } else if (!find_former(source->former, &files)) {
        return AMB_OK;
    }
    if (status != AMB_OK) {
        return status;
    }
    status = amb_config_text_set(build, "tls.certificate", files.certificate, &place);
    if (status == AMB_OK) {
        status = amb_config_text_set(build, "tls.key", files.key, &place);
    }
    if (status == AMB_OK) {
        status = amb_config_text_set(build, "auth.users", files.users, &place);
    }
    return status == AMB_OK ? set_role(build) : status;
}
