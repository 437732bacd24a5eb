/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners on the machine of tests/support/interfaces.h: which may be there, and their addresses.
 */
#include "tests/support/config_try.h"

#define SECURE "server = { insecure = true; };"

static void test_listeners_off_loopback_need_consent(void **state)
{
    (void)state;
    try_refuse("listen = ( \"tcp://0.0.0.0:4733\" );",
               "configuration:1: listen: tcp://0.0.0.0:4733 is reachable from other machines, "
               "without encryption and guarded by auth.token only; say server.insecure = true to "
               "accept that (got false, allowed true)");
    struct amb_config_source source = try_source("listen = ( \"tcp://[::]:4733\" );");
    try_refuse_with(&source, "is reachable from other machines");
    source = try_source("listen = ( \"tcp://127.0.0.1.example.org:4733\" );");
    try_refuse_with(&source, "is reachable from other machines");
    struct amb_config *config =
        try_accept("listen = ( \"tcp://127.1.2.3:1\", \"tcp://[::1]:1\", \"tcp://localhost:1\" );");
    amb_config_destroy(&config);
    config = try_accept("listen = ( \"tcp://0.0.0.0:4733\" ); server = { insecure = true; };");
    assert_true(config->server.insecure);
    amb_config_destroy(&config);
}

static void test_a_listener_is_there_once(void **state)
{
    (void)state;
    try_refuse("listen = ( \"tcp://localhost:5\", \"tcp://localhost:5\" );",
               "configuration:1: listen: tcp://localhost:5 is there twice");
    struct amb_config_source source =
        try_source("listen = ( \"unix:///a\", \"unix:///a?mode=0666\" );");
    try_refuse_with(&source, "is there twice");
    struct amb_config *config =
        try_accept("listen = ( \"tcp://localhost:0\", \"tcp://localhost:0\" );");
    amb_config_destroy(&config);
}

/* The doors as one text. */
static const char *doors_of(const struct amb_config *config)
{
    static char text[1024];
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < config->doors.count; i++) {
        char url[400];
        amb_url_format(&config->doors.items[i], url, sizeof(url));
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i == 0 ? "" : " ", url);
    }
    return text;
}

static void expect_doors(const char *listen, const char *expected)
{
    char text[256];
    (void)snprintf(text, sizeof(text), "listen = ( %s ); " SECURE, listen);
    struct amb_config *config = try_accept(text);
    assert_string_equal(doors_of(config), expected);
    amb_config_destroy(&config);
}

static void test_a_name_stands_for_each_address_of_its_interface(void **state)
{
    (void)state;
    expect_doors("\"tcp://eth0:4733?link=stream\"",
                 "tcp://192.0.2.2:4733?link=stream tcp://198.51.100.2:4733?link=stream "
                 "tcp://[2001:db8::2]:4733?link=stream tcp://[fe80::2%eth0]:4733?link=stream");
    expect_doors("\"unix:///a\", \"tcp://ib0:1\", \"tcp://eth0.5:0\"",
                 "unix:///a tcp://[fe80::9%ib0]:1 tcp://10.5.0.2:0");
    /* Hosts and addresses stay. */
    expect_doors("\"tcp://localhost:1\", \"tcp://node7:1\", \"tcp://10.0.0.1:1\", "
                 "\"tcp://[fe80::2%eth0]:1\", \"tcp://[fe80::2%2]:2\"",
                 "tcp://localhost:1 tcp://node7:1 tcp://10.0.0.1:1 tcp://[fe80::2%eth0]:1 "
                 "tcp://[fe80::2%2]:2");
}

static void test_what_was_written_is_what_is_kept(void **state)
{
    (void)state;
    struct amb_config *config = try_accept("listen = ( \"tcp://eth0:4733\" ); " SECURE);
    assert_int_equal(config->listen.count, 1);
    assert_string_equal(config->listen.items[0].host, "eth0");
    amb_config_destroy(&config);
}

static void test_an_interface_is_as_open_as_its_addresses(void **state)
{
    (void)state;
    struct amb_config *config = try_accept("listen = ( \"tcp://lo:4733\" );");
    assert_string_equal(doors_of(config), "tcp://127.0.0.1:4733 tcp://[::1]:4733");
    amb_config_destroy(&config);
    try_refuse("listen = ( \"tcp://eth0:4733\" );",
               "configuration:1: listen: tcp://eth0:4733 is reachable from other machines, without "
               "encryption and guarded by auth.token only; say server.insecure = true to accept "
               "that (got false, allowed true)");
    /* An address on lo that is no loopback address. */
    struct amb_interface rows[] = {TRY_INTERFACE("lo", 1, true), TRY_V4("lo", 1, 8, 127, 0, 0, 1),
                                   TRY_V4("lo", 1, 32, 192, 0, 2, 9)};
    const struct amb_interfaces interfaces = {rows, 3};
    struct amb_config_machine machine = try_machine;
    machine.interfaces = &interfaces;
    struct amb_config_source source = try_source("listen = ( \"tcp://lo:4733\" );");
    source.machine = &machine;
    try_refuse_with(&source, "tcp://lo:4733 is reachable from other machines");
}

static void test_an_interface_without_an_address_is_refused(void **state)
{
    (void)state;
    try_refuse("\nlisten = ( \"tcp://ib1:4733\" ); " SECURE,
               "configuration:2: listen: ib1: the interface has no address (there are lo, " TRY_LIST
               ")");
    try_refuse("listen = ( \"tcp://wlan0:4733\" ); " SECURE,
               "configuration:1: listen: wlan0: the interface is down (there are lo, " TRY_LIST
               ")");
}

static void test_a_name_of_neither_an_interface_nor_a_host_is_refused(void **state)
{
    (void)state;
    try_refuse("listen = ( \"tcp://eth7:4733\" ); " SECURE,
               "configuration:1: listen: tcp://eth7:4733: there is no interface eth7 (there are "
               "lo, " TRY_LIST "), and no such host: Name or service not known");
    struct amb_config_source source = try_source("listen = ( \"tcp://eth0.7:4733\" ); " SECURE);
    try_refuse_with(&source, "there is no interface eth0.7");
    /* Hosts that may come later are not asked for: with a domain, too long, this machine's own. */
    expect_doors("\"tcp://a.example:1\", \"tcp://sixteen-bytes-it:1\", \"tcp://testhost:1\"",
                 "tcp://a.example:1 tcp://sixteen-bytes-it:1 tcp://testhost:1");
}

static void test_an_address_of_any_interface_needs_the_name_of_one(void **state)
{
    (void)state;
    try_refuse("listen = ( \"tcp://[fe80::2]:4733\" ); " SECURE,
               "configuration:1: listen: tcp://[fe80::2]:4733 is an address of any interface, so "
               "it needs the name of one, as [fe80::1%eth0] (there are lo, " TRY_LIST ")");
    try_refuse("listen = ( \"tcp://[fe80::2%eth7]:4733\" ); " SECURE,
               "configuration:1: listen: tcp://[fe80::2%eth7]:4733: there is no interface eth7 "
               "(there are lo, " TRY_LIST ")");
}

static void test_the_option_of_clients_is_refused(void **state)
{
    (void)state;
    try_refuse("listen = ( \"tcp://0.0.0.0:4733?interface=eth0\" ); " SECURE,
               "configuration:1: listen: tcp://0.0.0.0:4733?interface=eth0: interface is for "
               "clients; a listener has it in place of the host, as tcp://eth0:4733");
}

static void test_an_alias_is_no_host(void **state)
{
    (void)state;
    struct amb_config_source source = try_source("listen = ( \"tcp://eth0:1:4733\" ); " SECURE);
    try_refuse_with(&source, "an alias as eth0:1 is written as its address");
}

static void test_an_address_is_there_once_whoever_names_it(void **state)
{
    (void)state;
    try_refuse("listen = ( \"tcp://198.51.100.2:5\", \"tcp://eth0:5\" ); " SECURE,
               "configuration:1: listen: tcp://198.51.100.2:5 is there twice");
    try_refuse("listen = ( \"tcp://eth0:5\", \"tcp://eth0:5\" ); " SECURE,
               "configuration:1: listen: tcp://192.0.2.2:5 is there twice");
}

static void test_an_address_is_there_once_however_it_is_written(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"tcp://[2001:db8::2]:5", "tcp://[2001:DB8:0::0:2]:5"},
        {"tcp://[::1]:5", "tcp://[0:0:0:0:0:0:0:1]:5"},
        {"tcp://[fe80::2%eth0]:5", "tcp://[fe80::2%2]:5"},
        {"tcp://[fe80::2%2]:5", "tcp://eth0:5"},
        {"tcp://192.0.2.9:5", "tcp://[::ffff:192.0.2.9]:5"},
        {"tcp://node7.example:5", "tcp://Node7.Example:5"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        char text[256];
        (void)snprintf(text, sizeof(text), "listen = ( \"%s\", \"%s\" ); " SECURE, pairs[i][0],
                       pairs[i][1]);
        struct amb_config_source source = try_source(text);
        try_refuse_with(&source, "is there twice");
    }
    struct amb_config *config = try_accept(
        "listen = ( \"tcp://[fe80::2%eth0]:5\", \"tcp://[fe80::2%ib0]:5\", \"tcp://[::2]:5\", "
        "\"tcp://0.0.0.2:5\", \"tcp://node7.example:5\", \"tcp://node8.example:5\" ); " SECURE);
    assert_int_equal(config->doors.count, 6);
    amb_config_destroy(&config);
}

static int must_not_be_asked(const char *host)
{
    fail_msg("a resolver is asked for %s", host);
    return EAI_NONAME;
}

/* On a machine whose resolver may not be asked, from the configuration in force. */
static struct amb_config_source again(const struct amb_config *former,
                                      struct amb_config_machine *machine, const char *text)
{
    struct amb_config_source source = try_source(text);
    *machine = try_machine;
    machine->resolve = must_not_be_asked;
    source.machine = machine;
    source.former = former;
    return source;
}

static void test_a_reload_asks_no_resolver(void **state)
{
    (void)state;
    static const char text[] = "listen = ( \"tcp://node7:1\", \"tcp://ib0:1\" ); " SECURE;
    struct amb_config_machine machine;
    struct amb_config *former = try_accept(text);
    struct amb_config_source source = again(former, &machine, text);
    struct amb_config *config = try_accept_source(&source);
    assert_string_equal(doors_of(config), "tcp://node7:1 tcp://[fe80::9%ib0]:1");
    amb_config_destroy(&config);
    /* A name that is new is asked for at the restart that it needs. */
    source = again(former, &machine, "listen = ( \"tcp://eth7:1\" ); " SECURE);
    config = try_accept_source(&source);
    amb_config_destroy(&config);
    amb_config_destroy(&former);
}

static void test_a_reload_tells_of_an_interface_that_is_gone(void **state)
{
    (void)state;
    static const char text[] = "listen = ( \"tcp://eth0:4733\" ); " SECURE;
    struct amb_interface rows[] = {TRY_INTERFACE("lo", 1, true), TRY_V4("lo", 1, 8, 127, 0, 0, 1)};
    const struct amb_interfaces interfaces = {rows, 2};
    struct amb_config_machine machine;
    struct amb_config *former = try_accept(text);
    struct amb_config_source source = again(former, &machine, text);
    machine.interfaces = &interfaces;
    try_refuse_source(&source,
                      "configuration:1: listen: tcp://eth0:4733: the interface eth0 is gone "
                      "(there are lo)");
    amb_config_destroy(&former);
}

static void test_a_reload_tells_so_of_tls_too(void **state)
{
    (void)state;
    struct amb_interface rows[] = {TRY_INTERFACE("lo", 1, true), TRY_V4("lo", 1, 8, 127, 0, 0, 1)};
    const struct amb_interfaces interfaces = {rows, 2};
    const struct amb_url was = {.scheme = AMB_URL_TLS, .host = "eth0", .port = 4733, .mode = -1};
    const struct amb_config former = {.listen = {&was, 1}};
    struct amb_config_machine machine;
    struct amb_config_source source =
        again(&former, &machine, "listen = ( \"tls://eth0:4733\" ); " SECURE);
    machine.interfaces = &interfaces;
    try_refuse_source(&source,
                      "configuration:1: listen: tls://eth0:4733: the interface eth0 is gone "
                      "(there are lo)");
}

static void test_addresses_have_a_limit(void **state)
{
    (void)state;
    struct amb_interface rows[AMB_CONFIG_DOORS_MAX + 2] = {TRY_INTERFACE("eth0", 2, true)};
    for (size_t i = 1; i < AMB_CONFIG_DOORS_MAX + 2; i++) {
        rows[i] = (struct amb_interface)TRY_V4("eth0", 2, 24, 192, 0, 2, (uint8_t)i);
    }
    struct amb_interfaces interfaces = {rows, AMB_CONFIG_DOORS_MAX + 1};
    struct amb_config_machine machine = try_machine;
    machine.interfaces = &interfaces;
    struct amb_config_source source = try_source("listen = ( \"tcp://eth0:1\" ); " SECURE);
    source.machine = &machine;
    struct amb_config *config = try_accept_source(&source);
    assert_int_equal(config->doors.count, AMB_CONFIG_DOORS_MAX);
    amb_config_destroy(&config);
    interfaces.count++;
    try_refuse_with(&source, "listen: too many addresses (got more than 64, allowed 64)");
}

static void test_this_machine_is_asked_where_no_table_is_given(void **state)
{
    (void)state;
    struct amb_config_machine machine = try_machine;
    machine.interfaces = NULL;
    struct amb_config_source source =
        try_source("listen = ( \"tcp://[fe80::2%no-such-one]:1\" ); " SECURE);
    source.machine = &machine;
    try_refuse_with(&source, "there is no interface no-such-one (there are ");
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(test_listeners_off_loopback_need_consent),
        T(test_a_listener_is_there_once),
        T(test_a_name_stands_for_each_address_of_its_interface),
        T(test_what_was_written_is_what_is_kept),
        T(test_an_interface_is_as_open_as_its_addresses),
        T(test_an_interface_without_an_address_is_refused),
        T(test_a_name_of_neither_an_interface_nor_a_host_is_refused),
        T(test_an_address_of_any_interface_needs_the_name_of_one),
        T(test_the_option_of_clients_is_refused),
        T(test_an_alias_is_no_host),
        T(test_an_address_is_there_once_whoever_names_it),
        T(test_an_address_is_there_once_however_it_is_written),
        T(test_a_reload_asks_no_resolver),
        T(test_a_reload_tells_of_an_interface_that_is_gone),
        T(test_a_reload_tells_so_of_tls_too),
        T(test_addresses_have_a_limit),
        T(test_this_machine_is_asked_where_no_table_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
