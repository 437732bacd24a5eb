/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that repeat, under a clock of the test's. */
#include "broker/base/log_fold.h"
#include "broker/base/log_group.h"
#include "wire/base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000000)

static const char site[] = "client %d: %s", other[] = "no memory";
static int64_t now_ns = SECOND;
static unsigned told;
static char last[1024];

static void on_line(enum amb_log_level level, const char *line, void *arg)
{
    (void)arg;
    assert_true(level <= AMB_LOG_WARN);
    told++;
    (void)snprintf(last, sizeof(last), "%s", line);
}

/* Is it written? As amb_log_write asks. */
static bool is_written(const char *of, const char *line)
{
    return amb_log_fold_at(AMB_LOG_WARN, of, line, now_ns);
}

static int setup(void **state)
{
    (void)state;
    amb_log_set_sink(NULL, NULL);
    amb_log_fold_tick(INT64_MAX);
    now_ns += 10 * AMB_LOG_FOLD_NS;
    told = 0;
    amb_log_set_sink(on_line, NULL);
    amb_log_set_filter(amb_log_fold);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    amb_log_set_filter(NULL);
    amb_log_set_sink(NULL, NULL);
    return 0;
}

static void test_the_first_is_written_and_the_rest_counted(void **state)
{
    (void)state;
    assert_true(is_written(site, "client 1: bad"));
    for (unsigned i = 0; i < 1000; i++) {
        assert_false(is_written(site, "client 1: bad"));
    }
    now_ns += AMB_LOG_FOLD_NS - 1;
    amb_log_fold_tick(now_ns);
    assert_int_equal(told, 0);
    assert_true(amb_log_fold_waits());
    now_ns += 1;
    amb_log_fold_tick(now_ns);
    assert_int_equal(told, 1);
    assert_false(amb_log_fold_waits());
    assert_string_equal(last, "client 1: bad (1000 more of this within a minute)");
    amb_log_fold_tick(now_ns);
    assert_int_equal(told, 1);
    assert_true(is_written(site, "client 1: bad")); /* A new minute. */
}

static void test_one_that_does_not_repeat_is_written_each_minute(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        assert_true(is_written(site, "client 1: bad"));
        now_ns += AMB_LOG_FOLD_NS;
        amb_log_fold_tick(now_ns);
    }
    assert_int_equal(told, 0);
}

static void test_the_next_line_tells_where_nobody_ticks(void **state)
{
    (void)state;
    assert_true(is_written(site, "client 1: bad"));
    assert_false(is_written(site, "client 1: bad"));
    now_ns += AMB_LOG_FOLD_NS;
    assert_true(is_written(site, "client 1: bad"));
    assert_int_equal(told, 1);
    assert_string_equal(last, "client 1: bad (1 more of this within a minute)");
}

static void test_different_texts_are_different_events(void **state)
{
    (void)state;
    assert_true(is_written(site, "client 1: bad"));
    assert_true(is_written(site, "client 2: bad"));
    assert_true(is_written(other, "no memory"));
    assert_false(is_written(site, "client 2: bad"));
}

static void test_a_peer_that_chooses_the_text_floods_nothing(void **state)
{
    (void)state;
    char text[64];
    unsigned written = 0;
    for (unsigned i = 0; i < 5000; i++) {
        (void)snprintf(text, sizeof(text), "client %u: bad", i);
        written += is_written(site, text);
    }
    assert_int_equal(written, AMB_LOG_GROUP_TEXTS);
    assert_true(is_written(other, "no memory")); /* Others are heard. */
    now_ns += AMB_LOG_FOLD_NS;
    amb_log_fold_tick(now_ns);
    assert_int_equal(told, 1);
    assert_string_equal(last, "client 4999: bad (4984 more like this within a minute)");
}

static void test_a_full_table_loses_no_count(void **state)
{
    (void)state;
    static char sites[AMB_LOG_FOLD_LINES + 8][8];
    unsigned of_line = 0;
    for (unsigned i = 0; i < AMB_LOG_FOLD_LINES + 8; i++) {
        (void)snprintf(sites[i], sizeof(sites[i]), "%u", i);
        now_ns++;
        assert_true(is_written(sites[i], "text"));
        of_line += !is_written(sites[i], "text");
    }
    amb_log_fold_tick(INT64_MAX);
    assert_int_equal(told, of_line);
}

static void test_lower_levels_are_not_looked_at(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        assert_true(amb_log_fold_at(AMB_LOG_INFO, site, "client 1: here", now_ns));
    }
}

static void test_it_filters_the_log(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        amb_warn("client %d: %s", 1, "worse");
    }
    assert_int_equal(told, 1);
    amb_log_fold_tick(INT64_MAX);
    assert_int_equal(told, 2);
    assert_string_equal(last, "client 1: worse (2 more of this within a minute)");
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(test_the_first_is_written_and_the_rest_counted),
        T(test_one_that_does_not_repeat_is_written_each_minute),
        T(test_the_next_line_tells_where_nobody_ticks),
        T(test_different_texts_are_different_events),
        T(test_a_peer_that_chooses_the_text_floods_nothing),
        T(test_a_full_table_loses_no_count),
        T(test_lower_levels_are_not_looked_at),
        T(test_it_filters_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
