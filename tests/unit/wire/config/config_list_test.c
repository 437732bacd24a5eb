/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of names, URLs and settings of UCX. */
#include "tests/support/config_try.h"

static void test_interfaces_are_listed(void **state)
{
    (void)state;
    struct amb_config *config = try_accept("transports = { trusted = ( \"lo\", \"mlx5_0:1\" ); };");
    assert_int_equal(config->transports.trusted.count, 2);
    assert_string_equal(config->transports.trusted.items[1], "mlx5_0:1");
    assert_int_equal(config->transports.net_devices.count, 0);
    amb_config_destroy(&config);
    config = try_accept("transports = { trusted = [ \"lo\" ]; net_devices = \"auto\"; };");
    assert_int_equal(config->transports.trusted.count, 1);
    amb_config_destroy(&config);
}

static void test_names_that_cannot_be_interfaces_are_refused(void **state)
{
    (void)state;
    try_refuse("transports = { trusted = (\n\"lo\",\n\"a b\" ); };",
               "configuration:3: transports.trusted: not the name of an interface (got \"a b\", "
               "allowed a list of texts as ( \"a\", \"b\" ), 0 to 16 of them)");
    try_refuse_part("transports = { trusted = ( \"lo\", \"lo\" ); };",
                    "transports.trusted: given twice (got \"lo\"");
    try_refuse_part("transports = { trusted = ( \"\" ); };", "not the name of an interface");
    /* Folders of sysfs. */
    try_refuse_part("transports = { trusted = ( \".\" ); };", "not the name of an interface");
    try_refuse_part("transports = { trusted = ( \"..\" ); };", "not the name of an interface");
    try_refuse_part("transports = { trusted = ( \"lo/..\" ); };", "not the name of an interface");
    try_refuse_part("transports = { trusted = ( 5 ); };", "wrong type (got 5");
    try_refuse_part("transports = { trusted = \"lo\"; };", "wrong type (got \"lo\"");
    try_refuse_part("transports = { trusted = ( \"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\","
                    "\"h\",\"i\",\"j\",\"k\",\"l\",\"m\",\"n\",\"o\",\"p\",\"q\" ); };",
                    "wrong number of items (got 17, allowed 0 to 16)");
}

static void test_gpus_are_listed(void **state)
{
    (void)state;
    struct amb_config *config =
        try_accept("memory = { cuda = { devices = ( \"0\", \"0000:01:00.0\", "
                   "\"MIG-GPU-fafafafa-fafa-fafa-fafa-fafafafafa00/13/0\" ); }; };");
    assert_int_equal(config->memory.cuda.devices.count, 3);
    assert_string_equal(config->memory.cuda.devices.items[2],
                        "MIG-GPU-fafafafa-fafa-fafa-fafa-fafafafafa00/13/0");
    amb_config_destroy(&config);
    try_refuse_part("memory = { cuda = { devices = ( \"the first\" ); }; };",
                    "memory.cuda.devices: not the name of a GPU (got \"the first\"");
}

static void test_listeners_are_urls(void **state)
{
    (void)state;
    struct amb_config *config = try_accept("listen = ( \"unix:///a/b.sock?mode=0666\", "
                                           "\"tcp://127.0.0.1:0\", \"tcp://[::1]:4733\" );");
    assert_int_equal(config->listen.count, 3);
    assert_int_equal(config->listen.items[0].mode, 0666);
    assert_int_equal(config->listen.items[1].port, 0);
    assert_string_equal(config->listen.items[2].host, "::1");
    amb_config_destroy(&config);
}

static void test_bad_listeners_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"tcp://127.0.0.1:65536",
                                      "tcp://127.0.0.1:-1",
                                      "tcp://127.0.0.1",
                                      "tcp://:1",
                                      "http://a:1",
                                      "unix://relative",
                                      "unix://",
                                      "",
                                      "tls://a"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[96], part[96];
        (void)snprintf(text, sizeof(text), "listen = ( \"%s\" );", bad[i]);
        (void)snprintf(part, sizeof(part), "(got \"%s\", allowed unix:///path", bad[i]);
        try_refuse_part(text, part);
    }
    try_refuse("listen = ( );",
               "configuration:1: listen: wrong number of items (got 0, allowed 1 to 64)");
}

static void test_ucx_settings_are_free_but_for_ours(void **state)
{
    (void)state;
    struct amb_config *config =
        try_accept("transports = { ucx = { RNDV_THRESH = \"192K\"; LOG_LEVEL = \"info\"; }; };");
    assert_int_equal(config->transports.ucx.count, 2);
    assert_string_equal(config->transports.ucx.items[0].name, "RNDV_THRESH");
    assert_string_equal(config->transports.ucx.items[0].value, "192K");
    amb_config_destroy(&config);
    try_refuse("transports = { ucx = { TLS = \"all\"; }; };",
               "configuration:1: transports.ucx.TLS: cannot be set here: the switches of "
               "transports choose the lanes");
    try_refuse("transports = { ucx = { UCX_RNDV_THRESH = \"1\"; }; };",
               "configuration:1: transports.ucx.UCX_RNDV_THRESH: cannot be set here: names are "
               "written without UCX_");
    static const char *const ours[] = {"NET_DEVICES", "TCP_PORT_RANGE", "TCP_TX_SEG_SIZE",
                                       "TCP_RX_SEG_SIZE", "lower"};
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        char text[96];
        (void)snprintf(text, sizeof(text), "transports = { ucx = { %s = \"1\"; }; };", ours[i]);
        try_refuse_part(text, "cannot be set here: ");
    }
    try_refuse_part("transports = { ucx = { A = 5; }; };", "transports.ucx.A: wrong type");
    try_refuse_part("transports = { ucx = 5; };", "transports.ucx: wrong type (got 5");
}

static void test_an_option_adds_one_ucx_setting(void **state)
{
    (void)state;
    static const char *const options[] = {"transports.ucx.B=2", "transports.ucx.A=3"};
    struct amb_config_source source =
        try_source("transports = { ucx = { A = \"1\"; Z = \"9\"; }; };");
    source.options = options;
    source.option_count = 2;
    struct amb_config *config = try_accept_source(&source);
    assert_int_equal(config->transports.ucx.count, 3);
    assert_string_equal(config->transports.ucx.items[0].value, "3");
    assert_string_equal(config->transports.ucx.items[1].value, "9");
    assert_string_equal(config->transports.ucx.items[2].value, "2");
    amb_config_destroy(&config);
    static const char *const forced[] = {"transports.ucx.TLS=all"};
    source.options = forced;
    source.option_count = 1;
    try_refuse_with(&source, "-o transports.ucx.TLS: transports.ucx.TLS: cannot be set here");
}

/* A file could not have it, so --print-config would print what nobody can read. */
static void test_a_ucx_name_begins_with_a_letter(void **state)
{
    (void)state;
    static const char *const options[] = {"transports.ucx.=1", "transports.ucx._A=1",
                                          "transports.ucx.1A=1"};
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        struct amb_config_source source = try_source(NULL);
        source.options = &options[i];
        source.option_count = 1;
        try_refuse_with(&source, "that is not the name of a setting of UCX");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interfaces_are_listed),
        cmocka_unit_test(test_names_that_cannot_be_interfaces_are_refused),
        cmocka_unit_test(test_gpus_are_listed),
        cmocka_unit_test(test_listeners_are_urls),
        cmocka_unit_test(test_bad_listeners_are_refused),
        cmocka_unit_test(test_ucx_settings_are_free_but_for_ours),
        cmocka_unit_test(test_an_option_adds_one_ucx_setting),
        cmocka_unit_test(test_a_ucx_name_begins_with_a_letter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
