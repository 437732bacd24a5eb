/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/config/config_listen.h"

#include "wire/base/assert.h"
#include "wire/base/text.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define URL_MAX 512u

/* The doors while they are gathered. */
struct doors {
    const struct amb_config_build *build;
    const struct amb_config_place *place;
    const struct amb_config_machine *machine;
    const struct amb_config *former; /* of a reload: the one in force; else NULL */
    const struct amb_interfaces *interfaces;
    struct amb_url *items;
    size_t count;
};

static bool is_address(const char *host)
{
    struct in6_addr parsed;
    return inet_pton(AF_INET, host, &parsed) == 1 || strchr(host, ':') != NULL;
}

bool amb_config_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    if (inet_pton(AF_INET6, host, &v6) == 1) {
        return IN6_IS_ADDR_LOOPBACK(&v6);
    }
    return strcmp(host, "localhost") == 0;
}

/* An address, however it is written. */
struct address {
    struct in6_addr bytes; /* IPv4: as IPv6 writes it, ::ffff:192.0.2.1 */
    uint32_t scope;
};

/* False: the host is a name. */
static bool take_address(const struct amb_interfaces *interfaces, const char *host,
                         struct address *out)
{
    char text[INET6_ADDRSTRLEN];
    struct in_addr v4;
    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, host, &v4) == 1) {
        out->bytes.s6_addr[10] = out->bytes.s6_addr[11] = 0xff;
        memcpy(&out->bytes.s6_addr[12], &v4, sizeof(v4));
        return true;
    }
    size_t len = strcspn(host, "%");
    if (len >= sizeof(text)) {
        return false;
    }
    memcpy(text, host, len);
    text[len] = '\0';
    if (host[len] == '%') {
        const struct amb_interface *row = amb_interfaces_find(interfaces, host + len + 1);
        out->scope = row != NULL ? row->index : (uint32_t)strtoul(host + len + 1, NULL, 10);
    }
    return inet_pton(AF_INET6, text, &out->bytes) == 1;
}

static bool is_same_host(const struct amb_interfaces *interfaces, const char *a, const char *b)
{
    struct address one, other;
    bool is_address = take_address(interfaces, a, &one);
    if (is_address != take_address(interfaces, b, &other)) {
        return false;
    }
    return is_address ? memcmp(&one, &other, sizeof(one)) == 0 : strcasecmp(a, b) == 0;
}

static bool is_same_place(const struct amb_interfaces *interfaces, const struct amb_url *a,
                          const struct amb_url *b)
{
    if (a->scheme == AMB_URL_UNIX || b->scheme == AMB_URL_UNIX) {
        return a->scheme == b->scheme && strcmp(a->path, b->path) == 0;
    }
    return a->port == b->port && a->port != 0 && is_same_host(interfaces, a->host, b->host);
}

/* text: the listener as it was written. */
static enum amb_status add_door(struct doors *doors, const struct amb_url *url, const char *text)
{
    const struct amb_config *config = doors->build->config;
    if (url->scheme == AMB_URL_TCP && !amb_config_is_loopback(url->host) &&
        !config->server.insecure) {
        return amb_config_fail(doors->build, doors->place, "listen",
                               "%.200s is reachable from other machines, without encryption "
                               "and guarded by auth.token only; say server.insecure = true to "
                               "accept that (got false, allowed true)",
                               text);
    }
    for (size_t i = 0; i < doors->count; i++) {
        if (is_same_place(doors->interfaces, url, &doors->items[i])) {
            char twice[URL_MAX];
            amb_url_format(url, twice, sizeof(twice));
            return amb_config_fail(doors->build, doors->place, "listen", "%.200s is there twice",
                                   twice);
        }
    }
    if (doors->count == AMB_CONFIG_DOORS_MAX) {
        return amb_config_fail(doors->build, doors->place, "listen",
                               "too many addresses (got more than %u, allowed %u)",
                               AMB_CONFIG_DOORS_MAX, AMB_CONFIG_DOORS_MAX);
    }
    doors->items[doors->count++] = *url;
    return AMB_OK;
}

static bool is_scope(const struct amb_interfaces *interfaces, const char *scope)
{
    return amb_interfaces_find(interfaces, scope) != NULL ||
           strspn(scope, "0123456789") == strlen(scope);
}

/* A link-local IPv6 address is one of each interface: only with a scope it is one alone. */
static enum amb_status check_scope(const struct doors *doors, const struct amb_url *url,
                                   const char *text)
{
    char list[AMB_INTERFACES_LIST_MAX];
    struct in6_addr address;
    const char *scope = strchr(url->host, '%');
    if (scope != NULL && !is_scope(doors->interfaces, scope + 1)) {
        return amb_config_fail(doors->build, doors->place, "listen",
                               "%.100s: there is no interface %s (there are %s)", text, scope + 1,
                               amb_interfaces_list(doors->interfaces, list));
    }
    if (scope != NULL || inet_pton(AF_INET6, url->host, &address) != 1 ||
        !IN6_IS_ADDR_LINKLOCAL(&address)) {
        return AMB_OK;
    }
    return amb_config_fail(doors->build, doors->place, "listen",
                           "%.100s is an address of any interface, so it needs the name of one, "
                           "as [fe80::1%%eth0] (there are %s)",
                           text, amb_interfaces_list(doors->interfaces, list));
}

static int resolve(const char *host)
{
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(host, NULL, NULL, &found);
    if (failed == 0) {
        freeaddrinfo(found);
    }
    return failed;
}

/* "eth0", or "eth0.5" of a VLAN. A host that may come later has another name, or this machine's. */
static bool looks_like_an_interface(const struct doors *doors, const char *name)
{
    const char *dot = strrchr(name, '.');
    return amb_interface_is_name(name) && strcmp(name, doors->machine->host) != 0 &&
           (dot == NULL || strspn(dot + 1, "0123456789") == strlen(dot + 1));
}

static bool has_host(const struct amb_config_urls *urls, const char *host)
{
    for (size_t i = 0; i < urls->count; i++) {
        if (urls->items[i].scheme != AMB_URL_UNIX && strcmp(urls->items[i].host, host) == 0) {
            return true;
        }
    }
    return false;
}

/* A reload may not wait for a resolver. A host that was one is one still. A new listener needs a
 * restart, which finds out. */
static enum amb_status check_name_again(const struct doors *doors, const struct amb_url *url,
                                        const char *text)
{
    char list[AMB_INTERFACES_LIST_MAX];
    const struct amb_config *former = doors->former;
    if (!has_host(&former->listen, url->host) || has_host(&former->doors, url->host)) {
        return AMB_OK;
    }
    return amb_config_fail(doors->build, doors->place, "listen",
                           "%.100s: the interface %s is gone (there are %s)", text, url->host,
                           amb_interfaces_list(doors->interfaces, list));
}

/* An interface that is gone does not come by trying again, so it is a wrong configuration. */
static enum amb_status check_name(const struct doors *doors, const struct amb_url *url,
                                  const char *text)
{
    char list[AMB_INTERFACES_LIST_MAX];
    if (doors->former != NULL) {
        return check_name_again(doors, url, text);
    }
    if (!looks_like_an_interface(doors, url->host)) {
        return AMB_OK;
    }
    int failed = (doors->machine->resolve == NULL ? resolve : doors->machine->resolve)(url->host);
    /* Only "there is none" is an answer. All else may be better soon, and the door says it then. */
    if (failed != EAI_NONAME && failed != EAI_NODATA) {
        return AMB_OK;
    }
    return amb_config_fail(doors->build, doors->place, "listen",
                           "%.100s: there is no interface %s (there are %s), and no such host: %s",
                           text, url->host, amb_interfaces_list(doors->interfaces, list),
                           gai_strerror(failed));
}

/* Each address of the interface that the host names. */
static enum amb_status add_interface(struct doors *doors, const struct amb_url *url,
                                     const char *text)
{
    char reason[AMB_CONFIG_ERROR_MAX / 2];
    enum amb_status status =
        amb_interfaces_check(doors->interfaces, url->host, reason, sizeof(reason));
    if (status != AMB_OK) {
        return amb_config_fail(doors->build, doors->place, "listen", "%s", reason);
    }
    const struct amb_interface *row = NULL;
    while (status == AMB_OK &&
           (row = amb_interfaces_next(doors->interfaces, url->host, row)) != NULL) {
        char address[AMB_INTERFACE_ADDRESS_MAX];
        struct amb_url door = *url;
        amb_interface_text(row, address);
        (void)snprintf(door.host, sizeof(door.host), "%s", address);
        status = add_door(doors, &door, text);
    }
    return status;
}

static enum amb_status add_listener(struct doors *doors, const struct amb_url *url)
{
    char text[URL_MAX];
    amb_url_format(url, text, sizeof(text));
    if (url->interface[0] != '\0') {
        return amb_config_fail(doors->build, doors->place, "listen",
                               "%.200s: interface is for clients; a listener has it in place of "
                               "the host, as %s://%s:%u",
                               text, amb_url_scheme_name(url->scheme), url->interface,
                               (unsigned)url->port);
    }
    if (url->pin[0] != '\0') {
        return amb_config_fail(doors->build, doors->place, "listen", "%.200s: pin is for clients",
                               text);
    }
    if (url->scheme == AMB_URL_UNIX || strcmp(url->host, "localhost") == 0) {
        return add_door(doors, url, text);
    }
    if (amb_interfaces_find(doors->interfaces, url->host) != NULL) {
        return add_interface(doors, url, text);
    }
    enum amb_status status =
        is_address(url->host) ? check_scope(doors, url, text) : check_name(doors, url, text);
    return status == AMB_OK ? add_door(doors, url, text) : status;
}

/* Does the answer depend on the interfaces that there are? */
static bool is_plain(const char *host)
{
    struct in6_addr v6;
    struct in_addr v4;
    return inet_pton(AF_INET, host, &v4) == 1 || strcmp(host, "localhost") == 0 ||
           (inet_pton(AF_INET6, host, &v6) == 1 && !IN6_IS_ADDR_LINKLOCAL(&v6));
}

static bool asks_for_interfaces(const struct amb_config_urls *listen)
{
    for (size_t i = 0; i < listen->count; i++) {
        const struct amb_url *url = &listen->items[i];
        if (url->scheme != AMB_URL_UNIX && !is_plain(url->host)) {
            return true;
        }
    }
    return false;
}

static enum amb_status add_all(struct doors *doors)
{
    struct amb_config *config = doors->build->config;
    enum amb_status status = AMB_OK;
    doors->items =
        amb_config_alloc(doors->build->store, AMB_CONFIG_DOORS_MAX * sizeof(*doors->items));
    if (doors->items == NULL) {
        return AMB_ENOMEM;
    }
    for (size_t i = 0; status == AMB_OK && i < config->listen.count; i++) {
        status = add_listener(doors, &config->listen.items[i]);
    }
    if (status == AMB_OK) {
        config->doors = (struct amb_config_urls){doors->items, doors->count};
    }
    return status;
}

enum amb_status amb_config_listen_finish(const struct amb_config_build *build,
                                         const struct amb_config_machine *machine,
                                         const struct amb_config *former)
{
    const struct amb_config *config = build->config;
    struct amb_interfaces here = {NULL, 0};
    struct doors doors = {
        .build = build,
        .place = amb_config_place_of(build->store, "listen"),
        .machine = machine,
        .former = former,
        .interfaces = machine->interfaces == NULL ? &here : machine->interfaces,
    };
    if (machine->interfaces == NULL && asks_for_interfaces(&config->listen)) {
        enum amb_status status = amb_interfaces_read(&here);
        if (status != AMB_OK) {
            return amb_config_fail(build, doors.place, "listen",
                                   "the interfaces of this machine cannot be read: %s",
                                   amb_status_text(status));
        }
    }
    enum amb_status status = add_all(&doors);
    amb_interfaces_fini(&here);
    return status;
}
