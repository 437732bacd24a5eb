/* SPDX-License-Identifier: Apache-2.0 */
/* Array descriptions: what is written is read, and what cannot be an array is refused. */
#include "client/tensor.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void what_is_written_is_read(void **state)
{
    (void)state;
    const struct amb_tensor tensors[] = {
        {.code = 2, .bits = 32, .lanes = 1},
        {.code = 1, .bits = 8, .lanes = 4, .ndim = 1, .shape = {1000}},
        {.code = 2,
         .bits = 16,
         .lanes = 1,
         .ndim = 8,
         .shape = {1, 2, 3, 4, 5, 6, 7, 8},
         .strides = {1, -2, 3, 4, 5, 6, 7, INT64_MIN}},
        {.code = 0, .bits = 64, .lanes = 1, .ndim = 2, .shape = {INT64_MAX, 0}},
    };
    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
        uint8_t bytes[AMB_TENSOR_BYTES];
        size_t len = 0;
        struct amb_tensor back;
        memset(&back, 0, sizeof(back));
        assert_int_equal(amb_tensor_write(&tensors[i], bytes, &len), AMB_OK);
        assert_true(len <= sizeof(bytes));
        assert_int_equal(amb_tensor_read(bytes, len, &back), AMB_OK);
        assert_memory_equal(&back, &tensors[i], sizeof(back));
        assert_int_equal(amb_tensor_read(bytes, len - 1, &back), AMB_EPROTO);
        assert_int_equal(amb_tensor_read(bytes, 0, &back), AMB_EPROTO);
    }
}

static void size_is_that_of_a_compact_array(void **state)
{
    (void)state;
    uint64_t size = 0;
    assert_true(amb_tensor_size(
        &(struct amb_tensor){.bits = 32, .lanes = 1, .ndim = 2, .shape = {4096, 4096}}, &size));
    assert_int_equal(size, 4096 * 4096 * 4);
    assert_true(amb_tensor_size(
        &(struct amb_tensor){.bits = 1, .lanes = 1, .ndim = 1, .shape = {9}}, &size));
    assert_int_equal(size, 2);
}

static void what_cannot_be_an_array_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[AMB_TENSOR_BYTES];
    size_t len = 0;
    const struct amb_tensor wrong[] = {
        {.bits = 0, .lanes = 1},
        {.bits = 8, .lanes = 0},
        {.bits = 8, .lanes = 1, .ndim = 9},
        {.bits = 8, .lanes = 1, .ndim = 1, .shape = {-1}},
        {.bits = 8, .lanes = 1, .ndim = 3, .shape = {INT64_MAX, INT64_MAX, 2}},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(amb_tensor_write(&wrong[i], bytes, &len), AMB_EINVAL);
    }
    /* As it may come from a peer. */
    const uint8_t dims[] = {2, 32, 1, 0, 9, 0};
    const uint8_t flag[] = {2, 32, 1, 0, 0, 2};
    const uint8_t bits[] = {2, 0, 1, 0, 0, 0};
    struct amb_tensor tensor;
    assert_int_equal(amb_tensor_read(dims, sizeof(dims), &tensor), AMB_EPROTO);
    assert_int_equal(amb_tensor_read(flag, sizeof(flag), &tensor), AMB_EPROTO);
    assert_int_equal(amb_tensor_read(bits, sizeof(bits), &tensor), AMB_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(size_is_that_of_a_compact_array),
        cmocka_unit_test(what_cannot_be_an_array_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
