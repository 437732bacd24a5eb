/* SPDX-License-Identifier: Apache-2.0 */
/* Trust groups: made once each, at most so many, and mapped by whom they are for. */
#include "broker/base/trust_group.h"

#include "broker/base/party.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define ALL 100u /* per cent */

static void a_group_is_made_once_and_has_an_id_of_its_own(void **state)
{
    (void)state;
    struct amb_trust_groups groups = {0};
    assert_ptr_equal(amb_trust_groups_find(&groups, AMB_TENANT_OPERATORS, 0, ALL),
                     &amb_trust_group_main);
    assert_int_equal(groups.count, 0);
    const struct amb_trust_group *one =
        amb_trust_groups_find(&groups, AMB_TENANT_OPERATORS, 1, ALL);
    const struct amb_trust_group *other = amb_trust_groups_find(&groups, 7, 0, ALL);
    assert_int_equal(one->id, 2);
    assert_int_equal(other->id, 3);
    assert_int_equal(other->tenant, 7);
    assert_ptr_equal(amb_trust_groups_find(&groups, AMB_TENANT_OPERATORS, 1, ALL), one);
    assert_ptr_equal(amb_trust_groups_find(&groups, 7, 0, ALL), other);
    assert_int_equal(groups.count, 2);
}

static void past_the_limit_messages_are_private(void **state)
{
    (void)state;
    struct amb_trust_groups groups = {0};
    for (uint32_t tenant = 1; tenant < AMB_TRUST_GROUPS_MAX; tenant++) {
        const struct amb_trust_group *group = amb_trust_groups_find(&groups, tenant, 0, ALL);
        assert_int_equal(group->id, tenant + 1);
    }
    assert_ptr_equal(amb_trust_groups_find(&groups, AMB_TRUST_GROUPS_MAX, 0, ALL),
                     &amb_trust_group_private);
    /* Those that are there stay. */
    assert_int_equal(amb_trust_groups_find(&groups, 1, 0, ALL)->id, 2);
    assert_ptr_equal(amb_trust_groups_find(&groups, AMB_TENANT_OPERATORS, 0, ALL),
                     &amb_trust_group_main);
}

/* How many of the groups that a configuration can have are the tenant's. */
static uint32_t take_all(struct amb_trust_groups *groups, uint32_t tenant, unsigned percent)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < AMB_TRUST_GROUPS_MAX; i++) {
        count += !amb_trust_group_is_private(amb_trust_groups_find(groups, tenant, i, percent));
    }
    return count;
}

static void a_tenant_leaves_groups_for_others(void **state)
{
    (void)state;
    struct amb_trust_groups groups = {0};
    assert_int_equal(take_all(&groups, 1, AMB_PARTY_SHARE), AMB_TRUST_GROUPS_MAX / 2);
    assert_int_equal(take_all(&groups, 1, AMB_PARTY_SHARE), AMB_TRUST_GROUPS_MAX / 2);
    assert_int_equal(take_all(&groups, 2, AMB_PARTY_SHARE), AMB_TRUST_GROUPS_MAX / 4);
    /* The operators' may have all that is left, and their default one is beside them. */
    assert_int_equal(take_all(&groups, AMB_TENANT_OPERATORS, AMB_PARTY_SHARE),
                     AMB_TRUST_GROUPS_MAX / 4);
    assert_int_equal(groups.count, AMB_TRUST_GROUPS_MAX - 1);
    struct amb_trust_groups others = {0};
    assert_int_equal(take_all(&others, AMB_TENANT_OPERATORS, AMB_PARTY_SHARE),
                     AMB_TRUST_GROUPS_MAX);
}

/* A client may say any index. Groups come with topics, whose publishers have rights. */
static void a_clients_word_makes_no_group(void **state)
{
    (void)state;
    struct amb_trust_groups groups = {0};
    for (uint32_t i = 1; i < AMB_TRUST_GROUPS_MAX; i++) {
        assert_ptr_equal(amb_trust_groups_find_told(&groups, 7, i, ALL), &amb_trust_group_private);
    }
    assert_int_equal(groups.count, 0);
    const struct amb_trust_group *made = amb_trust_groups_find(&groups, 7, 5, ALL);
    assert_ptr_equal(amb_trust_groups_find_told(&groups, 7, 5, ALL), made);
    assert_ptr_equal(amb_trust_groups_find_told(&groups, 8, 5, ALL), &amb_trust_group_private);
    /* Memory of no topic yet is the default group's. */
    assert_int_equal(amb_trust_groups_find_told(&groups, 7, 0, ALL)->tenant, 7);
    assert_int_equal(groups.count, 2);
}

static void a_group_is_mapped_by_its_tenant_where_rights_cover_it(void **state)
{
    (void)state;
    const struct amb_trust_group group = {.id = 5, .tenant = 7, .index = 63};
    assert_true(amb_trust_group_may_map(&group, 7, UINT64_C(1) << 63));
    assert_false(amb_trust_group_may_map(&group, 7, ~(UINT64_C(1) << 63)));
    assert_false(amb_trust_group_may_map(&group, 8, UINT64_MAX));
    assert_true(amb_trust_group_may_map(&amb_trust_group_main, AMB_TENANT_OPERATORS, 1));
    assert_false(
        amb_trust_group_may_map(&amb_trust_group_private, AMB_TENANT_OPERATORS, UINT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_is_made_once_and_has_an_id_of_its_own),
        cmocka_unit_test(past_the_limit_messages_are_private),
        cmocka_unit_test(a_tenant_leaves_groups_for_others),
        cmocka_unit_test(a_clients_word_makes_no_group),
        cmocka_unit_test(a_group_is_mapped_by_its_tenant_where_rights_cover_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
