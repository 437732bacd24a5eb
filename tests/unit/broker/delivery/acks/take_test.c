/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes: which messages of a slice are settled, cut off, and left.
 */
#include "broker/delivery/acks/take.h"
#include "broker/shard/shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static struct amb_shard shard;

static struct amb_take *take_of(uint32_t first, uint32_t count)
{
    if (shard.takes.spare.next == NULL) {
        amb_list_init(&shard.takes.spare);
    }
    struct amb_take *take = amb_take_get(&shard);
    assert_non_null(take);
    amb_take_fill(take, first, count);
    take->bytes = (uint64_t)count * 10;
    return take;
}

static void test_runs_are_what_is_left_between_what_is_settled(void **state)
{
    (void)state;
    struct amb_take *take = take_of(60, 200);
    assert_int_equal(amb_take_clear(take, 0, 61, NULL), 1); /* outside of it there is nothing */
    assert_int_equal(amb_take_clear(take, 100, 1, NULL), 1);
    assert_int_equal(amb_take_clear(take, 100, 1, NULL), 0);
    assert_int_equal(amb_take_clear(take, 255, 1000, NULL), 5);
    assert_int_equal(take->left, 193);
    assert_int_equal(take->bytes, 1930);
    uint32_t first = 0, count;
    assert_true(amb_take_run(take, &first, &count));
    assert_int_equal(first, 61);
    assert_int_equal(count, 39);
    first += count;
    assert_true(amb_take_run(take, &first, &count));
    assert_int_equal(first, 101);
    assert_int_equal(count, 154);
    first += count;
    assert_false(amb_take_run(take, &first, &count));
    amb_take_put(&shard, take);
    amb_takes_fini(&shard);
}

static void test_what_is_cut_off_is_not_left_and_bytes_add_up(void **state)
{
    (void)state;
    struct amb_take *take = take_of(0, 1024), *cut = take_of(0, 1);
    cut->bits[0] = 0;
    take->bytes = 10000; /* not a multiple */
    assert_int_equal(amb_take_clear(take, 63, 2, cut), 2);
    assert_int_equal(cut->left, 2);
    assert_int_equal(take->left, 1022);
    assert_int_equal(cut->bytes + take->bytes, 10000);
    uint32_t first = 0, count;
    assert_true(amb_take_run(cut, &first, &count));
    assert_int_equal(first, 63);
    assert_int_equal(count, 2);
    assert_int_equal(amb_take_clear(take, 0, 1024, NULL), 1022);
    assert_int_equal(take->bytes, 0);
    amb_take_put(&shard, take);
    amb_take_put(&shard, cut);
    amb_takes_fini(&shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_are_what_is_left_between_what_is_settled),
        cmocka_unit_test(test_what_is_cut_off_is_not_left_and_bytes_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
