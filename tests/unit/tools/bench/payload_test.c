/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/bench/payload, by damage to every place that must be noticed. */
#include "tools/bench/payload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

static const size_t sizes[] = {64, 65, 71, 72, 1000, 1024};

static void test_payload_says_publisher_and_sequence(void **state)
{
    (void)state;
    unsigned char data[1024];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int touch = 0; touch < 2; touch++) {
            uint64_t word = 0;
            memset(data, 0xee, sizeof(data));
            amb_payload_write(data, sizes[i], amb_payload_word(15, 123456), touch == 1);
            assert_true(amb_payload_check(data, sizes[i], sizes[i], touch == 1, &word));
            assert_int_equal(word >> 48, 15);
            assert_int_equal(word & AMB_PAYLOAD_SEQ_MASK, 123456);
        }
    }
}

static void test_payload_write_stays_within_its_size(void **state)
{
    (void)state;
    unsigned char data[1025];
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(data, 0xee, sizeof(data));
        amb_payload_write(data, sizes[i], 1, true);
        assert_int_equal(data[sizes[i]], 0xee);
    }
}

static void test_payload_check_sees_another_size(void **state)
{
    (void)state;
    unsigned char data[1024] = {0};
    uint64_t word = 7;
    amb_payload_write(data, 64, 1, false);
    assert_false(amb_payload_check(data, 64, 1024, false, &word));
    assert_false(amb_payload_check(data, 0, 0, false, &word));
    assert_int_equal(word, 7);
}

static void test_payload_check_sees_ends_that_differ(void **state)
{
    (void)state;
    unsigned char data[64] = {0};
    uint64_t word = 7;
    amb_payload_write(data, sizeof(data), 1, false);
    data[63] ^= 1;
    assert_false(amb_payload_check(data, sizeof(data), sizeof(data), false, &word));
    data[63] ^= 1;
    data[0] ^= 1;
    assert_false(amb_payload_check(data, sizeof(data), sizeof(data), false, &word));
    assert_int_equal(word, 7);
}

static void test_payload_touch_sees_every_word(void **state)
{
    (void)state;
    unsigned char data[1024] = {0};
    uint64_t word = 7;
    amb_payload_write(data, sizeof(data), 99, true);
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] ^= 0x10;
        assert_false(amb_payload_check(data, sizeof(data), sizeof(data), true, &word));
        data[i] ^= 0x10;
    }
    assert_true(amb_payload_check(data, sizeof(data), sizeof(data), true, &word));
    assert_int_equal(word, 99);
}

static void test_payload_sum_sees_every_bit_and_every_place(void **state)
{
    (void)state;
    unsigned char data[203] = {0};
    amb_payload_write(data, sizeof(data), 99, true);
    uint64_t sum = amb_payload_sum(data, sizeof(data));
    for (size_t i = 0; i < 8 * sizeof(data); i++) {
        data[i / 8] ^= (unsigned char)(1u << i % 8);
        assert_int_not_equal(amb_payload_sum(data, sizeof(data)), sum);
        data[i / 8] ^= (unsigned char)(1u << i % 8);
    }
    assert_int_equal(amb_payload_sum(data, sizeof(data)), sum);
    /* Two words that have changed places, and zeros that are missing. */
    unsigned char swapped[32] = {[0] = 1, [8] = 2}, straight[32] = {[0] = 2, [8] = 1};
    assert_int_not_equal(amb_payload_sum(swapped, 32), amb_payload_sum(straight, 32));
    assert_int_not_equal(amb_payload_sum(swapped, 32), amb_payload_sum(swapped, 24));
    assert_int_equal(amb_payload_sum(NULL, 0), amb_payload_sum(data, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_payload_says_publisher_and_sequence),
        cmocka_unit_test(test_payload_write_stays_within_its_size),
        cmocka_unit_test(test_payload_check_sees_another_size),
        cmocka_unit_test(test_payload_check_sees_ends_that_differ),
        cmocka_unit_test(test_payload_touch_sees_every_word),
        cmocka_unit_test(test_payload_sum_sees_every_bit_and_every_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
