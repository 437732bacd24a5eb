/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/config_tls.h"

#include "broker/config/config.h"
#include "broker/config/config_auth.h"

#define URL_MAX 512u
#define KEY_MAX 32u

/* The first encrypted listener; NULL: there is none. */
static const struct amb_url *find_door(const struct amb_config *config)
{
    for (size_t i = 0; i < config->listen.count; i++) {
        if (config->listen.items[i].scheme == AMB_URL_TLS) {
            return &config->listen.items[i];
        }
    }
    return NULL;
}

static enum amb_status check_door(const struct amb_config_build *build, const struct amb_url *door)
{
    const struct amb_config *config = build->config;
    char text[URL_MAX];
    amb_url_format(door, text, sizeof(text));
    if (config->tls.certificate[0] == '\0') {
        return amb_config_fail(build, amb_config_place_of(build->store, "tls.certificate"),
                               "tls.certificate", "is missing: %.200s needs it, and tls.key", text);
    }
    if (!amb_config_auth_asks(config)) {
        return amb_config_fail(build, amb_config_place_of(build->store, "listen"), "listen",
                               "%.200s would let in everybody: set auth.users, auth.token_file, "
                               "or tls.clients = \"required\"",
                               text);
    }
    return AMB_OK;
}

static enum amb_status load(const struct amb_config_build *build)
{
    struct amb_config *config = build->config;
    struct amb_config_tls *tls = &config->tls;
    const struct amb_tls_files files = {
        .certificate = tls->certificate, .key = tls->key, .ca = tls->ca, .crl = tls->crl};
    struct amb_tls_complaint complaint;
    enum amb_status status =
        amb_tls_context_create_server(&files, tls->clients, &complaint, &tls->context);
    if (status != AMB_EINVAL) {
        return status;
    }
    char key[KEY_MAX];
    (void)snprintf(key, sizeof(key), "tls.%s", amb_tls_file_name(complaint.file));
    return amb_config_fail(build, amb_config_place_of(build->store, key), key, "%s",
                           complaint.text);
}

enum amb_status amb_config_tls_finish(const struct amb_config_build *build)
{
    const struct amb_config *config = build->config;
    const struct amb_config_tls *tls = &config->tls;
    const struct amb_url *door = find_door(config);
    enum amb_status status = door == NULL ? AMB_OK : check_door(build, door);
    bool has_files = tls->certificate[0] != '\0' || tls->key[0] != '\0' || tls->ca[0] != '\0' ||
                     tls->crl[0] != '\0' || tls->clients != AMB_TLS_CLIENTS_NONE;
    return status == AMB_OK && has_files ? load(build) : status;
}
