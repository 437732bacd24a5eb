/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/http_change.h"

#include "broker/control/door.h"
#include "broker/http/http_private.h"
#include "wire/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define NONE UINT32_MAX

struct amb_http_change {
    struct amb_mail mail;
    const struct amb_config *config; /* a reference */
    unsigned count;
    struct {
        uint32_t kept;                /* the number of one that is open; NONE: `listener` */
        struct amb_listener listener; /* a new one, */
        struct amb_url url;           /* ... and as it was written */
    } doors[AMB_HTTP_LISTENERS_MAX];
};

/* The same socket, whatever its mode and group are. */
static bool is_same(const struct amb_url *a, const struct amb_url *b)
{
    if (a->scheme != b->scheme) {
        return false;
    }
    return a->scheme == AMB_URL_UNIX ? strcmp(a->path, b->path) == 0
                                     : a->port == b->port && strcmp(a->host, b->host) == 0;
}

static bool is_kept(const struct amb_http_change *change, unsigned number)
{
    for (unsigned i = 0; i < change->count; i++) {
        if (change->doors[i].kept == number) {
            return true;
        }
    }
    return false;
}

/* One that is open, and that no other listener of the change is. */
static uint32_t find_open(const struct amb_http *http, const struct amb_http_change *change,
                          const struct amb_url *url)
{
    for (unsigned i = 0; i < http->asked.count; i++) {
        if (is_same(&http->asked.urls[i], url) && !is_kept(change, i)) {
            return i;
        }
    }
    return NONE;
}

static enum amb_status take(const struct amb_http *http, struct amb_http_change *change,
                            const struct amb_url *url, char *error, size_t error_size)
{
    unsigned at = change->count;
    change->doors[at].url = *url;
    change->doors[at].kept = find_open(http, change, url);
    if (change->doors[at].kept == NONE) {
        struct amb_listener *listener = &change->doors[at].listener;
        listener->url = *url;
        enum amb_status status = amb_door_socket(listener, error, error_size);
        if (status != AMB_OK) {
            amb_door_remove(listener); /* It may have been bound. */
            if (listener->fd >= 0) {
                (void)close(listener->fd);
            }
            return status;
        }
    }
    change->count++;
    return AMB_OK;
}

void amb_http_drop(struct amb_http_change **change)
{
    struct amb_http_change *own = *change;
    if (own == NULL) {
        return;
    }
    *change = NULL;
    for (unsigned i = 0; i < own->count; i++) {
        if (own->doors[i].kept == NONE) {
            amb_door_remove(&own->doors[i].listener);
            (void)close(own->doors[i].listener.fd);
        }
    }
    amb_config_unref(&own->config);
    free(own);
}

enum amb_status amb_http_prepare(const struct amb_http *http, const struct amb_config *config,
                                 char *error, size_t error_size, struct amb_http_change **out)
{
    const struct amb_config_http *wanted = &config->http;
    *out = NULL;
    if (http == NULL) {
        bool is_asked = wanted->doors.count > 0 && !wanted->is_auto;
        (void)snprintf(error, error_size, "http.listen: there was no memory for it at start");
        return is_asked ? AMB_ELIMIT : AMB_OK;
    }
    struct amb_http_change *change = calloc(1, sizeof(*change));
    if (change == NULL) {
        (void)snprintf(error, error_size, "no memory");
        return AMB_ENOMEM;
    }
    change->config = amb_config_ref(config);
    for (size_t i = 0; i < wanted->doors.count; i++) {
        char why[512];
        enum amb_status status = take(http, change, &wanted->doors.items[i], why, sizeof(why));
        if (status != AMB_OK && wanted->is_auto) {
            amb_warn("http: none: %s", why);
        } else if (status != AMB_OK) {
            (void)snprintf(error, error_size, "http.listen: %s", why);
            amb_http_drop(&change);
            return status;
        }
    }
    *out = change;
    return AMB_OK;
}

/* ---- in the observer ---- */

static void close_others(struct amb_http *http, const struct amb_http_change *change)
{
    for (unsigned i = 0; i < http->listener_count; i++) {
        struct amb_listener *listener = &http->listeners[i];
        (void)epoll_ctl(http->epoll_fd, EPOLL_CTL_DEL, listener->fd, NULL);
        if (!is_kept(change, i)) {
            amb_door_remove(listener);
            (void)close(listener->fd);
        }
    }
}

/* Keys and cookies are of the token, and so are those who came by them. */
static void use_token(struct amb_http *http, const char *token)
{
    if (strcmp(http->config->http.token, token) == 0) {
        return;
    }
    if (amb_visits_init(&http->visits, token) != AMB_OK) {
        amb_error("http: no memory for the new token: no cookie holds");
    }
    amb_streams_stop(&http->streams, AMB_STREAM_BY_KEY);
}

static void change_arrived(struct amb_mail *mail, void *observer)
{
    struct amb_http_change *change = AMB_CONTAINER_OF(mail, struct amb_http_change, mail);
    struct amb_http *http = ((struct amb_observer *)observer)->guest.arg;
    struct amb_listener former[AMB_HTTP_LISTENERS_MAX];
    close_others(http, change);
    memcpy(former, http->listeners, sizeof(former));
    for (unsigned i = 0; i < change->count; i++) {
        uint32_t kept = change->doors[i].kept;
        http->listeners[i] = kept == NONE ? change->doors[i].listener : former[kept];
        if (!amb_http_watch(http, http->listeners[i].fd, AMB_HTTP_AT_LISTENERS + i)) {
            amb_error("http: a listener cannot be watched");
        }
    }
    http->listener_count = change->count;
    http->is_paused = false;
    use_token(http, change->config->http.token);
    amb_config_unref(&http->config);
    http->config = change->config;
    amb_http_name_all(http); /* Names are texts of the configuration. */
    free(change);
}

/* ---- where the reload is ---- */

static bool has_other_mode(const struct amb_url *a, const struct amb_url *b)
{
    return a->scheme == AMB_URL_UNIX && (a->mode != b->mode || strcmp(a->group, b->group) != 0);
}

void amb_http_use(struct amb_http *http, struct amb_http_change **change)
{
    struct amb_http_change *own = *change;
    if (own == NULL) {
        return;
    }
    *change = NULL;
    struct amb_url urls[AMB_HTTP_LISTENERS_MAX];
    for (unsigned i = 0; i < own->count; i++) {
        const struct amb_url *url = &own->doors[i].url;
        uint32_t kept = own->doors[i].kept;
        char why[512], shown[512];
        urls[i] = *url;
        if (kept != NONE && has_other_mode(&http->asked.urls[kept], url) &&
            amb_door_permit(url, why, sizeof(why)) != AMB_OK) {
            amb_error("http: %s", why);
        } else if (kept == NONE) {
            amb_url_format(&own->doors[i].listener.url, shown, sizeof(shown));
            amb_info("http: %s", shown);
        }
    }
    memcpy(http->asked.urls, urls, sizeof(urls[0]) * own->count);
    http->asked.count = own->count;
    amb_mail_post(&http->observer->inbox, &own->mail, change_arrived);
}
