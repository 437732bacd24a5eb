/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners of HTTP: the one beside the socket, those that are written, and those that may not be.
 */
#include "broker/config/config_http.h"

#include "tests/support/config_try.h"

#include <stdio.h>

static void test_auto_is_beside_the_first_unix_socket(void **state)
{
    (void)state;
    struct amb_config *config =
        try_accept("listen = [\"tcp://127.0.0.1:4733\", \"unix:///run/a/b.sock?mode=0666\"];");
    assert_true(config->http.is_auto);
    assert_int_equal(config->http.doors.count, 1);
    assert_int_equal(config->http.doors.items[0].scheme, AMB_URL_UNIX);
    assert_string_equal(config->http.doors.items[0].path, "/run/a/b.sock.http");
    assert_int_equal(config->http.doors.items[0].mode, 0666);
    amb_config_destroy(&config);
}

static void test_auto_is_nothing_where_it_cannot_be(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "listen = [\"tcp://127.0.0.1:4733\"];",
        "http = { listen = \"none\"; };",
        /* Its name and the suffix are too long for a socket. */
        ("listen = "
         "[\"unix:///0123456789012345678901234567890123456789012345678901234567890123456789"
         "01234567890123456789012345678901\"];"),
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct amb_config *config = try_accept(texts[i]);
        assert_int_equal(config->http.doors.count, 0);
        amb_config_destroy(&config);
    }
    struct amb_config_machine machine = try_machine;
    machine.descriptors = 1000;
    struct amb_config_source source = {.machine = &machine};
    struct amb_config *config = try_accept_source(&source);
    assert_int_equal(config->http.doors.count, 0);
    amb_config_destroy(&config);
}

static void test_listeners_that_are_written_are_taken(void **state)
{
    (void)state;
    struct amb_config *config =
        try_accept("http = { listen = [\"tcp://127.0.0.1:9464\", \"tcp://[::1]:0\", "
                   "\"unix:///run/a/http\"]; };");
    assert_false(config->http.is_auto);
    assert_int_equal(config->http.doors.count, 3);
    assert_int_equal(config->http.doors.items[0].port, 9464);
    assert_string_equal(config->http.doors.items[1].host, "::1");
    assert_string_equal(config->http.doors.items[2].path, "/run/a/http");
    amb_config_destroy(&config);
    config = try_accept("http = { listen = [\"tcp://0.0.0.0:9464\"]; insecure = true; };");
    assert_int_equal(config->http.doors.count, 1);
    amb_config_destroy(&config);
}

static void test_others_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *listen, *why;
    } cases[] = {
        {"tcp://0.0.0.0:9464", "is reachable from other machines"},
        {"tcp://node7:9464", "is reachable from other machines"},
        {"tls://127.0.0.1:9464", "HTTP is not encrypted here"},
        {"tcp://127.0.0.1:9464?link=ucx", "link, expect and interface are of messages"},
        {"unix://", "not unix:///path or tcp://host:port"},
        {"127.0.0.1:9464", "not unix:///path or tcp://host:port"},
        {"", "not unix:///path or tcp://host:port"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        (void)snprintf(text, sizeof(text), "http = { listen = [\"%s\"]; };", cases[i].listen);
        try_refuse_part(text, cases[i].why);
    }
    try_refuse_part("http = { hosts = [\"a b\"]; };", "not the name of a host");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto_is_beside_the_first_unix_socket),
        cmocka_unit_test(test_auto_is_nothing_where_it_cannot_be),
        cmocka_unit_test(test_listeners_that_are_written_are_taken),
        cmocka_unit_test(test_others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
