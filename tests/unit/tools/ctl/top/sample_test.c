/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/ctl/top/sample: questions, and two looks compared. */
#include "tools/ctl/top/sample.h"

#include "tests/unit/tools/ctl/top/answers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct amb_top_sample *take(struct answers *answers, enum amb_top_view view,
                                   const char *match, const struct amb_top_sample *before)
{
    struct amb_top_sample *sample = NULL;
    char note[AMB_TOP_NOTE_MAX];
    assert_int_equal(amb_top_sample_take(answers_ask, answers, view, match, before, &sample, note),
                     AMB_OK);
    assert_non_null(sample);
    return sample;
}

static void test_questions(void **state)
{
    (void)state;
    struct answers answers = {.status = ANSWERS_STATUS, .workers = ANSWERS_WORKERS};
    static const char *const asked[] = {
        "status;workers;topics match=a.>;", "status;workers;subs match=a.>;",
        "status;workers;clients match=a.>;subs;", "status;workers;workers;subs;topics;",
        "status;workers;queues match=a.>;"};
    for (unsigned i = 0; i < AMB_TOP_VIEWS; i++) {
        struct amb_top_sample *sample = take(&answers, (enum amb_top_view)i, "a.>", NULL);
        assert_string_equal(answers.asked, asked[i]);
        amb_top_sample_free(&sample);
    }
}

static void test_totals_are_sums_of_rates(void **state)
{
    (void)state;
    double value;
    struct answers answers = {.status = ANSWERS_STATUS, .workers = ANSWERS_WORKERS};
    struct amb_top_sample *first = take(&answers, AMB_TOP_TOPICS, NULL, NULL);
    assert_false(amb_top_sample_sum(first->workers, "IN/S", &value));
    assert_true(amb_top_sample_sum(first->workers, "LOST", &value));
    assert_float_equal(value, 3, 1e-9);
    struct amb_top_sample *second = take(&answers, AMB_TOP_TOPICS, NULL, first);
    assert_true(amb_top_sample_sum(second->workers, "IN/S", &value));
    assert_float_equal(value, 0, 1e-9);
    assert_false(amb_top_sample_sum(second->workers, "NO SUCH", &value));
    amb_top_sample_free(&first);
    amb_top_sample_free(&second);
}

static void test_another_life_has_no_rates_yet(void **state)
{
    (void)state;
    double value;
    struct answers answers = {.status = ANSWERS_STATUS, .workers = ANSWERS_WORKERS};
    struct amb_top_sample *first = take(&answers, AMB_TOP_TOPICS, NULL, NULL);
    answers.status = "{\"epoch\": \"e2\"}";
    struct amb_top_sample *second = take(&answers, AMB_TOP_TOPICS, NULL, first);
    assert_true(second->has_restarted && !first->has_restarted);
    assert_false(amb_top_sample_sum(second->workers, "IN/S", &value));
    struct amb_top_sample *third = take(&answers, AMB_TOP_TOPICS, NULL, second);
    assert_false(third->has_restarted);
    assert_true(amb_top_sample_sum(third->workers, "IN/S", &value));
    amb_top_sample_free(&first);
    amb_top_sample_free(&second);
    amb_top_sample_free(&third);
}

static void test_answers_that_do_not_come(void **state)
{
    (void)state;
    struct amb_top_sample *sample = NULL;
    char note[AMB_TOP_NOTE_MAX];
    struct answers answers = {.fails = AMB_ETIMEDOUT, .note = "it sleeps"};
    assert_int_equal(
        amb_top_sample_take(answers_ask, &answers, AMB_TOP_TOPICS, NULL, NULL, &sample, note),
        AMB_ETIMEDOUT);
    assert_null(sample);
    assert_string_equal(note, "it sleeps");
    answers.fails = AMB_OK; /* Each of them is refused. */
    sample = take(&answers, AMB_TOP_CLIENTS, NULL, NULL);
    assert_null(sample->status);
    assert_int_equal(sample->table->count, 0);
    assert_string_equal(sample->note, "it sleeps");
    amb_top_sample_free(&sample);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_totals_are_sums_of_rates),
        cmocka_unit_test(test_another_life_has_no_rates_yet),
        cmocka_unit_test(test_answers_that_do_not_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
