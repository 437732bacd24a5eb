/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/counters/query: the words of a query, right and wrong.
 */
#include "wire/counters/query.h"

#include "broker/count/counters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

static void test_words_are_taken(void **state)
{
    (void)state;
    struct amb_counters_query query;
    char why[AMB_COUNTERS_REFUSAL_MAX] = "";
    assert_int_equal(amb_counters_query_parse(&image, "topics", &query, why), AMB_OK);
    assert_int_equal(query.match_len, 0);
    assert_null(query.sort);
    assert_true(query.top == UINT64_MAX);
    assert_int_equal(amb_counters_query_parse(&image, "topics a.>", &query, why), AMB_OK);
    assert_string_equal(query.match, "a.>");
    assert_int_equal(
        amb_counters_query_parse(&image, "subs match=b.* sort=lost top=7", &query, why), AMB_OK);
    assert_string_equal(query.match, "b.*");
    assert_string_equal(query.sort->name, "ambroker_subscription_messages_lost_total");
    assert_int_equal(query.top, 7);
    assert_int_equal(amb_counters_query_parse(&image, "status", &query, why), AMB_OK);
}

static void assert_wrong(const char *text, const char *part)
{
    struct amb_counters_query query;
    char why[AMB_COUNTERS_REFUSAL_MAX] = "";
    assert_int_equal(amb_counters_query_parse(&image, text, &query, why), AMB_EINVAL);
    if (strstr(why, part) == NULL) {
        fail_msg("%s: '%s' does not say '%s'", text, why, part);
    }
}

static void test_wrong_words_are_named(void **state)
{
    (void)state;
    char long_one[AMB_COUNTERS_QUERY_MAX + 16] = "topics ";
    memset(long_one + 7, 'x', sizeof(long_one) - 8);
    assert_wrong("", "no such query");
    assert_wrong("topic", "no such query");
    assert_wrong("topicss", "no such query");
    assert_wrong(long_one, "no such query");
    long_one[300] = '\0';
    assert_wrong(long_one, "too long");
    assert_wrong("topics a..b", "the pattern");
    assert_wrong("topics match=", "the pattern");
    assert_wrong("topics sort=nonsense", "topics has no column 'nonsense', only");
    assert_wrong("topics sort=nonsense", " log_bytes");
    assert_wrong("topics sort=delivered", "no column"); /* a subscription's */
    assert_wrong("topics sort=", "no column");
    assert_wrong("topics top=0", "no number of rows");
    assert_wrong("topics top=-1", "no number of rows");
    assert_wrong("topics top=1x", "no number of rows");
    assert_wrong("topics top=99999999999999999999999", "no number of rows");
    assert_wrong("topics a b", "'b' is no match=");
    assert_wrong("status a", "status takes no 'a'");
}

static void test_views_are_known_by_their_name(void **state)
{
    (void)state;
    assert_true(amb_counters_query_is("topics a.b"));
    assert_false(amb_counters_query_is("topicsa"));
    assert_false(amb_counters_query_is("doctor"));
    assert_int_equal(amb_counters_query_scope("clients top=3"), AMB_COUNTERS_CLIENT);
    assert_int_equal(amb_counters_query_scope("status"), 0);
    assert_int_equal(amb_counters_query_scope("nonsense"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_are_taken),
        cmocka_unit_test(test_wrong_words_are_named),
        cmocka_unit_test(test_views_are_known_by_their_name),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
