/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/reachable.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PLAIN "tcp://"
#define ENCRYPTED "tls://"

static bool copy(const char *text, size_t len, char *out, size_t size)
{
    if (len == 0 || len >= size) {
        return false;
    }
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

bool amb_listener_parse(const char *text, struct amb_listener_url *out)
{
    struct amb_listener_url url = {.port = 0};
    url.is_tls = strncmp(text, ENCRYPTED, strlen(ENCRYPTED)) == 0;
    if (!url.is_tls && strncmp(text, PLAIN, strlen(PLAIN)) != 0) {
        return false;
    }
    const char *host = text + strlen(PLAIN);
    bool has_brackets = host[0] == '[';
    host += has_brackets;
    const char *end = strchr(host, has_brackets ? ']' : ':');
    if (end == NULL || !copy(host, (size_t)(end - host), url.host, sizeof(url.host))) {
        return false;
    }
    end += has_brackets;
    char *rest = NULL;
    if (end[0] != ':' || end[1] < '0' || end[1] > '9') {
        return false;
    }
    unsigned long port = strtoul(end + 1, &rest, 10);
    if (port > UINT16_MAX || (rest[0] != '\0' && rest[0] != '?') ||
        strlen(rest) >= sizeof(url.options)) {
        return false;
    }
    url.port = (uint16_t)port;
    (void)snprintf(url.options, sizeof(url.options), "%s", rest);
    *out = url;
    return true;
}

size_t amb_listeners_of(const char *config, struct amb_listener_url *out, size_t max)
{
    static const char begin[] = "listen = (";
    const char *line = config;
    size_t count = 0;
    while (line != NULL && strncmp(line, begin, strlen(begin)) != 0) {
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    /* Texts between quotes, up to the end of the line; a path may have quotes, with backslashes. */
    const char *at = line == NULL ? "" : line + strlen(begin);
    while (*at != '\0' && *at != '\n' && *at != ')' && count < max) {
        char text[512];
        size_t len = 0;
        if (*at++ != '"') {
            continue;
        }
        while (*at != '\0' && *at != '\n' && *at != '"') {
            at += *at == '\\' && at[1] != '\0';
            text[len] = *at++;
            len += len + 1 < sizeof(text);
        }
        at += *at == '"';
        text[len] = '\0';
        count += amb_listener_parse(text, &out[count]);
    }
    return count;
}

static void add(struct amb_reachables *out, const struct amb_listener_url *listener,
                const char *host, int family, const char *interface)
{
    struct amb_reachable item = {.family = family};
    bool is_v6 = family == AF_INET6;
    (void)snprintf(item.url, sizeof(item.url), "%s%s%s%s:%u%s",
                   listener->is_tls ? ENCRYPTED : PLAIN, is_v6 ? "[" : "", host, is_v6 ? "]" : "",
                   (unsigned)listener->port, listener->options);
    (void)snprintf(item.interface, sizeof(item.interface), "%s", interface);
    for (size_t i = 0; i < out->count; i++) {
        if (strcmp(out->items[i].url, item.url) == 0) {
            return;
        }
    }
    if (out->count == AMB_REACHABLE_MAX) {
        out->is_full = true;
        return;
    }
    out->items[out->count++] = item;
}

/* Is that address the listener's host? */
static bool is_written(const struct amb_listener_url *listener, const struct amb_interface *row)
{
    uint8_t bytes[16];
    return inet_pton(row->family, listener->host, bytes) == 1 &&
           memcmp(bytes, row->bytes, row->family == AF_INET6 ? 16 : 4) == 0;
}

/* Is the row among the addresses that the listener's host stands for? */
static bool stands_for(const struct amb_listener_url *listener, const struct amb_interface *row)
{
    const char *host = listener->host;
    if (strcmp(host, row->name) == 0 || strcmp(host, "::") == 0) {
        return true; /* "::" is IPv4, too. */
    }
    if (strcmp(host, "0.0.0.0") == 0) {
        return row->family == AF_INET;
    }
    if (strcmp(host, "localhost") == 0) {
        return amb_interface_reach(row) == AMB_REACH_MACHINE;
    }
    return is_written(listener, row);
}

/* Neither an address nor the name of an interface. */
static bool is_host(const struct amb_interfaces *interfaces, const char *host)
{
    struct in_addr v4;
    return inet_pton(AF_INET, host, &v4) != 1 && strchr(host, ':') == NULL &&
           strcmp(host, "localhost") != 0 && amb_interfaces_find(interfaces, host) == NULL;
}

void amb_reachable_add(const struct amb_interfaces *interfaces,
                       const struct amb_listener_url *listener, const char *interface,
                       struct amb_reachables *out)
{
    const struct amb_interface *row = NULL;
    if (listener->port == 0) {
        return;
    }
    while ((row = amb_interfaces_next(interfaces, interface, row)) != NULL) {
        enum amb_interface_reach reach = amb_interface_reach(row);
        /* An address of a load balancer's on lo counts where it is written itself. */
        bool is_away = !row->is_loopback || is_written(listener, row);
        bool is_for_others = (reach == AMB_REACH_OTHERS && is_away) || interface != NULL;
        bool needs_scope = row->family == AF_INET6 && reach == AMB_REACH_LINK;
        if (is_for_others && !needs_scope && stands_for(listener, row)) {
            char address[AMB_INTERFACE_ADDRESS_MAX];
            amb_interface_text(row, address);
            add(out, listener, address, row->family, row->name);
        }
    }
    if (interface == NULL && is_host(interfaces, listener->host)) {
        add(out, listener, listener->host, AF_UNSPEC, "");
    }
}
