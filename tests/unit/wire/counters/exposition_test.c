/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/counters/exposition: each figure once, with its type and unit, in both forms; texts that are
 * not plain are escaped. integration-metrics has other programs read the whole.
 */
#include "wire/counters/exposition.h"

#include "broker/count/counters.h"
#include "broker/count/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct amb_counters counters;
static struct amb_counters_image image;

static int fill(void **state)
{
    (void)state;
    const struct amb_counters_options options = {.why = "a test",
                                                 .workers = 2,
                                                 .objects = 64,
                                                 .name = "a\"b\\c\xff",
                                                 .version = "1.2",
                                                 .ucx = "off",
                                                 .now_ns = 1000000000,
                                                 .real_ns = 1500000000};
    if (amb_counters_create(&options, &counters) != AMB_OK) {
        return -1;
    }
    struct amb_shard_stats *first = amb_counters_shard(&counters, 0),
                           *second = amb_counters_shard(&counters, 1);
    amb_stat_add(&first->msgs_in, 3);
    amb_stat_add(&second->msgs_in, 4);
    amb_stat_set(&first->longest_turn_ns, 1500);
    amb_stat_set(&second->delay[0], 5);
    amb_stat_set(&second->delay[1], 6);
    amb_stat_set(&second->delay[AMB_DELAY_BUCKETS - 1], 7);
    amb_stat_set(&second->delay_sum_ns, 2000000001);
    amb_stat_set(&amb_counters_broker(&counters)->clients, 9);
    amb_counters_view(&counters, &image);
    return 0;
}

static int empty(void **state)
{
    (void)state;
    amb_counters_destroy(&counters);
    return 0;
}

static char *text_of(enum amb_exposition_form form)
{
    size_t len = 0;
    char *text = amb_exposition(&image, form, 2000000000, &len);
    assert_non_null(text);
    assert_int_equal(strlen(text), len);
    return text;
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("not there: %s", part);
    }
}

static void test_figures_have_type_and_worker(void **state)
{
    (void)state;
    char *text = text_of(AMB_EXPOSITION_PROMETHEUS);
    has(text, "# TYPE ambroker_messages_in_total counter\n"
              "ambroker_messages_in_total{worker=\"0\"} 3\n"
              "ambroker_messages_in_total{worker=\"1\"} 4\n");
    has(text, "# TYPE ambroker_clients gauge\nambroker_clients 9\n");
    has(text, "ambroker_worker_turn_longest_seconds{worker=\"0\"} 0.000001500\n");
    has(text,
        "ambroker_build_info{name=\"a\\\"b\\\\c\xef\xbf\xbd\",version=\"1.2\",ucx=\"off\"} 1\n");
    has(text, "\nambroker_start_time_seconds 1.500000000\n");
    assert_null(strstr(text, "# UNIT"));
    assert_null(strstr(text, "# EOF"));
    free(text);
}

static void test_open_metrics_names_families_and_ends(void **state)
{
    (void)state;
    char *text = text_of(AMB_EXPOSITION_OPENMETRICS);
    has(text, "# TYPE ambroker_messages_in counter\nambroker_messages_in_total{worker=\"0\"} 3\n");
    has(text, "# TYPE ambroker_build info\nambroker_build_info{");
    has(text, "# UNIT ambroker_memory_bytes bytes\n");
    has(text, "# UNIT ambroker_worker_turn_longest_seconds seconds\n");
    assert_string_equal(text + strlen(text) - 6, "# EOF\n");
    free(text);
}

static void test_a_histogram_is_cumulative(void **state)
{
    (void)state;
    char *text = text_of(AMB_EXPOSITION_PROMETHEUS);
    has(text, "# TYPE ambroker_delivery_delay_seconds histogram\n");
    has(text, "ambroker_delivery_delay_seconds_bucket{worker=\"1\",le=\"0.000001024\"} 5\n"
              "ambroker_delivery_delay_seconds_bucket{worker=\"1\",le=\"0.000002048\"} 11\n");
    has(text, "ambroker_delivery_delay_seconds_bucket{worker=\"1\",le=\"+Inf\"} 18\n"
              "ambroker_delivery_delay_seconds_count{worker=\"1\"} 18\n"
              "ambroker_delivery_delay_seconds_sum{worker=\"1\"} 2.000000001\n");
    assert_null(strstr(text, "ambroker_delivery_delay_sum_seconds"));
    free(text);
}

/* Rows without a place here are texts and numbers that name something, and the sum above. */
static void test_each_row_is_there(void **state)
{
    (void)state;
    char *text = text_of(AMB_EXPOSITION_PROMETHEUS);
    for (size_t i = 0; i < amb_metric_count; i++) {
        const struct amb_counters_metric *metric = &amb_metrics[i];
        char line[160];
        (void)snprintf(line, sizeof(line), "\n# TYPE %s ", metric->name);
        bool is_object = metric->part != AMB_COUNTERS_IN_BLOCK;
        bool is_other = metric->kind == AMB_COUNTERS_ID ||
                        strcmp(metric->name, "ambroker_delivery_delay_sum_seconds") == 0;
        if ((strstr(text, line) != NULL) == (is_object || is_other)) {
            fail_msg("%s", metric->name);
        }
    }
    free(text);
}

/* The rules of OpenMetrics for names: a counter ends with _total, nothing else does. */
static void test_names_follow_the_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < amb_metric_count; i++) {
        const struct amb_counters_metric *metric = &amb_metrics[i];
        const char *total = strstr(metric->name, "_total");
        bool ends = total != NULL && total[6] == '\0';
        bool is_sum = strcmp(metric->name, "ambroker_delivery_delay_sum_seconds") == 0;
        bool is_counter = metric->kind == AMB_COUNTERS_COUNTER && !is_sum;
        if (ends != is_counter || strncmp(metric->name, "ambroker_", 9) != 0) {
            fail_msg("%s", metric->name);
        }
        bool is_time = strcmp(metric->unit, "ns") == 0;
        if (is_time && strstr(metric->name, "_seconds") == NULL) {
            fail_msg("%s: in ns, and its name does not say seconds", metric->name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures_have_type_and_worker),
        cmocka_unit_test(test_open_metrics_names_families_and_ends),
        cmocka_unit_test(test_a_histogram_is_cumulative),
        cmocka_unit_test(test_each_row_is_there),
        cmocka_unit_test(test_names_follow_the_rules),
    };
    return cmocka_run_group_tests(tests, fill, empty);
}
