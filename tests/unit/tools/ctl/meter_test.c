/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/ctl/meter. */
#include "tools/ctl/meter.h"

#include <amb/amb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_row(struct amb_meter *meter, int64_t now_ns, bool is_last, const char *expected)
{
    json_t *row = amb_meter_row(meter, now_ns, is_last);
    assert_non_null(row);
    char *text = json_dumps(row, JSON_COMPACT);
    assert_string_equal(text, expected);
    free(text);
    json_decref(row);
}

static void test_a_row_a_second(void **state)
{
    (void)state;
    struct amb_meter meter;
    amb_meter_init(&meter, 0);
    for (unsigned i = 0; i < 10; i++) {
        amb_meter_add(&meter, 100, i == 3 ? 2 : 0, 5000, 0);
    }
    assert_null(amb_meter_row(&meter, AMB_SEC - 1, false));
    check_row(&meter, AMB_SEC, false,
              "{\"seconds\":1.0,\"messages\":10,\"bytes\":1000,\"gaps\":2,\"jitter_ns\":0}");
    check_row(&meter, 2 * AMB_SEC, false,
              "{\"seconds\":1.0,\"messages\":0,\"bytes\":0,\"gaps\":0,\"jitter_ns\":0}");
    assert_null(amb_meter_row(&meter, 2 * AMB_SEC + 1, true));
    amb_meter_add(&meter, 7, UINT64_MAX, 5000, 0);
    check_row(&meter, 2 * AMB_SEC + AMB_SEC / 2, true,
              "{\"seconds\":0.5,\"messages\":1,\"bytes\":7,\"gaps\":null,\"jitter_ns\":0}");
}

/* RFC 3550, 6.4.1: a sixteenth of each new difference. */
static void test_jitter(void **state)
{
    (void)state;
    struct amb_meter meter;
    amb_meter_init(&meter, 0);
    amb_meter_add(&meter, 0, 0, 1000, 0);
    amb_meter_add(&meter, 0, 0, 2600, 0); /* 1600 / 16 */
    assert_true(meter.jitter_ns == 100);
    amb_meter_add(&meter, 0, 0, 2600, 0); /* 100 - 100 / 16 */
    assert_true(meter.jitter_ns == 93.75);
    amb_meter_add(&meter, 0, 0, 5000, 2400); /* The way is what counts. */
    assert_true(meter.jitter_ns == 93.75 - 93.75 / 16);
}

/* A clock that is behind, and a peer that says any time: no overflow, and no figure below 0. */
static void test_any_time(void **state)
{
    (void)state;
    struct amb_meter meter;
    const int64_t now_ns = INT64_C(1790000000) * AMB_SEC;
    static const int64_t times_ns[] = {INT64_MIN, INT64_MAX, -1, 0};
    amb_meter_init(&meter, 0);
    for (unsigned i = 0; i < 400; i++) {
        amb_meter_add(&meter, 0, 0, i % 2 == 0 ? now_ns : -now_ns, times_ns[i / 4 % 4]);
        assert_true(meter.jitter_ns >= 0);
    }
    for (unsigned i = 0; i < 400; i++) {
        amb_meter_add(&meter, 0, 0, 0, i % 2 == 0 ? INT64_MIN : INT64_MAX);
    }
    json_t *row = amb_meter_row(&meter, AMB_SEC, false);
    assert_true(json_integer_value(json_object_get(row, "jitter_ns")) == INT64_MAX);
    json_decref(row);
}

static void test_as_text(void **state)
{
    (void)state;
    struct amb_meter meter;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    amb_meter_init(&meter, 0);
    amb_meter_add(&meter, 65536, 0, 0, 0);
    amb_meter_add(&meter, 0, 0, 16000, 0);
    for (unsigned i = 1; i <= 2; i++) {
        json_t *row = amb_meter_row(&meter, i * AMB_SEC, false);
        amb_meter_print(row, i == 1, out);
        json_decref(row);
        amb_meter_add(&meter, 3, UINT64_MAX, 16000, 0);
    }
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, " seconds     messages        bytes         gaps       jitter\n"
                              "    1.00            2     64.0 KiB            0      1.00 us\n"
                              "    1.00            1          3 B            -       937 ns\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_row_a_second),
        cmocka_unit_test(test_jitter),
        cmocka_unit_test(test_any_time),
        cmocka_unit_test(test_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
