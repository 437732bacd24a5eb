/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/codec/filter.h"

#include "wire/codec/props.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* kind = trade, price = 100.5, side = buy, odd name = it's, empty = "", $key = k1 */
static uint32_t properties(uint8_t blob[256])
{
    struct amb_props_writer writer;
    amb_props_writer_init(&writer, blob, 256);
    assert_int_equal(amb_props_add(&writer, AMB_PROP_KEY, "k1", 2), AMB_OK);
    assert_int_equal(amb_props_add(&writer, "kind", "trade", 5), AMB_OK);
    assert_int_equal(amb_props_add(&writer, "price", "100.5", 5), AMB_OK);
    assert_int_equal(amb_props_add(&writer, "side", "buy", 3), AMB_OK);
    assert_int_equal(amb_props_add(&writer, "odd name", "it's", 4), AMB_OK);
    assert_int_equal(amb_props_add(&writer, "empty", NULL, 0), AMB_OK);
    return (uint32_t)writer.len;
}

static bool matches(const char *text)
{
    uint8_t blob[256];
    uint32_t len = properties(blob);
    struct amb_filter *filter;
    struct amb_filter_error error = {0};
    if (amb_filter_parse(text, strlen(text), &filter, &error) != AMB_OK) {
        fail_msg("%s: behind %zu: %s", text, error.at, error.why);
    }
    bool is_match = amb_filter_match(filter, blob, len);
    amb_filter_free(&filter);
    return is_match;
}

static void conditions_mean_what_they_say(void **state)
{
    (void)state;
    static const char *const yes[] = {
        "kind = 'trade'",
        "kind != 'quote'",
        "kind ^= 'tra'",
        "kind ^= ''",
        "kind < 'trades'",
        "kind >= 'trade'",
        "price > 100",
        "price <= 100.5",
        "price = 1.005e2",
        "price != -3",
        "has side",
        "not has other",
        "$key = 'k1'",
        "\"odd name\" = 'it''s'",
        "empty = ''",
        "kind='trade'and price>100",
        "(kind = 'x' or has side) and not (price < 1)",
        "kind = 'x' and has other or has side", /* and binds tighter */
        "has side or kind = 'x' and has other",
        "not not has side",
        "\tkind\n=\r'trade' ",
    };
    static const char *const no[] = {
        "kind = 'trad'",
        "kind = 'trades'",
        "kind ^= 'trades'",
        "price > 100.5",
        "kind > 5",
        "kind != 5",
        "other = 'x'",
        "other != 'x'",
        "has other",
        "not has side",
        "(has side or has x) and has y",
        "empty > 0",
        "$key ^= 'k1x'",
        "kind < 'trade'",
    };
    for (size_t i = 0; i < COUNT(yes); i++) {
        if (!matches(yes[i])) {
            fail_msg("%s", yes[i]);
        }
    }
    for (size_t i = 0; i < COUNT(no); i++) {
        if (matches(no[i])) {
            fail_msg("%s", no[i]);
        }
    }
}

static void a_message_without_properties_has_none(void **state)
{
    (void)state;
    struct amb_filter *filter;
    struct amb_filter_error error;
    assert_int_equal(amb_filter_parse("has a", 5, &filter, &error), AMB_OK);
    assert_false(amb_filter_match(filter, NULL, 0));
    amb_filter_free(&filter);
    assert_null(filter);
    assert_int_equal(amb_filter_parse("not has a", 9, &filter, &error), AMB_OK);
    assert_true(amb_filter_match(filter, NULL, 0));
    amb_filter_free(&filter);
}

static void expect_refusal(const char *text, size_t at, const char *why)
{
    struct amb_filter *filter;
    struct amb_filter_error error = {0};
    assert_int_equal(amb_filter_parse(text, strlen(text), &filter, &error), AMB_EINVAL);
    assert_null(filter);
    if (error.at != at || strstr(error.why, why) == NULL) {
        fail_msg("%s: behind %zu: %s", text, error.at, error.why);
    }
}

static void what_is_wrong_is_said_and_where(void **state)
{
    (void)state;
    expect_refusal("", 0, "name of a property");
    expect_refusal("kind", 4, "is expected here");
    expect_refusal("kind = trade", 7, "a value is expected here");
    expect_refusal("kind == 'a'", 6, "a value is expected here");
    expect_refusal("kind = 'a", 9, "quote is not closed");
    expect_refusal("kind = 'a' kind", 11, "'and', 'or' or the end");
    expect_refusal("(kind = 'a'", 11, "')' is missing");
    expect_refusal("kind ^= 5", 9, "takes a text");
    expect_refusal("price > 1.2.3", 8, "a value is expected here");
    expect_refusal("has", 3, "name of a property");
    expect_refusal("a = 'x' and", 11, "name of a property");
    expect_refusal("kind ~ 'a'", 5, "one of =");
}

static void maxima_hold(void **state)
{
    (void)state;
    char text[AMB_FILTER_TEXT_MAX + 2];
    /* Depth. */
    memset(text, '(', sizeof(text));
    text[AMB_FILTER_TEXT_MAX] = '\0';
    expect_refusal(text, AMB_FILTER_DEPTH_MAX, "nested");
    /* Tests. */
    size_t len = 0;
    for (unsigned i = 0; i <= AMB_FILTER_TESTS_MAX; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%shas a", i == 0 ? "" : " or ");
        if (i + 1 == AMB_FILTER_TESTS_MAX) {
            assert_false(matches(text)); /* so many are allowed */
        }
    }
    expect_refusal(text, len - 5, "more than 32");
    /* Length. */
    memset(text, ' ', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    expect_refusal(text, 0, "longer than");
    /* All of it one text. */
    len = (size_t)snprintf(text, sizeof(text), "kind = '");
    memset(text + len, '\'', AMB_FILTER_TEXT_MAX - len);
    text[AMB_FILTER_TEXT_MAX] = '\0';
    struct amb_filter *filter;
    struct amb_filter_error error;
    text[AMB_FILTER_TEXT_MAX - 1] = ((AMB_FILTER_TEXT_MAX - len) % 2) == 0 ? 'x' : '\'';
    enum amb_status status = amb_filter_parse(text, AMB_FILTER_TEXT_MAX, &filter, &error);
    assert_true(status == AMB_OK || status == AMB_EINVAL);
    amb_filter_free(&filter);
}

/* Any text is refused or can be asked: run under the sanitizers. */
static void any_bytes_are_parsed_or_refused(void **state)
{
    (void)state;
    static const char *const pieces[] = {"kind", "'a'",   "and", "or", "not", "(", ")",  "=",
                                         "has",  "\"b\"", "<",   "7",  " ",   "'", "\"", "^="};
    uint8_t blob[256];
    uint32_t len = properties(blob);
    uint32_t random = 12345;
    for (unsigned round = 0; round < 20000; round++) {
        char text[200];
        size_t used = 0;
        for (unsigned i = 0; i < 20; i++) {
            random = random * 1664525u + 1013904223u;
            const char *piece = pieces[(random >> 16) % COUNT(pieces)];
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s ", piece);
        }
        struct amb_filter *filter;
        struct amb_filter_error error;
        if (amb_filter_parse(text, used, &filter, &error) == AMB_OK) {
            (void)amb_filter_match(filter, blob, len);
        }
        amb_filter_free(&filter);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conditions_mean_what_they_say),
        cmocka_unit_test(a_message_without_properties_has_none),
        cmocka_unit_test(what_is_wrong_is_said_and_where),
        cmocka_unit_test(maxima_hold),
        cmocka_unit_test(any_bytes_are_parsed_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
