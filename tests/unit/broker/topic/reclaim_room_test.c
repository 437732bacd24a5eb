/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room that is reserved, and memory that goes: 16 MiB in all, segments of 2 MiB.
 */
#include "broker/memory/bufpool.h"
#include "broker/topic/reclaim.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

static int setup(void **state)
{
    struct shard_harness *h = calloc(1, sizeof(*h));
    assert_non_null(h);
    harness_init(h, 1, NULL);
    *state = h;
    return 0;
}

static int teardown(void **state)
{
    harness_fini(*state);
    free(*state);
    return 0;
}

static void test_a_wish_for_bytes_keeps_free_segments_of_its_own_pool(void **state)
{
    struct amb_shard *shard = &((struct shard_harness *)*state)->shards[0];
    harness_hog(shard);
    uint64_t bytes = shard->memory.bufpool.segment_bytes;
    assert_false(amb_reclaim_reserve(shard, &shard->memory.bufpool, 10 * MIB, true, NULL));
    assert_int_equal(shard->memory.bufpool.segment_bytes, bytes);
}

/* All there is, in pieces of 28 pages; a segment has 18 of them. */
static unsigned fill(struct amb_bufpool *pool, struct amb_buf *bufs, unsigned max)
{
    unsigned count = 0;
    while (count < max && amb_bufpool_alloc(pool, 100 << 10, &bufs[count]) == AMB_OK) {
        count++;
    }
    assert_in_range(count, 18, max - 1);
    return count;
}

static void test_the_only_room_for_a_wide_window_stays(void **state)
{
    struct amb_bufpool *pool = &((struct shard_harness *)*state)->shards[0].memory.bufpool;
    struct amb_buf bufs[256];
    unsigned count = fill(pool, bufs, 256);
    for (unsigned i = 0; i < count; i++) {
        if (bufs[i].segment == bufs[0].segment || i % 4 != 0) {
            amb_bufpool_free(pool, &bufs[i]);
        }
    }
    assert_true(amb_bufpool_reserve(pool, 100 << 10, true));
    uint64_t bytes = pool->segment_bytes;
    amb_bufpool_trim(pool, 0);
    assert_int_equal(pool->segment_bytes, bytes);
    amb_bufpool_unreserve(pool, 100 << 10, 100 << 10);
    assert_true(amb_bufpool_reserve(pool, 100 << 10, false));
    amb_bufpool_trim(pool, 0);
    assert_int_equal(pool->segment_bytes, bytes - 2 * MIB); /* Small ones have room elsewhere. */
    amb_bufpool_unreserve(pool, 100 << 10, 0);
    for (unsigned i = 4; i < count; i += 4) {
        if (bufs[i].segment != bufs[0].segment) {
            amb_bufpool_free(pool, &bufs[i]);
        }
    }
}

static void test_what_was_freed_is_put_together_before_memory_is_said_to_lack(void **state)
{
    struct amb_bufpool *pool = &((struct shard_harness *)*state)->shards[0].memory.bufpool;
    struct amb_buf bufs[256], larger;
    unsigned count = fill(pool, bufs, 256);
    for (unsigned i = 0; i < 18; i++) {
        assert_ptr_equal(bufs[i].segment, bufs[0].segment);
        amb_bufpool_free(pool, &bufs[i]);
    }
    assert_true(amb_bufpool_reserve(pool, 64 << 10, false));
    for (unsigned i = 0; i < 15; i++) {
        assert_int_equal(amb_bufpool_alloc(pool, 100 << 10, &bufs[i]), AMB_OK);
    }
    for (unsigned i = 0; i < 15; i++) {
        amb_bufpool_free(pool, &bufs[i]);
    }
    assert_int_equal(amb_bufpool_alloc(pool, 120 << 10, &larger), AMB_OK);
    amb_bufpool_free(pool, &larger);
    amb_bufpool_unreserve(pool, 64 << 10, 0);
    for (unsigned i = 18; i < count; i++) {
        amb_bufpool_free(pool, &bufs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_a_wish_for_bytes_keeps_free_segments_of_its_own_pool),
        T(test_the_only_room_for_a_wide_window_stays),
        T(test_what_was_freed_is_put_together_before_memory_is_said_to_lack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
