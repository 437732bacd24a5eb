/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/failures.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>

#define IPV6_PREFIX 8u /* bytes that a network gives to one customer */

/* Of an IPv6 address its network alone: a host there may take any address of it. */
static void cut_to_network(char *host, size_t size)
{
    struct in6_addr address;
    char *scope = strchr(host, '%');
    if (scope != NULL) {
        *scope = '\0';
    }
    if (inet_pton(AF_INET6, host, &address) == 1 && !IN6_IS_ADDR_V4MAPPED(&address)) {
        memset(address.s6_addr + IPV6_PREFIX, 0, sizeof(address.s6_addr) - IPV6_PREFIX);
        (void)inet_ntop(AF_INET6, &address, host, (socklen_t)size);
    }
}

/* Without its port: up to the last colon. */
static void host_of(const char *address, char *out, size_t size)
{
    const char *colon = strrchr(address, ':');
    size_t len = colon == NULL ? strlen(address) : (size_t)(colon - address);
    if (len >= size) {
        len = size - 1;
    }
    memcpy(out, address, len);
    out[len] = '\0';
    cut_to_network(out, size);
}

static struct amb_failure *failure_of(struct amb_failures *failures, const char *host)
{
    struct amb_failure *oldest = &failures->known[0];
    for (unsigned i = 0; i < AMB_FAILURES_ADDRESSES; i++) {
        struct amb_failure *known = &failures->known[i];
        if (strcmp(known->host, host) == 0) {
            return known;
        }
        if (oldest->host[0] != '\0' &&
            (known->host[0] == '\0' || known->last_ns < oldest->last_ns)) {
            oldest = known;
        }
    }
    *oldest = (struct amb_failure){0};
    memcpy(oldest->host, host, strlen(host) + 1);
    return oldest;
}

int64_t amb_failures_note(struct amb_failures *failures, const char *address, int64_t now_ns)
{
    char host[sizeof(failures->known[0].host)];
    host_of(address, host, sizeof(host));
    struct amb_failure *known = failure_of(failures, host);
    if (now_ns - known->last_ns > AMB_FAILURES_SPAN_NS) {
        known->count = 0;
    }
    known->last_ns = now_ns;
    known->count++;
    return known->count > AMB_FAILURES_FREE ? AMB_FAILURES_DELAY_NS : 0;
}
