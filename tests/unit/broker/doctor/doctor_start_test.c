/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor before a start: faults of the configuration by their key, and a machine of folders. */
#include "broker/doctor/doctor_start.h"

#include "broker/config/config.h"
#include "tests/support/doctor/findings_try.h"
#include "tests/support/link/ucx_tree.h"

static json_t *rows_of(const char *fault)
{
    json_t *rows = json_array();
    amb_doctor_start(NULL, fault, rows);
    return rows;
}

static void a_fault_is_named_by_its_key(void **state)
{
    (void)state;
    expect_found(rows_of("f:1: server.max_connections: the descriptor limit is too small"),
                 "descriptors-short", "too small");
    expect_found(rows_of("f:1: auth.token_file: /x can be read by others"), "token-file", "/x");
    expect_found(rows_of("f:1: transports.trusted: no such interface (got \"ib9\")"),
                 "interface-missing", "ib9");
    expect_found(rows_of("--listen: listen: tcp://0:1 is reachable from other machines"),
                 "tcp-open", "tcp://0:1");
    expect_found(rows_of("f:7: server.workers: nonsense"), "config-wrong", "f:7");
    expect_found(rows_of(""), "config-wrong", "");
}

static void a_sound_configuration_has_no_finding(void **state)
{
    (void)state;
    char listen[96], error[AMB_CONFIG_ERROR_MAX] = "";
    struct amb_config *config = NULL;
    assert_int_equal(mkdir(tree_path("run"), 0755), 0);
    (void)snprintf(listen, sizeof(listen), "unix://%s/run/broker.sock", tree_root);
    const char *const listens[] = {listen};
    const struct amb_config_source source = {.listen = listens, .listen_count = 1};
    if (amb_config_create(&source, error, sizeof(error), &config) != AMB_OK) {
        fail_msg("%s", error);
    }
    json_t *rows = json_array();
    amb_doctor_start(config, NULL, rows);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *id = json_string_value(json_object_get(row, "id"));
        /* The folder of this test may be on a disk. */
        assert_true(id[0] == '\0' || strcmp(id, "counters-private") == 0);
    }
    json_decref(rows);
    amb_config_destroy(&config);
}

static int make(void **state)
{
    int result = tree_make(state);
    (void)setenv("AMB_DOCTOR_ROOT", tree_root, 1);
    (void)unsetenv("NOTIFY_SOCKET");
    return result;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, make, tree_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_fault_is_named_by_its_key),
        CASE(a_sound_configuration_has_no_finding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
