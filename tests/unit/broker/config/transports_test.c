/* SPDX-License-Identifier: Apache-2.0 */
/* Switches into devices and lanes, on machines made of folders: plain, InfiniBand, GPU. */
#include "broker/config/transports.h"

#include "tests/support/config_try.h"
#include "wire/link/ucxlib/ucx_process.h"

#include <sys/stat.h>
#include <unistd.h>

static char root[64];
static struct amb_transports transports;
static struct amb_config *accepted; /* transports points into it */

static void make(const char *path, const char *text)
{
    char full[512];
    (void)snprintf(full, sizeof(full), "%s/%s", root, path);
    for (char *at = strchr(full + strlen(root) + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(full, 0700);
        *at = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int make_root(void **state)
{
    (void)state;
    (void)strcpy(root, "/tmp/amb-transports-XXXXXX");
    if (mkdtemp(root) == NULL) {
        return -1;
    }
    make("sys/class/net/lo/dev_port", "0\n");
    make("sys/class/net/eth0/dev_port", "0\n");
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    amb_config_destroy(&accepted);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
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

static void accept_switches(const char *text)
{
    char all[512], error[AMB_CONFIG_ERROR_MAX] = "";
    (void)snprintf(all, sizeof(all), "transports = { %s };", text);
    amb_config_destroy(&accepted);
    accepted = try_accept(all);
    enum amb_status status = amb_transports_init(&transports, accepted, root, error, sizeof(error));
    if (status != AMB_OK) {
        fail_msg("refused: %s", error);
    }
}

static void refuse_switches(const char *text, const char *expected)
{
    char all[512], error[AMB_CONFIG_ERROR_MAX] = "";
    (void)snprintf(all, sizeof(all), "transports = { %s };", text);
    struct amb_config *config = try_accept(all);
    enum amb_status status = amb_transports_init(&transports, config, root, error, sizeof(error));
    assert_int_equal(status, AMB_EINVAL);
    assert_string_equal(error, expected);
    assert_int_equal(amb_transports_init(&transports, config, root, NULL, 0), AMB_EINVAL);
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
    assert_int_equal(amb_transports_init(&transports, config, root, error, sizeof(error)),
                     AMB_EINVAL);
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
    accept_switches("trusted = ( \"mlx5_0:2\" ); infiniband = \"on\";");
    assert_string_equal(transports.net_devices, "mlx5_0:2");
    refuse_switches("trusted = ( \"lo\" ); infiniband = \"on\";",
                    "configuration:1: transports.infiniband: no interface of transports.trusted "
                    "has an RDMA device; there are mlx5_0 (got \"on\", allowed \"auto\" or "
                    "\"off\")");
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

static void test_this_machine_has_loopback(void **state)
{
    (void)state;
    char error[AMB_CONFIG_ERROR_MAX] = "";
    struct amb_config *config = try_accept("transports = { trusted = ( \"lo\" ); };");
    assert_int_equal(amb_transports_init(&transports, config, "", error, sizeof(error)), AMB_OK);
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
        cmocka_unit_test(test_net_devices_choose_among_the_trusted),
        cmocka_unit_test(test_nvlink_on_insists_on_its_lane), /* The root has a driver then. */
        cmocka_unit_test(test_this_machine_has_loopback),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
