/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/bench/compare, by results as broker-bench writes them. */
#include "tools/bench/compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

static json_t *cell(const char *link, int size, double rate, double p50)
{
    return json_pack("{s:s, s:s, s:i, s:f, s:f, s:s}", "workload", "throughput", "link", link,
                     "size", size, "msgs_per_s", rate, "p50_us", p50, "status", "ok");
}

/* Takes both. */
static json_t *compare(json_t *a, json_t *b, double tolerance, unsigned *slower)
{
    json_t *rows = amb_compare(a, b, tolerance, slower);
    json_decref(a);
    json_decref(b);
    return rows;
}

static const char *verdict(const json_t *rows, size_t i)
{
    return json_string_value(json_object_get(json_array_get(rows, i), "verdict"));
}

static void test_compare_tells_ratios_of_later_over_earlier(void **state)
{
    (void)state;
    unsigned slower = 9;
    json_t *rows = compare(cell("ring", 64, 100, 2), cell("ring", 64, 150, 1), 0.1, &slower);
    const json_t *row = json_array_get(rows, 0);
    assert_int_equal(json_array_size(rows), 1);
    assert_true(json_real_value(json_object_get(row, "msgs_per_s.ratio")) == 1.5);
    assert_true(json_real_value(json_object_get(row, "p50_us.ratio")) == 0.5);
    assert_int_equal(slower, 0);
    assert_string_equal(verdict(rows, 0), "ok");
    json_decref(rows);
}

static void test_compare_counts_a_lower_rate_and_a_higher_latency(void **state)
{
    (void)state;
    unsigned slower;
    json_t *rows = compare(cell("ring", 64, 100, 2), cell("ring", 64, 85, 2), 0.1, &slower);
    assert_int_equal(slower, 1);
    assert_string_equal(verdict(rows, 0), "slower");
    json_decref(rows);
    rows = compare(cell("ring", 64, 100, 2), cell("ring", 64, 100, 2.3), 0.1, &slower);
    assert_int_equal(slower, 1);
    json_decref(rows);
    rows = compare(cell("ring", 64, 100, 2), cell("ring", 64, 91, 2.19), 0.1, &slower);
    assert_int_equal(slower, 0);
    json_decref(rows);
}

static void test_compare_pairs_cells_whatever_their_order(void **state)
{
    (void)state;
    unsigned slower;
    json_t *a = json_pack("[o, o]", cell("ring", 64, 100, 2), cell("stream", 64, 50, 9));
    json_t *b = json_pack("[o, o, o]", cell("stream", 64, 50, 9), cell("ring", 1024, 1, 9),
                          cell("ring", 64, 50, 2));
    json_t *rows = compare(a, b, 0.1, &slower);
    assert_int_equal(json_array_size(rows), 2);
    assert_string_equal(verdict(rows, 0), "ok");
    assert_string_equal(verdict(rows, 1), "slower");
    assert_int_equal(slower, 1);
    json_decref(rows);
}

static void test_compare_takes_a_failed_cell_for_slower(void **state)
{
    (void)state;
    unsigned slower;
    json_t *b = cell("ring", 64, 100, 2);
    (void)json_object_set_new(b, "status", json_string("wrong bytes"));
    json_t *rows = compare(cell("ring", 64, 100, 2), b, 0.1, &slower);
    assert_int_equal(slower, 1);
    assert_string_equal(verdict(rows, 0), "failed");
    json_decref(rows);
}

static json_t *exchange(const char *workload, unsigned workers, double mb_per_s)
{
    return json_pack("{s:s, s:i, s:i, s:f, s:s}", "workload", workload, "size", 64, "workers",
                     (int)workers, "mb_per_s", mb_per_s, "status", "ok");
}

static void test_compare_knows_the_rates_of_each_workload(void **state)
{
    (void)state;
    unsigned slower;
    json_t *rows = compare(exchange("shuffle", 4, 100), exchange("shuffle", 4, 50), 0.1, &slower);
    assert_int_equal(slower, 1);
    assert_string_equal(verdict(rows, 0), "slower");
    json_decref(rows);
    rows = compare(exchange("shuffle", 4, 100), exchange("shuffle", 8, 50), 0.1, &slower);
    assert_int_equal(json_array_size(rows), 0);
    json_decref(rows);
    const char *copy = "{s:s, s:s, s:i, s:f, s:s}";
    json_t *before = json_array(), *after = json_array();
    for (unsigned i = 0; i < 2; i++) {
        const char *path = i == 0 ? "device" : "peer";
        (void)json_array_append_new(before,
                                    json_pack(copy, "workload", "copies", "path", path, "size", 64,
                                              "mb_per_s", i == 0 ? 9.0 : 5.0, "status", "ok"));
        (void)json_array_append_new(after, json_pack(copy, "workload", "copies", "path", path,
                                                     "size", 64, "mb_per_s", 5.0, "status", "ok"));
    }
    rows = compare(before, after, 0.1, &slower);
    assert_int_equal(slower, 1);
    assert_string_equal(verdict(rows, 0), "slower");
    assert_string_equal(verdict(rows, 1), "ok");
    json_decref(rows);
}

static void test_compare_says_nothing_without_figures(void **state)
{
    (void)state;
    unsigned slower;
    json_t *rows = compare(json_pack("[i, {}]", 1), json_pack("[i, {}]", 1), 0.1, &slower);
    assert_int_equal(json_array_size(rows), 0);
    json_decref(rows);
    json_t *a = cell("ring", 64, 100, 2), *b = cell("ring", 64, 100, 2);
    (void)json_object_del(a, "p50_us");
    (void)json_object_del(b, "msgs_per_s");
    rows = compare(a, b, 0.1, &slower);
    assert_int_equal(json_array_size(rows), 0);
    json_decref(rows);
}

static void test_compare_lets_older_files_say_less(void **state)
{
    (void)state;
    unsigned slower;
    json_t *b = cell("ring", 64, 100, 2);
    (void)json_object_set_new(b, "send", json_string("copy"));
    json_t *rows = compare(cell("ring", 64, 100, 2), b, 0.1, &slower);
    assert_int_equal(json_array_size(rows), 1);
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare_tells_ratios_of_later_over_earlier),
        cmocka_unit_test(test_compare_counts_a_lower_rate_and_a_higher_latency),
        cmocka_unit_test(test_compare_pairs_cells_whatever_their_order),
        cmocka_unit_test(test_compare_takes_a_failed_cell_for_slower),
        cmocka_unit_test(test_compare_knows_the_rates_of_each_workload),
        cmocka_unit_test(test_compare_says_nothing_without_figures),
        cmocka_unit_test(test_compare_lets_older_files_say_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
