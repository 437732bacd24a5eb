/* SPDX-License-Identifier: Apache-2.0 */
/* The interface that a connection leaves by, on the machine of tests/support/interfaces.h. */
#include "client/session/via.h"

#include "tests/support/interfaces.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct amb_url parse(const char *text)
{
    struct amb_url url;
    char error[200];
    if (amb_url_parse(text, &url, error, sizeof(error)) != AMB_OK) {
        fail_msg("%s: %s", text, error);
    }
    return url;
}

/* The way to an address: "from" or "from, scope of the target"; or the sentence. */
static const char *way(const char *text, const char *address, unsigned target_scope)
{
    static char out[300];
    struct amb_url url = parse(text);
    struct sockaddr_storage to = {.ss_family = AF_INET}, from;
    char source[INET6_ADDRSTRLEN] = "any";
    struct sockaddr_in6 *v6 = (void *)&to;
    if (strchr(address, ':') != NULL) {
        *v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_scope_id = target_scope};
        assert_int_equal(inet_pton(AF_INET6, address, &v6->sin6_addr), 1);
    } else {
        assert_int_equal(
            inet_pton(AF_INET, address, &((struct sockaddr_in *)(void *)&to)->sin_addr), 1);
    }
    if (amb_via_prepare(&try_interfaces, &url, &to, &from, out, sizeof(out)) != AMB_OK) {
        return out;
    }
    if (from.ss_family == AF_INET) {
        (void)inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)&from)->sin_addr, source,
                        sizeof(source));
    } else if (from.ss_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &((struct sockaddr_in6 *)(void *)&from)->sin6_addr, source,
                        sizeof(source));
    }
    unsigned scope = to.ss_family == AF_INET6 ? v6->sin6_scope_id : 0;
    (void)snprintf(out, sizeof(out), scope != 0 ? "%s to scope %u" : "%s", source, scope);
    return out;
}

static void a_url_that_names_no_interface_leaves_by_any(void **state)
{
    (void)state;
    assert_string_equal(way("tcp://h:1", "192.0.2.9", 0), "any");
    assert_string_equal(way("tcp://h:1", "2001:db8::9", 0), "any");
    assert_string_equal(way("tcp://[fe80::7%eth0]:1", "fe80::7", 2), "any to scope 2");
}

static void a_source_is_an_address_of_the_interface(void **state)
{
    (void)state;
    assert_string_equal(way("tcp://h:1?interface=eth0", "198.51.100.9", 0), "198.51.100.2");
    assert_string_equal(way("tcp://h:1?interface=eth0", "2001:db8::9", 0), "2001:db8::2");
    assert_string_equal(way("tcp://h:1?interface=ib0", "192.0.2.9", 0),
                        "interface ib0 has no IPv4 address from which to reach h");
    assert_string_equal(way("tcp://h:1?interface=ib0", "2001:db8::9", 0),
                        "interface ib0 has no IPv6 address from which to reach h");
}

static void a_link_local_target_has_the_scope_of_one_interface(void **state)
{
    (void)state;
    assert_string_equal(way("tcp://[fe80::7]:1?interface=ib0", "fe80::7", 0), "fe80::9 to scope 4");
    assert_string_equal(way("tcp://[fe80::7%ib0]:1?interface=ib0", "fe80::7", 4),
                        "fe80::9 to scope 4");
    assert_string_equal(way("tcp://[fe80::7%eth0]:1?interface=ib0", "fe80::7", 2),
                        "fe80::7%eth0 has the name of an interface, and interface=ib0 is another "
                        "one: name one of them");
    assert_string_equal(way("tcp://[fe80::7]:1", "fe80::7", 0),
                        "fe80::7 is an address of any interface, so it needs the name of one, as "
                        "interface=eth0 (there are lo, " TRY_LIST ")");
}

static void an_interface_that_does_not_do_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"eth7", "ib1", "wlan0"};
    char error[300] = "";
    struct amb_url url = parse("tcp://h:1?interface=eth0");
    assert_int_equal(amb_via_check(&try_interfaces, &url, error, sizeof(error)), AMB_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)snprintf(url.interface, sizeof(url.interface), "%s", bad[i]);
        assert_int_equal(amb_via_check(&try_interfaces, &url, error, sizeof(error)), AMB_EINVAL);
        assert_int_equal(strncmp(error, bad[i], strlen(bad[i])), 0);
        assert_non_null(strstr(error, "(there are lo, " TRY_LIST ")"));
    }
    url.interface[0] = '\0';
    assert_int_equal(amb_via_check(&try_interfaces, &url, error, sizeof(error)), AMB_OK);
}

static const char *mistaken(const char *text)
{
    static char out[300];
    struct amb_url url = parse(text);
    return amb_via_mistaken(&try_interfaces, &url, out, sizeof(out)) ? out : "no";
}

static void an_interface_in_the_place_of_a_host_is_answered_with_what_to_write(void **state)
{
    (void)state;
    assert_string_equal(mistaken("tcp://host:4733"), "no");
    assert_string_equal(mistaken("tcp://eth:4733"), "no");
    assert_string_equal(mistaken("tcp://eth0.5:4733"),
                        "eth0.5 is an interface of this machine and no host: write "
                        "tcp://HOST:4733?interface=eth0.5, or for a broker here "
                        "tcp://10.5.0.2:4733");
    assert_string_equal(mistaken("tcp://lo:1"),
                        "lo is an interface of this machine and no host: write "
                        "tcp://HOST:1?interface=lo, or for a broker here tcp://127.0.0.1:1, "
                        "tcp://[::1]:1");
    assert_string_equal(mistaken("tcp://ib0:1"), "ib0 is an interface of this machine and no host: "
                                                 "write tcp://HOST:1?interface=ib0");
    assert_string_equal(mistaken("tcp://[fe80::7%eth9]:1"),
                        "fe80::7%eth9: there is no interface eth9 (there are lo, " TRY_LIST ")");
    assert_string_equal(mistaken("tcp://[fe80::7%eth0]:1"), "no");
}

static void only_some_urls_ask_for_interfaces(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool asks;
    } urls[] = {{"unix:///a", false},
                {"tcp://h:1", false},
                {"tcp://[::1]:1", false},
                {"tcp://[fe80::7%eth0]:1", false},
                {"tcp://[fe80::7]:1", true},
                {"tcp://h:1?interface=eth0", true},
                {"tcp://192.0.2.2:1?link=stream", false}};
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct amb_url url = parse(urls[i].text);
        assert_int_equal(amb_via_asks(&url), urls[i].asks);
    }
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(a_url_that_names_no_interface_leaves_by_any),
        T(a_source_is_an_address_of_the_interface),
        T(a_link_local_target_has_the_scope_of_one_interface),
        T(an_interface_that_does_not_do_is_refused),
        T(an_interface_in_the_place_of_a_host_is_answered_with_what_to_write),
        T(only_some_urls_ask_for_interfaces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
