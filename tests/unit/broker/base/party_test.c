/* SPDX-License-Identifier: Apache-2.0 */
/* Users and parties: found again, counted, forgotten; and the shares. */
#include "broker/base/party.h"

#include "tests/support/quota.h"
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include <unistd.h>

static void test_the_same_process_is_the_same_party(void **state)
{
    (void)state;
    struct amb_parties parties;
    struct amb_party *one, *two, *other, *user;
    assert_int_equal(amb_parties_init(&parties, 2), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, 1, "10", &one), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, 1, "10", &two), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, 1, "11", &other), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, 2, "10", &user), AMB_OK);
    assert_ptr_equal(one, two);
    assert_ptr_not_equal(one, other);
    assert_ptr_equal(one->user, other->user);
    assert_ptr_not_equal(one->user, user->user);
    amb_party_unref(&two);
    amb_party_unref(&other);
    amb_party_unref(&user);
    assert_null(user);
    amb_party_unref(&user);
    /* A party that has left something behind stays; the others are forgotten. */
    one->quarantined = 42;
    amb_parties_sweep(&parties, 10 * AMB_NS_PER_SEC);
    assert_int_equal(amb_map_count(parties.by_key), 1);
    assert_int_equal(amb_map_count(parties.users), 1);
    assert_int_equal(amb_parties_find(&parties, 1, "10", &two), AMB_OK);
    assert_int_equal(two->quarantined, 42);
    /* Its process ends: the pid is somebody else's then. */
    amb_parties_end(&parties, one);
    amb_party_unref(&two);
    assert_int_equal(amb_parties_find(&parties, 1, "10", &two), AMB_OK);
    assert_ptr_not_equal(one, two);
    amb_party_unref(&two);
    amb_parties_fini(&parties);
    amb_party_unref(&one); /* It may outlive the table. */
}

/* More than a sweep takes are gone with the next calls, and without another second between them. */
static void test_parties_that_come_and_go_fast_do_not_pile_up(void **state)
{
    (void)state;
    struct amb_parties parties;
    assert_int_equal(amb_parties_init(&parties, 2), AMB_OK);
    for (int second = 1; second <= 3; second++) {
        for (int i = 0; i < 1000; i++) {
            struct amb_party *party;
            char name[16];
            (void)snprintf(name, sizeof(name), "%d", second * 1000 + i);
            assert_int_equal(amb_parties_find(&parties, AMB_PARTY_TCP, name, &party), AMB_OK);
            amb_party_unref(&party);
        }
        for (int call = 0; call < 4; call++) {
            amb_parties_sweep(&parties, second * AMB_NS_PER_SEC);
        }
        assert_int_equal(amb_map_count(parties.by_key), 0);
    }
    amb_parties_fini(&parties);
}

static void test_each_user_that_comes_finds_something(void **state)
{
    (void)state;
    uint64_t all = 0;
    for (unsigned i = 0; i < 4; i++) {
        uint64_t share = amb_share_of(10000, all, 0, 90);
        assert_true(share > 0);
        all += share;
        assert_int_equal(amb_share_of(10000, all, share, 90), share);
    }
    assert_true(all < 10000);
    assert_int_equal(amb_share_of(10000, 0, 0, 90), 9000);
    assert_int_equal(amb_share_of(10000, 9000, 0, 90), 900);
    assert_int_equal(amb_share_of(2, 0, 0, 90), 2);
    assert_int_equal(amb_share_of(100, 120, 0, 90), 0);
    assert_int_equal(amb_share_of(UINT64_MAX, 0, 0, 100), UINT64_MAX);
}

static void test_root_and_the_brokers_user_may_have_all(void **state)
{
    (void)state;
    struct amb_parties parties;
    struct amb_party *root, *own, *other, *tcp;
    assert_int_equal(amb_parties_init(&parties, 2), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, 0, "1", &root), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, geteuid(), "1", &own), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, (uint64_t)geteuid() + 1, "1", &other), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, AMB_PARTY_TCP, "::1", &tcp), AMB_OK);
    assert_int_equal(amb_user_share(root->user, 1000, 0, 0, 50), 1000);
    assert_int_equal(amb_user_share(own->user, 1000, 0, 0, 50), 1000);
    assert_int_equal(amb_user_share(other->user, 1000, 0, 0, 50), 500);
    assert_int_equal(amb_user_share(tcp->user, 1000, 600, 200, 50), 300);
    assert_int_equal(amb_user_share(NULL, 1000, 0, 0, 50), 1000);
    amb_party_unref(&root);
    amb_party_unref(&own);
    amb_party_unref(&other);
    amb_party_unref(&tcp);
    amb_parties_fini(&parties);
}

/* He goes and comes back, and the bill is there still. */
static void test_a_user_who_owes_is_not_forgotten(void **state)
{
    (void)state;
    struct amb_parties parties;
    struct amb_party *party;
    assert_int_equal(amb_parties_init(&parties, 2), AMB_OK);
    assert_int_equal(amb_parties_find(&parties, AMB_PARTY_NAMED | 1, "1", &party), AMB_OK);
    quota_limit(&party->user->account, AMB_QUOTA_IN_MSGS, 10);
    amb_account_bill(&party->user->account, AMB_QUOTA_IN_MSGS, 1000, AMB_NS_PER_SEC);
    amb_party_unref(&party);
    amb_parties_sweep(&parties, 50 * AMB_NS_PER_SEC);
    assert_int_equal(amb_map_count(parties.users), 1);
    amb_parties_sweep(&parties, 102 * AMB_NS_PER_SEC);
    assert_int_equal(amb_map_count(parties.users), 0);
    amb_parties_fini(&parties);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_process_is_the_same_party),
        cmocka_unit_test(test_parties_that_come_and_go_fast_do_not_pile_up),
        cmocka_unit_test(test_each_user_that_comes_finds_something),
        cmocka_unit_test(test_root_and_the_brokers_user_may_have_all),
        cmocka_unit_test(test_a_user_who_owes_is_not_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
