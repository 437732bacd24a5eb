/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/request.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

#define HOST_MAX 256u

static const struct {
    const char *path;
    enum amb_http_route route;
} routes[] = {
    {"/healthz", AMB_HTTP_HEALTH},
    {"/readyz", AMB_HTTP_READY},
    {"/metrics", AMB_HTTP_METRICS},
};

bool amb_http_is_method(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

enum amb_http_route amb_http_route_of(const char *target)
{
    size_t len = strcspn(target, "?");
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (strlen(routes[i].path) == len && memcmp(target, routes[i].path, len) == 0) {
            return routes[i].route;
        }
    }
    return AMB_HTTP_NOTHING;
}

/* Without a port and brackets. False: it is not a host's. */
static bool take_host(const char *host, char out[HOST_MAX], bool *is_bracketed)
{
    *is_bracketed = host[0] == '[';
    const char *begin = host + (*is_bracketed ? 1 : 0);
    size_t len = strcspn(begin, *is_bracketed ? "]" : ":");
    const char *end = begin + len;
    if (*is_bracketed) {
        if (*end != ']') {
            return false;
        }
        end++;
    }
    if (len == 0 || len >= HOST_MAX) {
        return false;
    }
    memcpy(out, begin, len);
    out[len] = '\0';
    return *end == '\0' || (*end == ':' && strspn(end + 1, "0123456789") == strlen(end + 1));
}

bool amb_http_host_is_ours(const char *host, const struct amb_http_names *names)
{
    char name[HOST_MAX];
    bool is_bracketed = false;
    struct in_addr v4;
    struct in6_addr v6;
    if (!take_host(host, name, &is_bracketed)) {
        return false;
    }
    if (is_bracketed) {
        return inet_pton(AF_INET6, name, &v6) == 1;
    }
    if (inet_pton(AF_INET, name, &v4) == 1 || strcasecmp(name, "localhost") == 0) {
        return true;
    }
    for (size_t i = 0; i < names->count; i++) {
        if (strcasecmp(name, names->items[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool amb_http_wants_openmetrics(const char *accept)
{
    return accept != NULL && strstr(accept, "application/openmetrics-text") != NULL;
}
