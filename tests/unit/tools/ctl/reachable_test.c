/* SPDX-License-Identifier: Apache-2.0 */
/* URLs for others, on the machine of tests/support/interfaces.h. */
#include "tools/ctl/reachable.h"

#include "tests/support/interfaces.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct amb_reachables found;

static void add(const char *text, const char *interface)
{
    struct amb_listener_url listener;
    assert_true(amb_listener_parse(text, &listener));
    amb_reachable_add(&try_interfaces, &listener, interface, &found);
}

/* The URLs found so far as one text. */
static const char *told(void)
{
    static char text[2048];
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < found.count; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i == 0 ? "" : " ",
                                found.items[i].url);
    }
    found.count = 0;
    return text;
}

static const char *urls_of(const char *text, const char *interface)
{
    found.count = 0;
    add(text, interface);
    return told();
}

static void a_listener_on_all_addresses_has_those_that_others_can_use(void **state)
{
    (void)state;
    assert_string_equal(urls_of("tcp://[::]:4733", NULL),
                        "tcp://192.0.2.2:4733 tcp://198.51.100.2:4733 tcp://[2001:db8::2]:4733 "
                        "tcp://10.5.0.2:4733");
    assert_string_equal(urls_of("tcp://0.0.0.0:4733?link=ucx", NULL),
                        "tcp://192.0.2.2:4733?link=ucx tcp://198.51.100.2:4733?link=ucx "
                        "tcp://10.5.0.2:4733?link=ucx");
    assert_string_equal(urls_of("tcp://[::]:1", "eth0.5"), "tcp://10.5.0.2:1");
    assert_string_equal(urls_of("tcp://[::]:1", "ib0"), "");
    assert_string_equal(urls_of("tcp://[::]:1", "lo"), "tcp://127.0.0.1:1 tcp://[::1]:1");
    assert_string_equal(urls_of("tcp://0.0.0.0:1", "lo"), "tcp://127.0.0.1:1");
}

static void a_listener_on_some_addresses_has_these(void **state)
{
    (void)state;
    assert_string_equal(urls_of("tcp://eth0:1", NULL),
                        "tcp://192.0.2.2:1 tcp://198.51.100.2:1 tcp://[2001:db8::2]:1");
    assert_string_equal(urls_of("tcp://eth0:1", "eth0.5"), "");
    assert_string_equal(urls_of("tcp://198.51.100.2:1", NULL), "tcp://198.51.100.2:1");
    assert_string_equal(urls_of("tcp://198.51.100.2:1", "eth0"), "tcp://198.51.100.2:1");
    assert_string_equal(urls_of("tcp://198.51.100.2:1", "eth0.5"), "");
    assert_string_equal(urls_of("tcp://[2001:db8:0::2]:1", NULL), "tcp://[2001:db8::2]:1");
    assert_string_equal(urls_of("tcp://127.0.0.1:1", NULL), "");
    assert_string_equal(urls_of("tcp://localhost:1", NULL), "");
    assert_string_equal(urls_of("tcp://localhost:1", "lo"), "tcp://127.0.0.1:1 tcp://[::1]:1");
    assert_string_equal(urls_of("tcp://[fe80::2%eth0]:1", NULL), "");
    assert_string_equal(urls_of("tcp://203.0.113.1:1", NULL), ""); /* nobody here has it */
}

static void an_address_on_loopback_counts_where_it_is_written(void **state)
{
    (void)state;
    struct amb_interface rows[] = {TRY_INTERFACE("lo", 1, true), TRY_INTERFACE("eth0", 2, true),
                                   TRY_V4("lo", 1, 32, 192, 0, 2, 100),
                                   TRY_V4("eth0", 2, 24, 192, 0, 2, 2)};
    const struct amb_interfaces interfaces = {rows, 4};
    static const struct {
        const char *listener, *interface, *urls;
    } cases[] = {
        {"tcp://[::]:1", NULL, "tcp://192.0.2.2:1"},
        {"tcp://0.0.0.0:1", NULL, "tcp://192.0.2.2:1"},
        {"tcp://lo:1", NULL, ""},
        {"tcp://[::]:1", "lo", "tcp://192.0.2.100:1"},
        {"tcp://192.0.2.100:1", NULL, "tcp://192.0.2.100:1"},
    };
    rows[0].is_loopback = rows[2].is_loopback = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct amb_listener_url listener;
        found.count = 0;
        assert_true(amb_listener_parse(cases[i].listener, &listener));
        amb_reachable_add(&interfaces, &listener, cases[i].interface, &found);
        assert_string_equal(told(), cases[i].urls);
    }
}

static void a_host_s_name_stays(void **state)
{
    (void)state;
    assert_string_equal(urls_of("tcp://node7.example:1", NULL), "tcp://node7.example:1");
    assert_string_equal(urls_of("tcp://node7.example:1", "eth0"), "");
}

static void a_port_that_is_not_known_is_left_out(void **state)
{
    (void)state;
    assert_string_equal(urls_of("tcp://eth0:0", NULL), "");
}

static void each_url_is_there_once(void **state)
{
    (void)state;
    found.count = 0;
    add("tcp://eth0.5:1", NULL);
    add("tcp://0.0.0.0:1", "eth0.5");
    add("tcp://10.5.0.2:2", NULL);
    assert_string_equal(told(), "tcp://10.5.0.2:1 tcp://10.5.0.2:2");
}

static void the_list_has_a_limit(void **state)
{
    (void)state;
    found = (struct amb_reachables){.count = 0};
    for (unsigned port = 1; port <= AMB_REACHABLE_MAX + 1; port++) {
        char url[64];
        assert_false(found.is_full);
        (void)snprintf(url, sizeof(url), "tcp://eth0.5:%u", port);
        add(url, NULL);
    }
    assert_true(found.is_full);
    assert_int_equal(found.count, AMB_REACHABLE_MAX);
}

static void urls_are_taken_apart(void **state)
{
    (void)state;
    static const char *const bad[] = {"unix:///a",     "tcp://",
                                      "tcp://h",       "tcp://:1",
                                      "tcp://h:",      "tcp://h:x",
                                      "tcp://h:1x",    "tcp://[::1]",
                                      "tcp://[::1]1",  "tcp://h:-1",
                                      "tcp://h:65536", "",
                                      "tcp://[::1:1",  "tcp://h:18446744073709551617"};
    struct amb_listener_url url;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(amb_listener_parse(bad[i], &url));
    }
    assert_true(amb_listener_parse("tcp://[fe80::1%eth0]:65535?link=stream", &url));
    assert_string_equal(url.host, "fe80::1%eth0");
    assert_int_equal(url.port, 65535);
    assert_string_equal(url.options, "?link=stream");
    char text[400];
    (void)snprintf(text, sizeof(text), "tcp://%0300d:1", 1);
    assert_false(amb_listener_parse(text, &url));
    (void)snprintf(text, sizeof(text), "tcp://h:1?%0100d", 1);
    assert_false(amb_listener_parse(text, &url));
}

static void listeners_are_those_of_their_line(void **state)
{
    (void)state;
    struct amb_listener_url urls[3];
    static const char config[] =
        "server = {\n  name = \"listen = ( tcp://no:1 )\"; # default\n};\n"
        "listen = ( \"unix:///a\\\"b, tcp://no:1\", \"tcp://eth0:4733\", \"tcp://[::]:0\", "
        "\"tcp://a:1\", \"tcp://b:1\" ); # file\n"
        "other = ( \"tcp://no:1\" );\n";
    assert_int_equal(amb_listeners_of(config, urls, 3), 3);
    assert_string_equal(urls[0].host, "eth0");
    assert_string_equal(urls[1].host, "::");
    assert_string_equal(urls[2].host, "a");
    assert_int_equal(amb_listeners_of("listen = ( \"unix:///a\" );\n", urls, 3), 0);
    assert_int_equal(amb_listeners_of("", urls, 3), 0);
    assert_int_equal(amb_listeners_of("listen = ( \"tcp://h:1", urls, 3), 1);
    assert_int_equal(amb_listeners_of("listen = ( \"tcp://h:1\\", urls, 3), 0);
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(a_listener_on_all_addresses_has_those_that_others_can_use),
        T(a_listener_on_some_addresses_has_these),
        T(an_address_on_loopback_counts_where_it_is_written),
        T(a_host_s_name_stays),
        T(a_port_that_is_not_known_is_left_out),
        T(each_url_is_there_once),
        T(the_list_has_a_limit),
        T(urls_are_taken_apart),
        T(listeners_are_those_of_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
