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

static void test_rules_over_several_keys_are_looked_at_one_by_one(void **state)
{
    (void)state;
    struct amb_config_source source =
        try_source("server = { workers = 2; cpus = \"7\"; };\n"
                   "memory = { host = { size = \"16M\"; segment = \"64M\"; }; };\n"
                   "limits = { heartbeat = \"9s\"; peer_timeout = \"10s\"; };\n"
                   "auth = { token_file = \"/nowhere/at/all\"; };\n"
                   "http = { token_file = \"/nowhere/too\"; };\n"
                   "listen = ( \"tls://127.0.0.1:0\" );\n");
    refused(&source, 5, "configuration:1: server.cpus: ");
    is(0, "configuration:1", "server.cpus", "this process may not use processor 7");
    is(1, "configuration:2", "memory.host.segment", "larger than memory.host.size");
    is(2, "configuration:3", "limits.heartbeat", "more than half of limits.peer_timeout");
    is(3, "configuration:4", "auth.token_file", "/nowhere/at/all");
    is(4, "configuration:5", "http.token_file", "/nowhere/too");
}

/* A higher layer that adds to a wrong group finds it as it was. */
static void test_each_item_of_a_list_is_told(void **state)
{
    (void)state;
    static const char *const options[] = {"transports.ucx.RNDV_THRESH=1M"};
    struct amb_config_source source =
        try_source("listen = ( \"tcp://127.0.0.1:99999\", \"unix:///tmp/a\",\n \"http://x\" );\n"
                   "http = { hosts = ( \"a\", \"b c\",\n \"\" ); };\n"
                   "transports = { ucx = { TLS = \"all\"; MAX_RNDV_RAILS = \"2\";\n"
                   " UCX_X = \"1\"; }; };\n");
    source.options = options;
    source.option_count = 1;
    refused(&source, 6, "configuration:1: listen: ");
    is(0, "configuration:1", "listen", "");
    is(1, "configuration:2", "listen", "");
    is(2, "configuration:3", "http.hosts", "not the name of a host");
    is(3, "configuration:4", "http.hosts", "not the name of a host");
    is(4, "configuration:5", "transports.ucx.TLS", "cannot be set here");
    is(5, "configuration:6", "transports.ucx.UCX_X", "cannot be set here");
}

static unsigned quick_starts;

static enum amb_status quick_start(const struct amb_url *door, const char *const *environment,
                                   struct amb_config_quick *out, char why[AMB_CONFIG_QUICK_WHY_MAX])
{
    (void)door;
    (void)environment;
    (void)out;
    (void)snprintf(why, AMB_CONFIG_QUICK_WHY_MAX, "none here");
    quick_starts++;
    return AMB_EINVAL;
}

static void test_a_wrong_configuration_makes_no_files(void **state)
{
    (void)state;
    static const char *const listen[] = {"tls://127.0.0.1:0"};
    static const char *const options[] = {"server.workers=x"};
    struct amb_config_source source = try_source("");
    source.dev = true;
    source.quick = quick_start;
    source.listen = listen;
    source.listen_count = 1;
    refused(&source, 1, "--listen: listen: none here");
    assert_int_equal(quick_starts, 1);
    source.options = options;
    source.option_count = 1;
    refused(&source, 1, "-o server.workers: ");
    assert_int_equal(quick_starts, 1);
}

static void test_a_fault_is_a_line(void **state)
{
    (void)state;
    char text[AMB_CONFIG_ERROR_MAX];
    const struct amb_config_fault fault = {"b.conf:3", "log.level", "unknown word"};
    const struct amb_config_fault whole = {"b.conf", "", "is a directory"};
    assert_string_equal(amb_config_fault_format(&fault, text, sizeof(text)),
                        "b.conf:3: log.level: unknown word");
    assert_string_equal(amb_config_fault_format(&whole, text, sizeof(text)),
                        "b.conf: is a directory");
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
        cmocka_unit_test(test_rules_over_several_keys_are_looked_at_one_by_one),
        cmocka_unit_test(test_each_item_of_a_list_is_told),
        cmocka_unit_test(test_a_wrong_configuration_makes_no_files),
        cmocka_unit_test(test_a_fault_is_a_line),
        cmocka_unit_test(test_more_than_there_is_room_for_are_counted),
        cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
