/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shard's tables.
 */
#include "broker/shard/shard.h"
#include "tests/support/shard/shard_client.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_tables_grow_and_new_slots_are_empty(void **state)
{
    (void)state;
    struct shard_harness *h = calloc(1, sizeof(*h));
    assert_non_null(h);
    harness_init(h, 1, NULL);
    struct amb_shard *shard = &h->shards[0];
    assert_null(amb_shard_topic_at(shard, 0));
    uint32_t first = harness_topic(h, "a", 0);
    assert_ptr_equal(amb_shard_topic_at(shard, first), harness_home(h, first));
    assert_null(amb_shard_topic_at(shard, 1));
    struct amb_topic **far = amb_shard_topic_cell(shard, 5000);
    assert_non_null(far);
    assert_null(*far);
    assert_null(amb_shard_topic_at(shard, 4999));
    assert_null(amb_shard_topic_at(shard, 100000));
    assert_ptr_equal(amb_shard_topic_at(shard, first), harness_home(h, first));
    struct amb_session **session = amb_shard_session_cell(shard, AMB_SESSIONS_MAX - 1);
    assert_non_null(session);
    assert_null(*session);
    harness_fini(h);
    free(h);
}

static void test_it_fits_in_the_budget_with_the_other_shards(void **state)
{
    (void)state;
    struct shard_harness *h = calloc(1, sizeof(*h));
    struct amb_buf buf[16];
    unsigned count = 0;
    assert_non_null(h);
    harness_init(h, 4, NULL);
    while (count < 16 && amb_bufpool_alloc(&h->shards[count % 4].memory.bufpool, 2 << 20,
                                           &buf[count]) == AMB_OK) {
        count++;
    }
    assert_int_equal(count, 8);
    while (count-- > 0) {
        amb_bufpool_free(&h->shards[count % 4].memory.bufpool, &buf[count]);
    }
    harness_fini(h);
    free(h);
}

static void test_counters_add_up(void **state)
{
    (void)state;
    _Atomic uint64_t counter = 40;
    amb_stat_add(&counter, 2);
    assert_int_equal(amb_stat_get(&counter), 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_grow_and_new_slots_are_empty),
        cmocka_unit_test(test_it_fits_in_the_budget_with_the_other_shards),
        cmocka_unit_test(test_counters_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
