/* SPDX-License-Identifier: Apache-2.0 */
/*
 * getifaddrs has names, addresses and networks. It does not have the states of IPv6 addresses: they
 * are a column of /proc/net/if_inet6. Where that file is missing each address counts as of use.
 */
#include "wire/base/interface.h"

#include "wire/base/assert.h"
#include "wire/base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_addr.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

_Static_assert(AMB_INTERFACE_NAME_MAX + 1 == IFNAMSIZ, "the kernel's length");
_Static_assert(AMB_INTERFACE_ADDRESS_MAX > INET6_ADDRSTRLEN + AMB_INTERFACE_NAME_MAX,
               "any address");

#define STATES_PATH "/proc/net/if_inet6"
#define STATE_LINE_MAX 128
#define OF_NO_USE (IFA_F_TENTATIVE | IFA_F_DADFAILED | IFA_F_TEMPORARY)

/* Reading ------------------------------------------------------------------------------------- */

/* The name without an alias. False: it is no name. */
static bool take_name(const char *text, char out[AMB_INTERFACE_NAME_MAX + 1])
{
    size_t len = strcspn(text, ":");
    if (len == 0 || len > AMB_INTERFACE_NAME_MAX) {
        return false;
    }
    memcpy(out, text, len);
    out[len] = '\0';
    return true;
}

/* The row of the interface, which is made where it is missing; NULL: its label names none. */
static struct amb_interface *interface_of(struct amb_interfaces *table, const struct ifaddrs *entry)
{
    char name[AMB_INTERFACE_NAME_MAX + 1];
    if (entry->ifa_name == NULL || !take_name(entry->ifa_name, name)) {
        return NULL;
    }
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->rows[i].name, name) == 0) {
            return &table->rows[i];
        }
    }
    uint32_t index;
    if (entry->ifa_addr != NULL && entry->ifa_addr->sa_family == AF_PACKET) {
        const struct sockaddr_ll *packet = (const void *)entry->ifa_addr;
        index = (uint32_t)packet->sll_ifindex;
    } else {
        index = if_nametoindex(name);
    }
    if (index == 0) {
        return NULL;
    }
    struct amb_interface *row = &table->rows[table->count++];
    *row = (struct amb_interface){.index = index, .family = AF_UNSPEC};
    memcpy(row->name, name, sizeof(name));
    row->is_up = (entry->ifa_flags & IFF_UP) != 0;
    row->is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    return row;
}

static uint8_t prefix_of(const struct sockaddr *mask)
{
    uint8_t bits = 0;
    if (mask == NULL) {
        return 0;
    }
    const uint8_t *bytes =
        mask->sa_family == AF_INET6
            ? ((const struct sockaddr_in6 *)(const void *)mask)->sin6_addr.s6_addr
            : (const void *)&((const struct sockaddr_in *)(const void *)mask)->sin_addr;
    for (size_t i = 0; i < (mask->sa_family == AF_INET6 ? 16U : 4U); i++) {
        bits = (uint8_t)(bits + __builtin_popcount(bytes[i]));
    }
    return bits;
}

/* The bytes of an IPv4 or IPv6 address, and how many; 0: it is of another family. */
static size_t bytes_of(const struct sockaddr *address, uint8_t out[16])
{
    if (address->sa_family == AF_INET) {
        memcpy(out, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
        return 4;
    }
    if (address->sa_family == AF_INET6) {
        memcpy(out, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
        return 16;
    }
    return 0;
}

/* The same, and an IPv4 address as a socket of IPv6 has it (::ffff:10.0.0.1) is one of IPv4. */
static size_t plain_bytes_of(const struct sockaddr *address, uint8_t out[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    size_t len = bytes_of(address, out);
    if (len != 16 || memcmp(out, mapped, sizeof(mapped)) != 0) {
        return len;
    }
    memmove(out, out + sizeof(mapped), 4);
    return 4;
}

bool amb_address_is_same(const struct sockaddr *a, const struct sockaddr *b)
{
    uint8_t of_a[16], of_b[16];
    size_t len = plain_bytes_of(a, of_a);
    return len != 0 && plain_bytes_of(b, of_b) == len && memcmp(of_a, of_b, len) == 0;
}

bool amb_address_is_own(int fd)
{
    struct sockaddr_storage here, there;
    socklen_t here_len = sizeof(here), there_len = sizeof(there);
    return getsockname(fd, (struct sockaddr *)&here, &here_len) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_len) == 0 &&
           amb_address_is_same((struct sockaddr *)&here, (struct sockaddr *)&there);
}

static void add_address(struct amb_interfaces *table, const struct amb_interface *interface,
                        const struct ifaddrs *entry)
{
    struct amb_interface row = *interface;
    if (bytes_of(entry->ifa_addr, row.bytes) != 0) {
        row.family = entry->ifa_addr->sa_family;
        row.prefix = prefix_of(entry->ifa_netmask);
        table->rows[table->count++] = row;
    }
}

/* "fe800000000000000000000000000007 02 40 20 80 eth0": address, index, prefix, scope, flags. */
static bool parse_state(const char *line, struct amb_interface *out)
{
    char address[33], digits[3] = "";
    unsigned index, prefix, scope, flags;
    if (sscanf(line, "%32[0-9a-f] %x %x %x %x", address, &index, &prefix, &scope, &flags) != 5 ||
        strlen(address) != 32) {
        return false;
    }
    for (size_t i = 0; i < 16; i++) {
        memcpy(digits, address + 2 * i, 2);
        out->bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    out->index = index;
    out->flags = (uint8_t)flags;
    return true;
}

static void read_states(struct amb_interfaces *table, FILE *states)
{
    char line[STATE_LINE_MAX];
    while (states != NULL && fgets(line, sizeof(line), states) != NULL) {
        struct amb_interface state = {.family = AF_INET6};
        bool is_good = parse_state(line, &state);
        for (size_t i = 0; is_good && i < table->count; i++) {
            struct amb_interface *row = &table->rows[i];
            if (row->family == AF_INET6 && row->index == state.index &&
                memcmp(row->bytes, state.bytes, sizeof(state.bytes)) == 0) {
                row->flags = state.flags;
            }
        }
    }
}

/* Rows of `from` that are of use, those that the kernel would rather not use behind all others. */
static void keep(struct amb_interfaces *from, bool is_deprecated, struct amb_interfaces *to)
{
    for (size_t i = 0; i < from->count; i++) {
        const struct amb_interface *row = &from->rows[i];
        bool is_of_use = row->is_up && (row->flags & OF_NO_USE) == 0;
        bool is_late = (row->flags & IFA_F_DEPRECATED) != 0;
        if (row->family != AF_UNSPEC && is_of_use && is_late == is_deprecated) {
            to->rows[to->count++] = *row;
        }
    }
}

/* Interfaces, and which of them have an address that is not of use. */
static void keep_interfaces(struct amb_interfaces *from, struct amb_interfaces *to)
{
    for (size_t i = 0; i < from->count; i++) {
        struct amb_interface row = from->rows[i];
        for (size_t j = 0; row.family == AF_UNSPEC && j < from->count; j++) {
            row.is_waiting = row.is_waiting || (from->rows[j].index == row.index &&
                                                (from->rows[j].flags & OF_NO_USE) != 0);
        }
        if (row.family == AF_UNSPEC) {
            to->rows[to->count++] = row;
        }
    }
}

enum amb_status amb_interfaces_build(const struct ifaddrs *list, FILE *states,
                                     struct amb_interfaces *out)
{
    size_t count = 1;
    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
        count++;
    }
    /* Each entry is an address, and the first one of its interface. */
    struct amb_interfaces all = {.rows = calloc(2 * count, sizeof(*all.rows))};
    struct amb_interfaces kept = {.rows = calloc(2 * count, sizeof(*kept.rows))};
    if (all.rows == NULL || kept.rows == NULL) {
        amb_interfaces_fini(&all);
        amb_interfaces_fini(&kept);
        return AMB_ENOMEM;
    }
    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
        (void)interface_of(&all, entry);
    }
    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
        const struct amb_interface *interface = interface_of(&all, entry);
        if (interface != NULL && entry->ifa_addr != NULL) {
            add_address(&all, interface, entry);
        }
    }
    read_states(&all, states);
    keep_interfaces(&all, &kept);
    keep(&all, false, &kept);
    keep(&all, true, &kept);
    amb_interfaces_fini(&all);
    *out = kept;
    return AMB_OK;
}

enum amb_status amb_interfaces_read(struct amb_interfaces *out)
{
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) != 0) {
        return amb_status_from_errno(errno);
    }
    FILE *states = fopen(STATES_PATH, "re");
    enum amb_status status = amb_interfaces_build(list, states, out);
    if (states != NULL) {
        (void)fclose(states);
    }
    freeifaddrs(list);
    return status;
}

void amb_interfaces_fini(struct amb_interfaces *interfaces)
{
    free(interfaces->rows);
    *interfaces = (struct amb_interfaces){NULL, 0};
}

/* Asking -------------------------------------------------------------------------------------- */

const struct amb_interface *amb_interfaces_find(const struct amb_interfaces *interfaces,
                                                const char *name)
{
    for (size_t i = 0; i < interfaces->count; i++) {
        const struct amb_interface *row = &interfaces->rows[i];
        if (row->family == AF_UNSPEC && strcmp(row->name, name) == 0) {
            return row;
        }
    }
    return NULL;
}

const struct amb_interface *amb_interfaces_next(const struct amb_interfaces *interfaces,
                                                const char *name, const struct amb_interface *after)
{
    size_t begin = after == NULL ? 0 : (size_t)(after - interfaces->rows) + 1;
    for (size_t i = begin; i < interfaces->count; i++) {
        const struct amb_interface *row = &interfaces->rows[i];
        if (row->family != AF_UNSPEC && (name == NULL || strcmp(row->name, name) == 0)) {
            return row;
        }
    }
    return NULL;
}

static const char *lack_of(const struct amb_interfaces *interfaces, const struct amb_interface *row)
{
    if (!row->is_up) {
        return " (down)";
    }
    return amb_interfaces_next(interfaces, row->name, NULL) == NULL ? " (no address)" : "";
}

const char *amb_interfaces_list(const struct amb_interfaces *interfaces,
                                char out[AMB_INTERFACES_LIST_MAX])
{
    static const char more[] = ", ...";
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < interfaces->count; i++) {
        const struct amb_interface *row = &interfaces->rows[i];
        char name[AMB_INTERFACE_NAME_MAX + 1], piece[48];
        if (row->family != AF_UNSPEC) {
            continue;
        }
        int wanted =
            snprintf(piece, sizeof(piece), "%s%s%s", len == 0 ? "" : ", ",
                     amb_text_show(row->name, name, sizeof(name)), lack_of(interfaces, row));
        amb_assert(wanted > 0 && (size_t)wanted < sizeof(piece));
        if (len + (size_t)wanted + sizeof(more) > AMB_INTERFACES_LIST_MAX) {
            memcpy(out + len, more, sizeof(more));
            return out;
        }
        memcpy(out + len, piece, (size_t)wanted + 1);
        len += (size_t)wanted;
    }
    if (len == 0) {
        (void)snprintf(out, AMB_INTERFACES_LIST_MAX, "none");
    }
    return out;
}

enum amb_status amb_interfaces_check(const struct amb_interfaces *interfaces, const char *name,
                                     char *error, size_t error_size)
{
    const struct amb_interface *row = amb_interfaces_find(interfaces, name);
    char list[AMB_INTERFACES_LIST_MAX], shown[32];
    if (row != NULL && amb_interfaces_next(interfaces, name, NULL) != NULL) {
        return AMB_OK;
    }
    const char *what = "there is no interface with this name";
    if (strchr(name, ':') != NULL) {
        what = "an alias is no interface: write the interface, or the address that has the alias";
    } else if (strlen(name) > AMB_INTERFACE_NAME_MAX) {
        what = "the name of an interface has at most 15 bytes";
    } else if (row != NULL && !row->is_up) {
        what = "the interface is down";
    } else if (row != NULL && row->is_waiting) {
        what = "the interface has no address that can be used yet";
    } else if (row != NULL) {
        what = "the interface has no address";
    }
    (void)snprintf(error, error_size, "%s: %s (there are %s)",
                   amb_text_show(name, shown, sizeof(shown)), what,
                   amb_interfaces_list(interfaces, list));
    return AMB_EINVAL;
}

static enum amb_interface_reach reach_of(int family, const uint8_t bytes[16])
{
    if (family == AF_INET) {
        bool is_link = bytes[0] == 169 && bytes[1] == 254;
        return bytes[0] == 127 ? AMB_REACH_MACHINE : is_link ? AMB_REACH_LINK : AMB_REACH_OTHERS;
    }
    struct in6_addr address;
    memcpy(&address, bytes, sizeof(address));
    if (IN6_IS_ADDR_LOOPBACK(&address)) {
        return AMB_REACH_MACHINE;
    }
    return IN6_IS_ADDR_LINKLOCAL(&address) ? AMB_REACH_LINK : AMB_REACH_OTHERS;
}

enum amb_interface_reach amb_interface_reach(const struct amb_interface *row)
{
    return reach_of(row->family, row->bytes);
}

static bool is_in_network(const struct amb_interface *row, const uint8_t bytes[16])
{
    size_t whole = row->prefix / 8;
    uint8_t mask = (uint8_t)(0xff00U >> row->prefix % 8);
    return row->prefix != 0 && memcmp(row->bytes, bytes, whole) == 0 &&
           (mask == 0 || ((row->bytes[whole] ^ bytes[whole]) & mask) == 0);
}

/* How well an address suits a target; 0: not at all. */
static int suits(const struct amb_interface *row, int family, const uint8_t bytes[16])
{
    if (row->family != family) {
        return 0;
    }
    enum amb_interface_reach to = reach_of(family, bytes), from = amb_interface_reach(row);
    if (family == AF_INET6 && from == AMB_REACH_LINK && to != AMB_REACH_LINK) {
        return 0;
    }
    return 1 + 2 * (from == to) + 4 * is_in_network(row, bytes);
}

bool amb_interfaces_source(const struct amb_interfaces *interfaces, const char *name,
                           const struct sockaddr *to, struct sockaddr_storage *out)
{
    const struct amb_interface *best = NULL, *row = NULL;
    uint8_t bytes[16] = {0};
    int most = 0;
    if (bytes_of(to, bytes) == 0) {
        return false;
    }
    while ((row = amb_interfaces_next(interfaces, name, row)) != NULL) {
        int suited = suits(row, to->sa_family, bytes);
        if (suited > most) {
            most = suited;
            best = row;
        }
    }
    if (best == NULL) {
        return false;
    }
    memset(out, 0, sizeof(*out));
    if (best->family == AF_INET) {
        struct sockaddr_in *v4 = (void *)out;
        v4->sin_family = AF_INET;
        memcpy(&v4->sin_addr, best->bytes, 4);
    } else {
        struct sockaddr_in6 *v6 = (void *)out;
        v6->sin6_family = AF_INET6;
        memcpy(&v6->sin6_addr, best->bytes, 16);
        v6->sin6_scope_id = amb_interface_reach(best) == AMB_REACH_LINK ? best->index : 0;
    }
    return true;
}

void amb_interface_text(const struct amb_interface *row, char out[AMB_INTERFACE_ADDRESS_MAX])
{
    char address[INET6_ADDRSTRLEN] = "";
    (void)inet_ntop(row->family, row->bytes, address, sizeof(address));
    bool needs_scope = row->family == AF_INET6 && amb_interface_reach(row) == AMB_REACH_LINK;
    if (!needs_scope) {
        (void)snprintf(out, AMB_INTERFACE_ADDRESS_MAX, "%s", address);
    } else if (amb_interface_is_name(row->name)) {
        (void)snprintf(out, AMB_INTERFACE_ADDRESS_MAX, "%s%%%s", address, row->name);
    } else {
        (void)snprintf(out, AMB_INTERFACE_ADDRESS_MAX, "%s%%%u", address, (unsigned)row->index);
    }
}

bool amb_interface_is_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    size_t len = strlen(name);
    return len > 0 && len <= AMB_INTERFACE_NAME_MAX && name[0] != '-' &&
           strspn(name, letters) == len;
}
