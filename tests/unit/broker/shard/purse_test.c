/* SPDX-License-Identifier: Apache-2.0 */
/* Purses: one for each user of a shard, pieces of its account, and bills. */
#include "broker/shard/purse.h"

#include "broker/base/party.h"
#include "broker/shard/shard.h"
#include "tests/support/quota.h"
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

struct world {
    struct amb_shard shard;
    struct amb_parties parties;
    struct amb_tenants tenants;
    struct amb_tenant *tenant;
    struct amb_party *one, *same, *other;
    struct amb_purse *purse;
};

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    amb_list_init(&w->shard.purses);
    assert_int_equal(amb_parties_init(&w->parties, 2), AMB_OK);
    assert_int_equal(amb_tenants_init(&w->tenants), AMB_OK);
    assert_int_equal(amb_tenants_take(&w->tenants, "plant", &w->tenant), AMB_OK);
    assert_int_equal(amb_parties_find(&w->parties, AMB_PARTY_NAMED | 1, "1", &w->one), AMB_OK);
    assert_int_equal(amb_parties_find(&w->parties, AMB_PARTY_NAMED | 1, "2", &w->same), AMB_OK);
    assert_int_equal(amb_parties_find(&w->parties, AMB_PARTY_NAMED | 2, "3", &w->other), AMB_OK);
    assert_null(amb_purse_find(&w->shard, w->one)); /* It has no tenant yet: no quotas. */
    amb_user_join(w->one->user, w->tenant);
    amb_user_join(w->other->user, w->tenant);
    w->purse = amb_purse_find(&w->shard, w->one);
    assert_non_null(w->purse);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    amb_purse_unref(&w->purse);
    assert_true(amb_list_is_empty(&w->shard.purses));
    for (unsigned i = 0; i < AMB_QUOTA_COUNT; i++) {
        assert_int_equal(amb_account_used(&w->tenant->account, (enum amb_quota)i), 0);
    }
    amb_party_unref(&w->one);
    amb_party_unref(&w->same);
    amb_party_unref(&w->other);
    amb_parties_fini(&w->parties);
    amb_tenants_fini(&w->tenants);
    free(w);
    return 0;
}

static void test_a_user_has_one_purse(void **state)
{
    struct world *w = *state;
    struct amb_purse *same = amb_purse_find(&w->shard, w->same);
    struct amb_purse *other = amb_purse_find(&w->shard, w->other);
    assert_ptr_equal(same, w->purse);
    assert_ptr_not_equal(other, w->purse);
    amb_purse_unref(&same);
    amb_purse_unref(&other);
    assert_null(amb_purse_find(&w->shard, NULL));
}

static void test_host_bytes_are_taken_in_pieces_and_given_back(void **state)
{
    struct world *w = *state;
    const struct amb_account *account = &w->one->user->account;
    amb_purse_hold(w->purse, 1);
    assert_int_equal(amb_account_used(account, AMB_QUOTA_HOST_BYTES), AMB_PURSE_PIECE);
    amb_purse_hold(w->purse, 10 * AMB_PURSE_PIECE);
    assert_int_equal(amb_account_used(account, AMB_QUOTA_HOST_BYTES), 11 * AMB_PURSE_PIECE);
    assert_int_equal(amb_account_used(&w->tenant->account, AMB_QUOTA_HOST_BYTES),
                     11 * AMB_PURSE_PIECE);
    amb_purse_let_go(w->purse, 10 * AMB_PURSE_PIECE);
    assert_true(amb_account_used(account, AMB_QUOTA_HOST_BYTES) <= 2 * AMB_PURSE_PIECE);
    amb_purse_let_go(w->purse, 1);
}

static void test_a_purse_lives_as_long_as_it_holds_bytes(void **state)
{
    struct world *w = *state;
    const struct amb_account *account = &w->other->user->account;
    struct amb_purse *session = amb_purse_find(&w->shard, w->other);
    struct amb_purse *batch = session;
    amb_purse_hold(batch, 3 * AMB_PURSE_PIECE);
    amb_purse_unref(&session);
    amb_purse_let_go(batch, AMB_PURSE_PIECE);
    assert_int_equal(amb_account_used(account, AMB_QUOTA_HOST_BYTES), 2 * AMB_PURSE_PIECE);
    session = amb_purse_find(&w->shard, w->other);
    assert_ptr_equal(session, batch);
    amb_purse_unref(&session);
    amb_purse_let_go(batch, 1);
    assert_int_equal(amb_account_used(account, AMB_QUOTA_HOST_BYTES), 2 * AMB_PURSE_PIECE);
    amb_purse_let_go(batch, 2 * AMB_PURSE_PIECE - 1);
    assert_int_equal(amb_account_used(account, AMB_QUOTA_HOST_BYTES), 0);
}

/* Two workers, and a limit that is no more than a few pieces. */
static void test_nothing_of_a_small_limit_stays_where_it_is_not_used(void **state)
{
    struct world *w = *state;
    struct amb_shard *second = calloc(1, sizeof(*second));
    assert_non_null(second);
    amb_list_init(&second->purses);
    struct amb_purse *there = amb_purse_find(second, w->one);
    assert_non_null(there);
    quota_limit(&w->one->user->account, AMB_QUOTA_HOST_BYTES, 4 * AMB_PURSE_PIECE);
    assert_int_equal(amb_purse_obstacle(w->purse, 2 * AMB_PURSE_PIECE / 5 * 4, 0), AMB_QUOTA_COUNT);
    amb_purse_hold(w->purse, 2 * AMB_PURSE_PIECE);
    amb_purse_let_go(w->purse, 2 * AMB_PURSE_PIECE);
    assert_true(amb_purse_has_room(there, 4 * AMB_PURSE_PIECE));
    amb_purse_hold(w->purse, AMB_PURSE_PIECE + 1);
    amb_purse_let_go(w->purse, 1);
    assert_int_equal(amb_account_used(&w->one->user->account, AMB_QUOTA_HOST_BYTES),
                     AMB_PURSE_PIECE);
    amb_purse_let_go(w->purse, AMB_PURSE_PIECE);
    amb_purse_unref(&there);
    free(second);
}

/* The same of bytes in place, and of slots on a GPU: of a large limit some stay. */
static void test_no_row_keeps_what_is_not_used_of_a_small_limit(void **state)
{
    struct world *w = *state;
    struct amb_account *account = &w->one->user->account;
    amb_purse_hold(w->purse, 1);
    for (unsigned small = 0; small < 2; small++) {
        uint64_t most = small == 1 ? 3 * AMB_PURSE_PIECE : UINT64_C(1) << 30;
        uint64_t kept = small == 1 ? 0 : 2 * AMB_PURSE_PIECE;
        quota_limit(account, AMB_QUOTA_GPU_BYTES, most);
        amb_purse_land(w->purse, 2 * AMB_PURSE_PIECE);
        amb_purse_lift(w->purse, 2 * AMB_PURSE_PIECE);
        assert_int_equal(amb_account_used(account, AMB_QUOTA_GPU_BYTES), kept);
        quota_limit(account, AMB_QUOTA_MAPPED, most);
        struct amb_purse *session = amb_purse_find(&w->shard, w->same); /* hears of the limit */
        amb_purse_map(w->purse, 2 * AMB_PURSE_PIECE);
        amb_purse_map(w->purse, UINT64_C(0) - 2 * AMB_PURSE_PIECE);
        assert_int_equal(amb_account_used(account, AMB_QUOTA_MAPPED), kept);
        amb_purse_unref(&session);
    }
    amb_purse_let_go(w->purse, 1);
}

static void test_there_is_room_up_to_the_limit(void **state)
{
    struct world *w = *state;
    quota_limit(&w->one->user->account, AMB_QUOTA_HOST_BYTES, 4 * AMB_PURSE_PIECE);
    assert_true(amb_purse_has_room(w->purse, 4 * AMB_PURSE_PIECE));
    assert_false(amb_purse_has_room(w->purse, 4 * AMB_PURSE_PIECE + 1));
    amb_purse_hold(w->purse, 3 * AMB_PURSE_PIECE + 1);
    assert_true(amb_purse_has_room(w->purse, AMB_PURSE_PIECE - 1));
    assert_false(amb_purse_has_room(w->purse, AMB_PURSE_PIECE));
    assert_int_equal(amb_purse_obstacle(w->purse, AMB_PURSE_PIECE, 0), AMB_QUOTA_HOST_BYTES);
    assert_int_equal(amb_purse_obstacle(w->purse, AMB_PURSE_PIECE / 2, 0), AMB_QUOTA_COUNT);
    /* Batches are more than their window was. The rest of a piece past the limit is no room. */
    amb_purse_hold(w->purse, 2 * AMB_PURSE_PIECE);
    assert_int_equal(amb_account_used(&w->one->user->account, AMB_QUOTA_HOST_BYTES),
                     6 * AMB_PURSE_PIECE);
    assert_false(amb_purse_has_room(w->purse, 1));
    assert_false(amb_purse_has_room(w->purse, 0));
    assert_int_equal(amb_purse_obstacle(w->purse, 0, 0), AMB_QUOTA_HOST_BYTES);
    amb_purse_let_go(w->purse, 5 * AMB_PURSE_PIECE + 1);
    assert_int_equal(amb_purse_obstacle(w->purse, AMB_PURSE_PIECE, 0), AMB_QUOTA_COUNT);
}

/* 1000 a second: 500 are half a second, of which the burst is free. */
static void test_a_bill_keeps_windows_shut_for_its_time(void **state)
{
    struct world *w = *state;
    const struct {
        struct amb_account *account;
        enum amb_quota row;
    } cases[] = {{&w->one->user->account, AMB_QUOTA_IN_MSGS},
                 {&w->one->user->account, AMB_QUOTA_IN_BYTES},
                 {&w->tenant->account, AMB_QUOTA_IN_MSGS}};
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t now_ns = (i + 1) * 100 * AMB_NS_PER_SEC;
        quota_limit(cases[i].account, cases[i].row, 1000);
        assert_int_equal(amb_purse_obstacle(w->purse, 0, now_ns), AMB_QUOTA_COUNT);
        amb_purse_note(w->purse, cases[i].row == AMB_QUOTA_IN_MSGS ? 500 : 1,
                       cases[i].row == AMB_QUOTA_IN_BYTES ? 500 : 1);
        assert_int_equal(amb_purse_obstacle(w->purse, 0, now_ns), cases[i].row);
        int64_t over_ns = now_ns + AMB_NS_PER_SEC / 2 - AMB_QUOTA_BURST_NS;
        assert_int_equal(amb_purse_obstacle(w->purse, 0, over_ns - 1), cases[i].row);
        assert_int_equal(amb_purse_obstacle(w->purse, 0, over_ns), AMB_QUOTA_COUNT);
        amb_account_note_late(&w->one->user->account, cases[i].row, over_ns - 1);
        assert_true(cases[i].account->refused[cases[i].row] > 0);
        quota_limit(cases[i].account, cases[i].row, AMB_QUOTA_NONE);
    }
}

static void test_without_a_limit_there_is_a_bill_now_and_then(void **state)
{
    struct world *w = *state;
    struct amb_account *account = &w->one->user->account;
    assert_int_equal(amb_purse_obstacle(w->purse, 0, AMB_NS_PER_SEC), AMB_QUOTA_COUNT);
    amb_purse_note(w->purse, 500, 1);
    assert_int_equal(amb_purse_obstacle(w->purse, 0, AMB_NS_PER_SEC + 1), AMB_QUOTA_COUNT);
    assert_int_equal(w->purse->msgs, 500);
    quota_limit(account, AMB_QUOTA_IN_MSGS, 1000);
    assert_int_equal(amb_purse_obstacle(w->purse, 0, AMB_NS_PER_SEC + AMB_PURSE_BILL_NS),
                     AMB_QUOTA_IN_MSGS);
    assert_int_equal(w->purse->msgs, 0);
    quota_limit(account, AMB_QUOTA_IN_MSGS, AMB_QUOTA_NONE);
}

/* A session that ends before another window is asked for has come for nothing else. */
static void test_what_came_is_billed_when_the_session_ends(void **state)
{
    struct world *w = *state;
    w->shard.now_ns = AMB_NS_PER_SEC;
    quota_limit(&w->other->user->account, AMB_QUOTA_IN_MSGS, 10);
    struct amb_purse *purse = amb_purse_find(&w->shard, w->other);
    amb_purse_note(purse, 1000, 1000);
    amb_purse_unref(&purse);
    assert_true(
        amb_account_is_late(&w->other->user->account, AMB_QUOTA_IN_MSGS, 100 * AMB_NS_PER_SEC));
}

static void test_windows_are_small_beside_a_rate(void **state)
{
    struct world *w = *state;
    uint64_t most = UINT64_C(2) << 20;
    assert_int_equal(amb_purse_window(w->purse, most), most);
    quota_limit(&w->one->user->account, AMB_QUOTA_IN_BYTES, UINT64_C(10) << 20);
    assert_int_equal(amb_purse_window(w->purse, most), UINT64_C(1) << 20);
    quota_limit(&w->one->user->account, AMB_QUOTA_IN_BYTES, 1);
    assert_int_equal(amb_purse_window(w->purse, most), UINT64_C(64) << 10);
    quota_limit(&w->one->user->account, AMB_QUOTA_IN_MSGS, UINT64_C(1) << 40);
    assert_int_equal(amb_purse_window(w->purse, most), UINT64_C(64) << 10);
}

static void test_bytes_in_place_are_of_all_sessions(void **state)
{
    struct world *w = *state;
    struct amb_account *account = &w->one->user->account;
    assert_int_equal(amb_purse_map_room(w->purse), AMB_QUOTA_NONE);
    amb_purse_map(w->purse, 5);
    assert_int_equal(amb_account_used(account, AMB_QUOTA_MAPPED), AMB_PURSE_PIECE);
    quota_limit(account, AMB_QUOTA_MAPPED, 4 * AMB_PURSE_PIECE);
    assert_int_equal(amb_purse_map_room(w->purse), 4 * AMB_PURSE_PIECE - 5);
    amb_purse_map(w->purse, 4 * AMB_PURSE_PIECE);
    assert_int_equal(amb_account_used(&w->tenant->account, AMB_QUOTA_MAPPED), 5 * AMB_PURSE_PIECE);
    assert_in_range(amb_purse_map_room(w->purse), 0, AMB_PURSE_PIECE);
    quota_limit(account, AMB_QUOTA_MAPPED, 2 * AMB_PURSE_PIECE);
    amb_purse_map(w->purse, UINT64_C(0) - 4 * AMB_PURSE_PIECE);
    assert_true(amb_account_used(account, AMB_QUOTA_MAPPED) <= 2 * AMB_PURSE_PIECE);
    amb_purse_map(w->purse, UINT64_C(0) - 5);
}

static void test_slots_on_a_gpu_are_taken_in_pieces_too(void **state)
{
    struct world *w = *state;
    struct amb_account *account = &w->one->user->account;
    assert_true(amb_purse_may_land(w->purse, UINT64_C(1) << 40));
    quota_limit(account, AMB_QUOTA_GPU_BYTES, 4 * AMB_PURSE_PIECE);
    assert_true(amb_purse_may_land(w->purse, 4 * AMB_PURSE_PIECE));
    assert_false(amb_purse_may_land(w->purse, 4 * AMB_PURSE_PIECE + 1));
    assert_int_equal(atomic_load(&account->refused[AMB_QUOTA_GPU_BYTES]), 1);
    amb_purse_hold(w->purse, 1);
    amb_purse_land(w->purse, 3 * AMB_PURSE_PIECE + 1);
    assert_int_equal(amb_account_used(account, AMB_QUOTA_GPU_BYTES), 4 * AMB_PURSE_PIECE);
    assert_true(amb_purse_may_land(w->purse, AMB_PURSE_PIECE - 1));
    assert_false(amb_purse_may_land(w->purse, AMB_PURSE_PIECE));
    amb_purse_unref(&w->purse); /* Its message outlives the last session. */
    struct amb_purse *purse = AMB_CONTAINER_OF(w->shard.purses.next, struct amb_purse, node);
    amb_purse_lift(purse, 3 * AMB_PURSE_PIECE);
    assert_int_equal(amb_account_used(account, AMB_QUOTA_GPU_BYTES), AMB_PURSE_PIECE);
    amb_purse_lift(purse, 1);
    amb_purse_let_go(purse, 1);
    assert_true(amb_list_is_empty(&w->shard.purses));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_user_has_one_purse, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_host_bytes_are_taken_in_pieces_and_given_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_purse_lives_as_long_as_it_holds_bytes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_of_a_small_limit_stays_where_it_is_not_used,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_row_keeps_what_is_not_used_of_a_small_limit, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_there_is_room_up_to_the_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_bill_keeps_windows_shut_for_its_time, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_without_a_limit_there_is_a_bill_now_and_then, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_came_is_billed_when_the_session_ends, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_windows_are_small_beside_a_rate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bytes_in_place_are_of_all_sessions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_slots_on_a_gpu_are_taken_in_pieces_too, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
