/* SPDX-License-Identifier: Apache-2.0 */
/* broker/http/delta: rows by key, and the changes between two moments. */
#include "broker/http/delta.h"

#include "broker/count/counters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static json_t *rows_of(const char *view, const char *text)
{
    json_t *answer = json_loads(text, 0, NULL), *rows;
    assert_non_null(answer);
    rows = amb_delta_rows(view, answer);
    json_decref(answer);
    assert_non_null(rows);
    return rows;
}

/* Takes both. */
static void assert_delta(json_t *before, json_t *now, const char *expected)
{
    json_t *delta = amb_delta_of(before, now);
    assert_non_null(delta);
    char *text = json_dumps(delta, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, expected);
    free(text);
    json_decref(delta);
    json_decref(before);
    json_decref(now);
}

static void test_columns_that_differ_are_told(void **state)
{
    (void)state;
    assert_delta(
        rows_of("clients", "{\"clients\":[{\"id\":1,\"name\":\"a\",\"n\":1},{\"id\":2,\"n\":5}]}"),
        rows_of("clients", "{\"clients\":[{\"id\":1,\"name\":\"a\",\"n\":2},{\"id\":2,\"n\":5}]}"),
        "{\"set\":{\"1\":{\"n\":2}}}");
}

static void test_rows_come_and_go(void **state)
{
    (void)state;
    assert_delta(rows_of("queues", "{\"queues\":[{\"id\":7}]}"),
                 rows_of("queues", "{\"queues\":[{\"id\":8,\"pattern\":\"<script>\"}]}"),
                 "{\"gone\":[\"7\"],\"set\":{\"8\":{\"id\":8,\"pattern\":\"<script>\"}}}");
}

static void test_nothing_changes_is_empty(void **state)
{
    (void)state;
    assert_delta(rows_of("status", "{\"topics\":1}"), rows_of("status", "{\"topics\":1}"), "{}");
    assert_delta(rows_of("status", "{\"topics\":1,\"units\":{}}"),
                 rows_of("status", "{\"topics\":2}"), "{\"set\":{\"\":{\"topics\":2}}}");
}

static void test_topics_are_told_apart_by_three_columns(void **state)
{
    (void)state;
    json_t *rows =
        rows_of("topics", "{\"topics\":["
                          "{\"topic\":\"a\",\"priority\":\"normal\",\"tenant\":\"\"},"
                          "{\"topic\":\"a\",\"priority\":\"high\",\"tenant\":\"\"},"
                          "{\"topic\":\"$INBOX.…\",\"priority\":\"normal\",\"tenant\":\"\"},"
                          "{\"topic\":\"a\",\"priority\":\"normal\",\"tenant\":\"x\"}]}");
    assert_int_equal(json_object_size(rows), 3);
    assert_non_null(json_object_get(rows, "a|high|"));
    json_decref(rows);
    rows = rows_of("loss", "{\"loss\":[{\"subscription\":3,\"reason\":\"slow\",\"worker\":1}]}");
    assert_non_null(json_object_get(rows, "3|slow|1"));
    json_decref(rows);
}

static void test_an_answer_that_is_none_is_refused(void **state)
{
    (void)state;
    json_t *answer = json_loads("{\"topics\":[]}", 0, NULL);
    assert_null(amb_delta_rows("clients", answer));
    assert_null(amb_delta_rows("clients", NULL));
    json_decref(answer);
}

static void test_columns_are_those_of_the_metric_table(void **state)
{
    (void)state;
    struct amb_counters counters;
    struct amb_counters_image image;
    const struct amb_counters_options options = {
        .why = "a test", .workers = 1, .objects = 64, .name = "a", .version = "1", .ucx = "off"};
    assert_int_equal(amb_counters_create(&options, &counters), AMB_OK);
    amb_counters_view(&counters, &image);
    json_t *columns = amb_delta_columns(&image, "topics");
    const json_t *about = json_object_get(columns, "log_bytes");
    assert_string_equal(json_string_value(json_array_get(about, 0)), "ambroker_topic_log_bytes");
    assert_string_equal(json_string_value(json_array_get(about, 1)), "gauge");
    assert_string_equal(json_string_value(json_array_get(about, 2)), "bytes");
    assert_true(strlen(json_string_value(json_array_get(about, 3))) > 0);
    json_decref(columns);
    columns = amb_delta_columns(&image, "clients");
    about = json_object_get(columns, "heap_bytes");
    assert_string_equal(json_string_value(json_array_get(about, 0)), "ambroker_client_heap_bytes");
    json_decref(columns);
    columns = amb_delta_columns(&image, "status");
    assert_non_null(json_object_get(columns, "topics_limit"));
    json_decref(columns);
    amb_counters_destroy(&counters);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_that_differ_are_told),
        cmocka_unit_test(test_rows_come_and_go),
        cmocka_unit_test(test_nothing_changes_is_empty),
        cmocka_unit_test(test_topics_are_told_apart_by_three_columns),
        cmocka_unit_test(test_an_answer_that_is_none_is_refused),
        cmocka_unit_test(test_columns_are_those_of_the_metric_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
