/* SPDX-License-Identifier: Apache-2.0 */
/* Switches into devices and lanes, on machines made of folders: plain, InfiniBand, GPU. */
#include "wire/config/transports.h"

#include "tests/support/config_try.h"
#include "tests/support/link/ucx_tree.h"
#include "wire/config/config_faults.h"
#include "wire/link/ucxlib/ucx_process.h"

#define root tree_root
#define make tree_text

static struct amb_transports transports;
static struct amb_config *accepted; /* transports points into it */

static int make_root(void **state)
{
    int result = tree_make(state);
    make("sys/class/net/lo/dev_port", "0\n");
    make("sys/class/net/eth0/dev_port", "0\n");
    return result;
}

static int remove_root(void **state)
{
    amb_config_destroy(&accepted);
    return tree_remove(state);
}

static void add_infiniband(void)
{
    make("sys/class/net/ib0/dev_port", "0\n");
    make("sys/class/net/ib0/device/infiniband/mlx5_0/x", "");
    make("sys/class/net/ib1/dev_port", "1\n");
    make("sys/class/net/ib1/device/infiniband/mlx5_0/x", "");
    make("sys/class/infiniband/mlx5_0/ports/1/state", "");
    make("sys/class/infiniband/mlx5_0/ports/2/state", "");
}

static enum amb_status init(const struct amb_config *config, char *error, size_t size)
{
    return amb_transports_init(&transports, &config->transports, config->store, root, error, size,
                               NULL);
}

static void accept_switches(const char *text)
{
    char all[512], error[AMB_CONFIG_ERROR_MAX] = "";
    (void)snprintf(all, sizeof(all), "transports = { %s };", text);
    amb_config_destroy(&accepted);
    accepted = try_accept(all);
    enum amb_status status = init(accepted, error, sizeof(error));
    if (status != AMB_OK) {
        fail_msg("refused: %s", error);
    }
}

static void refuse_switches(const char *text, const char *expected)
{
    char all[512], error[AMB_CONFIG_ERROR_MAX] = "";
    (void)snprintf(all, sizeof(all), "transports = { %s };", text);
    struct amb_config *config = try_accept(all);
    enum amb_status status = init(config, error, sizeof(error));
    assert_int_equal(status, AMB_EINVAL);
    assert_string_equal(error, expected);
    assert_int_equal(init(config, NULL, 0), AMB_EINVAL);
    amb_config_destroy(&config);
}

static void test_without_trust_there_is_no_ucx(void **state)
{
    (void)state;
    accept_switches("");
    assert_false(transports.has_ucx);
    assert_non_null(strstr(transports.why_not, "transports.trusted"));
}

static void test_trusted_interfaces_are_the_devices(void **state)
{
    (void)state;
    accept_switches("trusted = ( \"lo\", \"eth0\" );");
    assert_string_equal(transports.net_devices, "lo,eth0");
    assert_ptr_equal(transports.options.net_devices, transports.net_devices);
    assert_null(transports.options.tls);
    assert_null(transports.options.port_range);
    assert_true(transports.options.use_environment);
    assert_true(transports.options.tx_seg > 0 && transports.options.rx_seg > 0);
    assert_false(transports.has_rdma);
    assert_false(transports.prefer_ucx);
}

static void test_absent_interfaces_are_refused_with_those_there_are(void **state)
{
    (void)state;
    char error[AMB_CONFIG_ERROR_MAX] = "";
    struct amb_config *config = try_accept("transports = {\n trusted = ( \"ib7\" ); };");
    assert_int_equal(init(config, error, sizeof(error)), AMB_EINVAL);
    assert_non_null(strstr(error, "configuration:2: transports.trusted: no such interface (got "
                                  "\"ib7\", allowed "));
    assert_non_null(strstr(error, "eth0"));
    amb_config_destroy(&config);
}

static void test_off_takes_lanes_away(void **state)
{
    (void)state;
    accept_switches("trusted = ( \"lo\" ); nvlink = \"off\"; cuda_copy = \"off\";");
    assert_string_equal(transports.options.tls, "self,tcp,rc,dc,ud");
    accept_switches("trusted = ( \"lo\" ); infiniband = \"off\";");
    assert_string_equal(transports.options.tls, "self,tcp,cuda_ipc,cuda_copy,gdr_copy");
    accept_switches("trusted = ( \"lo\" ); tcp = \"off\";");
    assert_string_equal(transports.options.tls, "self,rc,dc,ud,cuda_ipc,cuda_copy,gdr_copy");
    assert_false(transports.has_ucx);
    assert_non_null(strstr(transports.why_not, "leave no device"));
}

static void test_nvlink_on_insists_on_its_lane(void **state)
{
    (void)state;
    accept_switches("trusted = ( \"lo\" );");
    assert_false(transports.options.wants_cuda_ipc);
    make("proc/driver/nvidia/version", "NVRM\n");
    accept_switches("trusted = ( \"lo\" ); nvlink = \"on\";");
    assert_true(transports.options.wants_cuda_ipc);
}

static void test_on_without_hardware_names_what_is_missing(void **state)
{
    (void)state;
    refuse_switches("trusted = ( \"lo\" ); infiniband = \"on\";",
                    "configuration:1: transports.infiniband: this machine has no InfiniBand or "
                    "RoCE device (got \"on\", allowed \"auto\" or \"off\")");
    refuse_switches("trusted = ( \"lo\" ); nvlink = \"on\";",
                    "configuration:1: transports.nvlink: this machine has no NVIDIA driver (got "
                    "\"on\", allowed \"auto\" or \"off\")");
    refuse_switches("trusted = ( \"lo\" ); cuda_copy = \"on\";",
                    "configuration:1: transports.cuda_copy: this machine has no NVIDIA driver (got "
                    "\"on\", allowed \"auto\" or \"off\")");
    refuse_switches("tcp = \"on\";",
                    "configuration:1: transports.tcp: UCX needs an interface to trust, and "
                    "transports.trusted is empty (got \"on\", allowed \"auto\" or \"off\")");
}

static void test_tcp_on_prefers_ucx(void **state)
{
    (void)state;
    if (amb_ucx_release() == 0) {
        skip();
    }
    accept_switches("trusted = ( \"lo\" ); tcp = \"on\";");
    assert_true(transports.has_ucx);
    assert_true(transports.prefer_ucx);
    assert_null(transports.why_not);
}

static void test_settings_are_handed_on(void **state)
{
    (void)state;
    accept_switches("trusted = ( \"lo\" ); rails = 2; port_range = \"5000-5001\"; ucx = { "
                    "RNDV_THRESH = \"192K\"; };");
    assert_int_equal(transports.options.setting_count, 2);
    assert_string_equal(transports.options.settings[0].name, "MAX_RNDV_RAILS");
    assert_string_equal(transports.options.settings[0].value, "2");
    assert_string_equal(transports.options.settings[1].name, "RNDV_THRESH");
    assert_non_null(transports.options.port_range);
}

static void test_infiniband_behind_an_interface_is_found(void **state)
{
    (void)state;
    add_infiniband();
    accept_switches("trusted = ( \"ib0\", \"ib1\" );");
    assert_string_equal(transports.net_devices, "ib0,mlx5_0:1,ib1,mlx5_0:2");
    assert_true(transports.has_rdma);
    accept_switches("trusted = ( \"ib0\", \"mlx5_0:1\" ); tcp = \"off\";");
    assert_string_equal(transports.net_devices, "mlx5_0:1");
    accept_switches("trusted = ( \"ib0\" ); infiniband = \"off\";");
    assert_string_equal(transports.net_devices, "ib0");
    assert_false(transports.has_rdma);
    accept_switches("trusted = ( \"mlx5_0:2\" );");
    assert_string_equal(transports.net_devices, "mlx5_0:2");
    refuse_switches("trusted = ( \"lo\" ); infiniband = \"on\";",
                    "configuration:1: transports.infiniband: no interface of transports.trusted "
                    "has an RDMA device; there are mlx5_0 (got \"on\", allowed \"auto\" or "
                    "\"off\")");
}

static void refuse_with(const char *text, const char *first, const char *second)
{
    char all[512], error[AMB_CONFIG_ERROR_MAX] = "";
    (void)snprintf(all, sizeof(all), "transports = { %s };", text);
    struct amb_config *config = try_accept(all);
    assert_int_equal(init(config, error, sizeof(error)), AMB_EINVAL);
    if (strstr(error, first) == NULL || strstr(error, second) == NULL) {
        fail_msg("'%s' does not say '%s' and '%s'", error, first, second);
    }
    amb_config_destroy(&config);
}

static void test_infiniband_on_needs_a_ucx_with_its_module(void **state)
{
    (void)state;
    const struct amb_ucx_library *library = amb_ucx_library();
    if (library == NULL) {
        skip();
    }
    if (library->has_ib) {
        accept_switches("trusted = ( \"mlx5_0:2\" ); infiniband = \"on\";");
        assert_true(transports.has_rdma && transports.prefer_ucx);
    } else {
        refuse_with("trusted = ( \"mlx5_0:2\" ); infiniband = \"on\";",
                    "transports.infiniband: UCX ", "no InfiniBand module (libuct_ib); install");
        /* auto goes on without, and promises no link that could reach nobody. */
        accept_switches("trusted = ( \"mlx5_0:2\" );");
        assert_false(transports.has_ucx || transports.prefer_ucx);
        assert_non_null(strstr(transports.why_not, "no InfiniBand module"));
        accept_switches("trusted = ( \"ib0\" ); tcp = \"off\";");
        assert_false(transports.has_ucx);
    }
    /* Without the module it would be UCX over TCP, which nobody has asked for. */
    accept_switches("trusted = ( \"ib0\" );");
    assert_true(transports.has_ucx && transports.has_rdma);
    assert_int_equal(transports.prefer_ucx, library->has_ib);
    accept_switches("trusted = ( \"ib0\" ); tcp = \"on\";");
    assert_true(transports.prefer_ucx);
}

static void test_rdmacm_has_nothing_to_manage(void **state)
{
    (void)state;
    accept_switches("rdmacm = \"auto\";");
    accept_switches("trusted = ( \"lo\" ); rdmacm = \"off\";");
    refuse_switches("rdmacm = \"on\";",
                    "configuration:1: transports.rdmacm: UCX endpoints are made from worker "
                    "addresses and no listener, so there is nothing for RDMA's connection manager "
                    "to do (got \"on\", allowed \"auto\" or \"off\")");
}

/* The process has its UCX by now: another one cannot be had. */
static void test_a_library_that_cannot_be_had_is_refused_by_name(void **state)
{
    (void)state;
    assert_int_equal(unsetenv(AMB_UCX_LIBRARY_ENV), 0); /* It wins. */
    refuse_with("library = \"/nonexistent/libucp.so.0\";", "configuration:1: transports.library: ",
                "\"/nonexistent/libucp.so.0\": there is no such file");
    refuse_with("trusted = ( \"lo\" ); library = \"/nonexistent/libucp.so.0\";",
                "transports.library: ", "there is no such file");
    refuse_with("library = \"whel\";", "transports.library = \"whel\"", "\"wheel\"");
    if (amb_ucx_library() == NULL) {
        skip();
    }
    tree_ucx("ucx", "1.14.0", "");
    char text[AMB_UCX_FILE_MAX + 32];
    (void)snprintf(text, sizeof(text), "trusted = ( \"lo\" ); library = \"%s/ucx\";", root);
    refuse_with(text, "asks for 1.14.0", "cannot have both");
    tree_ucx("ucx", "1.12.1", "");
    refuse_with(text, "1.12.1", "cannot have both");
    (void)snprintf(text, sizeof(text), "library = \"%s\";", amb_ucx_library()->file);
    accept_switches(text);
}

/* GPUs 0 and 1, each with an adapter beside it. */
static void test_closest_leaves_the_devices_near_to_the_gpus(void **state)
{
    (void)state;
    static const char *const first[] = {"0000:3b:00.0"}, *const second[] = {"0000:5E:00.0"};
    static const char *const both[] = {"0000:3b:00.0", "0000:5e:00.0"};
    static const char *const elsewhere[] = {"0000:99:00.0"};
    if (amb_ucx_library() == NULL) {
        skip();
    }
    static const char *const places[][2] = {
        {"0000:3b:00.0", "pci0000:3a/0000:3a:00.0/0000:3b:00.0"},
        {"0000:3c:00.0", "pci0000:3a/0000:3a:02.0/0000:3c:00.0"},
        {"0000:5e:00.0", "pci0000:5d/0000:5d:00.0/0000:5e:00.0"},
        {"0000:5f:00.0", "pci0000:5d/0000:5d:02.0/0000:5f:00.0"},
    };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char path[200], target[200];
        (void)snprintf(path, sizeof(path), "sys/devices/%s/numa_node", places[i][1]);
        tree_text(path, i < 2 ? "0\n" : "1\n");
        (void)snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", places[i][0]);
        (void)snprintf(target, sizeof(target), "../../../devices/%s", places[i][1]);
        tree_link(path, target);
    }
    tree_link("sys/class/infiniband/mlx5_0/device", "../../../devices/pci0000:3a/0000:3a:02.0/"
                                                    "0000:3c:00.0");
    tree_text("sys/class/infiniband/mlx5_1/ports/1/state", "");
    tree_link("sys/class/infiniband/mlx5_1/device", "../../../devices/pci0000:5d/0000:5d:02.0/"
                                                    "0000:5f:00.0");
    static const char text[] =
        "trusted = ( \"eth0\", \"mlx5_0:1\", \"mlx5_1:1\" ); net_devices = \"closest\";";
    const struct {
        const char *const *gpus;
        size_t count;
        const char *devices;
    } cases[] = {{first, 1, "mlx5_0:1"},
                 {second, 1, "mlx5_1:1"},
                 {both, 2, "mlx5_0:1,mlx5_1:1"},
                 {elsewhere, 1, "eth0,mlx5_0:1,mlx5_1:1"},
                 {NULL, 0, "eth0,mlx5_0:1,mlx5_1:1"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        accept_switches(text);
        assert_true(transports.wants_closest && transports.has_rdma);
        assert_string_equal(transports.net_devices, "eth0,mlx5_0:1,mlx5_1:1");
        amb_transports_narrow(&transports, root, cases[i].gpus, cases[i].count);
        assert_string_equal(transports.net_devices, /* Near devices without a lane serve nobody. */
                            amb_ucx_library()->has_ib ? cases[i].devices
                                                      : "eth0,mlx5_0:1,mlx5_1:1");
        assert_true(transports.has_rdma);
    }
    accept_switches("trusted = ( \"eth0\", \"mlx5_0:1\" ); net_devices = ( \"eth0\" );");
    amb_transports_narrow(&transports, root, first, 1);
    assert_string_equal(transports.net_devices, "eth0");
    /* The nearest has no RDMA: then there is no reason to prefer UCX, or that one may not be. */
    tree_link("sys/class/net/eth0/device", "../../../devices/pci0000:5d/0000:5d:02.0/0000:5f:00.0");
    accept_switches("trusted = ( \"eth0\", \"mlx5_0:1\" ); net_devices = \"closest\";");
    amb_transports_narrow(&transports, root, second, 1);
    assert_string_equal(transports.net_devices, "eth0");
    assert_false(transports.has_rdma || transports.prefer_ucx);
    if (amb_ucx_library()->has_ib) {
        accept_switches("trusted = ( \"eth0\", \"mlx5_0:1\" ); net_devices = \"closest\"; "
                        "infiniband = \"on\";");
        amb_transports_narrow(&transports, root, second, 1);
        assert_string_equal(transports.net_devices, "eth0,mlx5_0:1");
        assert_true(transports.has_rdma && transports.prefer_ucx);
    }
}

static void test_net_devices_choose_among_the_trusted(void **state)
{
    (void)state;
    accept_switches("trusted = ( \"lo\", \"ib0\" ); net_devices = ( \"mlx5_0:1\" );");
    assert_string_equal(transports.net_devices, "mlx5_0:1");
    assert_true(transports.has_rdma);
    accept_switches("trusted = ( \"lo\", \"ib0\" ); net_devices = ( \"lo\" );");
    assert_string_equal(transports.net_devices, "lo");
    assert_false(transports.has_rdma);
    refuse_switches("trusted = ( \"lo\", \"ib0\" ); net_devices = ( \"eth0\" );",
                    "configuration:1: transports.net_devices: not a device of a trusted interface "
                    "(got \"eth0\", allowed lo,ib0,mlx5_0:1)");
    refuse_switches("net_devices = ( \"lo\" );",
                    "configuration:1: transports.net_devices: not a device of a trusted interface "
                    "(got \"lo\", allowed none)");
}

static void test_a_fault_has_its_parts(void **state)
{
    (void)state;
    char error[AMB_CONFIG_ERROR_MAX] = "", again[AMB_CONFIG_ERROR_MAX];
    struct amb_config_faults faults = {0};
    struct amb_config *config = try_accept("transports = {\n trusted = ( \"ib7\" ); };");
    assert_int_equal(amb_transports_init(&transports, &config->transports, config->store, root,
                                         error, sizeof(error), &faults),
                     AMB_EINVAL);
    assert_int_equal(faults.count, 1);
    assert_string_equal(faults.items[0].where, "configuration:2");
    assert_string_equal(faults.items[0].key, "transports.trusted");
    assert_string_equal(amb_config_fault_format(&faults.items[0], again, sizeof(again)), error);
    amb_config_destroy(&config);
}

static void test_this_machine_has_loopback(void **state)
{
    (void)state;
    char error[AMB_CONFIG_ERROR_MAX] = "";
    struct amb_config *config = try_accept("transports = { trusted = ( \"lo\" ); };");
    assert_int_equal(amb_transports_init(&transports, &config->transports, config->store, "", error,
                                         sizeof(error), NULL),
                     AMB_OK);
    amb_config_destroy(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_trust_there_is_no_ucx),
        cmocka_unit_test(test_trusted_interfaces_are_the_devices),
        cmocka_unit_test(test_absent_interfaces_are_refused_with_those_there_are),
        cmocka_unit_test(test_off_takes_lanes_away),
        cmocka_unit_test(test_on_without_hardware_names_what_is_missing),
        cmocka_unit_test(test_tcp_on_prefers_ucx),
        cmocka_unit_test(test_settings_are_handed_on),
        cmocka_unit_test(test_infiniband_behind_an_interface_is_found),
        cmocka_unit_test(test_infiniband_on_needs_a_ucx_with_its_module),
        cmocka_unit_test(test_rdmacm_has_nothing_to_manage),
        cmocka_unit_test(test_a_library_that_cannot_be_had_is_refused_by_name),
        cmocka_unit_test(test_net_devices_choose_among_the_trusted),
        cmocka_unit_test(test_closest_leaves_the_devices_near_to_the_gpus),
        cmocka_unit_test(test_nvlink_on_insists_on_its_lane), /* The root has a driver then. */
        cmocka_unit_test(test_a_fault_has_its_parts),
        cmocka_unit_test(test_this_machine_has_loopback),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
