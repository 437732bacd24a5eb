/* SPDX-License-Identifier: Apache-2.0 */
/* Each check of the doctor has a whole row, and findings are rows of JSON whatever their values. */
#include "wire/doctor/checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *text(const json_t *row, const char *key)
{
    const char *value = json_string_value(json_object_get(row, key));
    assert_non_null(value);
    return value;
}

static void each_check_has_a_row_of_its_own(void **state)
{
    (void)state;
    for (unsigned i = 0; i < AMB_DOCTOR_CHECKS; i++) {
        const struct amb_doctor_row *row = amb_doctor_row((enum amb_doctor_check)i);
        assert_true(row->id[0] != '\0' && row->name[0] != '\0' && row->looked_at[0] != '\0');
        assert_true(row->finding[0] != '\0' && row->fix[0] != '\0');
        assert_true(row->state > AMB_DOCTOR_OK && row->state <= AMB_DOCTOR_ERROR);
        assert_int_equal(strspn(row->id, "abcdefghijklmnopqrstuvwxyz-"), strlen(row->id));
        for (unsigned k = 0; k < i; k++) {
            assert_string_not_equal(row->id, amb_doctor_row((enum amb_doctor_check)k)->id);
        }
    }
}

static void a_finding_has_its_values_its_fix_and_its_link(void **state)
{
    (void)state;
    json_t *rows = json_array();
    amb_doctor_find(rows, AMB_DOCTOR_MEMORY_RAM, "limit", "1", "wanted", "2", NULL);
    const json_t *row = json_array_get(rows, 0);
    assert_string_equal(text(row, "check"), "memory");
    assert_string_equal(text(row, "state"), "warning");
    assert_string_equal(text(row, "finding"),
                        "this machine has 1 bytes of memory, and memory.host.size is 2");
    assert_non_null(strstr(text(row, "fix"), "lower memory.host.size"));
    assert_string_equal(text(row, "id"), "memory-ram");
    assert_string_equal(text(row, "link"), "docs/doctor.md#memory-ram");
    json_decref(rows);
}

static void values_of_strangers_are_made_printable(void **state)
{
    (void)state;
    static char longest[4096];
    memset(longest, 'x', sizeof(longest) - 1);
    const char *bad[] = {"\033[2J\n{why}", "\xff\xfe\x80", "\xe2\x82", "\xc3\xa4", longest, NULL};
    for (size_t i = 0; bad[i] != NULL; i++) {
        json_t *rows = json_array();
        amb_doctor_find(rows, AMB_DOCTOR_UCX_MISSING, "why", bad[i], NULL);
        assert_int_equal(json_array_size(rows), 1);
        const char *found = text(json_array_get(rows, 0), "finding");
        assert_null(strpbrk(found, "\033\n"));
        assert_true(strlen(found) < 1536);
        json_decref(rows);
    }
    json_t *rows = json_array();
    amb_doctor_find(rows, AMB_DOCTOR_UCX_MISSING, "why", bad[3], NULL);
    assert_string_equal(text(json_array_get(rows, 0), "finding"), "\xc3\xa4");
    amb_doctor_find(rows, AMB_DOCTOR_UCX_MISSING, "why", NULL, NULL);
    assert_string_equal(text(json_array_get(rows, 1), "finding"), "");
    amb_doctor_find(rows, AMB_DOCTOR_UCX_MISSING, NULL); /* A value that nobody gave. */
    assert_string_equal(text(json_array_get(rows, 2), "finding"), "{why}");
    amb_doctor_well(rows, "\xff", "\033", "");
    assert_string_equal(text(json_array_get(rows, 3), "check"), "?");
    assert_string_equal(text(json_array_get(rows, 3), "finding"), "?");
    json_decref(rows);
}

static void the_worst_row_decides(void **state)
{
    (void)state;
    json_t *rows = json_array();
    assert_int_equal(amb_doctor_exit(rows), 0);
    amb_doctor_well(rows, "x", "y", "");
    amb_doctor_find(rows, AMB_DOCTOR_HUGE_PAGES, NULL);
    assert_int_equal(amb_doctor_worst(rows), AMB_DOCTOR_HINT);
    assert_int_equal(amb_doctor_exit(rows), 0);
    amb_doctor_find(rows, AMB_DOCTOR_WATCHDOG, NULL);
    assert_int_equal(amb_doctor_exit(rows), 1);
    amb_doctor_find(rows, AMB_DOCTOR_TCP_OPEN, "fault", "f", NULL);
    assert_int_equal(amb_doctor_exit(rows), 2);
    json_decref(rows);
    rows = json_pack("[{s:s}, {s:i}, s]", "state", "strange", "state", 7, "no row");
    assert_int_equal(amb_doctor_worst(rows), AMB_DOCTOR_WARNING);
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_check_has_a_row_of_its_own),
        cmocka_unit_test(a_finding_has_its_values_its_fix_and_its_link),
        cmocka_unit_test(values_of_strangers_are_made_printable),
        cmocka_unit_test(the_worst_row_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
