/* SPDX-License-Identifier: Apache-2.0 */
/* The units of columns by the ends of their names, also of inner objects; texts have none. */
#include "broker/control/status/status_units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void is(const json_t *answer, const char *column, const char *unit)
{
    const char *found =
        json_string_value(json_object_get(json_object_get(answer, "units"), column));
    if (unit == NULL ? found != NULL : found == NULL || strcmp(found, unit) != 0) {
        fail_msg("%s: %s", column, found == NULL ? "none" : found);
    }
}

static void test_columns_of_rows(void **state)
{
    (void)state;
    json_t *answer = json_loads(
        "{\"rows\":[{\"used_bytes\":1,\"bytes\":2,\"round_trip_ns\":3,\"since_s\":4,\"lived_s\":5,"
        "\"messages_per_s\":6,\"measured_rate_bytes\":7,\"gpu_staged_in\":8,\"count\":9,"
        "\"text_bytes\":\"ten\",\"inner\":{\"deep\":{\"held_bytes\":11}}},{\"late_ns\":12}]}",
        0, NULL);
    assert_non_null(answer);
    amb_status_units_add(answer, json_object_get(answer, "rows"));
    is(answer, "used_bytes", "bytes");
    is(answer, "bytes", "bytes");
    is(answer, "round_trip_ns", "ns");
    is(answer, "since_s", "unix_s");
    is(answer, "lived_s", "s");
    is(answer, "messages_per_s", NULL);
    is(answer, "measured_rate_bytes", "bytes/s");
    is(answer, "gpu_staged_in", "bytes");
    is(answer, "count", NULL);
    is(answer, "text_bytes", NULL);
    is(answer, "inner.deep.held_bytes", "bytes");
    is(answer, "late_ns", "ns"); /* Of a later row. */
    json_decref(answer);
}

static void test_an_answer_without_rows_is_one_itself(void **state)
{
    (void)state;
    json_t *answer = json_pack("{s:i, s:i}", "memory_bytes", 1, "clients", 2);
    amb_status_units_add(answer, NULL);
    is(answer, "memory_bytes", "bytes");
    is(answer, "clients", NULL);
    json_decref(answer);
    answer = json_pack("{s:[]}", "rows");
    amb_status_units_add(answer, json_object_get(answer, "rows"));
    assert_int_equal(json_object_size(json_object_get(answer, "units")), 0);
    json_decref(answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_of_rows),
        cmocka_unit_test(test_an_answer_without_rows_is_one_itself),
    };
    return cmocka_run_group_tests_name("status_units", tests, NULL, NULL);
}
