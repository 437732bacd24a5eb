/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces from lists that are made here, and questions to a table that is made here too. */
#include "wire/base/interface.h"

#include "tests/support/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MAX 16

/* A list as getifaddrs gives it. */
struct list {
    struct ifaddrs entries[MAX];
    struct sockaddr_storage addresses[MAX], masks[MAX];
    char names[MAX][32];
    unsigned count;
};

static struct ifaddrs *add(struct list *list, const char *name, unsigned flags)
{
    unsigned i = list->count++;
    struct ifaddrs *entry = &list->entries[i];
    (void)snprintf(list->names[i], sizeof(list->names[i]), "%s", name);
    *entry = (struct ifaddrs){.ifa_name = list->names[i], .ifa_flags = flags};
    if (i > 0) {
        list->entries[i - 1].ifa_next = entry;
    }
    return entry;
}

static void add_interface(struct list *list, const char *name, int index, unsigned flags)
{
    struct sockaddr_ll *packet = (void *)&list->addresses[list->count];
    *packet = (struct sockaddr_ll){.sll_family = AF_PACKET, .sll_ifindex = index};
    add(list, name, flags)->ifa_addr = (void *)packet;
}

static void take(int family, const char *text, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof(*out));
    out->ss_family = (sa_family_t)family;
    void *bytes = family == AF_INET6 ? (void *)&((struct sockaddr_in6 *)out)->sin6_addr
                                     : (void *)&((struct sockaddr_in *)out)->sin_addr;
    assert_int_equal(inet_pton(family, text, bytes), 1);
}

static void add_address(struct list *list, const char *name, const char *text, const char *mask)
{
    unsigned i = list->count;
    int family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET;
    take(family, text, &list->addresses[i]);
    take(family, mask, &list->masks[i]);
    struct ifaddrs *entry = add(list, name, IFF_UP);
    entry->ifa_addr = (void *)&list->addresses[i];
    entry->ifa_netmask = (void *)&list->masks[i];
}

/* The addresses of the table as one text: "eth0 10.0.0.7/24, ...". */
static const char *told(const struct amb_interfaces *table)
{
    static char text[512];
    const struct amb_interface *row = NULL;
    size_t len = 0;
    text[0] = '\0';
    while ((row = amb_interfaces_next(table, NULL, row)) != NULL) {
        char address[AMB_INTERFACE_ADDRESS_MAX];
        amb_interface_text(row, address);
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s %s/%u", len == 0 ? "" : ", ",
                                row->name, address, row->prefix);
    }
    return text;
}

static void test_addresses_are_found_by_their_interface(void **state)
{
    (void)state;
    struct list list = {.count = 0};
    struct amb_interfaces table;
    add_interface(&list, "lo", 1, IFF_UP | IFF_LOOPBACK);
    add_interface(&list, "eth7", 7, IFF_UP);
    add_address(&list, "lo", "127.0.0.1", "255.0.0.0");
    add_address(&list, "eth7", "192.0.2.7", "255.255.255.0");
    add_address(&list, "eth7:1", "192.0.2.8", "255.255.255.128"); /* an alias */
    add_address(&list, "eth7", "fe80::7", "ffff:ffff:ffff:ffff::");
    assert_int_equal(amb_interfaces_build(list.entries, NULL, &table), AMB_OK);
    assert_string_equal(told(&table), "lo 127.0.0.1/8, eth7 192.0.2.7/24, eth7 192.0.2.8/25, "
                                      "eth7 fe80::7%eth7/64");
    assert_int_equal(amb_interfaces_find(&table, "eth7")->index, 7);
    assert_false(amb_interfaces_find(&table, "eth7")->is_loopback);
    assert_true(amb_interfaces_find(&table, "lo")->is_loopback);
    assert_true(amb_interfaces_next(&table, "lo", NULL)->is_loopback);
    assert_null(amb_interfaces_find(&table, "eth7:1"));
    assert_null(amb_interfaces_find(&table, "eth"));
    amb_interfaces_fini(&table);
    amb_interfaces_fini(&table);
}

static FILE *states_of(const char *text)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    rewind(file);
    return file;
}

static void test_addresses_that_are_not_of_use_are_left_out(void **state)
{
    (void)state;
    static const char mask[] = "ffff:ffff:ffff:ffff::";
    struct list list = {.count = 0};
    struct amb_interfaces table;
    add_interface(&list, "eth7", 7, IFF_UP);
    add_interface(&list, "eth8", 8, 0);
    add_interface(&list, "eth9", 9, IFF_UP);
    add_address(&list, "eth7", "2001:db8::1", mask); /* deprecated: last */
    add_address(&list, "eth7", "2001:db8::2", mask); /* temporary */
    add_address(&list, "eth7", "2001:db8::3", mask);
    add_address(&list, "eth7", "fe80::3", mask);
    add_address(&list, "eth8", "192.0.2.8", "255.255.255.0"); /* of one that is down */
    add_address(&list, "eth9", "fe80::3", mask);              /* still probed */
    add_address(&list, "eth9", "fe80::4", mask);              /* another machine has it */
    FILE *states = states_of("nonsense\n"
                             "20010db8000000000000000000000001 07 40 00 a0     eth7\n"
                             "20010db8000000000000000000000002 07 40 00 01     eth7\n"
                             "20010db8000000000000000000000003 07 40 00 80     eth7\n"
                             "fe800000000000000000000000000003 09 40 20 c0     eth9\n"
                             "fe800000000000000000000000000004 09 40 20 88     eth9\n"
                             "fe8000000000000000000000000000 07 40 20 c0     eth7\n");
    assert_int_equal(amb_interfaces_build(list.entries, states, &table), AMB_OK);
    (void)fclose(states);
    assert_string_equal(told(&table), "eth7 2001:db8::3/64, eth7 fe80::3%eth7/64, "
                                      "eth7 2001:db8::1/64");
    char error[200];
    assert_int_equal(amb_interfaces_check(&table, "eth7", error, sizeof(error)), AMB_OK);
    assert_int_equal(amb_interfaces_check(&table, "eth8", error, sizeof(error)), AMB_EINVAL);
    assert_string_equal(error, "eth8: the interface is down (there are eth7, eth8 (down), "
                               "eth9 (no address))");
    assert_int_equal(amb_interfaces_check(&table, "eth9", error, sizeof(error)), AMB_EINVAL);
    assert_non_null(strstr(error, "eth9: the interface has no address that can be used yet"));
    amb_interfaces_fini(&table);
}

static void test_entries_that_make_no_sense_are_passed_over(void **state)
{
    (void)state;
    struct list list = {.count = 0};
    struct amb_interfaces table;
    char none[AMB_INTERFACES_LIST_MAX];
    add_interface(&list, "", 1, IFF_UP);
    add_interface(&list, ":1", 1, IFF_UP);
    add_interface(&list, "sixteen-bytes-it", 1, IFF_UP);
    add_interface(&list, "no-index", 0, IFF_UP);
    add_address(&list, "label-of-nobody", "192.0.2.8", "255.255.255.0");
    assert_int_equal(amb_interfaces_build(list.entries, NULL, &table), AMB_OK);
    assert_int_equal(table.count, 0);
    assert_string_equal(amb_interfaces_list(&table, none), "none");
    amb_interfaces_fini(&table);
    assert_int_equal(amb_interfaces_build(NULL, NULL, &table), AMB_OK);
    assert_null(amb_interfaces_next(&table, NULL, NULL));
    amb_interfaces_fini(&table);
}

static void test_a_name_that_does_not_do_is_answered_with_those_there_are(void **state)
{
    (void)state;
    static const struct {
        const char *name, *what;
    } bad[] = {
        {"eth7", "eth7: there is no interface with this name"},
        {"eth", "eth: there is no interface with this name"},
        {"ETH0", "ETH0: there is no interface with this name"},
        {"eth0:1", "eth0:1: an alias is no interface: write the interface, or the address that "
                   "has the alias"},
        {"sixteen-bytes-it", "sixteen-bytes-it: the name of an interface has at most 15 bytes"},
        {"ib1", "ib1: the interface has no address"},
        {"wlan0", "wlan0: the interface is down"},
        {"a\nb", "a?b: there is no interface with this name"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char error[300], expected[300];
        assert_int_equal(amb_interfaces_check(&try_interfaces, bad[i].name, error, sizeof(error)),
                         AMB_EINVAL);
        (void)snprintf(expected, sizeof(expected), "%s (there are lo, " TRY_LIST ")", bad[i].what);
        assert_string_equal(error, expected);
    }
    char error[8] = "";
    assert_int_equal(amb_interfaces_check(&try_interfaces, "ib0", error, sizeof(error)), AMB_OK);
    assert_int_equal(amb_interfaces_check(&try_interfaces, "ib9", error, sizeof(error)),
                     AMB_EINVAL);
    assert_int_equal(strlen(error), sizeof(error) - 1);
}

static void test_a_long_list_is_cut_behind_a_name(void **state)
{
    (void)state;
    struct amb_interface rows[40];
    struct amb_interfaces table = {rows, 40};
    char list[AMB_INTERFACES_LIST_MAX];
    for (size_t i = 0; i < table.count; i++) {
        rows[i] = (struct amb_interface){.index = 1, .is_up = true};
        (void)snprintf(rows[i].name, sizeof(rows[i].name), "veth\t12345678%02u", (unsigned)i);
    }
    size_t len = strlen(amb_interfaces_list(&table, list));
    assert_true(len < AMB_INTERFACES_LIST_MAX);
    assert_int_equal(strncmp(list, "veth?1234567800 (no address), veth?1234567801", 44), 0);
    assert_string_equal(list + len - 17, "(no address), ...");
}

static const char *source_of(const char *interface, const char *target)
{
    static char text[INET6_ADDRSTRLEN + 16];
    struct sockaddr_storage to, from;
    take(strchr(target, ':') != NULL ? AF_INET6 : AF_INET, target, &to);
    memset(&from, 0xff, sizeof(from));
    if (!amb_interfaces_source(&try_interfaces, interface, (void *)&to, &from)) {
        return "none";
    }
    assert_int_equal(from.ss_family, to.ss_family);
    if (from.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (void *)&from;
        assert_int_equal(v4->sin_port, 0);
        (void)inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
        return text;
    }
    const struct sockaddr_in6 *v6 = (void *)&from;
    assert_int_equal(v6->sin6_port, 0);
    (void)inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    size_t len = strlen(text);
    (void)snprintf(text + len, sizeof(text) - len, "%%%u", v6->sin6_scope_id);
    return text;
}

static void test_a_source_is_of_the_target_s_family_and_network(void **state)
{
    (void)state;
    assert_string_equal(source_of("eth0", "192.0.2.9"), "192.0.2.2");
    assert_string_equal(source_of("eth0", "198.51.100.9"), "198.51.100.2");
    assert_string_equal(source_of("eth0", "203.0.113.9"), "192.0.2.2");
    assert_string_equal(source_of("eth0", "127.0.0.1"), "192.0.2.2");
    assert_string_equal(source_of("eth0", "2001:db8::9"), "2001:db8::2%0");
    assert_string_equal(source_of("eth0", "fe80::7"), "fe80::2%2");
    assert_string_equal(source_of("eth0", "::1"), "2001:db8::2%0");
    assert_string_equal(source_of("eth0.5", "10.5.7.7"), "10.5.0.2");
    assert_string_equal(source_of("eth0.5", "2001:db8::9"), "none");
    assert_string_equal(source_of("ib0", "fe80::7"), "fe80::9%4");
    assert_string_equal(source_of("ib0", "2001:db8::9"), "none"); /* it would not come back */
    assert_string_equal(source_of("ib0", "192.0.2.9"), "none");
    assert_string_equal(source_of("eth7", "192.0.2.9"), "none");
    const struct sockaddr other = {.sa_family = AF_UNIX};
    struct sockaddr_storage from;
    assert_false(amb_interfaces_source(&try_interfaces, "eth0", &other, &from));
}

static void test_networks_of_odd_bits_are_compared_to_the_bit(void **state)
{
    (void)state;
    struct amb_interface rows[] = {
        TRY_V4("a", 1, 0, 203, 0, 113, 1), /* no mask is known */
        TRY_V4("a", 1, 25, 192, 0, 2, 1),
        TRY_V4("a", 1, 25, 192, 0, 2, 129),
        TRY_V4("a", 1, 32, 10, 0, 0, 1),
    };
    const struct amb_interfaces table = {rows, 4};
    static const struct {
        const char *to;
        uint8_t first, last;
    } cases[] = {{"192.0.2.127", 192, 1},
                 {"192.0.2.128", 192, 129},
                 {"10.0.0.1", 10, 1},
                 {"10.0.0.2", 203, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sockaddr_storage to, from;
        take(AF_INET, cases[i].to, &to);
        assert_true(amb_interfaces_source(&table, "a", (void *)&to, &from));
        const uint8_t *bytes = (const void *)&((struct sockaddr_in *)(void *)&from)->sin_addr;
        assert_int_equal(bytes[0], cases[i].first);
        assert_int_equal(bytes[3], cases[i].last);
    }
}

static void test_reach_is_that_of_the_address(void **state)
{
    (void)state;
    static const enum amb_interface_reach reaches[] = {
        AMB_REACH_MACHINE, AMB_REACH_MACHINE, AMB_REACH_OTHERS, AMB_REACH_OTHERS,
        AMB_REACH_OTHERS,  AMB_REACH_LINK,    AMB_REACH_OTHERS, AMB_REACH_LINK};
    const struct amb_interface *row = NULL;
    for (size_t i = 0; i < sizeof(reaches) / sizeof(reaches[0]); i++) {
        row = amb_interfaces_next(&try_interfaces, NULL, row);
        assert_int_equal(amb_interface_reach(row), reaches[i]);
    }
    assert_null(amb_interfaces_next(&try_interfaces, NULL, row));
    const struct amb_interface self = TRY_V4("a", 1, 16, 169, 254, 1, 1);
    assert_int_equal(amb_interface_reach(&self), AMB_REACH_LINK);
}

static void test_a_scope_that_no_url_takes_is_a_number(void **state)
{
    (void)state;
    struct amb_interface row = TRY_V6("a@b", 12, 64, 0xfe, 0x80, 0, 0, 1);
    char text[AMB_INTERFACE_ADDRESS_MAX];
    amb_interface_text(&row, text);
    assert_string_equal(text, "fe80::1%12");
    assert_true(amb_interface_is_name("eth0.5"));
    assert_true(amb_interface_is_name("fifteen-bytes-i"));
    assert_false(amb_interface_is_name("sixteen-bytes-it"));
    assert_false(amb_interface_is_name(""));
    assert_false(amb_interface_is_name("-a"));
    assert_false(amb_interface_is_name("a@b"));
}

static void test_addresses_are_compared_without_their_ports(void **state)
{
    (void)state;
    const struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = 1, .sin_addr.s_addr = 7};
    const struct sockaddr_in same = {.sin_family = AF_INET, .sin_port = 2, .sin_addr.s_addr = 7};
    const struct sockaddr_in other = {.sin_family = AF_INET, .sin_port = 1, .sin_addr.s_addr = 8};
    const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr.s6_addr = {7}};
    const struct sockaddr_in6 far = {.sin6_family = AF_INET6, .sin6_addr.s6_addr = {7, [15] = 1}};
    /* `a` as a socket of IPv6 has it */
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6,
                                  .sin6_addr.s6_addr = {[10] = 0xff, [11] = 0xff}};
    const struct sockaddr none = {.sa_family = AF_UNIX};
    memcpy(&mapped.sin6_addr.s6_addr[12], &a.sin_addr, 4);
    assert_true(amb_address_is_same((const void *)&a, (const void *)&mapped));
    assert_true(amb_address_is_same((const void *)&mapped, (const void *)&a));
    assert_false(amb_address_is_same((const void *)&other, (const void *)&mapped));
    assert_true(amb_address_is_same((const void *)&a, (const void *)&same));
    assert_false(amb_address_is_same((const void *)&a, (const void *)&other));
    assert_false(amb_address_is_same((const void *)&a, (const void *)&v6));
    assert_true(amb_address_is_same((const void *)&v6, (const void *)&v6));
    assert_false(amb_address_is_same((const void *)&v6, (const void *)&far));
    assert_false(amb_address_is_same(&none, &none));
    assert_false(amb_address_is_own(-1));
}

/* Every machine that runs this has a loopback interface with its address, but for empty networks.
 */
static void test_this_machine_is_read(void **state)
{
    (void)state;
    struct amb_interfaces table;
    assert_int_equal(amb_interfaces_read(&table), AMB_OK);
    if (amb_interfaces_find(&table, "lo") == NULL) {
        amb_interfaces_fini(&table);
        skip();
    }
    assert_int_equal(amb_interfaces_find(&table, "lo")->index, if_nametoindex("lo"));
    amb_interfaces_fini(&table);
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(test_addresses_are_found_by_their_interface),
        T(test_addresses_that_are_not_of_use_are_left_out),
        T(test_entries_that_make_no_sense_are_passed_over),
        T(test_a_name_that_does_not_do_is_answered_with_those_there_are),
        T(test_a_long_list_is_cut_behind_a_name),
        T(test_a_source_is_of_the_target_s_family_and_network),
        T(test_networks_of_odd_bits_are_compared_to_the_bit),
        T(test_reach_is_that_of_the_address),
        T(test_a_scope_that_no_url_takes_is_a_number),
        T(test_addresses_are_compared_without_their_ports),
        T(test_this_machine_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
