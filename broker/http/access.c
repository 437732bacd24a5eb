/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/access.h"

#include "wire/base/clock.h"

#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

struct host_count {
    const char *value;
    unsigned count;
};

static enum MHD_Result count_host(void *arg, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    struct host_count *hosts = arg;
    (void)kind;
    if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) {
        hosts->value = value == NULL ? "" : value;
        hosts->count++;
    }
    return MHD_YES;
}

/* 0, or the status of the refusal. */
static unsigned check_host(const struct amb_http_request *request, const char **why)
{
    struct host_count hosts = {NULL, 0};
    (void)MHD_get_connection_values(request->connection, MHD_HEADER_KIND, count_host, &hosts);
    if (hosts.count != 1) {
        *why = "one Host is needed";
        return MHD_HTTP_BAD_REQUEST;
    }
    if (!amb_http_host_is_ours(hosts.value, &request->http->names)) {
        *why = "Host is no name of this broker; see http.hosts";
        return MHD_HTTP_FORBIDDEN;
    }
    return 0;
}

unsigned amb_http_check_head(const struct amb_http_request *request, const char **why)
{
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (size == NULL || size->header_size > AMB_HTTP_HEAD_MAX) {
        *why = "the head is more than 8 KiB";
        return MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE;
    }
    if (!amb_http_is_method(request->method)) {
        *why = "only GET and HEAD";
        return MHD_HTTP_METHOD_NOT_ALLOWED;
    }
    return request->is_unix ? 0 : check_host(request, why);
}

static bool is_owner(const struct amb_http_request *request)
{
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct ucred peer;
    socklen_t len = sizeof(peer);
    return fd != NULL && getsockopt(fd->connect_fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

bool amb_http_names_on_tcp(const struct amb_http *http)
{
    const struct amb_config *config = http->config;
    return !config->http.insecure && config->auth.users_file[0] == '\0' &&
           amb_stat_get(&http->stats->came_users) == 0;
}

static const char *header(const struct amb_http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

static bool has_key(const struct amb_http_request *request, enum amb_http_route route, bool *is_new)
{
    struct amb_http *http = request->http;
    const char *once =
        route == AMB_HTTP_PAGE
            ? MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, "key")
            : NULL;
    *is_new = once != NULL && amb_visits_take(&http->visits, once, amb_clock_monotonic_ns());
    return *is_new ||
           amb_http_has_key(header(request, MHD_HTTP_HEADER_AUTHORIZATION),
                            http->config->http.token) ||
           amb_visits_has(&http->visits, header(request, MHD_HTTP_HEADER_COOKIE),
                          amb_clock_realtime_ns() / AMB_NS_PER_SEC);
}

/* Users that came by a reload: the mode of a socket of `auto` was chosen without them. */
static bool is_for_owner(const struct amb_http *http)
{
    return amb_stat_get(&http->stats->came_users) != 0 && http->config->http.is_auto;
}

enum amb_stream_way amb_http_way_of(const struct amb_http_request *request)
{
    if (!request->is_unix) {
        return AMB_STREAM_BY_KEY;
    }
    return is_owner(request) ? AMB_STREAM_OF_OWNER : AMB_STREAM_BY_MODE;
}

void amb_http_close_ways(struct amb_http *http)
{
    http->streams.is_closed[AMB_STREAM_BY_KEY] = !amb_http_names_on_tcp(http);
    http->streams.is_closed[AMB_STREAM_BY_MODE] = is_for_owner(http);
}

/* Names of objects are for those who have a key. On a Unix socket its mode has let them in. Where
 * users came by a reload, that mode was chosen without them. */
unsigned amb_http_check_key(const struct amb_http_request *request, enum amb_http_route route,
                            bool *is_new, const char **why)
{
    const struct amb_http *http = request->http;
    *is_new = false;
    if (!amb_http_route_needs_key(route)) {
        return 0;
    }
    if (request->is_unix) {
        *why = "only for the broker's own user and root, since there are users";
        return is_for_owner(http) && !is_owner(request) ? MHD_HTTP_FORBIDDEN : 0;
    }
    if (!amb_http_names_on_tcp(http)) {
        *why = "only on a Unix socket: a key would travel in clear";
        return MHD_HTTP_FORBIDDEN;
    }
    *why = route == AMB_HTTP_PAGE || route == AMB_HTTP_EVENTS
               ? "a key is needed: open the address that `broker-ctl page` prints; it works once"
               : "the key of http.token_file is needed";
    return has_key(request, route, is_new) ? 0 : MHD_HTTP_UNAUTHORIZED;
}
