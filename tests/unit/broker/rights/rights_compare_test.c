/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Losses, by hand and against a model that enumerates topics and patterns.
 * Usage: PROGRAM [RANDOM PAIRS OF SETS]. The long form has 1,000,000.
 */
#include "broker/rights/rights_compare.h"

#include "tests/support/rights_try.h"

static uint64_t random_pairs = 5000;

struct lists {
    const char *lists[4]; /* one pattern of each list; NULL: none */
};

static bool loses(const struct lists *former, const struct lists *later)
{
    const struct lists *both[2] = {former, later};
    struct amb_rights *rights[2];
    struct try_role roles[2];
    for (unsigned i = 0; i < 2; i++) {
        roles[i] = (struct try_role){.role = {.name = "r"}};
        for (unsigned which = 0; which < 4; which++) {
            if (both[i]->lists[which] != NULL) {
                try_add(&roles[i], which, both[i]->lists[which]);
            }
        }
        const struct amb_role *role = &roles[i].role;
        const struct amb_rights_of of = {&role, 1, "u", "t"};
        assert_int_equal(amb_rights_make(&of, &rights[i]), AMB_OK);
    }
    bool answer = amb_rights_lose(rights[0], rights[1]);
    amb_rights_unref(&rights[0]);
    amb_rights_unref(&rights[1]);
    return answer;
}

static void lines_are_compared(void **state)
{
    (void)state;
    static const struct {
        struct lists former, later;
        bool is_lost;
    } cases[] = {
        {{{"a.>"}}, {{"a.>"}}, false},
        {{{"a.b"}}, {{"a.*"}}, false},
        {{{"a.*"}}, {{"a.b"}}, true},
        {{{"a.>"}}, {{NULL}}, true},
        {{{NULL}}, {{"a"}}, false},
        {{{"a.>"}}, {{"a.>", "b"}}, false},  /* a deny that touches nothing */
        {{{"a.>"}}, {{"a.>", "a.b"}}, true}, /* one that does */
        {{{"a.>", "a.*"}}, {{"a.>", "a.b"}}, false},
        {{{"a.>", "a.>"}}, {{NULL}}, false}, /* it was all denied */
        {{{NULL, NULL, "a.*"}}, {{NULL, NULL, "=a.*"}}, true},
        {{{NULL, NULL, "=a.*"}}, {{NULL, NULL, "a.*"}}, false},
        {{{NULL, NULL, "=a.b"}}, {{NULL, NULL, "=a.*"}}, false},
        {{{NULL, NULL, "a.b"}}, {{NULL, NULL, "=a.*"}}, false},
        {{{NULL, NULL, "a.>"}}, {{NULL, NULL, "a.>", "a.x.>"}}, true},
        {{{NULL, NULL, "a.>", "a.x.>"}}, {{NULL, NULL, "a.>"}}, false},
        {{{NULL, NULL, "$DLQ.>"}}, {{NULL, NULL, "$DLQ.>", "a.>"}}, true}, /* of letters, too */
        {{{NULL, NULL, "$DLQ.b"}}, {{NULL, NULL, "$DLQ.b", "a.>"}}, false},
        {{{NULL, NULL, "$DLQ.a.b", "a.>"}}, {{NULL, NULL, NULL, NULL}}, false},
        {{{NULL, NULL, "$DLQ.>", "a.>"}}, {{NULL, NULL, "$DLQ.>", "$DLQ.a.b"}}, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (loses(&cases[i].former, &cases[i].later) != cases[i].is_lost) {
            fail_msg("case %zu", i);
        }
    }
}

static struct amb_rights *make(struct amb_role *role)
{
    const struct amb_role *roles[] = {role};
    const struct amb_rights_of of = {roles, 1, "u", "t"};
    struct amb_rights *rights = NULL;
    assert_int_equal(amb_rights_make(&of, &rights), AMB_OK);
    return rights;
}

static void what_is_no_pattern_is_compared_too(void **state)
{
    (void)state;
    static const char *const names[] = {"one", "two"};
    struct amb_role all = {.name = "r",
                           .request = true,
                           .reply = true,
                           .ucx = true,
                           .admin = AMB_ADMIN_OPERATE,
                           .shared = {names, 2, NULL}};
    struct amb_role less[5] = {all, all, all, all, all};
    less[0].request = false;
    less[1].reply = false;
    less[2].ucx = false;
    less[3].admin = AMB_ADMIN_READ;
    less[4].shared.count = 1;
    struct amb_rights *former = make(&all);
    assert_false(amb_rights_lose(former, former));
    assert_false(amb_rights_lose(former, NULL));
    assert_true(amb_rights_lose(NULL, former));
    assert_false(amb_rights_lose(NULL, NULL));
    for (size_t i = 0; i < 5; i++) {
        struct amb_rights *later = make(&less[i]);
        assert_true(amb_rights_lose(former, later));
        assert_false(amb_rights_lose(later, former));
        amb_rights_unref(&later);
    }
    amb_rights_unref(&former);
}

/* Is there a topic, or a pattern with a topic, that may be had no more? */
static bool model_loses(const struct try_set *former, const struct try_set *later)
{
    const struct try_world *world = try_world();
    for (size_t t = 0; t < world->topic_count; t++) {
        if (try_may_publish(former, t) && !try_may_publish(later, t)) {
            return true;
        }
    }
    for (unsigned p = 0; p < world->pattern_count; p++) {
        uint64_t seen[(TRY_TOPICS + 63) / 64], left[(TRY_TOPICS + 63) / 64];
        (void)try_may_subscribe(former, p, seen);
        (void)try_may_subscribe(later, p, left);
        for (size_t word = 0; word < (TRY_TOPICS + 63) / 64; word++) {
            if ((seen[word] & ~left[word]) != 0) {
                return true;
            }
        }
    }
    return false;
}

/* A few lines fewer, more, or other ones. */
static void mutate(struct try_set *set)
{
    const struct try_world *world = try_world();
    for (unsigned changes = 1 + (unsigned)(try_random() % 2); changes > 0; changes--) {
        unsigned which = (unsigned)(try_random() % 4);
        unsigned *count = &set->lists[which].count;
        if (*count > 0 && try_random() % 2 == 0) {
            --*count;
        } else if (*count < TRY_LIST_MAX - 1) {
            set->lists[which].pattern[*count] = (unsigned)(try_random() % world->pattern_count);
            set->lists[which].names_only[*count] = which == 2 && try_random() % 4 == 0;
            ++*count;
        }
    }
    try_set_build(set);
}

static void random_changes_agree_with_the_model(void **state)
{
    (void)state;
    uint64_t lost = 0, kept = 0, too_careful = 0;
    for (uint64_t n = 0; n < random_pairs; n++) {
        static struct try_set former, later;
        try_set_random(&former);
        later = former;
        mutate(&later);
        struct amb_rights *before = try_set_make(&former), *after = try_set_make(&later);
        bool is_lost = amb_rights_lose(before, after), must_be = model_loses(&former, &later);
        if (must_be && !is_lost) {
            fail_msg("pair %llu: a loss is not seen", (unsigned long long)n);
        }
        too_careful += is_lost && !must_be;
        lost += must_be;
        kept += !is_lost;
        amb_rights_unref(&before);
        amb_rights_unref(&after);
    }
    assert_true(lost > random_pairs / 10 && kept > random_pairs / 10);
    if (too_careful > random_pairs / 20) { /* Patterns that others cover together. */
        fail_msg("%llu of %llu are taken for losses", (unsigned long long)too_careful,
                 (unsigned long long)random_pairs);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        random_pairs = strtoull(argv[1], NULL, 10);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_compared),
        cmocka_unit_test(what_is_no_pattern_is_compared_too),
        cmocka_unit_test(random_changes_agree_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
