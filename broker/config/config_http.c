/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/config_http.h"

#include "broker/config/config_listen.h"
#include "wire/base/text.h"

#include <string.h>

/* With users the names of topics are not for everybody, and a reader of the socket sees them all.
 */
#define MODE_WITH_USERS 0600

/* The listener that `auto` stands for; false: there is none. */
static bool beside_the_socket(const struct amb_config *config, struct amb_url *out)
{
    for (size_t i = 0; i < config->listen.count; i++) {
        const struct amb_url *url = &config->listen.items[i];
        if (url->scheme != AMB_URL_UNIX) {
            continue;
        }
        *out = *url;
        out->link = AMB_LINK_ANY;
        size_t len = strlen(url->path);
        if (len + sizeof(AMB_HTTP_SUFFIX) > sizeof(out->path)) {
            return false;
        }
        memcpy(out->path + len, AMB_HTTP_SUFFIX, sizeof(AMB_HTTP_SUFFIX));
        if (config->auth.users_file[0] != '\0') {
            out->mode = MODE_WITH_USERS;
        }
        return true;
    }
    return false;
}

const char *amb_config_http_fault(const char *text)
{
    struct amb_url url;
    char reason[AMB_CONFIG_ERROR_MAX / 2];
    if (amb_url_parse(text, &url, reason, sizeof(reason)) != AMB_OK) {
        return "not unix:///path or tcp://host:port";
    }
    if (url.scheme == AMB_URL_TLS) {
        return "HTTP is not encrypted here: put a proxy before a Unix socket";
    }
    if (url.link != AMB_LINK_ANY || url.expect != 0 || url.interface[0] != '\0') {
        return "link, expect and interface are of messages";
    }
    return NULL;
}

const char *amb_config_host_fault(const char *text)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._";
    size_t len = strlen(text);
    return len > 0 && len < 254 && strspn(text, letters) == len ? NULL : "not the name of a host";
}

static enum amb_status take(const struct amb_config_build *build, const char *text,
                            struct amb_url *out)
{
    const struct amb_config *config = build->config;
    char shown[AMB_CONFIG_SHOWN_MAX], reason[AMB_CONFIG_ERROR_MAX / 2];
    if (amb_url_parse(text, out, reason, sizeof(reason)) != AMB_OK) {
        return AMB_EINVAL; /* amb_config_http_fault has found none. */
    }
    if (out->scheme == AMB_URL_TCP && !amb_config_is_loopback(out->host) &&
        !config->http.insecure) {
        return amb_config_fail(build, amb_config_place_of(build->store, "http.listen"),
                               "http.listen",
                               "%s is reachable from other machines, without encryption; say "
                               "http.insecure = true to accept that (got false, allowed true)",
                               amb_text_show(text, shown, sizeof(shown)));
    }
    return AMB_OK;
}

enum amb_status amb_config_http_finish(const struct amb_config_build *build)
{
    struct amb_config *config = build->config;
    struct amb_config_http *http = &config->http;
    if (http->listen.count == 0) {
        return AMB_OK;
    }
    struct amb_url *items = amb_config_alloc(build->store, AMB_HTTP_LISTENERS_MAX * sizeof(*items));
    if (items == NULL) {
        return AMB_ENOMEM;
    }
    http->is_auto =
        http->listen.count == 1 && strcmp(http->listen.items[0], AMB_CONFIG_HTTP_AUTO) == 0;
    if (http->is_auto) {
        http->doors = (struct amb_config_urls){items, beside_the_socket(config, items) ? 1 : 0};
        return AMB_OK;
    }
    for (size_t i = 0; i < http->listen.count; i++) {
        enum amb_status status = take(build, http->listen.items[i], &items[i]);
        if (status != AMB_OK) {
            return status;
        }
    }
    http->doors = (struct amb_config_urls){items, http->listen.count};
    return AMB_OK;
}
