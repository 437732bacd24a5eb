/* SPDX-License-Identifier: Apache-2.0 */
#include "client/session/secure.h"

#include "client/config/client_config.h"
#include "client/session/own.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define SHOWN_URL_MAX 400u
#define WHERE_MAX 64u /* of a place in an error */
#define KEY_MAX 24u

enum amb_status amb_secure_init(struct amb_secure *secure, const struct amb_url *url,
                                const struct amb_client_config *config, const struct amb_own *own,
                                struct amb_error *error)
{
    *secure = (struct amb_secure){.config = config};
    if (url->scheme != AMB_URL_TLS) {
        return AMB_OK;
    }
    bool has_own = config->ca[0] == '\0' && own->credentials.ca != NULL;
    const struct amb_tls_files files = {
        .certificate = config->certificate,
        .key = config->key,
        .ca = has_own ? own->path : config->ca,
        .ca_text = has_own ? own->credentials.ca : NULL,
    };
    struct amb_tls_complaint complaint;
    enum amb_status status = amb_tls_context_create_client(&files, &complaint, &secure->context);
    if (status != AMB_OK) {
        char key[KEY_MAX], where[WHERE_MAX];
        (void)snprintf(key, sizeof(key), "client.%s", amb_tls_file_name(complaint.file));
        amb_client_config_place(config, key, where, sizeof(where));
        error->status = status;
        (void)snprintf(error->text, sizeof(error->text), "%s: %s: %.160s", where, key,
                       status == AMB_EINVAL ? complaint.text : amb_status_text(status));
    }
    return status;
}

void amb_secure_fini(struct amb_secure *secure)
{
    amb_tls_context_unref(&secure->context);
}

static enum amb_status shake(struct amb_dial *dial, const char *name)
{
    for (;;) {
        short events = POLLIN;
        enum amb_status status = amb_tls_step(dial->tls, &events);
        if (status == AMB_OK) {
            return AMB_OK;
        }
        if (status != AMB_EAGAIN) {
            return amb_dial_fail(dial, status, "%s: %s", name, amb_tls_why(dial->tls));
        }
        status = amb_dial_wait(dial, events);
        if (status != AMB_OK) {
            return status;
        }
    }
}

enum amb_status amb_secure_shake(const struct amb_secure *secure, struct amb_dial *dial,
                                 const struct amb_url *url, enum amb_tls_alpn alpn)
{
    if (secure->context == NULL) {
        return AMB_OK;
    }
    const char *wanted = secure->config->server_name;
    const struct amb_tls_wish wish = {
        .alpn = alpn,
        .name = wanted[0] != '\0' ? wanted : url->host,
        .pin = url->pin,
    };
    char name[SHOWN_URL_MAX];
    struct amb_url shown = *url;
    shown.pin[0] = '\0'; /* The sentence has room for better. */
    amb_url_format(&shown, name, sizeof(name));
    enum amb_status status =
        amb_tls_create_connecting(secure->context, dial->fd, &wish, &dial->tls);
    if (status != AMB_OK) {
        return amb_dial_fail(dial, status, "%s: %s", name,
                             status == AMB_ENOMEM ? "no memory for TLS"
                                                  : "client.server_name is no name of a host");
    }
    return shake(dial, name);
}
