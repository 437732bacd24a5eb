/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that are alike are one group; a new one gets a place. */
#include "broker/base/log_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define GROUPS 32u

static const char site[] = "a %d", other[] = "b %d";
static struct amb_log_group groups[GROUPS];

/* Files the line as its users do; returns its place. */
static unsigned file(const char *of, const char *line, int64_t at_ns, struct amb_log_found *found)
{
    uint64_t hash = amb_log_group_hash(line);
    amb_log_group_find(groups, GROUPS, of, hash, found);
    groups[found->at] =
        (struct amb_log_group){.site = of, .hash = hash, .at_ns = at_ns, .is_rest = found->is_rest};
    return found->at;
}

static int clear(void **state)
{
    (void)state;
    for (unsigned i = 0; i < GROUPS; i++) {
        groups[i] = (struct amb_log_group){0};
    }
    return 0;
}

static void test_the_same_text_of_the_same_place_is_one_group(void **state)
{
    (void)state;
    struct amb_log_found found;
    unsigned first = file(site, "a 1", 1, &found);
    assert_false(found.is_there);
    assert_int_equal(file(site, "a 1", 2, &found), first);
    assert_true(found.is_there);
    assert_int_not_equal(file(site, "a 2", 3, &found), first);
    assert_false(found.is_there);
    assert_int_not_equal(file(other, "a 1", 4, &found), first);
    assert_false(found.is_there);
}

static void test_texts_that_are_too_many_are_the_rest_of_their_place(void **state)
{
    (void)state;
    struct amb_log_found found;
    char line[32];
    for (unsigned i = 0; i < AMB_LOG_GROUP_TEXTS; i++) {
        (void)snprintf(line, sizeof(line), "a %u", i);
        (void)file(site, line, 1, &found);
        assert_false(found.is_there || found.is_rest);
    }
    unsigned rest = file(site, "a 100", 2, &found);
    assert_true(found.is_rest && !found.is_there);
    for (unsigned i = 101; i < 200; i++) {
        (void)snprintf(line, sizeof(line), "a %u", i);
        assert_int_equal(file(site, line, 2, &found), rest);
        assert_true(found.is_rest && found.is_there);
    }
    assert_true(file(site, "a 3", 3, &found) != rest && found.is_there && !found.is_rest);
    assert_true(file(other, "b 1", 3, &found) != rest && !found.is_rest);
}

static void test_the_eldest_makes_room(void **state)
{
    (void)state;
    static const char sites[GROUPS] = "";
    struct amb_log_found found;
    for (unsigned i = 0; i < GROUPS; i++) {
        assert_int_equal(file(&sites[i], "x", i == 7 ? 1 : 5, &found), i);
    }
    assert_int_equal(file(site, "x", 9, &found), 7);
    assert_false(found.is_there);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_same_text_of_the_same_place_is_one_group, clear),
        cmocka_unit_test_setup(test_texts_that_are_too_many_are_the_rest_of_their_place, clear),
        cmocka_unit_test_setup(test_the_eldest_makes_room, clear),
    };
    return cmocka_run_group_tests_name("log_group", tests, NULL, NULL);
}
