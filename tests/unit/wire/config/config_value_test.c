/* SPDX-License-Identifier: Apache-2.0 */
/* Single values: every type, right and wrong, and the exact text of each refusal. */
#include "tests/support/config_try.h"

static void test_each_type_is_read(void **state)
{
    (void)state;
    struct amb_config *config =
        try_accept("server = { name = \"a b\"; workers = 3; spin = \"50us\";"
                   " max_message = 1048576; insecure = true; };\n"
                   "transports = { tcp = \"off\"; rails = 2; };\n"
                   "limits = { drain_timeout = 0; };\n"
                   "log = { level = \"debug\"; };");
    assert_string_equal(config->server.name, "a b");
    assert_int_equal(config->server.workers, 3);
    assert_int_equal(config->server.spin_ns, 50000);
    assert_int_equal(config->server.max_message, 1048576);
    assert_true(config->server.insecure);
    assert_int_equal(config->transports.tcp, AMB_SWITCH_OFF);
    assert_int_equal(config->transports.rails, 2);
    assert_int_equal(config->limits.drain_timeout_ns, 0);
    assert_int_equal(config->log.level, AMB_LOG_DEBUG);
    amb_config_destroy(&config);
    assert_null(config);
}

static void test_words_stand_beside_numbers(void **state)
{
    (void)state;
    struct amb_config *config = try_accept("server = { workers = \"auto\"; spin = \"auto\"; };");
    assert_int_equal(config->server.workers, 3);
    assert_int_equal(config->server.spin_ns, AMB_CONFIG_TIME_AUTO);
    amb_config_destroy(&config);
}

static void test_wrong_types_are_named(void **state)
{
    (void)state;
    try_refuse("server = {\n workers = \"4\"; };",
               "configuration:2: server.workers: wrong type (got \"4\", allowed \"auto\" or a "
               "number, 0 to 64)");
    try_refuse("server = { workers = 1.5; };",
               "configuration:1: server.workers: wrong type (got a fraction, allowed \"auto\" or a "
               "number, 0 to 64)");
    try_refuse("server = { insecure = 1; };",
               "configuration:1: server.insecure: wrong type (got 1, allowed true or false)");
    try_refuse("server = { name = 5; };",
               "configuration:1: server.name: wrong type (got 5, allowed a text of 0 to 63 bytes)");
    try_refuse("limits = { window = true; };",
               "configuration:1: limits.window: wrong type (got true, allowed a size as \"64M\", "
               "64K to 1G)");
    try_refuse("transports = { tcp = ( ); };",
               "configuration:1: transports.tcp: wrong type (got a list, allowed \"auto\", \"on\" "
               "or \"off\")");
    try_refuse("transports = { tcp = { }; };",
               "configuration:1: transports.tcp: wrong type (got a group, allowed \"auto\", \"on\" "
               "or \"off\")");
}

static void test_ranges_are_named(void **state)
{
    (void)state;
    try_refuse("server = { workers = 65; };",
               "configuration:1: server.workers: out of range (got 65, allowed \"auto\" or a "
               "number, 0 to 64)");
    try_refuse("server = { workers = -1; };",
               "configuration:1: server.workers: out of range (got -1, allowed \"auto\" or a "
               "number, 0 to 64)");
    try_refuse("server = { max_message = \"4G\"; };",
               "configuration:1: server.max_message: out of range (got \"4G\", allowed \"auto\" or "
               "a size as \"64M\", 4K to 4G - 64K)");
    try_refuse("limits = { window = \"-2M\"; };",
               "configuration:1: limits.window: out of range (got \"-2M\", allowed a size as "
               "\"64M\", 64K to 1G)");
    try_refuse("limits = { max_topics = 9223372036854775807L; };",
               "configuration:1: limits.max_topics: out of range (got 9223372036854775807, allowed "
               "a number, 1 to 1000000)");
    try_refuse("transports = { ring_size = \"96K\"; };",
               "configuration:1: transports.ring_size: not a power of two (got \"96K\", allowed a "
               "size as \"64M\", 64K to 64M, a power of two)");
}

static void test_sizes_and_times_that_cannot_be_read(void **state)
{
    (void)state;
    try_refuse("limits = { window = \"2MB\"; };",
               "configuration:1: limits.window: not a size (got \"2MB\", allowed a size as "
               "\"64M\", 64K to 1G)");
    try_refuse("limits = { heartbeat = 5; };",
               "configuration:1: limits.heartbeat: a time needs a unit (got 5, allowed a time as "
               "\"500ms\", 10ms to 30m)");
    try_refuse("limits = { heartbeat = \"soon\"; };",
               "configuration:1: limits.heartbeat: not a time (got \"soon\", allowed a time as "
               "\"500ms\", 10ms to 30m)");
}

static void test_words_are_those_that_are_allowed(void **state)
{
    (void)state;
    try_refuse("log = { level = \"loud\"; };",
               "configuration:1: log.level: unknown word (got \"loud\", allowed \"error\", "
               "\"warn\", \"info\", \"debug\" or \"trace\")");
    struct amb_config *config =
        try_accept("topics = ( { match = \"a\"; slow = \"spill\"; spill_max = \"1M\"; } );");
    assert_int_equal(config->topics.items[0].slow, AMB_SLOW_SPILL);
    assert_int_equal(config->topics.items[0].spill_max, 1 << 20);
    amb_config_destroy(&config);
}

static void test_texts_have_limits(void **state)
{
    (void)state;
    struct amb_config *config = try_accept("transports = { port_range = \"5000-5100\"; };");
    assert_string_equal(config->transports.port_range, "5000-5100");
    amb_config_destroy(&config);
    static const char *const bad[] = {"0-1", "5-4", "1-65536", "5000", "a-b", "1-2x", "1 - 2"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "transports = { port_range = \"%s\"; };", bad[i]);
        struct amb_config_source source = try_source(text);
        try_refuse_with(&source, "not a range of ports");
    }
    struct amb_config_source source =
        try_source("server = { name = "
                   "\"0123456789012345678901234567890123456789012345678901234567890123\"; };");
    try_refuse_with(&source, "server.name: too long (got \"0123");
    source = try_source("server = { name = \"a\\nb\"; };");
    try_refuse_with(&source, "has a control character (got \"a?b\"");
}

static void test_secrets_are_never_shown(void **state)
{
    (void)state;
    char text[512], secret[300];
    memset(secret, 's', sizeof(secret) - 1);
    secret[sizeof(secret) - 1] = '\0';
    (void)snprintf(text, sizeof(text), "auth = { token = \"%s\"; };", secret);
    try_refuse(text, "configuration:1: auth.token: too long (got a value that is not shown, "
                     "allowed a text of 0 to 255 bytes)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_type_is_read),
        cmocka_unit_test(test_words_stand_beside_numbers),
        cmocka_unit_test(test_wrong_types_are_named),
        cmocka_unit_test(test_ranges_are_named),
        cmocka_unit_test(test_sizes_and_times_that_cannot_be_read),
        cmocka_unit_test(test_words_are_those_that_are_allowed),
        cmocka_unit_test(test_texts_have_limits),
        cmocka_unit_test(test_secrets_are_never_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
