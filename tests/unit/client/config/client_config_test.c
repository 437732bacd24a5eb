/* SPDX-License-Identifier: Apache-2.0 */
/* The layers of a connection's configuration; files that are wrong, and those of both roles. */
#include "client/config/client_config.h"

#include "wire/config/config_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct amb_client_source source_of(const char *text)
{
    return (struct amb_client_source){.text = text, .text_len = text == NULL ? 0 : strlen(text)};
}

static struct amb_client_config *accept(const struct amb_client_source *source)
{
    char error[AMB_CONFIG_ERROR_MAX] = "";
    struct amb_client_config *config = NULL;
    if (amb_client_config_create(source, error, sizeof(error), &config) != AMB_OK) {
        fail_msg("refused: %s", error);
    }
    return config;
}

static struct amb_client_config *accept_text(const char *text)
{
    const struct amb_client_source source = source_of(text);
    return accept(&source);
}

static void refuse(const struct amb_client_source *source, const char *expected)
{
    char error[AMB_CONFIG_ERROR_MAX] = "";
    struct amb_client_config *config = NULL;
    assert_int_equal(amb_client_config_create(source, error, sizeof(error), &config), AMB_EINVAL);
    assert_null(config);
    assert_string_equal(error, expected);
}

static void refuse_text(const char *text, const char *expected)
{
    const struct amb_client_source source = source_of(text);
    refuse(&source, expected);
}

static void expect_origin(const struct amb_client_config *config, const char *key,
                          const char *expected)
{
    char where[128];
    bool is_file = amb_client_config_in_file(config, key, where, sizeof(where));
    assert_string_equal(where, expected);
    assert_int_equal(is_file, strncmp(expected, "configuration:", 14) == 0);
}

static void test_without_a_file_there_are_defaults(void **state)
{
    (void)state;
    struct amb_client_config *config = accept_text(NULL);
    assert_string_equal(config->url, "unix:///run/ambroker/broker.sock");
    assert_int_equal(config->link, AMB_LINK_ANY);
    assert_string_equal(config->name, "");
    assert_string_equal(config->credentials, "");
    assert_string_equal(config->ca, "");
    assert_string_equal(config->server_name, "");
    assert_int_equal(config->reconnect.attempts, AMB_CLIENT_FOREVER);
    assert_int_equal(config->spin_ns, AMB_CLIENT_SPIN_AUTO);
    assert_int_equal(config->transports.trusted.count, 0);
    assert_int_equal(config->transports.net_devices.count, 0);
    assert_int_equal(config->transports.tcp, AMB_SWITCH_AUTO);
    assert_string_equal(config->transports.port_range, "");
    expect_origin(config, "client.url", "default");
    amb_client_config_destroy(&config);
    assert_null(config);
    amb_client_config_destroy(&config);
}

static void test_a_file_sets_every_field(void **state)
{
    (void)state;
    struct amb_client_config *config = accept_text(
        "client = { url = \"tcp://a:1,b\"; link = \"ucx\"; name = \"n\"; credentials = \"/c\";\n"
        "  connect_timeout = \"1s\"; timeout = \"2s\"; heartbeat = \"3s\"; retry_first = true;\n"
        "  reconnect = { min = \"4ms\"; max = \"5ms\"; attempts = 6; }; memory_max = \"7M\";\n"
        "  send_memory_max = \"8M\"; spin = \"9us\"; ca = \"/ca\"; certificate = \"/me\";\n"
        "  key = \"/key\"; server_name = \"b.example\"; };\n"
        "transports = { trusted = ( \"lo\", \"ib0\" ); tcp = \"off\"; nvlink = \"on\";\n"
        "  infiniband = \"off\"; cuda_copy = \"on\"; net_devices = ( \"lo\" ); rails = 2;\n"
        "  port_range = \"5000-5100\"; ucx = { RNDV_THRESH = \"64K\"; }; library = \"system\"; };");
    assert_string_equal(config->url, "tcp://a:1,b");
    assert_int_equal(config->link, AMB_LINK_UCX);
    assert_string_equal(config->name, "n");
    assert_string_equal(config->credentials, "/c");
    assert_int_equal(config->connect_timeout_ns, INT64_C(1000000000));
    assert_int_equal(config->timeout_ns, INT64_C(2000000000));
    assert_int_equal(config->heartbeat_ns, INT64_C(3000000000));
    assert_true(config->retry_first);
    assert_int_equal(config->reconnect.min_ns, 4000000);
    assert_int_equal(config->reconnect.max_ns, 5000000);
    assert_int_equal(config->reconnect.attempts, 6);
    assert_int_equal(config->memory_max, 7 << 20);
    assert_int_equal(config->send_memory_max, 8 << 20);
    assert_int_equal(config->spin_ns, 9000);
    assert_string_equal(config->ca, "/ca");
    assert_string_equal(config->certificate, "/me");
    assert_string_equal(config->key, "/key");
    assert_string_equal(config->server_name, "b.example");
    assert_int_equal(config->transports.trusted.count, 2);
    assert_string_equal(config->transports.trusted.items[1], "ib0");
    assert_int_equal(config->transports.tcp, AMB_SWITCH_OFF);
    assert_int_equal(config->transports.nvlink, AMB_SWITCH_ON);
    assert_int_equal(config->transports.infiniband, AMB_SWITCH_OFF);
    assert_int_equal(config->transports.cuda_copy, AMB_SWITCH_ON);
    assert_int_equal(config->transports.net_devices.count, 1);
    assert_int_equal(config->transports.rails, 2);
    assert_string_equal(config->transports.port_range, "5000-5100");
    assert_string_equal(config->transports.library, "system");
    assert_string_equal(config->transports.ucx.items[0].name, "RNDV_THRESH");
    expect_origin(config, "client.timeout", "configuration:2");
    expect_origin(config, "transports.rails", "configuration:7");
    amb_client_config_destroy(&config);
}

static void test_options_beat_environment_beats_file(void **state)
{
    (void)state;
    static const char *const environment[] = {"AMB_URL=unix:///e",
                                              "AMB_SPIN=",
                                              "AMB_TRUSTED=e,f",
                                              "AMB_CREDENTIALS=/e",
                                              "AMBROKER_LOG_LEVEL=no",
                                              "AMB_UCX_LIBRARY=wheel",
                                              NULL};
    static const struct amb_client_option options[] = {
        {"client.credentials", "options.credentials", "/o"},
        {"transports.trusted", "options.trusted_network", "o,p,q"},
    };
    struct amb_client_source source =
        source_of("client = { url = \"unix:///f\"; credentials = \"/f\"; spin = \"1us\"; };\n"
                  "transports = { trusted = ( \"f\" ); };");
    source.environment = environment;
    struct amb_client_config *config = accept(&source);
    assert_string_equal(config->url, "unix:///e");
    assert_string_equal(config->credentials, "/e");
    assert_int_equal(config->spin_ns, 1000); /* a variable that is empty says nothing */
    assert_int_equal(config->transports.trusted.count, 2);
    assert_string_equal(config->transports.library, "wheel");
    expect_origin(config, "client.url", "environment AMB_URL");
    expect_origin(config, "client.spin", "configuration:1");
    amb_client_config_destroy(&config);
    source.options = options;
    source.option_count = 2;
    config = accept(&source);
    assert_string_equal(config->url, "unix:///e");
    assert_string_equal(config->credentials, "/o");
    assert_int_equal(config->transports.trusted.count, 3);
    expect_origin(config, "transports.trusted", "options.trusted_network");
    amb_client_config_destroy(&config);
}

/* The same for the files of TLS; a name of a certificate has no variable. */
static void test_files_of_tls_come_in_layers(void **state)
{
    (void)state;
    static const char *const environment[] = {"AMB_CA=/e", "AMB_CERTIFICATE=/e",
                                              "AMB_KEY=", "AMB_SERVER_NAME=e", NULL};
    static const struct amb_client_option options[] = {{"client.ca", "options.ca", "/o"}};
    struct amb_client_source source = source_of(
        "client = { ca = \"/f\"; certificate = \"/f\"; key = \"/f\"; server_name = \"f\"; };");
    source.environment = environment;
    source.options = options;
    source.option_count = 1;
    struct amb_client_config *config = accept(&source);
    assert_string_equal(config->ca, "/o");
    assert_string_equal(config->certificate, "/e");
    assert_string_equal(config->key, "/f");
    assert_string_equal(config->server_name, "f");
    expect_origin(config, "client.ca", "options.ca");
    expect_origin(config, "client.certificate", "environment AMB_CERTIFICATE");
    expect_origin(config, "client.key", "configuration:1");
    amb_client_config_destroy(&config);
}

/* Such an option may be there to correct the variable. */
static void test_a_variable_below_an_option_is_not_looked_at(void **state)
{
    (void)state;
    static const char *const environment[] = {"AMB_SPIN=always", NULL};
    static const struct amb_client_option spin = {"client.spin", "options.spin_ns", NULL};
    struct amb_client_source source = {.environment = environment};
    refuse(&source, "environment AMB_SPIN: client.spin: not a time (got \"always\", allowed "
                    "\"auto\" or a time as \"500ms\", 0 to 10ms)");
    source.options = &spin;
    source.option_count = 1;
    struct amb_client_config *config = accept(&source);
    expect_origin(config, "client.spin", "options.spin_ns");
    assert_int_equal(config->spin_ns, AMB_CLIENT_SPIN_AUTO); /* the program has its own value */
    amb_client_config_destroy(&config);
}

static void test_texts_of_the_program_are_not_measured(void **state)
{
    (void)state;
    static char url[5000];
    memset(url, 'u', sizeof(url) - 1);
    const struct amb_client_option option = {"client.url", "the URL", url};
    const struct amb_client_source source = {.options = &option, .option_count = 1};
    struct amb_client_config *config = accept(&source);
    assert_string_equal(config->url, url);
    assert_ptr_not_equal(config->url, url);
    amb_client_config_destroy(&config);
    const struct amb_client_option bad = {"transports.trusted", "options.trusted_network", "a/b"};
    const struct amb_client_source wrong = {.options = &bad, .option_count = 1};
    refuse(&wrong, "options.trusted_network: transports.trusted: not the name of an interface (got "
                   "\"a/b\", allowed a list of texts as ( \"a\", \"b\" ), 0 to 16 of them)");
}

static void test_what_is_wrong_has_its_line(void **state)
{
    (void)state;
    refuse_text("client = {\n  timout = \"5s\"; };",
                "configuration:2: client.timout: unknown key (did you mean client.timeout?)");
    refuse_text("\nclients = { };", "configuration:2: clients: unknown key (did you mean client?)");
    refuse_text("frobnicate = 5;", "configuration:1: frobnicate: unknown key (all keys: broker-ctl "
                                   "config --role client)");
    refuse_text("client = {\n\n  timeout = 5; };",
                "configuration:3: client.timeout: a time needs a unit (got 5, allowed a time as "
                "\"500ms\", 1ms to 1d)");
    refuse_text("client = { url = 5; };",
                "configuration:1: client.url: wrong type (got 5, allowed a text of 1 to 2047 "
                "bytes)");
    refuse_text("client = { reconnect = 5; };",
                "configuration:1: client.reconnect: wrong type (got a single value or a list, "
                "allowed a group { ... })");
    refuse_text("client = { link = \"warp\"; };",
                "configuration:1: client.link: unknown word (got \"warp\", allowed \"auto\", "
                "\"ring\", \"stream\" or \"ucx\")");
    refuse_text("client = {\n reconnect = {\n max = \"1s\";\n min = \"2s\"; }; };",
                "configuration:4: client.reconnect.min: longer than client.reconnect.max");
    refuse_text("client = {\n url = ;\n};",
                "configuration:2: syntax error (allowed libconfig syntax: key = value;)");
    refuse_text("transports = { tpc = \"on\"; };",
                "configuration:1: transports.tpc: unknown key (did you mean transports.tcp?)");
    refuse_text("transports = {\n ucx = { TLS = \"all\"; }; };",
                "configuration:2: transports.ucx.TLS: cannot be set here: the switches of "
                "transports choose the lanes");
}

static void test_sections_of_the_broker_are_not_looked_at(void **state)
{
    (void)state;
    struct amb_client_config *config = accept_text(
        "server = { workers = \"nonsense\"; frobnicate = 5; };\n"
        "listen = 7; topics = ( { math = 1; } ); memory = { host = { size = -1; }; };\n"
        "limits = { }; auth = { token = 5; }; log = { }; tls = 1; http = 2; cluster = 3;\n"
        "transports = { ring_size = \"3M\"; rails = 1; }; client = { timeout = \"7s\"; };");
    assert_int_equal(config->timeout_ns, INT64_C(7000000000));
    assert_int_equal(config->transports.rails, 1);
    amb_client_config_destroy(&config);
}

static void test_a_path_is_read_and_named_in_errors(void **state)
{
    (void)state;
    char path[] = "/tmp/amb-client-config-XXXXXX", expected[200], short_error[252] = "";
    static const char text[] = "client = {\n  timout = 1; };\n";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    assert_int_equal(close(fd), 0);
    struct amb_client_source source = {.path = path};
    (void)snprintf(expected, sizeof(expected),
                   "%s:2: client.timout: unknown key (did you mean client.timeout?)", path);
    refuse(&source, expected);
    struct amb_client_config *config = NULL;
    assert_int_equal(amb_client_config_create(&source, short_error, sizeof(short_error), &config),
                     AMB_EINVAL);
    assert_string_equal(short_error, expected);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(expected, sizeof(expected), "%s: cannot be read: No such file or directory",
                   path);
    refuse(&source, expected);
}

/* An error of libamb has 252 bytes: the line and the reason are worth more than the folders. */
static void test_a_long_path_leaves_room_for_the_reason(void **state)
{
    (void)state;
    char path[400], error[252] = "";
    memset(path, 'p', sizeof(path) - 1);
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    const struct amb_client_source source = {.path = path};
    struct amb_client_config *config = NULL;
    assert_int_equal(amb_client_config_create(&source, error, sizeof(error), &config), AMB_EINVAL);
    assert_true(strlen(error) < 120);
    assert_true(strncmp(error, "...ppp", 6) == 0);
    assert_non_null(strstr(error, "ppp: cannot be read: File name too long"));
}

static void test_a_variable_names_the_file(void **state)
{
    (void)state;
    assert_int_equal(unsetenv("AMB_CONFIG"), 0);
    assert_null(amb_client_config_path());
    assert_int_equal(setenv("AMB_CONFIG", "", 1), 0);
    assert_null(amb_client_config_path());
    assert_int_equal(setenv("AMB_CONFIG", "/etc/ambroker/x.conf", 1), 0);
    assert_string_equal(amb_client_config_path(), "/etc/ambroker/x.conf");
    assert_int_equal(unsetenv("AMB_CONFIG"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_file_there_are_defaults),
        cmocka_unit_test(test_a_file_sets_every_field),
        cmocka_unit_test(test_options_beat_environment_beats_file),
        cmocka_unit_test(test_files_of_tls_come_in_layers),
        cmocka_unit_test(test_a_variable_below_an_option_is_not_looked_at),
        cmocka_unit_test(test_texts_of_the_program_are_not_measured),
        cmocka_unit_test(test_what_is_wrong_has_its_line),
        cmocka_unit_test(test_sections_of_the_broker_are_not_looked_at),
        cmocka_unit_test(test_a_path_is_read_and_named_in_errors),
        cmocka_unit_test(test_a_long_path_leaves_room_for_the_reason),
        cmocka_unit_test(test_a_variable_names_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
