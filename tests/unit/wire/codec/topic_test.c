/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/codec/topic.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool topic_ok(const char *text)
{
    return amb_topic_check(text, strlen(text), NULL) == AMB_OK;
}

static bool pattern_ok(const char *text)
{
    return amb_pattern_check(text, strlen(text), NULL) == AMB_OK;
}

static bool matches(const char *pattern, const char *topic)
{
    assert_true(pattern_ok(pattern));
    assert_true(topic_ok(topic));
    return amb_pattern_matches(pattern, strlen(pattern), topic, strlen(topic));
}

static void topics_are_tokens_between_dots(void **state)
{
    (void)state;
    static const char *const good[] = {
        "a",
        "a.b",
        "camera.front.rgb",
        "$SYS.broker",
        "_INBOX.x.1",
        "\xc3\xa4.\xe2\x82\xac",
        "\xf0\x9f\x98\x80",
        "A-b_c:d=e@f#1,2",
        "\xf4\x8f\xbf\xbf",
        "\xee\x80\x80",
        "\xed\x9f\xbf",
    };
    for (size_t i = 0; i < COUNT(good); i++) {
        assert_true(topic_ok(good[i]));
        assert_true(pattern_ok(good[i]));
        assert_true(amb_pattern_is_literal(good[i], strlen(good[i])));
    }
}

static void bad_topics_are_refused_with_their_reason(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
    } bad[] = {
        {"", "is empty"},
        {".", "has an empty token"},
        {".a", "has an empty token"},
        {"a.", "has an empty token"},
        {"a..b", "has an empty token"},
        {"a b", "has white space"},
        {"a\tb", "has a control character"},
        {"a\n", "has a control character"},
        {"a\x7f", "has a control character"},
        {"a\xc2\x85", "has a control character"},
        {"a\xc2\xa0", "has white space"},
        {"a\xe1\x9a\x80", "has white space"},
        {"a\xe2\x80\x83", "has white space"},
        {"a\xe2\x80\xa8", "has white space"},
        {"a\xe2\x80\xaf", "has white space"},
        {"a\xe2\x81\x9f", "has white space"},
        {"a\xe3\x80\x80", "has white space"},
        {"a/b", "has a '/': tokens are separated by '.'"},
        {"*", "has a wildcard, which only a pattern may"},
        {"a.>", "has a wildcard, which only a pattern may"},
        {"a.b*", "has a '*' or '>' inside a token"},
        {">>", "has a '*' or '>' inside a token"},
        {"\x80", "is not valid UTF-8"},             /* a tail alone */
        {"a\xc3", "is not valid UTF-8"},            /* cut off */
        {"\xc3.\xa4", "is not valid UTF-8"},        /* cut by a dot */
        {"\xe2\x82", "is not valid UTF-8"},         /* cut off */
        {"\xc0\xae", "is not valid UTF-8"},         /* overlong '.' */
        {"\xc1\xbf", "is not valid UTF-8"},         /* overlong */
        {"\xe0\x9f\xbf", "is not valid UTF-8"},     /* overlong */
        {"\xf0\x8f\xbf\xbf", "is not valid UTF-8"}, /* overlong */
        {"\xed\xa0\x80", "is not valid UTF-8"},     /* first surrogate */
        {"\xed\xbf\xbf", "is not valid UTF-8"},     /* last surrogate */
        {"\xf4\x90\x80\x80", "is not valid UTF-8"}, /* past the last character */
        {"\xf8\x88\x80\x80\x80", "is not valid UTF-8"},
        {"\xff", "is not valid UTF-8"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        const char *reason = NULL;
        assert_int_equal(amb_topic_check(bad[i].text, strlen(bad[i].text), &reason), AMB_ETOPIC);
        assert_non_null(reason);
        assert_string_equal(reason, bad[i].reason);
    }
    assert_int_equal(amb_topic_check("a\0b", 3, NULL), AMB_ETOPIC);
}

static void topics_end_at_255_bytes_and_32_tokens(void **state)
{
    (void)state;
    char text[300];
    memset(text, 'x', sizeof(text));
    assert_int_equal(amb_topic_check(text, 255, NULL), AMB_OK);
    const char *reason = NULL;
    assert_int_equal(amb_topic_check(text, 256, &reason), AMB_ETOPIC);
    assert_string_equal(reason, "is longer than 255 bytes");
    for (size_t i = 1; i < sizeof(text); i += 2) {
        text[i] = '.';
    }
    assert_int_equal(amb_topic_check(text, 63, NULL), AMB_OK);
    assert_int_equal(amb_topic_check(text, 65, &reason), AMB_ETOPIC);
    assert_string_equal(reason, "has more than 32 tokens");
}

static void wildcards_are_whole_tokens_of_patterns(void **state)
{
    (void)state;
    static const char *const good[] = {"*", ">", "a.*", "a.>", "*.*.>", "a.*.b", "$SYS.>"};
    for (size_t i = 0; i < COUNT(good); i++) {
        assert_true(pattern_ok(good[i]));
        assert_false(topic_ok(good[i]));
        assert_false(amb_pattern_is_literal(good[i], strlen(good[i])));
    }
    static const char *const bad[] = {"",     ">.a", "a.>.b", "a*", "*a.b",
                                      "a.>>", "**",  "a.*.",  "a >"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(pattern_ok(bad[i]));
    }
}

static void a_star_is_exactly_one_token_and_a_tail_is_one_or_more(void **state)
{
    (void)state;
    assert_true(matches("a.b", "a.b"));
    assert_false(matches("a.b", "a.B"));
    assert_false(matches("a.b", "a.bc"));
    assert_false(matches("a.b", "a"));
    assert_false(matches("a", "a.b"));
    assert_true(matches("*", "a"));
    assert_false(matches("*", "a.b"));
    assert_true(matches("a.*.c", "a.b.c"));
    assert_false(matches("a.*.c", "a.c"));
    assert_false(matches("a.*.c", "a.b.b.c"));
    assert_false(matches("a.*", "a"));
    assert_true(matches(">", "a"));
    assert_true(matches(">", "a.b.c"));
    assert_true(matches("a.>", "a.b"));
    assert_true(matches("a.>", "a.b.c.d"));
    assert_false(matches("a.>", "a"));
    assert_false(matches("a.>", "ab.c"));
    assert_true(matches("*.*.>", "a.b.c"));
    assert_false(matches("*.*.>", "a.b"));
}

static void wildcards_in_the_first_token_never_match_reserved_topics(void **state)
{
    (void)state;
    assert_false(matches(">", "$SYS.a"));
    assert_false(matches("*", "$SYS"));
    assert_false(matches("*.a", "$SYS.a"));
    assert_false(matches("*.>", "$SYS.a"));
    assert_true(matches("$SYS.>", "$SYS.a"));
    assert_true(matches("$SYS.*", "$SYS.a"));
    assert_true(matches("$SYS.a", "$SYS.a"));
    assert_true(matches("a.*", "a.$b"));
    assert_true(matches(">", "_INBOX.a"));
    assert_true(amb_topic_is_reserved("$", 1));
    assert_false(amb_topic_is_reserved("a$", 2));
    assert_false(amb_topic_is_reserved("", 0));
}

/* The obvious recursive definition, to compare with. */
static bool matches_slow(const char *p, const char *t)
{
    size_t p_len = strcspn(p, "."), t_len = strcspn(t, ".");
    if (p_len == 1 && p[0] == '>') {
        return true;
    }
    if (!(p_len == 1 && p[0] == '*') && (p_len != t_len || strncmp(p, t, p_len) != 0)) {
        return false;
    }
    if (p[p_len] == '\0' || t[t_len] == '\0') {
        return p[p_len] == '\0' && t[t_len] == '\0';
    }
    return matches_slow(p + p_len + 1, t + t_len + 1);
}

static void matching_agrees_with_its_definition(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "b", "ab", "*", ">"};
    char pattern[32], topic[32];
    int compared = 0;
    for (unsigned p = 0; p < 5 * 5 * 5; p++) {
        (void)snprintf(pattern, sizeof(pattern), "%s.%s.%s", tokens[p % 5], tokens[p / 5 % 5],
                       tokens[p / 25]);
        /* Also the shorter ones. */
        pattern[p % 3 == 0 ? strcspn(pattern, ".") : strlen(pattern)] = '\0';
        if (!pattern_ok(pattern)) {
            continue;
        }
        for (unsigned t = 0; t < 27; t++) {
            (void)snprintf(topic, sizeof(topic), "%s.%s.%s", tokens[t % 3], tokens[t / 3 % 3],
                           tokens[t / 9]);
            assert_int_equal(matches(pattern, topic), matches_slow(pattern, topic));
            compared++;
        }
    }
    assert_true(compared > 1000);
}

static void inboxes_are_long_literal_and_reserved(void **state)
{
    (void)state;
    static const char inbox[] = "$INBOX.0123456789abcdef0123456789abcdef";
    const size_t len = sizeof(inbox) - 1;
    assert_true(amb_topic_is_inbox(inbox, len));
    assert_true(amb_topic_is_reserved(inbox, len));
    assert_false(amb_topic_is_inbox(inbox, len - 1)); /* could be guessed */
    assert_false(amb_pattern_matches(">", 1, inbox, len));
    assert_false(amb_pattern_matches("*.*", 3, inbox, len));
    static const char *const readers[] = {"$INBOX", "$INBOX.>", "$INBOX.*", "$INBOX.a.b"};
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
        assert_true(amb_pattern_is_inbox(readers[i], strlen(readers[i])));
        assert_false(amb_topic_is_inbox(readers[i], strlen(readers[i])));
    }
    assert_false(amb_pattern_is_inbox("$INBOXES.a", 10));
    assert_false(amb_pattern_is_inbox("inbox", 5));
    assert_false(amb_topic_is_inbox("$INBOX.0123456789abcdef.0123456789abcdef", 40));
}

static bool meet(const char *a, const char *b)
{
    bool answer = amb_pattern_meets(a, strlen(a), b, strlen(b));
    assert_int_equal(amb_pattern_meets(b, strlen(b), a, strlen(a)), answer);
    return answer;
}

static void patterns_meet_where_a_topic_matches_both(void **state)
{
    (void)state;
    assert_true(meet("a.b", "a.b"));
    assert_true(meet("a.*", "*.b"));
    assert_true(meet("a.>", "a.b.*"));
    assert_true(meet(">", "*"));
    assert_true(meet("a.*.c", "a.>"));
    assert_true(meet("$SYS.>", "$SYS.client.*"));
    assert_false(meet("a.b", "a.c"));
    assert_false(meet("a.b", "a"));
    assert_false(meet("a.*", "a"));
    assert_false(meet("a.>", "a"));
    assert_false(meet("a.>", "b.>"));
    assert_false(meet("*.b", "a.b.c"));
    assert_false(meet(">", "$SYS.>"));
    assert_false(meet("*.client", "$SYS.client"));
}

/* Of short patterns over two tokens, by all topics that could match both. */
static void meeting_agrees_with_matching(void **state)
{
    (void)state;
    static const char *const patterns[] = {"a",   "b",   "*",   ">",   "a.a", "a.b", "a.*",  "a.>",
                                           "*.a", "*.b", "*.*", "*.>", "b.>", "b.a", "b.*.a"};
    static const char *const topics[] = {"a",     "b",     "a.a",   "a.b",   "b.a",  "b.b",
                                         "a.a.a", "a.b.a", "b.a.a", "b.b.a", "b.b.b"};
    for (size_t i = 0; i < COUNT(patterns); i++) {
        for (size_t k = 0; k < COUNT(patterns); k++) {
            bool is_met = false;
            for (size_t t = 0; t < COUNT(topics) && !is_met; t++) {
                size_t len = strlen(topics[t]);
                is_met = amb_pattern_matches(patterns[i], strlen(patterns[i]), topics[t], len) &&
                         amb_pattern_matches(patterns[k], strlen(patterns[k]), topics[t], len);
            }
            if (meet(patterns[i], patterns[k]) != is_met) {
                fail_msg("%s and %s", patterns[i], patterns[k]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topics_are_tokens_between_dots),
        cmocka_unit_test(bad_topics_are_refused_with_their_reason),
        cmocka_unit_test(topics_end_at_255_bytes_and_32_tokens),
        cmocka_unit_test(wildcards_are_whole_tokens_of_patterns),
        cmocka_unit_test(a_star_is_exactly_one_token_and_a_tail_is_one_or_more),
        cmocka_unit_test(wildcards_in_the_first_token_never_match_reserved_topics),
        cmocka_unit_test(matching_agrees_with_its_definition),
        cmocka_unit_test(inboxes_are_long_literal_and_reserved),
        cmocka_unit_test(patterns_meet_where_a_topic_matches_both),
        cmocka_unit_test(meeting_agrees_with_matching),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
