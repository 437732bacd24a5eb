/* SPDX-License-Identifier: Apache-2.0 */
/* All faults of a configuration, of each layer, in their order; the error is the first one. */
#include "tests/support/config_try.h"
#include "wire/config/config_faults.h"

static struct amb_config_faults faults;

/* Refused; the error begins so. */
static void refused(struct amb_config_source *source, unsigned count, const char *error_start)
{
    char error[AMB_CONFIG_ERROR_MAX] = "";
    struct amb_config *config = NULL;
    memset(&faults, 0, sizeof(faults));
    source->faults = &faults;
    assert_int_equal(amb_config_create(source, error, sizeof(error), &config), AMB_EINVAL);
    assert_null(config);
    assert_int_equal(faults.count, count);
    assert_memory_equal(error, error_start, strlen(error_start));
}

static void is(unsigned i, const char *where, const char *key, const char *reason_start)
{
    assert_string_equal(faults.items[i].where, where);
    assert_string_equal(faults.items[i].key, key);
    assert_memory_equal(faults.items[i].reason, reason_start, strlen(reason_start));
}

static void test_each_layer_tells_its_own(void **state)
{
    (void)state;
    static const char *const environment[] = {"AMBROKER_LOG_LEVEL=loud", NULL};
    static const char *const options[] = {"limits.window=9000T", "nothing"};
    struct amb_config_source source =
        try_source("server = { workers = 300; nothing = 1; };\n"
                   "topics = ( { match = \"b\"; ttl = \"-2h\"; retain = { keys = -3; }; },\n"
                   "  { full = \"sometimes\"; }, { match = \"c\"; }, 5 );");
    source.environment = environment;
    source.options = options;
    source.option_count = 2;
    refused(&source, 9, "configuration:1: server.workers: out of range");
    is(0, "configuration:1", "server.workers", "out of range (got 300");
    is(1, "configuration:1", "server.nothing", "unknown key");
    is(2, "configuration:2", "topics[0].ttl", "out of range");
    is(3, "configuration:2", "topics[0].retain.keys", "out of range");
    is(4, "configuration:3", "topics[1].full", "unknown word");
    is(5, "configuration:3", "topics[3]", "wrong type");
    is(6, "environment AMBROKER_LOG_LEVEL", "log.level", "unknown word");
    is(7, "-o limits.window", "limits.window", "out of range");
    is(8, "-o nothing", "", "has no value");
}

static void test_what_several_keys_say_together_is_one_fault(void **state)
{
    (void)state;
    struct amb_config_source source = try_source("auth = { token_file = \"/nowhere/at/all\"; };");
    refused(&source, 1, "configuration:1: auth.token_file: ");
    is(0, "configuration:1", "auth.token_file", "/nowhere/at/all");
    source = try_source("no syntax");
    refused(&source, 1, "configuration:1: ");
    is(0, "configuration:1", "", "syntax error");
}

static void test_more_than_there_is_room_for_are_counted(void **state)
{
    (void)state;
    char text[4096] = "limits = { ";
    for (unsigned i = 0; i < AMB_CONFIG_FAULTS_MAX + 5; i++) {
        size_t len = strlen(text);
        (void)snprintf(text + len, sizeof(text) - len, "x%u = 1; ", i);
    }
    strcat(text, "};");
    struct amb_config_source source = try_source(text);
    refused(&source, AMB_CONFIG_FAULTS_MAX, "configuration:1: limits.x0: unknown key");
    assert_int_equal(faults.more, 5);
}

static void test_none(void **state)
{
    (void)state;
    struct amb_config_source source = try_source("limits = { window = \"1M\"; };");
    memset(&faults, 0, sizeof(faults));
    source.faults = &faults;
    struct amb_config *config = try_accept_source(&source);
    assert_int_equal(faults.count, 0);
    amb_config_destroy(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_layer_tells_its_own),
        cmocka_unit_test(test_what_several_keys_say_together_is_one_fault),
        cmocka_unit_test(test_more_than_there_is_room_for_are_counted),
        cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
