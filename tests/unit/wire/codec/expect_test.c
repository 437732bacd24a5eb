/* SPDX-License-Identifier: Apache-2.0 */
/* Demands by name, and lanes by kind. */
#include "wire/codec/expect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void each_demand_has_one_name(void **state)
{
    (void)state;
    for (uint32_t bit = 1; bit <= AMB_EXPECT_ALL; bit <<= 1) {
        const char *name = amb_expect_name(bit);
        assert_int_equal(amb_expect_find(name, strlen(name)), bit);
        assert_non_null(strstr(AMB_EXPECT_WORDS, name));
    }
    assert_string_equal(amb_expect_name(AMB_EXPECT_RDMA), "rdma");
    assert_string_equal(amb_expect_name(0), "");
    assert_string_equal(amb_expect_name(AMB_EXPECT_ALL + 1), "");
}

static void other_words_are_none(void **state)
{
    (void)state;
    static const char *const others[] = {"", "rin", "ringing", "RING", "zero_copy", "tcp", "any"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_int_equal(amb_expect_find(others[i], strlen(others[i])), 0);
    }
    assert_int_equal(amb_expect_find("rings", 4), AMB_EXPECT_RING); /* The length decides. */
}

static void the_first_is_the_lowest(void **state)
{
    (void)state;
    assert_int_equal(amb_expect_first(0), 0);
    assert_int_equal(amb_expect_first(AMB_EXPECT_NVLINK), AMB_EXPECT_NVLINK);
    assert_int_equal(amb_expect_first(AMB_EXPECT_NVLINK | AMB_EXPECT_RDMA), AMB_EXPECT_RDMA);
}

static void lanes_are_told_apart(void **state)
{
    (void)state;
    assert_true(amb_expect_is_rdma("rc_mlx5/mlx5_0:1"));
    assert_true(amb_expect_is_rdma("ucx tcp/eth0 ud_verbs/mlx5_0:1"));
    assert_true(amb_expect_is_rdma("ucx dc_mlx5/mlx5_1:1"));
    assert_false(amb_expect_is_rdma("ucx tcp/rc0")); /* The name of an interface. */
    assert_false(amb_expect_is_rdma("ucx tcp/lo self/memory"));
    assert_false(amb_expect_is_rdma(""));
    assert_true(amb_expect_is_nvlink("ucx tcp/lo cuda_ipc/cuda"));
    assert_false(amb_expect_is_nvlink("ucx tcp/lo cuda_copy/cuda"));
}

#define T(test) cmocka_unit_test(test)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        T(each_demand_has_one_name),
        T(other_words_are_none),
        T(the_first_is_the_lowest),
        T(lanes_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
