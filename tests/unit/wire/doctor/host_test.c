/* SPDX-License-Identifier: Apache-2.0 */
/* The facts that broker and client look at alike, on hosts made of folders. */
#include "wire/doctor/host.h"

#include "tests/support/link/ucx_tree.h"
#include "wire/doctor/checks.h"

/* A text with NULs in it. */
#define PUT(path, text) tree_file(path, text, sizeof(text) - 1)

static void lines_and_numbers_of_any_file(void **state)
{
    (void)state;
    char line[32];
    assert_false(amb_doctor_line(tree_root, "/proc/none", "x", line, sizeof(line)));
    assert_int_equal(amb_doctor_number(tree_root, "/proc/none"), -1);
    tree_text("proc/file", "first\nMax: 7\n");
    assert_true(amb_doctor_line(tree_root, "/proc/file", "Max:", line, sizeof(line)));
    assert_string_equal(line, "Max: 7");
    static const char *const numbers[] = {"x", "-4", "", "\n", " "};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        tree_text("proc/number", numbers[i]);
        assert_int_equal(amb_doctor_number(tree_root, "/proc/number"), -1);
    }
    tree_text("proc/number", "9000\n");
    assert_int_equal(amb_doctor_number(tree_root, "/proc/number"), 9000);
    PUT("proc/binary", "\0\0\0Max: 9");
    assert_false(amb_doctor_line(tree_root, "/proc/binary", "Max:", line, sizeof(line)));
    assert_false(amb_doctor_line(tree_root, "/proc", "Max:", line, sizeof(line))); /* A folder. */
}

static void a_file_without_an_end_is_left(void **state)
{
    (void)state;
    char line[16];
    static char huge[1 << 20];
    memset(huge, 'x', sizeof(huge));
    tree_file("proc/huge", huge, sizeof(huge));
    assert_false(amb_doctor_line(tree_root, "/proc/huge", "Max:", line, sizeof(line)));
    tree_link("proc/zero", "/dev/zero");
    assert_false(amb_doctor_line(tree_root, "/proc/zero", "Max:", line, sizeof(line)));
    assert_int_equal(amb_doctor_number(tree_root, "/proc/zero"), -1);
}

static void devices_of_the_driver_are_looked_for(void **state)
{
    (void)state;
    char version[64];
    json_t *rows = json_array();
    assert_false(amb_doctor_driver(tree_root, version, sizeof(version)));
    tree_text("proc/driver/nvidia/version", "NVRM version: 555.42\n");
    assert_true(amb_doctor_driver(tree_root, version, sizeof(version)));
    assert_true(amb_doctor_devices(tree_root, rows));
    tree_text("dev/nvidiactl", "");
    tree_text("dev/nvidia-uvm", "");
    assert_true(amb_doctor_devices(tree_root, rows));
    tree_text("dev/nvidia0", "");
    assert_false(amb_doctor_devices(tree_root, rows));
    assert_int_equal(json_array_size(rows), 2);
    json_decref(rows);
}

static void variables_that_are_ignored_are_named(void **state)
{
    (void)state;
    json_t *rows = json_array();
    amb_doctor_variables(tree_root, rows); /* It cannot be read. */
    PUT("proc/self/environ", "HOME=/\0XUCX_TLS=x\0UCX_TLSX=y");
    amb_doctor_variables(tree_root, rows);
    assert_int_equal(json_array_size(rows), 0);
    PUT("proc/self/environ", "HOME=/\0UCX_TLS=tcp");
    amb_doctor_variables(tree_root, rows);
    assert_int_equal(json_array_size(rows), 1);
    const json_t *row = json_array_get(rows, 0);
    assert_string_equal(json_string_value(json_object_get(row, "finding")),
                        "UCX_TLS is set in the environment, and is ignored, but for cuda_ipc");
    json_decref(rows);
}

static void environments_may_have_any_content(void **state)
{
    (void)state;
    char value[8];
    static char huge[2 << 20];
    memset(huge, 'x', sizeof(huge));
    tree_file("proc/self/environ", huge, sizeof(huge));
    assert_int_equal(amb_doctor_environment(tree_root, "X", value, sizeof(value)),
                     AMB_DOCTOR_UNSET);
    memset(huge, 0, sizeof(huge));
    tree_file("proc/self/environ", huge, sizeof(huge));
    assert_int_equal(amb_doctor_environment(tree_root, "X", value, sizeof(value)),
                     AMB_DOCTOR_UNSET);
    PUT("proc/self/environ", "X=\033[2J is long");
    assert_int_equal(amb_doctor_environment(tree_root, "X", value, sizeof(value)), AMB_DOCTOR_SET);
    assert_string_equal(value, "?[2J is");
    PUT("proc/self/environ", "X");
    assert_int_equal(amb_doctor_environment(tree_root, "X", value, sizeof(value)),
                     AMB_DOCTOR_UNSET);
}

static void a_namespace_is_a_number(void **state)
{
    (void)state;
    assert_int_equal(amb_doctor_namespace(tree_root, 0, "pid"), 0);
    tree_link("proc/self/ns/pid", "pid:[4026531836]");
    tree_link("proc/7/ns/pid", "pid:[");
    tree_link("proc/8/ns/pid", "nonsense");
    assert_int_equal(amb_doctor_namespace(tree_root, 0, "pid"), 4026531836);
    assert_int_equal(amb_doctor_namespace(tree_root, 7, "pid"), 0);
    assert_int_equal(amb_doctor_namespace(tree_root, 8, "pid"), 0);
}

static void the_root_is_a_tests(void **state)
{
    (void)state;
    (void)unsetenv("AMB_DOCTOR_ROOT");
    assert_string_equal(amb_doctor_root(), "");
    (void)setenv("AMB_DOCTOR_ROOT", tree_root, 1);
    assert_string_equal(amb_doctor_root(), tree_root);
    (void)unsetenv("AMB_DOCTOR_ROOT");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, tree_make, tree_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(lines_and_numbers_of_any_file),
        CASE(a_file_without_an_end_is_left),
        CASE(devices_of_the_driver_are_looked_for),
        CASE(variables_that_are_ignored_are_named),
        CASE(environments_may_have_any_content),
        CASE(a_namespace_is_a_number),
        CASE(the_root_is_a_tests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
