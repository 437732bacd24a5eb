/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/http/request.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HOST_MAX 256u
#define VIEWS "/v1/"

static const struct {
    const char *path;
    enum amb_http_route route;
} routes[] = {
    {"/healthz", AMB_HTTP_HEALTH},   {"/readyz", AMB_HTTP_READY},
    {"/metrics", AMB_HTTP_METRICS},  {"/metrics/per-object", AMB_HTTP_PER_OBJECT},
    {"/v1/events", AMB_HTTP_EVENTS}, {"/", AMB_HTTP_PAGE},
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
    bool is_view = strncmp(target, VIEWS, strlen(VIEWS)) == 0 && len > strlen(VIEWS);
    return is_view ? AMB_HTTP_VIEW : AMB_HTTP_NOTHING;
}

bool amb_http_route_needs_key(enum amb_http_route route)
{
    return route == AMB_HTTP_PER_OBJECT || route == AMB_HTTP_VIEW || route == AMB_HTTP_EVENTS ||
           route == AMB_HTTP_PAGE;
}

const char *amb_http_view_of(const char *target)
{
    return target + strlen(VIEWS);
}

static int digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c == '\0' ? NULL : strchr(digits, c | (c >= 'A' && c <= 'F' ? 0x20 : 0));
    return at == NULL ? -1 : (int)(at - digits);
}

bool amb_http_unescape(const char *value, char *out, size_t size)
{
    size_t len = 0;
    for (; *value != '\0' && len + 1 < size; value++) {
        unsigned char c = (unsigned char)*value;
        if (c == '%') {
            int high = digit(value[1]), low = high < 0 ? -1 : digit(value[2]);
            if (low < 0) {
                return false;
            }
            c = (unsigned char)(high * 16 + low);
            value += 2;
        }
        if (c < ' ' || c == 0x7f) {
            return false;
        }
        out[len++] = (char)c;
    }
    out[len] = '\0';
    return *value == '\0';
}

bool amb_http_query_add(char *query, size_t size, const char *key, const char *value)
{
    size_t len = strlen(query);
    int head = snprintf(query + len, size - len, " %s=", key);
    if (head < 0 || (size_t)head >= size - len) {
        return false;
    }
    len += (size_t)head;
    /* A blank would begin another word. */
    return amb_http_unescape(value, query + len, size - len) && strchr(query + len, ' ') == NULL;
}

bool amb_http_has_key(const char *authorization, const char *key)
{
    static const char scheme[] = "Bearer ";
    size_t len = strlen(key), head = strlen(scheme);
    return authorization != NULL && len > 0 && strncasecmp(authorization, scheme, head) == 0 &&
           strlen(authorization) == head + len &&
           CRYPTO_memcmp(authorization + head, key, len) == 0;
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
