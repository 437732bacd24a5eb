/* SPDX-License-Identifier: Apache-2.0 */
/* The broker as a service: its watchdog, and a configuration file that is newer. */
#include "broker/doctor/doctor_service.h"

#include "broker/config/config.h"
#include "tests/support/doctor/findings_try.h"
#include "tests/support/link/ucx_tree.h"

static json_t *look(struct amb_doctor_service service)
{
    json_t *rows = json_array();
    amb_doctor_service(&service, rows);
    return rows;
}

static json_t *look_at_file(const char *path, int64_t written_ns)
{
    json_t *rows = json_array();
    amb_doctor_config_file(path, written_ns, rows);
    return rows;
}

static void a_unit_without_a_watchdog_is_named(void **state)
{
    (void)state;
    expect_none(look((struct amb_doctor_service){.is_managed = false}), "watchdog");
    expect_none(look((struct amb_doctor_service){.is_managed = true, .has_watchdog = true}),
                "watchdog");
    expect_found(look((struct amb_doctor_service){.is_managed = true}), "watchdog", "no watchdog");
}

static void a_file_that_was_written_since_is_named(void **state)
{
    (void)state;
    tree_text("broker.conf", "server = { };\n");
    const char *path = tree_path("broker.conf");
    int64_t then_ns = amb_config_modified_ns(path);
    assert_true(then_ns > 0);
    expect_none(look_at_file(path, then_ns), "config-newer");
    expect_found(look_at_file(path, then_ns - 1), "config-newer", "broker.conf is newer");
    assert_int_equal(unlink(path), 0);
    expect_none(look_at_file(path, then_ns), "config-newer");
    expect_none(look_at_file(NULL, 0), "config-newer");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, tree_make, tree_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_unit_without_a_watchdog_is_named),
        CASE(a_file_that_was_written_since_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
