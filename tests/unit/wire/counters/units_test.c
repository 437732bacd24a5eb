/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/counters/units: each view's answer has the units of its columns, and of no other's.
 */
#include "wire/counters/units.h"

#include "broker/count/counters.h"
#include "wire/counters/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct amb_counters counters;
static struct amb_counters_image image;

static int make(void **state)
{
    (void)state;
    const struct amb_counters_options options = {
        .why = "a test", .workers = 1, .objects = 64, .name = "", .version = "", .ucx = ""};
    if (amb_counters_create(&options, &counters) != AMB_OK) {
        return -1;
    }
    amb_counters_view(&counters, &image);
    return 0;
}

static int drop(void **state)
{
    (void)state;
    amb_counters_destroy(&counters);
    return 0;
}

/* The unit of a column in the answer of a view; "": it has none. */
static void is(const char *query, const char *column, const char *unit)
{
    struct amb_counters_view *view;
    char why[AMB_COUNTERS_REFUSAL_MAX];
    assert_int_equal(amb_counters_view_open(&image, query, NULL, 0, &view, why), AMB_OK);
    char *text = amb_counters_view_all(view);
    amb_counters_view_close(&view);
    json_t *answer = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    assert_non_null(answer);
    const json_t *units = json_object_get(answer, AMB_COUNTERS_UNITS);
    assert_true(json_is_object(units));
    const char *found = json_string_value(json_object_get(units, column));
    if (strcmp(found == NULL ? "" : found, unit) != 0) {
        fail_msg("%s %s: '%s'", query, column, found == NULL ? "" : found);
    }
    json_decref(answer);
}

static void test_answers_have_units(void **state)
{
    (void)state;
    is("topics", "log_bytes", "bytes");
    is("topics", "messages", "messages");
    is("topics", "topic", "");
    is("topics", "delivered", ""); /* a subscription's */
    is("subs", "delivered", "messages");
    is("queues", "waiting_bytes", "bytes");
    is("clients", "heap_bytes", "bytes");
    is("closed", "closed_s", "unix_s");
    is("closed", "lived_s", "s");
    is("errors", "last_s", "unix_s");
    is("loss", "count", "messages");
    is("workers", "longest_turn_ns", "ns");
    is("status", "memory_bytes", "bytes");
    is("status", "uptime_s", "s");
    is("metrics", "value", "@unit");
}

static void test_a_file_that_somebody_made_up(void **state)
{
    (void)state;
    struct amb_counters_metric *metrics =
        (void *)((uint8_t *)counters.base + counters.header->metrics_at);
    for (uint32_t i = 0; i < counters.header->metric_count; i++) {
        memcpy(metrics[i].unit, "\xff\xfe", 3);
    }
    is("topics", "log_bytes", "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_have_units),
        cmocka_unit_test(test_a_file_that_somebody_made_up),
    };
    return cmocka_run_group_tests_name("units", tests, make, drop);
}
