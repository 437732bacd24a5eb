/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts: charged to a user and its tenant, and full where either is. */
#include "broker/base/account.h"

#include "tests/support/quota.h"
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct amb_account tenant, one, two;

static int set_up(void **state)
{
    (void)state;
    amb_account_init(&tenant, "tenant", NULL);
    amb_account_init(&one, "user", &tenant);
    amb_account_init(&two, "user", &tenant);
    return 0;
}

static void test_without_a_quota_there_is_room(void **state)
{
    (void)state;
    for (unsigned i = 0; i < AMB_QUOTA_COUNT; i++) {
        amb_account_add(&one, i, UINT64_C(1) << 40);
        assert_null(amb_account_full(&one, i, UINT64_C(1) << 40));
        assert_int_equal(amb_account_left(&one, i), AMB_QUOTA_NONE);
        assert_int_equal(amb_account_used(&tenant, i), UINT64_C(1) << 40);
        amb_account_sub(&one, i, UINT64_C(1) << 40);
        assert_int_equal(amb_account_used(&tenant, i), 0);
        assert_non_null(amb_quota_key(i));
    }
    assert_null(amb_account_full(NULL, AMB_QUOTA_TOPICS, 1));
    amb_account_add(NULL, AMB_QUOTA_TOPICS, 1);
    amb_account_sub(NULL, AMB_QUOTA_TOPICS, 1);
}

static void test_a_users_limit_is_its_own(void **state)
{
    (void)state;
    char text[AMB_QUOTA_TEXT_MAX];
    quota_limit(&one, AMB_QUOTA_TOPICS, 3);
    amb_account_add(&one, AMB_QUOTA_TOPICS, 2);
    assert_null(amb_account_full(&one, AMB_QUOTA_TOPICS, 1));
    assert_ptr_equal(amb_account_full(&one, AMB_QUOTA_TOPICS, 2), &one);
    amb_account_add(&one, AMB_QUOTA_TOPICS, 1);
    assert_ptr_equal(amb_account_refuses(&one, AMB_QUOTA_TOPICS, 1), &one);
    assert_int_equal(one.refused[AMB_QUOTA_TOPICS], 1);
    assert_null(amb_account_full(&two, AMB_QUOTA_TOPICS, 1));
    assert_null(amb_account_full(&one, AMB_QUOTA_PAIRS, 1));
    assert_string_equal(amb_quota_text(&one, AMB_QUOTA_TOPICS, text),
                        "limit: topics = 3 of the user's quota \"small\"");
}

static void test_a_tenants_limit_is_all_its_users(void **state)
{
    (void)state;
    quota_limit(&tenant, AMB_QUOTA_CONNECTIONS, 3);
    quota_limit(&one, AMB_QUOTA_CONNECTIONS, 10);
    amb_account_add(&one, AMB_QUOTA_CONNECTIONS, 2);
    amb_account_add(&two, AMB_QUOTA_CONNECTIONS, 1);
    assert_ptr_equal(amb_account_refuses(&one, AMB_QUOTA_CONNECTIONS, 1), &tenant);
    assert_ptr_equal(amb_account_refuses(&two, AMB_QUOTA_CONNECTIONS, 1), &tenant);
    assert_int_equal(tenant.refused[AMB_QUOTA_CONNECTIONS], 2);
    assert_int_equal(amb_account_left(&one, AMB_QUOTA_CONNECTIONS), 0);
    amb_account_sub(&one, AMB_QUOTA_CONNECTIONS, 1);
    assert_null(amb_account_full(&two, AMB_QUOTA_CONNECTIONS, 1));
    assert_int_equal(amb_account_left(&one, AMB_QUOTA_CONNECTIONS), 1);
}

static void test_a_limit_that_shrinks_takes_nothing_back(void **state)
{
    (void)state;
    amb_account_add(&one, AMB_QUOTA_PUBLISHERS, 5);
    quota_limit(&one, AMB_QUOTA_PUBLISHERS, 2);
    assert_int_equal(amb_account_left(&one, AMB_QUOTA_PUBLISHERS), 0);
    assert_ptr_equal(amb_account_full(&one, AMB_QUOTA_PUBLISHERS, 1), &one);
    amb_account_sub(&one, AMB_QUOTA_PUBLISHERS, 4);
    assert_null(amb_account_full(&one, AMB_QUOTA_PUBLISHERS, 1));
}

/* One message a second, and a batch of 1000: the bill is not the new limit's. */
static void test_a_bill_ends_with_its_rate(void **state)
{
    (void)state;
    quota_limit(&one, AMB_QUOTA_IN_MSGS, 1);
    amb_account_bill(&one, AMB_QUOTA_IN_MSGS, 1000, AMB_NS_PER_SEC);
    quota_limit(&one, AMB_QUOTA_IN_MSGS, 1); /* The next login of the same user. */
    assert_true(amb_account_is_late(&one, AMB_QUOTA_IN_MSGS, 999 * AMB_NS_PER_SEC));
    quota_limit(&one, AMB_QUOTA_IN_MSGS, 100000);
    assert_false(amb_account_is_late(&one, AMB_QUOTA_IN_MSGS, AMB_NS_PER_SEC));
    amb_account_bill(&one, AMB_QUOTA_IN_MSGS, 100000, AMB_NS_PER_SEC);
    assert_true(amb_account_is_late(&one, AMB_QUOTA_IN_MSGS, AMB_NS_PER_SEC));
    assert_false(amb_account_is_late(&one, AMB_QUOTA_IN_MSGS, 2 * AMB_NS_PER_SEC));
}

static void test_a_rate_of_0_lets_nothing_pass(void **state)
{
    (void)state;
    quota_limit(&tenant, AMB_QUOTA_IN_BYTES, 0);
    assert_true(amb_account_is_late(&one, AMB_QUOTA_IN_BYTES, AMB_NS_PER_SEC));
    amb_account_note_late(&one, AMB_QUOTA_IN_BYTES, AMB_NS_PER_SEC);
    assert_int_equal(tenant.refused[AMB_QUOTA_IN_BYTES], 1);
    quota_limit(&tenant, AMB_QUOTA_IN_BYTES, 10);
    assert_false(amb_account_is_late(&one, AMB_QUOTA_IN_BYTES, AMB_NS_PER_SEC));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_without_a_quota_there_is_room, set_up),
        cmocka_unit_test_setup(test_a_users_limit_is_its_own, set_up),
        cmocka_unit_test_setup(test_a_tenants_limit_is_all_its_users, set_up),
        cmocka_unit_test_setup(test_a_limit_that_shrinks_takes_nothing_back, set_up),
        cmocka_unit_test_setup(test_a_bill_ends_with_its_rate, set_up),
        cmocka_unit_test_setup(test_a_rate_of_0_lets_nothing_pass, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
