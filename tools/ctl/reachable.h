/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The URLs that others can use for a broker's listeners: pure functions of a listener's URL and of
 * the table of interfaces.
 *
 * IPv6 link-local addresses are left out, because another machine needs a scope of its own for one.
 * Threads: any. Memory: none; the lists have a limit.
 */
#pragma once

#include "wire/base/interface.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_REACHABLE_MAX 256u
#define AMB_LISTENER_HOST_MAX 256u
#define AMB_LISTENER_URLS_MAX 64u

/* A listener's URL, taken apart: "tcp://[::1]:4733?link=ucx". */
struct amb_listener_url {
    char host[AMB_LISTENER_HOST_MAX]; /* without brackets */
    uint16_t port;
    bool is_tls;      /* tls://, and not tcp:// */
    char options[64]; /* "" or "?link=ucx" */
};

struct amb_reachable {
    char url[400];
    char interface[AMB_INTERFACE_NAME_MAX + 1]; /* "": of a host's name, nobody knows */
    int family;                                 /* AF_INET, AF_INET6; AF_UNSPEC: a host's name */
};

struct amb_reachables {
    struct amb_reachable items[AMB_REACHABLE_MAX];
    size_t count;
    bool is_full; /* there were more */
};

/* False: it is no URL of TCP, or no port is in it. */
bool amb_listener_parse(const char *text, struct amb_listener_url *out);
/* The TCP listeners of the line "listen = ( "URL", "URL" );" of a printed configuration, at most
 * `max`. */
size_t amb_listeners_of(const char *config, struct amb_listener_url *out, size_t max);

/*
 * Adds the URLs of one listener, each once.
 *   interface  those of its addresses alone; NULL: those of all, but not loopback
 * A listener on all addresses ("0.0.0.0", "::") has those of the interfaces. One with port 0 has
 * none: its port is known when the broker is ready.
 */
void amb_reachable_add(const struct amb_interfaces *interfaces,
                       const struct amb_listener_url *listener, const char *interface,
                       struct amb_reachables *out);
