/* SPDX-License-Identifier: Apache-2.0 */
/* The printed text gives the same configuration when read; and the keys that a reload would
 * change. */
#include "broker/config/print/config_print.h"
#include "tests/support/config_try.h"

static void expect_round_trip(const char *text)
{
    char restart[256], live[256];
    struct amb_config *config = try_accept(text);
    char *printed = try_printed(config);
    struct amb_config *again = try_accept(printed);
    amb_config_diff(config, again, restart, sizeof(restart), live, sizeof(live));
    assert_string_equal(restart, "");
    assert_string_equal(live, "");
    free(printed);
    amb_config_destroy(&config);
    amb_config_destroy(&again);
}

static void test_printed_text_reads_back(void **state)
{
    (void)state;
    expect_round_trip("");
    expect_round_trip(
        "server = { name = \"a\\\"b\\\\c\"; workers = 2; spin = \"1ms\"; };\n"
        "listen = ( \"unix:///x?mode=0600&group=g\", \"tcp://[::1]:5\" );\n"
        "transports = { trusted = ( \"lo\", \"eth0\" ); net_devices = ( \"lo\" );\n"
        "  ucx = { A = \"1\"; B = \"x\\ny\"; }; rails = 4; };\n"
        "topics = ( { match = \"a.>\"; }, { match = \"b\"; slow_block = \"5ms\"; } );");
}

static void test_printed_text_names_origins(void **state)
{
    (void)state;
    static const char *const options[] = {"limits.window=4M"};
    static const char *const environment[] = {"AMBROKER_LOG_LEVEL=warn", NULL};
    struct amb_config_source source = try_source("\nserver = { workers = 2; };");
    source.options = options;
    source.option_count = 1;
    source.environment = environment;
    struct amb_config *config = try_accept_source(&source);
    char *text = try_printed(config);
    assert_non_null(strstr(text, "    workers = 2; # configuration:2\n"));
    assert_non_null(strstr(text, "    window = \"4M\"; # -o limits.window\n"));
    assert_non_null(strstr(text, "    level = \"warn\"; # environment AMBROKER_LOG_LEVEL\n"));
    assert_non_null(strstr(text, "    max_topics = 10000; # default\n"));
    assert_non_null(strstr(text, "memory = {\n    host = {\n        size = \"1G\"; # default\n"));
    free(text);
    amb_config_destroy(&config);
}

static void test_the_token_is_not_printed(void **state)
{
    (void)state;
    struct amb_config *config = try_accept("auth = { token = \"s3cret\"; };");
    char *text = try_printed(config);
    assert_null(strstr(text, "s3cret"));
    assert_non_null(strstr(text, "    token = \"\"; # configuration:1, not shown\n"));
    free(text);
    amb_config_destroy(&config);
}

static void test_diff_tells_restart_from_live(void **state)
{
    (void)state;
    struct amb_config *before = try_accept("auth = { token = \"a\"; };");
    struct amb_config *after =
        try_accept("auth = { token = \"b\"; }; server = { workers = 1; }; log = { level = "
                   "\"trace\"; }; listen = ( \"unix:///b\" ); topics = ( { match = \"a\"; } );");
    char restart[1024], live[256], tiny[16];
    amb_config_diff(before, after, restart, sizeof(restart), live, sizeof(live));
    assert_non_null(strstr(restart, "server.workers 3 -> 1 (configuration:1), server.max_conn"));
    assert_non_null(strstr(restart, "listen ( \"unix:///run/ambroker/broker.sock\" ) -> "
                                    "( \"unix:///b\" ) (configuration:1)"));
    assert_string_equal(
        live, "topics[a] none -> there (configuration:1), auth.token (configuration:1), log.level "
              "\"info\" -> \"trace\" (configuration:1)");
    amb_config_diff(before, after, tiny, sizeof(tiny), live, sizeof(live));
    assert_string_equal(tiny, "...");
    amb_config_destroy(&before);
    amb_config_destroy(&after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_printed_text_reads_back),
        cmocka_unit_test(test_printed_text_names_origins),
        cmocka_unit_test(test_the_token_is_not_printed),
        cmocka_unit_test(test_diff_tells_restart_from_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
