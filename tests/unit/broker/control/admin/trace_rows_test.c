/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a trace, by batch and time, from all workers. Figures that a stage does not have are
 * null. Members are found by their deliveries. Names are looked up by integration-trace.
 */
#include "broker/control/admin/trace_rows.h"

#include "broker/session/path.h"
#include "broker/shard/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static struct amb_trace_names names;

static int begin(void **state)
{
    *state = amb_trace_create("a.>", AMB_TENANT_ANY, 1, 10, 2);
    names.clients = calloc(AMB_TRACE_NAMES_MAX, sizeof(*names.clients));
    names.topics = calloc(AMB_TRACE_NAMES_MAX, sizeof(*names.topics));
    return *state == NULL || names.clients == NULL || names.topics == NULL;
}

static int end(void **state)
{
    struct amb_trace *trace = *state;
    amb_trace_destroy(&trace);
    amb_trace_names_fini(&names);
    amb_trace_names_fini(&names);
    return 0;
}

static void add(struct amb_trace *trace, unsigned worker, struct amb_trace_record record)
{
    struct amb_trace_part *part = trace->parts[worker];
    record.worker = (int8_t)worker;
    part->records[part->count] = record;
    atomic_store(&part->count, part->count + 1);
}

static json_t *read_rows(const struct amb_trace *trace)
{
    char *text = amb_trace_rows(trace, &names);
    assert_non_null(text);
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    free(text);
    return json;
}

static const char *text_of(const json_t *json, size_t row, const char *key)
{
    const json_t *value = json_object_get(json_array_get(json_object_get(json, "trace"), row), key);
    assert_non_null(value);
    return json_is_null(value) ? "null" : json_string_value(value);
}

static json_int_t number_of(const json_t *json, size_t row, const char *key)
{
    const json_t *value = json_object_get(json_array_get(json_object_get(json, "trace"), row), key);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

static void test_none(void **state)
{
    json_t *json = read_rows(*state);
    assert_int_equal(json_array_size(json_object_get(json, "trace")), 0);
    assert_int_equal(json_integer_value(json_object_get(json, "batches")), 0);
    assert_int_equal(json_integer_value(json_object_get(json, "of")), 10);
    json_decref(json);
}

static void test_order_and_values(void **state)
{
    struct amb_trace *trace = *state;
    /* Batch 2 is first in memory; worker 1 has read its clock a little before worker 0. */
    add(trace, 0, (struct amb_trace_record){.batch = 2, .at_ns = 900, .stage = AMB_TRACE_HEAD});
    add(trace, 0,
        (struct amb_trace_record){
            .batch = 1, .at_ns = 100, .stage = AMB_TRACE_HEAD, .topic = 0, .msgs = 3, .bytes = 99});
    add(trace, 1,
        (struct amb_trace_record){.batch = 1, .at_ns = 98, .stage = AMB_TRACE_APPENDED, .seq = 7});
    add(trace, 0, (struct amb_trace_record){.batch = 1, .at_ns = 100, .stage = AMB_TRACE_BODY});
    add(trace, 0,
        (struct amb_trace_record){
            .batch = 1, .at_ns = 300, .stage = AMB_TRACE_REFUSED, .status = AMB_EREJECTED});
    trace->taken = 2;
    json_t *json = read_rows(trace);
    static const char *const stages[] = {"head", "appended", "body", "refused", "head"};
    assert_int_equal(json_array_size(json_object_get(json, "trace")), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(text_of(json, i, "stage"), stages[i]);
    }
    assert_int_equal(number_of(json, 0, "after_ns"), 0);
    assert_int_equal(number_of(json, 1, "after_ns"), -2);
    assert_int_equal(number_of(json, 1, "readers"), 0); /* a figure, though it is 0 */
    assert_int_equal(number_of(json, 1, "worker"), 1);
    assert_int_equal(number_of(json, 1, "sequence"), 7);
    assert_int_equal(number_of(json, 3, "after_ns"), 200);
    assert_string_equal(text_of(json, 3, "why"), amb_status_text(AMB_EREJECTED));
    assert_string_equal(text_of(json, 0, "kind"), "null");
    assert_string_equal(text_of(json, 0, "topic"), "null"); /* Its name is not known. */
    assert_int_equal(number_of(json, 0, "messages"), 3);
    assert_int_equal(number_of(json, 0, "bytes"), 99);
    assert_int_equal(number_of(json, 4, "batch"), 2);
    const json_t *units = json_object_get(json, "units");
    assert_string_equal(json_string_value(json_object_get(units, "after_ns")), "ns");
    assert_string_equal(json_string_value(json_object_get(units, "bytes")), "bytes");
    assert_int_equal(json_integer_value(json_object_get(json, "batches")), 2);
    json_decref(json);
}

static void test_readers(void **state)
{
    struct amb_trace *trace = *state;
    /* A table of names finds a place by hashing: any cell of the search is as good. */
    for (uint32_t i = 0; i < AMB_TRACE_NAMES_MAX; i++) {
        names.clients[i] = (struct amb_trace_name){.id = 5, .link = "ring", .text = "<b>\"x"};
    }
    add(trace, 0,
        (struct amb_trace_record){
            .batch = 1, .stage = AMB_TRACE_GIVEN, .reader = 3, .is_queue = 1});
    add(trace, 0,
        (struct amb_trace_record){.batch = 1,
                                  .stage = AMB_TRACE_WRITTEN,
                                  .reader = 9,
                                  .client = 5,
                                  .how = AMB_TRACE_COPIED,
                                  .path_why = AMB_PATH_LINK});
    add(trace, 1,
        (struct amb_trace_record){
            .batch = 1, .at_ns = 5, .stage = AMB_TRACE_ACKED, .reader = 9, .msgs = 1});
    add(trace, 1,
        (struct amb_trace_record){.batch = 1, .at_ns = 6, .stage = AMB_TRACE_ACKED, .reader = 8});
    json_t *json = read_rows(trace);
    assert_string_equal(text_of(json, 0, "how"), "copied");
    assert_string_equal(text_of(json, 0, "not_in_place"), amb_path_why_text(AMB_PATH_LINK));
    assert_string_equal(text_of(json, 0, "name"), "<b>\"x");
    assert_string_equal(text_of(json, 0, "link"), "ring");
    assert_string_equal(text_of(json, 1, "kind"), "queue");
    assert_string_equal(text_of(json, 1, "name"), "null");
    assert_string_equal(text_of(json, 2, "kind"), "sub");
    assert_int_equal(number_of(json, 2, "client"), 5); /* by its delivery */
    assert_string_equal(text_of(json, 3, "name"), "null");
    json_decref(json);
}

static void test_more_than_an_answer_has(void **state)
{
    (void)state;
    struct amb_trace *large = amb_trace_create(">", AMB_TENANT_ANY, 1, 1, 6);
    assert_non_null(large);
    for (unsigned worker = 0; worker < 6; worker++) {
        for (uint32_t i = 0; i < AMB_TRACE_RECORDS_MAX; i++) {
            add(large, worker, (struct amb_trace_record){.batch = 1, .stage = AMB_TRACE_HELD});
        }
        large->parts[worker]->lost = 2;
    }
    json_t *json = read_rows(large);
    assert_int_equal(json_array_size(json_object_get(json, "trace")), AMB_TRACE_ROWS_MAX);
    assert_int_equal(json_integer_value(json_object_get(json, "not_shown")),
                     6 * AMB_TRACE_RECORDS_MAX - AMB_TRACE_ROWS_MAX);
    assert_int_equal(json_integer_value(json_object_get(json, "not_noted")), 12);
    json_decref(json);
    amb_trace_destroy(&large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_none, begin, end),
        cmocka_unit_test_setup_teardown(test_order_and_values, begin, end),
        cmocka_unit_test_setup_teardown(test_readers, begin, end),
        cmocka_unit_test_setup_teardown(test_more_than_an_answer_has, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
