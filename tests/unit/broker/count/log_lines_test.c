/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/count/log_lines: lines are counted whether they are written or not, before and after there
 * are counters. Their number is bounded whatever a peer sends, and lines that made room are
 * counted.
 */
#include "broker/count/log_lines.h"

#include "broker/base/log_fold.h"
#include "broker/base/log_group.h"
#include "broker/count/counters.h"
#include "wire/counters/view.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000000)

static struct amb_counters counters;

static int open_counters(void **state)
{
    (void)state;
    const struct amb_counters_options options = {.why = "a test",
                                                 .workers = 1,
                                                 .objects = 8,
                                                 .lines = AMB_COUNTERS_LINES,
                                                 .name = "lines",
                                                 .version = "1",
                                                 .ucx = "off"};
    return amb_counters_create(&options, &counters) == AMB_OK ? 0 : -1;
}

static int close_counters(void **state)
{
    (void)state;
    amb_log_lines_detach(&counters);
    amb_counters_destroy(&counters);
    return 0;
}

static json_t *rows_of(const char *query)
{
    struct amb_counters_image image;
    struct amb_counters_view *view;
    char why[AMB_COUNTERS_REFUSAL_MAX] = "";
    amb_counters_view(&counters, &image);
    assert_int_equal(amb_counters_view_open(&image, query, NULL, 0, &view, why), AMB_OK);
    char *text = amb_counters_view_all(view);
    amb_counters_view_close(&view);
    json_t *answer = json_loads(text, 0, NULL);
    assert_non_null(answer);
    free(text);
    json_t *rows = json_incref(json_object_get(answer, "errors"));
    json_decref(answer);
    return rows;
}

/* The row with that text; NULL: none. Borrowed. */
static json_t *row_with(json_t *rows, const char *line)
{
    json_t *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, "line")), line) == 0) {
            return row;
        }
    }
    return NULL;
}

static json_int_t number(const json_t *row, const char *key)
{
    assert_true(json_is_integer(json_object_get(row, key)));
    return json_integer_value(json_object_get(row, key));
}

static void no_sink(enum amb_log_level level, const char *line, void *arg)
{
    (void)level;
    (void)line;
    (void)arg;
}

static void test_lines_before_and_after_the_counters(void **state)
{
    (void)state;
    static const char site[] = "early %s";
    amb_log_lines_see_at(AMB_LOG_WARN, site, "early one", 5 * SECOND);
    amb_log_lines_attach(&counters);
    json_t *rows = rows_of("errors");
    assert_int_equal(number(row_with(rows, "early one"), "count"), 1);
    json_decref(rows);
    amb_log_lines_see_at(AMB_LOG_WARN, site, "early one", 9 * SECOND);
    amb_log_lines_see_at(AMB_LOG_ERROR, site, "late one", 7 * SECOND);
    rows = rows_of("errors");
    const json_t *row = row_with(rows, "early one");
    assert_ptr_equal(json_array_get(rows, 0), row); /* The last one first. */
    assert_int_equal(number(row, "count"), 2);
    assert_int_equal(number(row, "first_s"), 5);
    assert_int_equal(number(row, "last_s"), 9);
    assert_string_equal(json_string_value(json_object_get(row, "level")), "warn");
    assert_string_equal(json_string_value(json_object_get(row_with(rows, "late one"), "level")),
                        "error");
    json_decref(rows);
    rows = rows_of("errors match=error");
    assert_int_equal(json_array_size(rows), 1);
    json_decref(rows);
    assert_int_equal(amb_stat_get(&amb_counters_broker(&counters)->log_warnings), 2);
    assert_int_equal(amb_stat_get(&amb_counters_broker(&counters)->log_errors), 1);
}

static void test_folded_lines_count_and_what_tells_of_them_does_not(void **state)
{
    (void)state;
    amb_log_lines_attach(&counters);
    amb_log_set_sink(no_sink, NULL);
    amb_log_set_filter(amb_log_fold);
    amb_log_set_witness(amb_log_lines_see);
    for (unsigned i = 0; i < 50; i++) {
        amb_warn("the same again");
    }
    amb_log_fold_tick(INT64_MAX);
    amb_info("no such line");
    amb_log_answer(AMB_LOG_WARN, "an answer");
    amb_log_set_witness(NULL);
    amb_log_set_filter(NULL);
    amb_log_set_sink(NULL, NULL);
    json_t *rows = rows_of("errors");
    assert_int_equal(number(row_with(rows, "the same again"), "count"), 50);
    assert_int_equal(number(row_with(rows, "an answer"), "count"), 1);
    assert_null(row_with(rows, "no such line"));
    json_t *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        assert_null(strstr(json_string_value(json_object_get(row, "line")), "within a minute"));
    }
    json_decref(rows);
}

/* A peer chooses texts: its place has so many rows, whatever it sends. */
static void test_a_place_has_a_bounded_number_of_rows(void **state)
{
    (void)state;
    static const char site[] = "peer %s";
    char line[64], rest[64] = "";
    amb_log_lines_attach(&counters);
    for (unsigned i = 0; i < 10000; i++) {
        (void)snprintf(line, sizeof(line), "peer %u", i);
        amb_log_lines_see_at(AMB_LOG_WARN, site, line, 20 * SECOND);
        (void)snprintf(rest, sizeof(rest), "%s", line);
    }
    json_t *rows = rows_of("errors"), *row;
    size_t i, ours = 0;
    json_array_foreach(rows, i, row)
    {
        ours += strncmp(json_string_value(json_object_get(row, "line")), "peer ", 5) == 0;
    }
    assert_int_equal(ours, AMB_LOG_GROUP_TEXTS + 1);
    assert_int_equal(number(row_with(rows, rest), "count"), 10000 - AMB_LOG_GROUP_TEXTS);
    json_decref(rows);
}

static void test_the_eldest_makes_room_and_is_counted(void **state)
{
    (void)state;
    static const char sites[AMB_COUNTERS_LINES + 10];
    amb_log_lines_attach(&counters);
    for (unsigned i = 0; i < AMB_COUNTERS_LINES + 10; i++) {
        char line[32];
        (void)snprintf(line, sizeof(line), "of place %u", i);
        amb_log_lines_see_at(AMB_LOG_WARN, &sites[i], line, (100 + (int64_t)i) * SECOND);
    }
    json_t *rows = rows_of("errors");
    assert_int_equal(json_array_size(rows), AMB_COUNTERS_LINES);
    assert_null(row_with(rows, "of place 9"));
    assert_non_null(row_with(rows, "of place 100"));
    assert_non_null(row_with(rows, "of place 265"));
    json_decref(rows);
    assert_true(amb_stat_get(&amb_counters_broker(&counters)->log_forgotten) >= 10);
}

static void test_texts_of_strangers_stay_texts(void **state)
{
    (void)state;
    static const char site[] = "odd %s";
    char longest[2000];
    memset(longest, '!', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    memcpy(longest + AMB_TEXTS_BYTES - 8, "\xe2\x82\xac", 3);
    amb_log_lines_attach(&counters);
    amb_log_lines_see_at(AMB_LOG_WARN, site, "a\xff\xe2\x82z \xe2\x82\xac", 9000 * SECOND);
    json_t *rows = rows_of("errors");
    assert_non_null(row_with(rows, "a???z \xe2\x82\xac"));
    json_decref(rows);
    for (unsigned cut = 0; cut < 8; cut++) { /* Wherever the room ends, no character is cut. */
        amb_log_lines_see_at(AMB_LOG_WARN, longest, longest + cut, 9001 * SECOND);
        rows = rows_of("errors sort=line top=1");
        const char *line = json_string_value(json_object_get(json_array_get(rows, 0), "line"));
        assert_true(strlen(line) > AMB_TEXTS_BYTES - 20 && line[0] == '!');
        json_decref(rows);
    }
}

/* Other counters take them over, as where a test starts a second broker. */
static void test_detached_counters_get_no_more(void **state)
{
    (void)state;
    static const char site[] = "gone";
    amb_log_lines_attach(&counters);
    amb_log_lines_detach(NULL);
    amb_log_lines_see_at(AMB_LOG_WARN, site, "still there", 9100 * SECOND);
    amb_log_lines_detach(&counters);
    amb_log_lines_see_at(AMB_LOG_WARN, site, "not there", 9101 * SECOND);
    json_t *rows = rows_of("errors");
    assert_non_null(row_with(rows, "still there"));
    assert_null(row_with(rows, "not there"));
    json_decref(rows);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_counters, close_counters)
    const struct CMUnitTest tests[] = {
        TEST(test_lines_before_and_after_the_counters),
        TEST(test_folded_lines_count_and_what_tells_of_them_does_not),
        TEST(test_a_place_has_a_bounded_number_of_rows),
        TEST(test_the_eldest_makes_room_and_is_counted),
        TEST(test_texts_of_strangers_stay_texts),
        TEST(test_detached_counters_get_no_more),
    };
    return cmocka_run_group_tests_name("log_lines", tests, NULL, NULL);
}
