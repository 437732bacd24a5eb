/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/ctl/top/rows: a block for programs. */
#include "tools/ctl/top/rows.h"

#include "tests/unit/tools/ctl/top/answers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_each_column_has_a_key_of_its_own(void **state)
{
    (void)state;
    for (unsigned view = 0; view < AMB_TOP_VIEWS; view++) {
        const struct amb_top_lens *lens = amb_top_lens((enum amb_top_view)view);
        json_t *keys = json_object();
        for (size_t i = 0; i < lens->count; i++) {
            char key[32];
            assert_null(json_object_get(keys, amb_top_rows_key(&lens->columns[i], key)));
            assert_true(strlen(key) < sizeof(key) - 1 && strcmp(key, "time_ns") != 0);
            (void)json_object_set_new(keys, key, json_true());
        }
        json_decref(keys);
    }
}

static void test_a_block(void **state)
{
    (void)state;
    struct answers answers = {
        .status = ANSWERS_STATUS,
        .workers = ANSWERS_WORKERS,
        .note = "of the counters file",
        .view = "{\"topics\": [{\"topic\": \"a\", \"tenant\": \"\", \"messages\": 3, "
                "\"log_bytes\": 8}, {\"topic\": \"b\", \"tenant\": \"\"}]}"};
    struct amb_top_sample *sample = NULL;
    char note[AMB_TOP_NOTE_MAX];
    struct amb_top_state top;
    amb_top_state_init(&top, AMB_TOP_TOPICS, 1);
    assert_int_equal(
        amb_top_sample_take(answers_ask, &answers, AMB_TOP_TOPICS, NULL, NULL, &sample, note),
        AMB_OK);
    sample->real_ns = 12;
    json_t *block = amb_top_rows(sample, &top, 1);
    json_t *row = json_array_get(json_object_get(block, "topics"), 0);
    assert_int_equal(json_array_size(json_object_get(block, "topics")), 1);
    assert_string_equal(json_string_value(json_object_get(block, "note")), "of the counters file");
    assert_int_equal(json_integer_value(json_object_get(row, "time_ns")), 12);
    assert_string_equal(json_string_value(json_object_get(row, "topic")), "a");
    assert_int_equal(json_integer_value(json_object_get(row, "held_bytes")), 8);
    assert_int_equal(json_integer_value(json_object_get(row, "messages")), 3);
    assert_true(json_is_null(json_object_get(row, "msg_per_s")));
    json_decref(block);
    amb_top_sample_free(&sample);
}

/* Figures of a broker that lies, of any size. */
static void test_figures_that_are_too_large(void **state)
{
    (void)state;
    struct answers answers = {.status = ANSWERS_STATUS,
                              .workers = ANSWERS_WORKERS,
                              .view = "{\"topics\": [{\"topic\": \"a\", \"tenant\": \"\", "
                                      "\"messages\": -1e308, \"log_bytes\": 1e300}]}"};
    struct amb_top_sample *first = NULL, *second = NULL;
    char note[AMB_TOP_NOTE_MAX];
    struct amb_top_state top;
    amb_top_state_init(&top, AMB_TOP_TOPICS, 1);
    assert_int_equal(
        amb_top_sample_take(answers_ask, &answers, AMB_TOP_TOPICS, NULL, NULL, &first, note),
        AMB_OK);
    first->table->at_ns -= 1;
    answers.view = "{\"topics\": [{\"topic\": \"a\", \"tenant\": \"\", \"messages\": 1e308}]}";
    assert_int_equal(
        amb_top_sample_take(answers_ask, &answers, AMB_TOP_TOPICS, NULL, first, &second, note),
        AMB_OK);
    json_t *blocks[] = {amb_top_rows(first, &top, 0), amb_top_rows(second, &top, 0)};
    const json_t *row = json_array_get(json_object_get(blocks[0], "topics"), 0);
    assert_true(json_integer_value(json_object_get(row, "held_bytes")) == INT64_MAX);
    assert_true(json_integer_value(json_object_get(row, "messages")) == INT64_MIN);
    row = json_array_get(json_object_get(blocks[1], "topics"), 0);
    assert_true(json_is_null(json_object_get(row, "msg_per_s")));
    json_decref(blocks[0]);
    json_decref(blocks[1]);
    amb_top_sample_free(&first);
    amb_top_sample_free(&second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_column_has_a_key_of_its_own),
        cmocka_unit_test(test_a_block),
        cmocka_unit_test(test_figures_that_are_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
