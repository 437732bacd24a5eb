/* SPDX-License-Identifier: Apache-2.0 */
/* The layers: defaults, --dev, file, environment, options; and their order. */
#include "tests/support/config_try.h"

#include <unistd.h>

static void test_defaults_are_complete(void **state)
{
    (void)state;
    struct amb_config *config = try_accept(NULL);
    assert_int_equal(config->listen.count, 1);
    assert_string_equal(config->listen.items[0].path, "/run/ambroker/broker.sock");
    assert_int_equal(config->server.handshake_timeout_ns, INT64_C(5000000000));
    assert_int_equal(config->transports.trusted.count, 0);
    assert_int_equal(config->transports.ring_size, 1 << 20);
    assert_int_equal(config->memory.host.size, UINT64_C(1) << 30);
    assert_int_equal(config->memory.host.segment, UINT64_C(64) << 20);
    assert_false(config->memory.host.grow_on_demand);
    assert_int_equal(config->limits.window, UINT64_C(2) << 20);
    assert_int_equal(config->limits.max_publishers, 1024);
    assert_string_equal(config->auth.token, "");
    assert_int_equal(config->log.level, AMB_LOG_INFO);
    amb_config_destroy(&config);
}

static void test_option_beats_environment_beats_file(void **state)
{
    (void)state;
    static const char *const environment[] = {"AMBROKER_LIMITS_MAX_TOPICS=2",
                                              "AMBROKER_LIMITS_MAX_SUBSCRIPTIONS=2",
                                              "PATH=/bin",
                                              "AMBROKER_URL=unix:///x",
                                              "broken",
                                              NULL};
    static const char *const options[] = {"limits.max_topics=3"};
    struct amb_config_source source =
        try_source("limits = { max_topics = 1; max_subscriptions = 1; max_publishers = 1; };");
    source.environment = environment;
    source.options = options;
    source.option_count = 1;
    struct amb_config *config = try_accept_source(&source);
    assert_int_equal(config->limits.max_topics, 3);
    assert_int_equal(config->limits.max_subscriptions, 2);
    assert_int_equal(config->limits.max_publishers, 1);
    char where[128];
    amb_config_where(config, "limits.max_topics", where, sizeof(where));
    assert_string_equal(where, "-o limits.max_topics");
    amb_config_where(config, "limits.max_subscriptions", where, sizeof(where));
    assert_string_equal(where, "environment AMBROKER_LIMITS_MAX_SUBSCRIPTIONS");
    amb_config_destroy(&config);
}

static void test_options_are_typed_by_the_schema(void **state)
{
    (void)state;
    static const char *const options[] = {
        "server.workers=2",          "server.insecure=true",
        "server.spin=auto",          "limits.peer_timeout=2s",
        "transports.trusted=lo,ib0", "listen=unix:///a, tcp://localhost:0",
        "server.name=a=b",           "transports.net_devices=(\"lo\")",
        "server.max_connections=0"};
    struct amb_config_source source = try_source(NULL);
    source.options = options;
    source.option_count = sizeof(options) / sizeof(options[0]);
    struct amb_config *config = try_accept_source(&source);
    assert_int_equal(config->server.workers, 2);
    assert_true(config->server.insecure);
    assert_int_equal(config->transports.trusted.count, 2);
    assert_int_equal(config->listen.count, 2);
    assert_string_equal(config->server.name, "a=b");
    assert_int_equal(config->transports.net_devices.count, 1);
    amb_config_destroy(&config);
}

static void test_bad_options_name_themselves(void **state)
{
    (void)state;
    static const struct {
        const char *option, *error;
    } cases[] = {
        {"server.workers", "-o server.workers: has no value (allowed -o key=value)"},
        {"server.wokers=1",
         "-o server.wokers: server.wokers: unknown key (did you mean server.workers?)"},
        {"=1", "-o : : unknown key (all keys: brokerd --print-config)"},
        {"server.workers=", "-o server.workers: server.workers: not a number (got \"\", allowed "
                            "\"auto\" or a number, 0 to 64)"},
        {"server.workers=two", "-o server.workers: server.workers: not a number (got \"two\", "
                               "allowed \"auto\" or a number, 0 to 64)"},
        {"server.workers=99999999999999999999", "-o server.workers: server.workers: not a number "
                                                "(got \"99999999999999999999\", allowed \"auto\" "
                                                "or a number, 0 to 64)"},
        {"server.insecure=yes", "-o server.insecure: server.insecure: wrong type (got \"yes\", "
                                "allowed true or false)"},
        {"cluster=1", "-o cluster: cluster: not yet supported in this release"},
        {"server=1", "-o server: server: unknown key (all keys: brokerd --print-config)"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct amb_config_source source = try_source(NULL);
        source.options = &cases[i].option;
        source.option_count = 1;
        try_refuse_source(&source, cases[i].error);
    }
}

static void test_misspelt_variables_are_refused(void **state)
{
    (void)state;
    static const char *const misspelt[] = {"AMBROKER_SERVER_WOKERS=2", NULL};
    struct amb_config_source source = try_source(NULL);
    source.environment = misspelt;
    try_refuse_source(&source, "environment AMBROKER_SERVER_WOKERS: unknown key (did you mean "
                               "AMBROKER_SERVER_WORKERS?)");
    static const char *const bad[] = {"AMBROKER_SERVER_WORKERS=-2", NULL};
    source.environment = bad;
    try_refuse_source(&source, "environment AMBROKER_SERVER_WORKERS: server.workers: out of range "
                               "(got \"-2\", allowed \"auto\" or a number, 0 to 64)");
    static const char *const later[] = {"AMBROKER_CLUSTER=1", NULL};
    source.environment = later;
    try_refuse_source(&source,
                      "environment AMBROKER_CLUSTER: cluster: not yet supported in this release");
}

static void test_listen_arguments_replace_the_list(void **state)
{
    (void)state;
    static const char *const urls[] = {"unix:///one", "tcp://127.0.0.1:0"};
    struct amb_config_source source = try_source("listen = ( \"unix:///file\" );");
    source.listen = urls;
    source.listen_count = 2;
    struct amb_config *config = try_accept_source(&source);
    assert_int_equal(config->listen.count, 2);
    assert_string_equal(config->listen.items[0].path, "/one");
    amb_config_destroy(&config);
    static const char *const blank[] = {"unix:///a, b"};
    source.listen = blank;
    source.listen_count = 1;
    config = try_accept_source(&source);
    assert_string_equal(config->listen.items[0].path, "/a, b");
    amb_config_destroy(&config);
    static const char *const bad[] = {"tcp://127.0.0.1:99999"};
    source.listen = bad;
    source.listen_count = 1;
    try_refuse_with(&source, "--listen: listen: ");
}

static void test_dev_needs_no_file(void **state)
{
    (void)state;
    static const char *const environment[] = {"XDG_RUNTIME_DIR=/run/user/7", NULL};
    struct amb_config_source source = {
        .dev = true, .machine = &try_machine, .environment = environment};
    struct amb_config *config = try_accept_source(&source);
    char path[64];
    (void)snprintf(path, sizeof(path), "/run/user/7/ambroker-%u/broker.sock", (unsigned)getuid());
    assert_string_equal(config->listen.items[0].path, path);
    assert_int_equal(config->server.max_message, UINT64_C(1) << 30);
    assert_int_equal(config->memory.host.size, UINT64_C(4) << 30);
    assert_int_equal(config->memory.host.segment, UINT64_C(16) << 20);
    assert_true(config->memory.host.grow_on_demand);
    assert_string_equal(config->transports.trusted.items[0], "lo");
    amb_config_destroy(&config);
}

static void test_dev_fits_small_machines(void **state)
{
    (void)state;
    struct amb_config_machine machine = try_machine;
    static const struct {
        uint64_t ram, size;
    } cases[] = {{UINT64_C(1) << 30, UINT64_C(2) << 30},
                 {UINT64_C(6) << 30, UINT64_C(3) << 30},
                 {UINT64_C(64) << 30, UINT64_C(4) << 30}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        machine.ram = cases[i].ram;
        struct amb_config_source source = {.dev = true, .machine = &machine};
        struct amb_config *config = try_accept_source(&source);
        assert_int_equal(config->memory.host.size, cases[i].size);
        assert_int_equal(strncmp(config->listen.items[0].path, "/tmp/ambroker-", 14), 0);
        amb_config_destroy(&config);
    }
}

static void test_dev_is_below_file_and_options(void **state)
{
    (void)state;
    static const char *const options[] = {"transports.trusted=", "memory.host.size=256M"};
    struct amb_config_source source = try_source("memory = { host = { segment = \"32M\"; }; };");
    source.dev = true;
    source.options = options;
    source.option_count = 2;
    struct amb_config *config = try_accept_source(&source);
    assert_int_equal(config->memory.host.segment, UINT64_C(32) << 20);
    assert_int_equal(config->server.max_message, UINT64_C(64) << 20);
    assert_int_equal(config->transports.trusted.count, 0);
    amb_config_destroy(&config);
}

static void test_errors_may_be_ignored(void **state)
{
    (void)state;
    struct amb_config_source source = try_source("nonsense");
    struct amb_config *config = NULL;
    assert_int_equal(amb_config_create(&source, NULL, 0, &config), AMB_EINVAL);
    assert_null(config);
    amb_config_destroy(&config);
}

static void test_this_machine_has_figures(void **state)
{
    (void)state;
    struct amb_config_machine machine;
    amb_config_machine_read(&machine);
    assert_true(machine.cores >= 1);
    assert_true(machine.ram > 0);
    assert_true(machine.descriptors > 0);
    assert_true(machine.host[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_complete),
        cmocka_unit_test(test_option_beats_environment_beats_file),
        cmocka_unit_test(test_options_are_typed_by_the_schema),
        cmocka_unit_test(test_bad_options_name_themselves),
        cmocka_unit_test(test_misspelt_variables_are_refused),
        cmocka_unit_test(test_listen_arguments_replace_the_list),
        cmocka_unit_test(test_dev_needs_no_file),
        cmocka_unit_test(test_dev_fits_small_machines),
        cmocka_unit_test(test_dev_is_below_file_and_options),
        cmocka_unit_test(test_errors_may_be_ignored),
        cmocka_unit_test(test_this_machine_has_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
