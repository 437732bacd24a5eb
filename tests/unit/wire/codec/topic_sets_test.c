/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns as sets of topics: contains, allows and meets. All pairs of short patterns are compared
 * with an enumeration of topics, and random longer ones with topics made of them.
 * Usage: PROGRAM [RANDOM PAIRS]. The long form has 10,000,000.
 */
#include "wire/codec/topic.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define TEXT_MAX 96u
#define PATTERNS_MAX 1024u
#define TOPICS_MAX 512u
#define RANDOM_TOKENS 8u

struct text {
    char at[TEXT_MAX];
    size_t len;
};

struct set {
    struct text items[PATTERNS_MAX];
    size_t count;
};

static uint64_t random_pairs = 200000;

/* All texts of up to `depth` of the tokens; only those that `check` takes. */
static void texts_make(struct set *set, const char *const *tokens, size_t token_count,
                       unsigned depth,
                       enum amb_status (*check)(const char *, size_t, const char **))
{
    size_t all = 1;
    for (unsigned len = 1; len <= depth; len++) {
        all *= token_count;
        for (size_t n = 0; n < all; n++) {
            struct text text = {.len = 0};
            size_t rest = n;
            for (unsigned i = 0; i < len; i++, rest /= token_count) {
                text.len += (size_t)snprintf(text.at + text.len, TEXT_MAX - text.len, "%s%s",
                                             i > 0 ? "." : "", tokens[rest % token_count]);
            }
            if (check(text.at, text.len, NULL) == AMB_OK) {
                assert_true(set->count < PATTERNS_MAX);
                set->items[set->count++] = text;
            }
        }
    }
}

static bool matches(const struct text *pattern, const struct text *topic)
{
    return amb_pattern_matches(pattern->at, pattern->len, topic->at, topic->len);
}

static bool contains(const struct text *outer, const struct text *inner)
{
    return amb_pattern_contains(outer->at, outer->len, inner->at, inner->len);
}

static bool meets(const struct text *a, const struct text *b)
{
    return amb_pattern_meets(a->at, a->len, b->at, b->len);
}

static bool allows(const struct text *right, bool names_only, const struct text *asked)
{
    return amb_pattern_allows(right->at, right->len, names_only, asked->at, asked->len);
}

/* Each pair of patterns by all topics; returns the number of pairs. */
static size_t enumerate(const char *const *pattern_tokens, size_t pattern_count,
                        const char *const *topic_tokens, size_t topic_count)
{
    static struct set patterns, topics;
    static bool is_in[PATTERNS_MAX][PATTERNS_MAX];
    memset(&patterns, 0, sizeof(patterns));
    memset(&topics, 0, sizeof(topics));
    texts_make(&patterns, pattern_tokens, pattern_count, 4, amb_pattern_check);
    texts_make(&topics, topic_tokens, topic_count, 5, amb_topic_check);
    for (size_t p = 0; p < patterns.count; p++) {
        for (size_t t = 0; t < topics.count; t++) {
            is_in[p][t] = matches(&patterns.items[p], &topics.items[t]);
        }
    }
    size_t contained = 0, apart = 0;
    for (size_t a = 0; a < patterns.count; a++) {
        for (size_t b = 0; b < patterns.count; b++) {
            const struct text *outer = &patterns.items[a], *inner = &patterns.items[b];
            bool is_within = true, is_met = false;
            for (size_t t = 0; t < topics.count; t++) {
                is_within = is_within && (!is_in[b][t] || is_in[a][t]);
                is_met = is_met || (is_in[a][t] && is_in[b][t]);
            }
            if (contains(outer, inner) != is_within || meets(outer, inner) != is_met) {
                fail_msg("%s and %s: within %d, met %d", outer->at, inner->at, is_within, is_met);
            }
            bool is_name = strpbrk(inner->at, "*>") == NULL;
            assert_int_equal(allows(outer, false, inner), is_within);
            assert_int_equal(allows(outer, true, inner), is_within && is_name);
            contained += is_within;
            apart += !is_met;
        }
    }
    assert_true(contained > patterns.count && apart > patterns.count); /* It can fail. */
    return patterns.count * patterns.count;
}

static void short_patterns_agree_with_all_topics(void **state)
{
    (void)state;
    static const char *const pattern_tokens[] = {"a", "b", "*", ">"};
    static const char *const topic_tokens[] = {"a", "b", "c"};
    assert_int_equal(enumerate(pattern_tokens, 4, topic_tokens, 3), 25600);
}

/* Names of the broker are reached by their own first token alone. */
static void reserved_topics_agree_with_all_topics(void **state)
{
    (void)state;
    static const char *const pattern_tokens[] = {"a", "$S", "*", ">"};
    static const char *const topic_tokens[] = {"a", "b", "$S"};
    assert_int_equal(enumerate(pattern_tokens, 4, topic_tokens, 3), 25600);
}

/* A xorshift generator: the same numbers each time. */
static uint64_t next_random(void)
{
    static uint64_t state = 0x9e3779b97f4a7c15;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void random_pattern(struct text *out)
{
    static const char *const tokens[] = {"a", "b", "$S", "long-token", "*", "*", "a", "*"};
    unsigned count = 1 + (unsigned)(next_random() % RANDOM_TOKENS);
    out->len = 0;
    for (unsigned i = 0; i < count; i++) {
        const char *token = tokens[next_random() % 8];
        if (i + 1 == count && next_random() % 3 == 0) {
            token = ">";
        }
        out->len += (size_t)snprintf(out->at + out->len, TEXT_MAX - out->len, "%s%s",
                                     i > 0 ? "." : "", token);
    }
}

/* A topic of the pattern, with tokens that no other pattern has: the one that is hardest to be
 * within. tail: the tokens of ">". */
static void topic_of(const struct text *pattern, unsigned tail, struct text *out)
{
    out->len = 0;
    for (const char *at = pattern->at; *at != '\0';) {
        size_t size = strcspn(at, ".");
        if (*at == '*') {
            out->at[out->len++] = 'x';
        } else if (*at == '>') {
            for (unsigned i = 0; i < tail; i++) {
                out->len += (size_t)snprintf(out->at + out->len, TEXT_MAX - out->len, "%s",
                                             i > 0 ? ".x" : "x");
            }
        } else {
            memcpy(out->at + out->len, at, size);
            out->len += size;
        }
        at += size;
        if (*at == '.') {
            out->at[out->len++] = *at++;
        }
    }
    out->at[out->len] = '\0';
}

/* The definition, token by token, with a choice for each that is left open. */
static bool meets_slow(const char *a, const char *b)
{
    size_t a_len = strcspn(a, "."), b_len = strcspn(b, ".");
    if (*a == '>' || *b == '>') {
        return true;
    }
    if (*a != '*' && *b != '*' && (a_len != b_len || strncmp(a, b, a_len) != 0)) {
        return false;
    }
    if (a[a_len] == '\0' || b[b_len] == '\0') {
        return a[a_len] == b[b_len];
    }
    return meets_slow(a + a_len + 1, b + b_len + 1);
}

static bool is_wild(char c)
{
    return c == '*' || c == '>';
}

static void random_patterns_agree_with_topics_made_of_them(void **state)
{
    (void)state;
    uint64_t within = 0, met = 0;
    for (uint64_t n = 0; n < random_pairs; n++) {
        struct text outer, inner, topic;
        random_pattern(&outer);
        random_pattern(&inner);
        if (n % 4 == 0) { /* Else hardly one is within the other. */
            inner = outer;
            char *star = strchr(inner.at, '*');
            if (star != NULL) {
                *star = 'a';
            }
        }
        bool is_within = true;
        for (unsigned tail = 1; tail <= 3; tail++) {
            topic_of(&inner, tail, &topic);
            assert_true(matches(&inner, &topic));
            is_within = is_within && matches(&outer, &topic);
        }
        bool is_met = meets_slow(outer.at, inner.at) &&
                      !(is_wild(outer.at[0]) && inner.at[0] == '$') &&
                      !(is_wild(inner.at[0]) && outer.at[0] == '$');
        if (contains(&outer, &inner) != is_within || meets(&outer, &inner) != is_met) {
            fail_msg("%s and %s: within %d, met %d", outer.at, inner.at, is_within, is_met);
        }
        within += is_within;
        met += is_met;
    }
    assert_true(random_pairs < 1000 || (within > random_pairs / 100 && met > within));
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        random_pairs = strtoull(argv[1], NULL, 10);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_patterns_agree_with_all_topics),
        cmocka_unit_test(reserved_topics_agree_with_all_topics),
        cmocka_unit_test(random_patterns_agree_with_topics_made_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
