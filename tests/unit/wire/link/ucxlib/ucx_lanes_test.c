/* SPDX-License-Identifier: Apache-2.0 */
/* The lanes that devices could have, on machines made of folders. */
#include "wire/link/ucxlib/ucx_lanes.h"

#include "tests/support/link/ucx_tree.h"

#define ALL "tcp,self,rc,dc,ud,cuda_copy,cuda_ipc,gdr_copy"

static int make_machine(void **state)
{
    int result = tree_make(state);
    tree_text("sys/class/net/eth0/dev_port", "0\n");
    tree_text("sys/class/net/ib0/dev_port", "0\n");
    tree_text("sys/class/infiniband/mlx5_0/ports/1/state", "");
    tree_text("sys/class/infiniband/irdma0/ports/1/state", "");
    return result;
}

static void expect(const char *devices, const char *tls, bool has_ib, const char *lanes)
{
    char out[256];
    amb_ucx_lanes_possible(tree_root, devices, tls, has_ib, out, sizeof(out));
    assert_string_equal(out, lanes);
}

static void test_rdma_devices_have_their_lanes_with_the_module_alone(void **state)
{
    (void)state;
    expect("eth0", ALL, true, "tcp/eth0");
    expect("ib0,mlx5_0:1", ALL, true, "tcp/ib0 rc/mlx5_0:1 dc/mlx5_0:1 ud/mlx5_0:1");
    expect("ib0,mlx5_0:1", ALL, false, "tcp/ib0");
    expect("mlx5_0:1", ALL, false, "");
    expect("irdma0", ALL, true, "rc/irdma0 ud/irdma0"); /* dc is mlx5's. */
    expect("", ALL, true, "");
}

static void test_lanes_that_are_off_are_not_there(void **state)
{
    (void)state;
    expect("eth0,mlx5_0", "self,rc,ud", true, "rc/mlx5_0 ud/mlx5_0");
    expect("eth0,mlx5_0", "self,tcp", true, "tcp/eth0");
    expect("eth0,mlx5_0", "", true, "");
    expect("mlx5_0", "rc_x,dc_x,ud_x", true, ""); /* Whole words. */
}

static void test_a_lane_that_does_not_fit_is_left_out_whole(void **state)
{
    (void)state;
    char out[sizeof("tcp/ib0 rc/mlx5_0:1")];
    amb_ucx_lanes_possible(tree_root, "ib0,mlx5_0:1", ALL, true, out, sizeof(out));
    assert_string_equal(out, "tcp/ib0 rc/mlx5_0:1");
    amb_ucx_lanes_possible(tree_root, "ib0,mlx5_0:1", ALL, true, out, sizeof(out) - 1);
    assert_string_equal(out, "tcp/ib0");
}

static void test_rdma_devices_are_known_by_their_class(void **state)
{
    (void)state;
    assert_true(amb_ucx_has_rdma(tree_root, "mlx5_0"));
    assert_true(amb_ucx_has_rdma(tree_root, "eth0,mlx5_0:1"));
    static const char *const others[] = {"",  "eth0", "ib0,eth0", "mlx5_",       "mlx5_00", ":1",
                                         ",", ".",    "..",       "../net/eth0", ".:1"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(amb_ucx_has_rdma(tree_root, others[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rdma_devices_have_their_lanes_with_the_module_alone),
        cmocka_unit_test(test_lanes_that_are_off_are_not_there),
        cmocka_unit_test(test_a_lane_that_does_not_fit_is_left_out_whole),
        cmocka_unit_test(test_rdma_devices_are_known_by_their_class),
    };
    return cmocka_run_group_tests(tests, make_machine, tree_remove);
}
