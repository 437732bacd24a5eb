/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/ctl/judge. */
#include "tools/ctl/judge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void check(enum amb_judge judge, const char *answer, double warn, double critical,
                  enum amb_judge_state state, const char *text)
{
    struct amb_judgement out;
    json_t *value = json_loads(answer, 0, NULL);
    assert_non_null(value);
    amb_judge(judge, value, warn, critical, &out);
    assert_int_equal(out.state, state);
    assert_string_equal(out.text, text);
    json_decref(value);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const names[] = {"ready", "health", "lag", "memory", "loss", "queues"};
    for (unsigned i = AMB_JUDGE_READY; i <= AMB_JUDGE_QUEUES; i++) {
        assert_int_equal(amb_judge_named(names[i]), i);
    }
}

static void test_each_figure(void **state)
{
    (void)state;
    check(AMB_JUDGE_READY, "{\"clients\": 3}", 0, 0, AMB_JUDGE_OK,
          "READY OK - 3 clients | clients=3");
    check(AMB_JUDGE_HEALTH,
          "{\"workers\": [{\"longest_turn_10s_ns\": 7000000}, {\"longest_turn_10s_ns\": 250}]}",
          0.1, 1, AMB_JUDGE_OK,
          "HEALTH OK - 7.00 ms at most in a turn of a worker | longest_turn=0.007s;0.1;1;0");
    check(AMB_JUDGE_LAG, "{\"subs\": []}", 10, 20, AMB_JUDGE_OK,
          "LAG OK - 0 B wait for one subscription | pending=0B;10;20;0");
    check(AMB_JUDGE_LAG, "{\"subs\": [{\"pending_bytes\": 11}, {\"pending_bytes\": 2}]}", 10, 20,
          AMB_JUDGE_WARNING, "LAG WARNING - 11 B wait for one subscription | pending=11B;10;20;0");
    check(AMB_JUDGE_MEMORY, "{\"memory_used_bytes\": 91, \"memory_limit_bytes\": 100}", 75, 90,
          AMB_JUDGE_CRITICAL,
          "MEMORY CRITICAL - 91.0 % of memory.host.size | memory=91%;75;90;0;100");
    check(AMB_JUDGE_LOSS,
          "{\"workers\": [{\"lost_slow\": 1, \"lost_purged\": 2, \"dropped\": 9}, "
          "{\"lost_expired\": 4}]}",
          0, 1000, AMB_JUDGE_WARNING, "LOSS WARNING - 7 messages lost | lost=7c;0;1000;0");
    check(AMB_JUDGE_QUEUES, "{\"dead_letters\": 0}", 0, 100, AMB_JUDGE_OK,
          "QUEUES OK - 0 dead letters | dead_letters=0c;0;100;0");
}

/* A burst is over, and its segments are kept for the next one. */
static void test_memory_that_is_kept_is_not_in_use(void **state)
{
    (void)state;
    check(AMB_JUDGE_MEMORY,
          "{\"memory_used_bytes\": 3, \"memory_bytes\": 100, \"memory_limit_bytes\": 100}", 75, 90,
          AMB_JUDGE_OK, "MEMORY OK - 3.0 % of memory.host.size | memory=3%;75;90;0;100");
}

static void test_a_limit_is_not_beyond_itself(void **state)
{
    (void)state;
    check(AMB_JUDGE_QUEUES, "{\"dead_letters\": 5}", 5, 9, AMB_JUDGE_OK,
          "QUEUES OK - 5 dead letters | dead_letters=5c;5;9;0");
    check(AMB_JUDGE_QUEUES, "{\"dead_letters\": 9}", 5, 9, AMB_JUDGE_WARNING,
          "QUEUES WARNING - 9 dead letters | dead_letters=9c;5;9;0");
}

static void test_an_answer_without_the_figure(void **state)
{
    (void)state;
    static const char *const answers[] = {"{}", "[]", "{\"workers\": 1}",
                                          "{\"workers\": [{\"longest_turn_10s_ns\": \"7\"}]}"};
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        check(AMB_JUDGE_HEALTH, answers[i], 0.1, 1, AMB_JUDGE_UNKNOWN,
              "HEALTH UNKNOWN - the broker's answer has no longest_turn");
    }
    static const char *const memories[] = {"{\"memory_used_bytes\": 1, \"memory_limit_bytes\": 0}",
                                           "{\"memory_bytes\": 1, \"memory_limit_bytes\": 9}"};
    for (size_t i = 0; i < sizeof(memories) / sizeof(memories[0]); i++) {
        check(AMB_JUDGE_MEMORY, memories[i], 75, 90, AMB_JUDGE_UNKNOWN,
              "MEMORY UNKNOWN - the broker's answer has no memory");
    }
}

static void test_no_answer(void **state)
{
    (void)state;
    struct amb_judgement out;
    amb_judge_silence(AMB_JUDGE_READY, false, "no broker", &out);
    assert_int_equal(out.state, AMB_JUDGE_CRITICAL);
    assert_string_equal(out.text, "READY CRITICAL - no broker");
    amb_judge_silence(AMB_JUDGE_READY, true, "no right", &out);
    assert_int_equal(out.state, AMB_JUDGE_UNKNOWN);
    amb_judge_silence(AMB_JUDGE_LOSS, false, "no broker", &out);
    assert_int_equal(out.state, AMB_JUDGE_UNKNOWN);
}

static void test_limits(void **state)
{
    (void)state;
    double limit = -1;
    assert_true(amb_judge_limit(AMB_JUDGE_HEALTH, "500ms", &limit) && limit == 0.5);
    assert_true(amb_judge_limit(AMB_JUDGE_LAG, "1k", &limit) && limit == 1024);
    assert_true(amb_judge_limit(AMB_JUDGE_MEMORY, "100", &limit) && limit == 100);
    assert_true(amb_judge_limit(AMB_JUDGE_LOSS, "7", &limit) && limit == 7);
    assert_false(amb_judge_limit(AMB_JUDGE_READY, "1", &limit));
    assert_false(amb_judge_limit(AMB_JUDGE_MEMORY, "101", &limit));
    assert_false(amb_judge_limit(AMB_JUDGE_HEALTH, "1M", &limit));
    assert_false(amb_judge_limit(AMB_JUDGE_LOSS, "-1", &limit));
    assert_true(limit == 7);
    for (unsigned i = AMB_JUDGE_READY; i <= AMB_JUDGE_QUEUES; i++) {
        double warn, critical;
        amb_judge_limits((enum amb_judge)i, &warn, &critical);
        assert_true(warn <= critical && amb_judge_takes((enum amb_judge)i)[0] != '\0');
        assert_non_null(amb_judge_query((enum amb_judge)i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_each_figure),
        cmocka_unit_test(test_memory_that_is_kept_is_not_in_use),
        cmocka_unit_test(test_a_limit_is_not_beyond_itself),
        cmocka_unit_test(test_an_answer_without_the_figure),
        cmocka_unit_test(test_no_answer),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
