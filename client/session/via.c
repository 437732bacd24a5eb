/* SPDX-License-Identifier: Apache-2.0 */
#include "client/session/via.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define SHOWN_URLS_MAX 2u /* an error has room for so many */

static bool is_link_local(const char *host)
{
    struct in6_addr address;
    return inet_pton(AF_INET6, host, &address) == 1 && IN6_IS_ADDR_LINKLOCAL(&address);
}

bool amb_via_asks(const struct amb_url *url)
{
    return url->scheme != AMB_URL_UNIX && (url->interface[0] != '\0' || is_link_local(url->host));
}

enum amb_status amb_via_check(const struct amb_interfaces *interfaces, const struct amb_url *url,
                              char *error, size_t error_size)
{
    return url->interface[0] == '\0'
               ? AMB_OK
               : amb_interfaces_check(interfaces, url->interface, error, error_size);
}

/* The scope of a link-local target: its own, or that of the interface. */
static enum amb_status scope(const struct amb_interfaces *interfaces, const struct amb_url *url,
                             struct sockaddr_in6 *to, char *error, size_t error_size)
{
    char list[AMB_INTERFACES_LIST_MAX];
    if (to->sin6_family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&to->sin6_addr)) {
        return AMB_OK;
    }
    if (url->interface[0] != '\0') {
        const struct amb_interface *row = amb_interfaces_find(interfaces, url->interface);
        if (row != NULL && to->sin6_scope_id != 0 && to->sin6_scope_id != row->index) {
            (void)snprintf(error, error_size,
                           "%.80s has the name of an interface, and interface=%s is another one: "
                           "name one of them",
                           url->host, url->interface);
            return AMB_EINVAL;
        }
        to->sin6_scope_id = row != NULL ? row->index : to->sin6_scope_id;
    }
    if (to->sin6_scope_id == 0) {
        (void)snprintf(error, error_size,
                       "%.80s is an address of any interface, so it needs the name of one, as "
                       "interface=eth0 (there are %s)",
                       url->host, amb_interfaces_list(interfaces, list));
        return AMB_EINVAL;
    }
    return AMB_OK;
}

enum amb_status amb_via_prepare(const struct amb_interfaces *interfaces, const struct amb_url *url,
                                struct sockaddr_storage *to, struct sockaddr_storage *from,
                                char *error, size_t error_size)
{
    memset(from, 0, sizeof(*from));
    from->ss_family = AF_UNSPEC;
    if (!amb_via_asks(url)) {
        return AMB_OK;
    }
    enum amb_status status = scope(interfaces, url, (void *)to, error, error_size);
    if (status != AMB_OK || url->interface[0] == '\0') {
        return status;
    }
    if (!amb_interfaces_source(interfaces, url->interface, (const void *)to, from)) {
        (void)snprintf(error, error_size,
                       "interface %s has no %s address from which to reach %.80s", url->interface,
                       to->ss_family == AF_INET6 ? "IPv6" : "IPv4", url->host);
        return AMB_EINVAL;
    }
    return AMB_OK;
}

/* ", or for a broker here tcp://192.0.2.2:4733, tcp://[2001:db8::2]:4733" */
static void add_own(const struct amb_interfaces *interfaces, const struct amb_url *url, char *out,
                    size_t size)
{
    const struct amb_interface *row = NULL;
    size_t len = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < SHOWN_URLS_MAX;) {
        row = amb_interfaces_next(interfaces, url->host, row);
        if (row == NULL) {
            return;
        }
        char address[AMB_INTERFACE_ADDRESS_MAX];
        amb_interface_text(row, address);
        bool is_v6 = row->family == AF_INET6;
        if (is_v6 && amb_interface_reach(row) == AMB_REACH_LINK) {
            continue;
        }
        int wanted = snprintf(out + len, size - len, "%stcp://%s%s%s:%u",
                              i == 0 ? ", or for a broker here " : ", ", is_v6 ? "[" : "", address,
                              is_v6 ? "]" : "", (unsigned)url->port);
        if (wanted < 0 || (size_t)wanted >= size - len) {
            out[len] = '\0';
            return;
        }
        len += (size_t)wanted;
        i++;
    }
}

bool amb_via_mistaken(const struct amb_interfaces *interfaces, const struct amb_url *url,
                      char *error, size_t error_size)
{
    char own[128], list[AMB_INTERFACES_LIST_MAX];
    const char *zone = strchr(url->host, '%');
    if (zone != NULL && amb_interfaces_find(interfaces, zone + 1) == NULL) {
        (void)snprintf(error, error_size, "%.80s: there is no interface %.15s (there are %s)",
                       url->host, zone + 1, amb_interfaces_list(interfaces, list));
        return true;
    }
    if (amb_interfaces_find(interfaces, url->host) == NULL) {
        return false;
    }
    add_own(interfaces, url, own, sizeof(own));
    (void)snprintf(
        error, error_size,
        "%s is an interface of this machine and no host: write tcp://HOST:%u?interface=%s"
        "%s",
        url->host, (unsigned)url->port, url->host, own);
    return true;
}
