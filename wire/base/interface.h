/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network interfaces of this machine as a table: their names, and the addresses of them that
 * are of use. The functions take the table as an argument, so tests have tables of their own.
 *
 * An address is of use if a socket can be bound to it and it stays. These are left out: addresses
 * of an interface that is down, IPv6 addresses that are still probed or that another machine has,
 * and temporary ones. An address with an alias ("eth0:1") is one of its interface.
 *
 * Beside it: comparisons of addresses.
 *
 * Threads: any, each with a table of its own; a table does not change. Memory: amb_interfaces_read
 * allocates the rows.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define AMB_INTERFACE_NAME_MAX 15u /* IFNAMSIZ - 1 */
/* An IPv6 address, '%', a name, and NUL. */
#define AMB_INTERFACE_ADDRESS_MAX 64u
#define AMB_INTERFACES_LIST_MAX 128u /* their names in an error */

struct ifaddrs;
struct sockaddr;
struct sockaddr_storage;

enum amb_interface_reach {
    AMB_REACH_MACHINE, /* loopback: this machine alone */
    AMB_REACH_LINK,    /* link-local: each machine puts a name of its own behind it */
    AMB_REACH_OTHERS,
};

/* One row: an interface, or an address of one. */
struct amb_interface {
    char name[AMB_INTERFACE_NAME_MAX + 1]; /* as the machine has it: any bytes but '/' and ':' */
    uint32_t index;
    int family;       /* AF_UNSPEC: the interface itself; AF_INET, AF_INET6: an address */
    uint8_t prefix;   /* bits of the address that name its network */
    uint8_t flags;    /* IFA_F_ of an IPv6 address */
    bool is_up;       /* the interface */
    bool is_loopback; /* the interface: packets to it stay on this machine, whatever the address */
    bool is_waiting;  /* the interface: it has addresses that are not of use, at least not yet */
    uint8_t bytes[16];
};

/* Rows of interfaces come first, then their addresses, of each interface the best first. */
struct amb_interfaces {
    struct amb_interface *rows;
    size_t count;
};

/* This machine's. A few system calls; for starts alone. ENOMEM, EFORBIDDEN, ELIMIT, EINTERNAL. */
AMB_MUST_CHECK enum amb_status amb_interfaces_read(struct amb_interfaces *out);
/* The same of a list of getifaddrs; states: the text of /proc/net/if_inet6, or NULL. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_interfaces_build(const struct ifaddrs *list, FILE *states,
                                                    struct amb_interfaces *out);
/* Harmless twice. */
void amb_interfaces_fini(struct amb_interfaces *interfaces);

/* The row of the interface; NULL: there is none with this name. */
const struct amb_interface *amb_interfaces_find(const struct amb_interfaces *interfaces,
                                                const char *name);
/* The address behind `after`, which is NULL at first; NULL: no more. name NULL: of all. */
const struct amb_interface *amb_interfaces_next(const struct amb_interfaces *interfaces,
                                                const char *name,
                                                const struct amb_interface *after);
/* The names, at most AMB_INTERFACES_LIST_MAX - 1 bytes: "eth0, ib0 (down), lo". Returns out. */
const char *amb_interfaces_list(const struct amb_interfaces *interfaces,
                                char out[AMB_INTERFACES_LIST_MAX]);
/* EINVAL: there is no such interface, or it has no address of use. error then holds a sentence
 * with the interfaces that there are. */
AMB_MUST_CHECK enum amb_status amb_interfaces_check(const struct amb_interfaces *interfaces,
                                                    const char *name, char *error,
                                                    size_t error_size);

/* The address of the interface to connect from to `to`, whose port is 0. A link-local IPv6 address
 * needs a scope, and is taken for a link-local target alone. False: none of that family. */
bool amb_interfaces_source(const struct amb_interfaces *interfaces, const char *name,
                           const struct sockaddr *to, struct sockaddr_storage *out);

/* Have both the same IPv4 or IPv6 address? Ports and scopes do not matter. */
bool amb_address_is_same(const struct sockaddr *a, const struct sockaddr *b);
/* Of a connected socket: have both ends the same address? Then they are on one machine. */
bool amb_address_is_own(int fd);

/* Of the row of an address. */
enum amb_interface_reach amb_interface_reach(const struct amb_interface *row);
/* "10.0.0.7", "2001:db8::7", "fe80::7%eth0"; "fe80::7%3" where a URL could not have the name. */
void amb_interface_text(const struct amb_interface *row, char out[AMB_INTERFACE_ADDRESS_MAX]);

/* A name that can stand in a URL: 1 to 15 of letters, digits, '.', '-' and '_'. */
bool amb_interface_is_name(const char *name);
