/* SPDX-License-Identifier: Apache-2.0 */
/* broker/http/stream: the arguments of a question. Streams themselves: integration/stream_test.py.
 */
#include "broker/http/stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct amb_stream_question question;
static char why[AMB_COUNTERS_REFUSAL_MAX];

static bool take(const char *name, const char *value)
{
    return amb_stream_argument(&question, name, value, why);
}

static int begin(void **state)
{
    (void)state;
    memset(&question, 0, sizeof(question));
    return 0;
}

static void test_arguments_are_of_the_view_before_them(void **state)
{
    (void)state;
    assert_true(take("view", "status"));
    assert_true(take("view", "topics"));
    assert_true(take("match", "a.%3e"));
    assert_true(take("sort", "log_bytes"));
    assert_true(take("top", "1000"));
    assert_true(take("view", "subs"));
    assert_int_equal(question.count, 3);
    assert_string_equal(question.views[1].query, "topics match=a.> sort=log_bytes");
    assert_int_equal(question.views[1].top, 1000);
    assert_string_equal(question.views[2].query, "subs");
    assert_int_equal(question.views[2].top, AMB_STREAM_ROWS);
}

static void test_what_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const views[] = {"", "nothing", "metrics", "topics top=5", "memory"};
    assert_false(take("top", "5"));
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
        assert_false(take("view", views[i]));
    }
    assert_false(take("view", NULL));
    question.count = AMB_STREAM_VIEWS_MAX;
    assert_false(take("view", "topics"));
    assert_string_equal(why, "a stream has at most 9 views");
    question.count = 0;
    assert_true(take("view", "topics"));
    assert_false(take("view", "topics"));
    assert_non_null(strstr(why, "twice"));
    static const char *const tops[] = {"0", "1001", "-1", "x", ""};
    for (size_t i = 0; i < sizeof(tops) / sizeof(tops[0]); i++) {
        assert_false(take("top", tops[i]));
    }
    assert_false(take("match", "a b"));
    assert_false(take("what", "1"));
    assert_int_equal(question.count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_arguments_are_of_the_view_before_them, begin),
        cmocka_unit_test_setup(test_what_is_none_is_refused, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
