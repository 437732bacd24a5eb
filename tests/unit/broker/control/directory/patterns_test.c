/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/directory/patterns.h"

#include "wire/base/hash.h"
#include "wire/codec/topic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct amb_patterns patterns;

static int set_up(void **state)
{
    (void)state;
    return amb_patterns_init(&patterns) == AMB_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    amb_patterns_fini(&patterns);
    return 0;
}

/* A subscription each; no test has more at a time. */
static struct amb_list_node subs[2048];
static unsigned sub_count;

static struct amb_pattern *add(const char *text)
{
    struct amb_list_node *sub = &subs[sub_count++ % (sizeof(subs) / sizeof(*subs))];
    struct amb_pattern *pattern = amb_patterns_add(&patterns, 0, text, strlen(text), sub, NULL);
    assert_non_null(pattern);
    assert_ptr_equal(pattern->subs.prev, sub);
    return pattern;
}

static void leave(struct amb_pattern *pattern)
{
    amb_patterns_remove(&patterns, &pattern, pattern->subs.next, NULL);
    assert_null(pattern);
}

struct found {
    struct amb_pattern *patterns[64];
    unsigned count, enough;
    bool only_count;
};

static bool note(struct amb_pattern *pattern, void *arg)
{
    struct found *found = arg;
    if (!found->only_count) {
        assert_in_range(found->count, 0, 63);
        found->patterns[found->count] = pattern;
    }
    found->count++;
    return found->count != found->enough;
}

static unsigned matches_of(uint32_t tenant, const char *topic)
{
    struct found found = {.enough = 0};
    uint32_t steps = UINT32_MAX;
    assert_true(amb_patterns_match(&patterns, tenant, topic, strlen(topic), &steps, note, &found));
    return found.count;
}

static void test_tenants_have_patterns_of_their_own(void **state)
{
    (void)state;
    static struct amb_list_node nodes[6];
    const struct {
        uint32_t tenant;
        const char *text;
    } all[] = {{0, "a.*"}, {1, "a.*"}, {1, ">"}, {2, "a.b"}, {1, "a.b"}, {0x2a2a2a2a, "*.b"}};
    struct amb_pattern *added[6];
    for (unsigned i = 0; i < 6; i++) {
        added[i] = amb_patterns_add(&patterns, all[i].tenant, all[i].text, strlen(all[i].text),
                                    &nodes[i], NULL);
        assert_non_null(added[i]);
        assert_int_equal(added[i]->count, 1);
    }
    assert_int_equal(matches_of(0, "a.b"), 1);
    assert_int_equal(matches_of(1, "a.b"), 2);
    assert_int_equal(matches_of(2, "a.b"), 0);
    assert_int_equal(matches_of(0x2a2a2a2a, "a.b"), 1);
    assert_ptr_equal(amb_patterns_name(&patterns, 2, "a.b", 3), added[3]);
    assert_ptr_equal(amb_patterns_name(&patterns, 1, "a.b", 3), added[4]);
    assert_null(amb_patterns_name(&patterns, 0, "a.b", 3));
    for (unsigned i = 0; i < 6; i++) {
        amb_patterns_remove(&patterns, &added[i], &nodes[i], NULL);
        assert_int_equal(matches_of(all[i].tenant, "a.b"), i == 1 ? 1 : 0);
    }
}

static unsigned matches(const char *topic, unsigned enough)
{
    struct found found = {.enough = enough};
    uint32_t steps = UINT32_MAX;
    assert_true(amb_patterns_match(&patterns, 0, topic, strlen(topic), &steps, note, &found));
    return found.count;
}

static void test_a_pattern_is_there_once_until_nobody_has_it(void **state)
{
    (void)state;
    struct amb_pattern *wild = add("a.*.c"), *name = add("a.b.c");
    assert_ptr_equal(add("a.*.c"), wild);
    assert_ptr_equal(add("a.b.c"), name);
    assert_ptr_not_equal(wild, name);
    assert_ptr_equal(amb_patterns_name(&patterns, 0, "a.b.c", 5), name);
    assert_null(amb_patterns_name(&patterns, 0, "a.*.c", 5));
    leave(wild);
    assert_int_equal(matches("a.x.c", 0), 1);
    leave(wild);
    assert_int_equal(matches("a.x.c", 0), 0);
    leave(name);
    leave(name);
    assert_null(amb_patterns_name(&patterns, 0, "a.b.c", 5));
    assert_int_equal(amb_map_count(patterns.branches), 0);
    assert_int_equal(amb_map_count(patterns.names), 0);
}

static void test_a_branch_that_another_pattern_uses_stays(void **state)
{
    (void)state;
    struct amb_pattern *rest = add("a.b.>"), *deep = add("a.b.*.d"), *end = add("*.b");
    leave(deep);
    assert_int_equal(matches("a.b.c.d", 0), 1);
    assert_int_equal(matches("x.b", 0), 1);
    assert_int_equal(matches("a.b", 0), 1); /* ">" is one token at least. */
    leave(rest);
    assert_int_equal(matches("a.b.c.d", 0), 0);
    leave(end);
    assert_int_equal(amb_map_count(patterns.branches), 0);
}

static void test_a_match_ends_when_its_callback_says_so(void **state)
{
    (void)state;
    static const char *const texts[] = {">", "*", "a.>", "a.*", "*.*", "*.>", "*.b"};
    for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        (void)add(texts[i]);
    }
    assert_int_equal(matches("a.b", 0), 6);
    for (unsigned enough = 1; enough <= 6; enough++) {
        assert_int_equal(matches("a.b", enough), enough);
    }
}

static uint32_t seed;

/* The next number below `below` of a row that the seed begins. */
static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)seed * below >> 32);
}

/* Each of "a" and "*" at each of ten places: as many branches match as there are. */
static void test_a_match_has_so_many_steps(void **state)
{
    (void)state;
    enum {
        TOKENS = 10
    };
    for (unsigned i = 0; i < 1u << TOKENS; i++) {
        char text[2 * TOKENS + 1] = "";
        for (unsigned j = 0; j < TOKENS; j++) {
            strcat(text, j == 0 ? "" : ".");
            strcat(text, (i >> j & 1) != 0 ? "*" : "a");
        }
        (void)add(text);
    }
    struct found found = {.only_count = true};
    const char topic[] = "a.a.a.a.a.a.a.a.a.a";
    uint32_t steps = UINT32_MAX;
    assert_true(amb_patterns_match(&patterns, 0, topic, strlen(topic), &steps, note, &found));
    assert_int_equal(found.count, (1 << TOKENS) - 1); /* One is the topic's name. */
    assert_in_range(UINT32_MAX - steps, 1 << TOKENS, 3 << TOKENS);
    steps = 100;
    found.count = 0;
    assert_false(amb_patterns_match(&patterns, 0, topic, strlen(topic), &steps, note, &found));
    assert_in_range(found.count, 1, 100);
}

/* Small alphabets, so that many match. */
static void random_text(char *out, bool is_pattern)
{
    static const char *const tokens[] = {"a", "b", "$x", "ab", "*", ">"};
    unsigned count = 1 + draw(5);
    *out = '\0';
    for (unsigned i = 0; i < count; i++) {
        const char *token = tokens[draw(is_pattern ? 6 : 4)];
        strcat(out, i == 0 ? "" : ".");
        strcat(out, token);
        if (*token == '>') {
            return;
        }
    }
}

static void test_a_match_finds_what_comparing_each_pattern_finds(void **state)
{
    (void)state;
    enum {
        PATTERNS = 60,
        TOPICS = 40,
        ROUNDS = 200
    };
    char texts[PATTERNS][32], topic[32];
    struct amb_pattern *all[PATTERNS];
    amb_random_bytes(&seed, sizeof(seed));
    print_message("seed %u\n", seed); /* Set it here to see the same again. */
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < PATTERNS; i++) {
            random_text(texts[i], true);
            all[i] = add(texts[i]);
        }
        for (unsigned t = 0; t < TOPICS; t++) {
            random_text(topic, false);
            struct found found = {0};
            uint32_t steps = UINT32_MAX;
            assert_true(
                amb_patterns_match(&patterns, 0, topic, strlen(topic), &steps, note, &found));
            unsigned total = 0, expected = 0;
            for (unsigned i = 0; i < found.count; i++) {
                const struct amb_pattern *pattern = found.patterns[i];
                assert_true(amb_pattern_matches(pattern->text, pattern->len, topic, strlen(topic)));
                total += pattern->count;
            }
            for (unsigned i = 0; i < PATTERNS; i++) {
                expected += !amb_pattern_is_literal(texts[i], strlen(texts[i])) &&
                            amb_pattern_matches(texts[i], strlen(texts[i]), topic, strlen(topic));
            }
            assert_int_equal(total, expected);
        }
        for (unsigned i = 0; i < PATTERNS; i++) {
            leave(all[(i * 7 + round) % PATTERNS]);
        }
        assert_int_equal(amb_map_count(patterns.branches), 0);
        assert_int_equal(amb_map_count(patterns.names), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tenants_have_patterns_of_their_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_pattern_is_there_once_until_nobody_has_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_branch_that_another_pattern_uses_stays, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_match_has_so_many_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_match_ends_when_its_callback_says_so, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_match_finds_what_comparing_each_pattern_finds,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
