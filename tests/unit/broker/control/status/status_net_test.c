/* SPDX-License-Identifier: Apache-2.0 */
/* Rows about UCX and network devices, of a control thread that is stepped, on machines of folders.
 */
#include "broker/control/status/status_net.h"

#include "broker/control/clients/client.h"
#include "broker/control/clients/control.h"
#include "tests/support/link/ucx_tree.h"
#include "wire/config/transports.h"
#include "wire/link/ucxlib/ucx_process.h"

static const char *const gpus[] = {"0000:3b:00.0", "0000:5e:00.0"};

static int make_machine(void **state)
{
    static const struct {
        const char *link, *target, *node;
    } places[] = {
        {"sys/bus/pci/devices/0000:3b:00.0", "pci0000:3a/0000:3a:00.0/0000:3b:00.0", "0\n"},
        {"sys/bus/pci/devices/0000:5e:00.0", "pci0000:5d/0000:5d:00.0/0000:5e:00.0", "1\n"},
        {"sys/class/infiniband/mlx5_0/device", "pci0000:3a/0000:3a:02.0/0000:3c:00.0", "0\n"},
        {"sys/class/net/eth0/device", "pci0000:5d/0000:5d:00.0/0000:5e:00.1", "1\n"},
    };
    char path[200], target[200];
    int result = tree_make(state);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        (void)snprintf(path, sizeof(path), "sys/devices/%s/numa_node", places[i].target);
        tree_text(path, places[i].node);
        (void)snprintf(target, sizeof(target), "../../../devices/%s", places[i].target);
        tree_link(places[i].link, target);
    }
    tree_text("sys/class/net/lo/dev_port", "0\n");
    return result;
}

static void expect(const json_t *rows, size_t index, const char *key, const char *value)
{
    const char *own = json_string_value(json_object_get(json_array_get(rows, index), key));
    assert_non_null(own);
    assert_string_equal(own, value);
}

static struct amb_transports transports = {
    .has_ucx = true, .net_devices = "mlx5_0:1,lo", .options = {.tls = "tcp,self,rc,ud"}};

static void test_topo_has_a_row_for_each_device_and_gpu(void **state)
{
    (void)state;
    const struct amb_control control = {.transports = &transports};
    static const struct {
        const char *device, *pci, *numa, *gpu, *distance;
        bool is_used;
    } expected[] = {
        {"eth0", "0000:5e:00.1", "1", "0", "SYS", false},
        {"eth0", "0000:5e:00.1", "1", "1", "PIX", false},
        {"lo", "", "", "0", "-", true},
        {"lo", "", "", "1", "-", true},
        {"mlx5_0", "0000:3c:00.0", "0", "0", "PHB", true},
        {"mlx5_0", "0000:3c:00.0", "0", "1", "SYS", true},
    };
    json_t *rows = amb_status_net_rows(&control, tree_root, gpus, 2);
    assert_int_equal(json_array_size(rows), sizeof(expected) / sizeof(expected[0]));
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        expect(rows, i, "device", expected[i].device);
        expect(rows, i, "pci", expected[i].pci);
        expect(rows, i, "numa", expected[i].numa);
        expect(rows, i, "gpu", expected[i].gpu);
        expect(rows, i, "gpu_pci", gpus[i % 2]);
        expect(rows, i, "distance", expected[i].distance);
        assert_int_equal(json_is_true(json_object_get(json_array_get(rows, i), "used")),
                         expected[i].is_used);
    }
    expect(rows, 0, "lanes", "tcp/eth0");
    json_decref(rows);
}

static void test_without_gpus_each_device_has_one_row(void **state)
{
    (void)state;
    const struct amb_control control = {.transports = &transports};
    json_t *rows = amb_status_net_rows(&control, tree_root, NULL, 0);
    assert_int_equal(json_array_size(rows), 3);
    expect(rows, 0, "device", "eth0");
    expect(rows, 0, "gpu", "");
    expect(rows, 0, "gpu_pci", "");
    expect(rows, 0, "distance", "-");
    json_decref(rows);
    rows = amb_status_net_rows(&control, "/nonexistent", NULL, 0);
    assert_int_equal(json_array_size(rows), 0);
    json_decref(rows);
}

/* A machine with containers: more devices than a table has. Those with a place are never left out.
 */
static void test_topo_keeps_the_devices_that_matter(void **state)
{
    (void)state;
    const struct amb_control control = {.transports = &transports};
    static const char *const kept[] = {"eth0", "lo", "mlx5_0"};
    char path[64];
    for (unsigned i = 0; i < 600; i++) {
        (void)snprintf(path, sizeof(path), "sys/class/net/%s%u/dev_port", i % 2 == 0 ? "a" : "veth",
                       i);
        tree_text(path, "0\n");
    }
    json_t *rows = amb_status_net_rows(&control, tree_root, NULL, 0);
    size_t found = 0, index;
    json_t *row;
    json_array_foreach(rows, index, row)
    {
        const char *device = json_string_value(json_object_get(row, "device"));
        for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
            found += strcmp(device, kept[i]) == 0;
        }
    }
    assert_int_equal(found, 3);
    assert_int_equal(json_array_size(rows), 256);
    json_decref(rows);
}

static void test_lanes_are_those_that_this_ucx_could_have(void **state)
{
    (void)state;
    if (!amb_ucx_load()) {
        skip();
    }
    const struct amb_control control = {.transports = &transports,
                                        .ucx_release = amb_ucx_release()};
    json_t *rows = amb_status_net_rows(&control, tree_root, NULL, 0);
    expect(rows, 2, "device", "mlx5_0");
    expect(rows, 2, "lanes", amb_ucx_library()->has_ib ? "rc/mlx5_0 ud/mlx5_0" : "");
    json_decref(rows);
}

static void test_the_brokers_row_names_its_ucx_and_what_it_lacks(void **state)
{
    (void)state;
    struct amb_control control = {.transports = &transports};
    assert_null(amb_status_net_broker(&control)); /* No ucx links. */
    if (!amb_ucx_load()) {
        skip();
    }
    control.ucx = (struct amb_ucx_context *)&control; /* Not looked into. */
    control.ucx_release = amb_ucx_release();
    transports.has_rdma = true;
    json_t *row = amb_status_net_broker(&control);
    const char *ucx = json_string_value(json_object_get(row, "ucx"));
    const char *why = json_string_value(json_object_get(row, "why_not_better"));
    assert_non_null(strstr(ucx, amb_ucx_library()->file));
    assert_int_equal(json_integer_value(json_object_get(row, "id")), 0);
    assert_int_equal(strstr(why, "libuct_ib") != NULL, !amb_ucx_library()->has_ib);
    json_decref(row);
    transports.has_rdma = false;
}

static void test_a_client_is_shown_with_its_release(void **state)
{
    (void)state;
    struct amb_client client = {.ucx_release = 0x011600};
    json_t *row = json_object();
    amb_status_net_client(&client, row);
    assert_string_equal(json_string_value(json_object_get(row, "ucx")), "1.22.0");
    client.ucx_release = 0;
    amb_status_net_client(&client, row);
    assert_string_equal(json_string_value(json_object_get(row, "ucx")), "");
    json_decref(row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topo_has_a_row_for_each_device_and_gpu),
        cmocka_unit_test(test_without_gpus_each_device_has_one_row),
        cmocka_unit_test(test_lanes_are_those_that_this_ucx_could_have),
        cmocka_unit_test(test_the_brokers_row_names_its_ucx_and_what_it_lacks),
        cmocka_unit_test(test_a_client_is_shown_with_its_release),
        cmocka_unit_test(test_topo_keeps_the_devices_that_matter), /* The machine is full then. */
    };
    return cmocka_run_group_tests(tests, make_machine, tree_remove);
}
