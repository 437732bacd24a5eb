/* SPDX-License-Identifier: Apache-2.0 */
/* Names of publishers: one owner at a time, remembered, bounded. */
#include "broker/control/directory/identity.h"

#include "broker/base/party.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static enum amb_status take(struct amb_identities *all, uint32_t user, const char *name,
                            const char *topic, int64_t now_ns, struct amb_identity **out)
{
    return amb_identity_take(all, user, name, topic, AMB_PRIORITY_NORMAL, now_ns, 100, out);
}

static void a_name_has_one_owner_and_is_remembered(void **state)
{
    (void)state;
    struct amb_identities all;
    struct amb_identity *one, *two;
    assert_int_equal(amb_identities_init(&all), AMB_OK);
    assert_int_equal(take(&all, 1, "me", "a.b", 0, &one), AMB_OK);
    assert_int_equal(take(&all, 1, "me", "a.b", 0, &two), AMB_EBUSY);
    one->seq = 42;
    amb_identity_give(&all, one, 10);
    assert_int_equal(take(&all, 1, "me", "a.b", 1000000, &two), AMB_OK);
    assert_ptr_equal(one, two);
    assert_int_equal(two->seq, 42);
    amb_identity_give(&all, two, 10);
    amb_identity_give(&all, NULL, 10);
    amb_identities_fini(&all);
}

static void users_names_and_topics_are_apart(void **state)
{
    (void)state;
    struct amb_identities all;
    struct amb_identity *own, *other[3];
    assert_int_equal(amb_identities_init(&all), AMB_OK);
    assert_int_equal(take(&all, 1, "me", "a", 0, &own), AMB_OK);
    assert_int_equal(take(&all, 2, "me", "a", 0, &other[0]), AMB_OK);
    assert_int_equal(take(&all, 1, "you", "a", 0, &other[1]), AMB_OK);
    assert_int_equal(take(&all, 1, "me", "b", 0, &other[2]), AMB_OK);
    for (unsigned i = 0; i < 3; i++) {
        assert_ptr_not_equal(own, other[i]);
    }
    struct amb_identity *none = NULL;
    assert_int_equal(take(&all, 1, "", "a", 0, &none), AMB_EINVAL);
    assert_int_equal(take(&all, 1, "with space", "a", 0, &none), AMB_EINVAL);
    char longest[AMB_IDENTITY_NAME_MAX + 2];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(take(&all, 1, longest, "a", 0, &none), AMB_EINVAL);
    assert_int_equal(take(&all, UINT32_MAX, longest + 1, "a", 0, &none), AMB_OK);
    amb_identities_fini(&all);
}

static void when_there_are_too_many_the_one_unused_for_longest_goes(void **state)
{
    (void)state;
    struct amb_identities all;
    struct amb_identity *first = NULL, *one;
    char name[16];
    assert_int_equal(amb_identities_init(&all), AMB_OK);
    for (unsigned i = 0; i < AMB_IDENTITIES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "n%u", i);
        assert_int_equal(take(&all, 1, name, "a", 0, &one), AMB_OK);
        first = i == 0 ? one : first;
        if (i != 1) {
            amb_identity_give(&all, one, i);
        }
    }
    assert_int_equal(take(&all, 1, "new", "a", 99, &one), AMB_ELIMIT); /* all are too young */
    assert_int_equal(take(&all, 1, "new", "a", 100, &one), AMB_OK);
    assert_ptr_equal(one, first);
    assert_int_equal(one->seq, 0);
    assert_int_equal(take(&all, 1, "n2", "a", 100, &one), AMB_OK); /* is still known */
    assert_int_equal(all.count, AMB_IDENTITIES_MAX);
    amb_identities_fini(&all);
}

/* A name costs its last owner while it is held and for the window; then it is nobody's. */
static void no_party_has_all_names(void **state)
{
    (void)state;
    struct amb_identities all;
    struct amb_parties parties;
    struct amb_party *greedy, *other;
    struct amb_identity *one;
    char name[16];
    assert_int_equal(amb_identities_init(&all), AMB_OK);
    assert_int_equal(amb_parties_init(&parties, 2), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, 1, "10", &greedy), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, 1, "11", &other), AMB_OK);
    unsigned had = 0;
    while (amb_identities_full(&all, greedy, 90, 0, 100) == NULL && had < AMB_IDENTITIES_MAX) {
        (void)snprintf(name, sizeof(name), "g%u", had++);
        assert_int_equal(take(&all, 1, name, "a", 0, &one), AMB_OK);
        amb_identity_charge(&all, one, greedy);
        amb_identity_give(&all, one, 0); /* Left behind: the next session of it pays on. */
    }
    assert_int_equal(had, AMB_IDENTITIES_MAX / 2);
    /* A name that it has already it may take again. */
    assert_true(amb_identity_is_of(&all, greedy, 1, "g0", "a", AMB_PRIORITY_NORMAL));
    assert_false(amb_identity_is_of(&all, other, 1, "g0", "a", AMB_PRIORITY_NORMAL));
    assert_false(amb_identity_is_of(&all, greedy, 1, "new", "a", AMB_PRIORITY_NORMAL));
    assert_false(amb_identity_is_of(&all, NULL, 1, "g0", "a", AMB_PRIORITY_NORMAL));
    assert_null(amb_identities_full(&all, other, 90, 0, 100));
    assert_int_equal(take(&all, 1, "other", "a", 0, &one), AMB_OK);
    amb_identity_charge(&all, one, other);
    /* The window is over: they are known, and nobody's charge. */
    for (unsigned i = 0; i < AMB_IDENTITIES_MAX && greedy->names > 0; i++) {
        (void)amb_identities_full(&all, greedy, 90, 1000, 100);
    }
    assert_int_equal(greedy->names, 0);
    assert_int_equal(other->names, 1);
    assert_int_equal(all.count, had + 1);
    amb_identities_fini(&all);
    assert_int_equal(other->names, 0);
    amb_party_unref(&greedy);
    amb_party_unref(&other);
    amb_parties_fini(&parties);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_has_one_owner_and_is_remembered),
        cmocka_unit_test(no_party_has_all_names),
        cmocka_unit_test(users_names_and_topics_are_apart),
        cmocka_unit_test(when_there_are_too_many_the_one_unused_for_longest_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
