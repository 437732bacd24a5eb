/* SPDX-License-Identifier: Apache-2.0 */
/* broker/http/request: paths, methods, and the hosts that a request may name. */
#include "broker/http/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_paths_are_exact(void **state)
{
    (void)state;
    assert_int_equal(amb_http_route_of("/metrics"), AMB_HTTP_METRICS);
    assert_int_equal(amb_http_route_of("/metrics?x=1"), AMB_HTTP_METRICS);
    assert_int_equal(amb_http_route_of("/healthz"), AMB_HTTP_HEALTH);
    assert_int_equal(amb_http_route_of("/readyz"), AMB_HTTP_READY);
    assert_int_equal(amb_http_route_of("/"), AMB_HTTP_PAGE);
    assert_int_equal(amb_http_route_of("/?key=0"), AMB_HTTP_PAGE);
    assert_int_equal(amb_http_route_of("/v1/events?view=status"), AMB_HTTP_EVENTS);
    static const char *const others[] = {
        "",          "/x",      "*",          "/metrics/",  "/METRICS",    "/metrics/../metrics",
        "//metrics", "/metric", "/%6detrics", "/../../etc", "/metrics%00", "http://a/metrics"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_int_equal(amb_http_route_of(others[i]), AMB_HTTP_NOTHING);
    }
}

static void test_queries_are_made_of_arguments(void **state)
{
    (void)state;
    char query[32] = "topics";
    assert_int_equal(amb_http_route_of("/v1/topics?top=1"), AMB_HTTP_VIEW);
    assert_int_equal(amb_http_route_of("/v1/"), AMB_HTTP_NOTHING);
    assert_string_equal(amb_http_view_of("/v1/topics"), "topics");
    assert_true(amb_http_query_add(query, sizeof(query), "match", "a.%3E"));
    assert_string_equal(query, "topics match=a.>");
    static const char *const bad[] = {
        "a b", "a%20top=1", "%00",  "%",
        "%4",  "%zz",       "a%7f", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char other[32] = "topics";
        assert_false(amb_http_query_add(other, sizeof(other), "match", bad[i]));
    }
}

static void test_a_key_is_the_whole_key(void **state)
{
    (void)state;
    assert_true(amb_http_has_key("Bearer secret", "secret"));
    assert_true(amb_http_has_key("bearer secret", "secret"));
    static const char *const bad[] = {"Bearer secre", "Bearer secrets", "Bearer Secret", "secret",
                                      "Basic secret", "Bearer  secret", "Bearer "};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(amb_http_has_key(bad[i], "secret"));
    }
    assert_false(amb_http_has_key(NULL, "secret"));
    assert_false(amb_http_has_key("Bearer ", ""));
}

static void test_methods_are_two(void **state)
{
    (void)state;
    assert_true(amb_http_is_method("GET"));
    assert_true(amb_http_is_method("HEAD"));
    assert_false(amb_http_is_method("POST"));
    assert_false(amb_http_is_method("get"));
    assert_false(amb_http_is_method(""));
}

static void test_hosts_are_addresses_and_names_of_ours(void **state)
{
    (void)state;
    static const char *const items[] = {"broker.example", "Node7"};
    const struct amb_http_names names = {items, 2};
    static const char *const good[] = {
        "127.0.0.1", "127.0.0.1:9464", "192.0.2.7", "[::1]",      "[2001:db8::1]:80",
        "localhost", "LOCALHOST:1",    "node7",     "node7:9464", "broker.EXAMPLE:",
    };
    static const char *const bad[] = {
        "",
        ":80",
        "evil.example",
        "broker.example.evil",
        "127.0.0.1.evil",
        "[::1",
        "[node7]",
        "[]",
        "node7:80x",
        "node7:80:80",
        "node7/",
        "user@node7",
        "::1",
        "[127.0.0.1]",
        " node7",
        "broker.example@evil",
        "127.0.0.1 evil",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (!amb_http_host_is_ours(good[i], &names)) {
            fail_msg("refused: %s", good[i]);
        }
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (amb_http_host_is_ours(bad[i], &names)) {
            fail_msg("accepted: %s", bad[i]);
        }
    }
    char longest[1000];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_false(amb_http_host_is_ours(longest, &names));
}

static void test_openmetrics_is_asked_for(void **state)
{
    (void)state;
    assert_true(amb_http_wants_openmetrics(
        "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
    assert_false(amb_http_wants_openmetrics("text/plain"));
    assert_false(amb_http_wants_openmetrics("*/*"));
    assert_false(amb_http_wants_openmetrics(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_are_exact),
        cmocka_unit_test(test_queries_are_made_of_arguments),
        cmocka_unit_test(test_a_key_is_the_whole_key),
        cmocka_unit_test(test_methods_are_two),
        cmocka_unit_test(test_hosts_are_addresses_and_names_of_ours),
        cmocka_unit_test(test_openmetrics_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
