/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/bench/partition, by damage, and by partitions that stand in for each other. */
#include "tools/bench/partition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SIZE 1003u

static void test_partition_sees_every_byte(void **state)
{
    (void)state;
    unsigned char data[SIZE];
    struct amb_partition part = {.from = 2, .to = 15, .round = 7};
    amb_partition_fill(&part, data, SIZE);
    for (size_t i = 0; i < SIZE; i++) {
        data[i] ^= 0x40;
        assert_false(amb_partition_is_whole(&part, data, SIZE));
        data[i] ^= 0x40;
    }
    assert_true(amb_partition_is_whole(&part, data, SIZE));
    assert_false(amb_partition_is_whole(&part, data, SIZE - 1));
    assert_false(amb_partition_is_whole(&part, NULL, SIZE));
    assert_false(amb_partition_is_whole(&part, data, 8));
}

static void test_partition_of_another_pair_or_round_is_another(void **state)
{
    (void)state;
    unsigned char data[SIZE];
    const struct amb_partition part = {.from = 2, .to = 3, .round = 7};
    const struct amb_partition others[] = {{.from = 3, .to = 2, .round = 7},
                                           {.from = 2, .to = 4, .round = 7},
                                           {.from = 1, .to = 3, .round = 7},
                                           {.from = 2, .to = 3, .round = 8},
                                           {.from = 2, .to = 3, .round = 6}};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct amb_partition other = others[i];
        amb_partition_fill(&other, data, SIZE);
        struct amb_partition claimed = part;
        claimed.sum = other.sum;
        assert_false(amb_partition_is_whole(&claimed, data, SIZE));
        /* A GPU's words have the lower half alone. */
        assert_int_not_equal((uint32_t)amb_partition_word(&other),
                             (uint32_t)amb_partition_word(&part));
    }
}

static void test_partition_reads_its_own_property_alone(void **state)
{
    (void)state;
    struct amb_partition part = {.from = 2, .to = 3, .round = 7, .sum = 9}, out = {0};
    assert_true(amb_partition_read(&part, sizeof(part), &out));
    assert_int_equal(out.from, 2);
    assert_int_equal(out.to, 3);
    assert_int_equal(out.round, 7);
    assert_int_equal(out.sum, 9);
    assert_false(amb_partition_read(&part, sizeof(part) - 1, &out));
    assert_false(amb_partition_read(NULL, 0, &out));
    part.from = AMB_PARTITION_WORKERS_MAX;
    assert_false(amb_partition_read(&part, sizeof(part), &out));
    part.from = 0;
    part.to = AMB_PARTITION_WORKERS_MAX;
    assert_false(amb_partition_read(&part, sizeof(part), &out));
    assert_int_equal(out.from, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partition_sees_every_byte),
        cmocka_unit_test(test_partition_of_another_pair_or_round_is_another),
        cmocka_unit_test(test_partition_reads_its_own_property_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
