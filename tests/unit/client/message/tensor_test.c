/* SPDX-License-Identifier: Apache-2.0 */
/* Array descriptions: written ones are read, and impossible arrays are refused. */
#include "client/message/tensor.h"

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
         .strides = {INT64_MIN, -2, 3, 4, 5, 6, 7, -1000000}},
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

static void it_takes_the_bytes_between_its_ends(void **state)
{
    (void)state;
    const struct {
        struct amb_tensor tensor;
        struct amb_tensor_extent extent;
    } cases[] = {
        {{.bits = 32, .lanes = 1, .ndim = 2, .shape = {4096, 4096}}, {4096 * 4096 * 4, 0}},
        {{.bits = 1, .lanes = 1, .ndim = 1, .shape = {9}}, {2, 0}},
        {{.bits = 32, .lanes = 1}, {4, 0}},
        {{.bits = 8, .lanes = 2, .ndim = 2, .shape = {3, 2}, .strides = {1, 3}}, {12, 0}},
        {{.bits = 16, .lanes = 1, .ndim = 2, .shape = {3, 2}, .strides = {-10, 1}}, {44, 40}},
        {{.bits = 16, .lanes = 1, .ndim = 2, .shape = {3, 0}, .strides = {INT64_MAX, -1}}, {0, 0}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct amb_tensor_extent extent;
        assert_true(amb_tensor_lie(&cases[i].tensor, &extent));
        assert_int_equal(extent.bytes, cases[i].extent.bytes);
        assert_int_equal(extent.first, cases[i].extent.first);
    }
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
        {.bits = 8, .lanes = 1, .ndim = 1, .shape = {3}, .strides = {INT64_MAX}},
        {.bits = 8, .lanes = 1, .ndim = 2, .shape = {2, 2}, .strides = {INT64_MIN, INT64_MAX}},
        {.bits = 8, .lanes = 1, .ndim = 2, .shape = {2, 2}, .strides = {INT64_MIN, -1}},
        {.bits = 64, .lanes = 2, .ndim = 1, .shape = {2}, .strides = {INT64_MAX / 8}},
        {.bits = 4, .lanes = 1, .ndim = 1, .shape = {2}, .strides = {2}},
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
        cmocka_unit_test(it_takes_the_bytes_between_its_ends),
        cmocka_unit_test(what_cannot_be_an_array_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
