/* SPDX-License-Identifier: Apache-2.0 */
/* Distances of devices and GPUs on a machine made of folders, as sysfs has them. */
#include "wire/config/closest.h"

#include "tests/support/link/ucx_tree.h"

/*
 * Two processors. Below the host bridge 3a is a switch, with a GPU and an adapter at its ports and
 * a second switch below it. Beside it is a GPU at a root port of its own. 40 is another host bridge
 * of the same node. 5d and what is below it belong to node 1.
 */
static const struct {
    const char *pci, *path, *node;
} functions[] = {
    {"0000:3d:00.0", "pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:04.0/0000:3d:00.0", "0\n"},
    {"0000:3e:00.0", "pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:08.0/0000:3e:00.0", "0\n"},
    {"0000:3e:00.1", "pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:08.0/0000:3e:00.1", "0\n"},
    {"0000:35:00.0",
     "pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:0c.0/0000:33:00.0/0000:34:00.0/0000:35:00.0",
     "0\n"},
    {"0000:3f:00.0", "pci0000:3a/0000:3a:02.0/0000:3f:00.0", "0\n"},
    {"0000:41:00.0", "pci0000:40/0000:40:00.0/0000:41:00.0", "0\n"},
    {"0000:5e:00.0", "pci0000:5d/0000:5d:00.0/0000:5e:00.0", "1\n"},
    {"0000:70:00.0", "pci0000:70/0000:70:00.0", "-1\n"},
    {"0000:71:00.0", "pci0000:71/0000:71:00.0", "-1\n"},
    {"8a3c:00:02.0", "LNXSYSTM:00/VMBUS:00/0a-1b/pci8a3c:00/8a3c:00:02.0", "0\n"},
};
static const struct {
    const char *class, *name, *target; /* below sys/devices */
} devices[] = {
    {"infiniband", "mlx5_0", "pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:08.0/0000:3e:00.0"},
    {"net", "ib0", "pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:08.0/0000:3e:00.0"},
    {"infiniband", "mlx5_1", "pci0000:5d/0000:5d:00.0/0000:5e:00.0"},
    {"net", "eth0", "pci0000:40/0000:40:00.0/0000:41:00.0"},
    /* virtio: the device of the class is not the PCI function itself, but lies in it. */
    {"net", "eth1", "pci0000:70/0000:70:00.0/virtio2"},
    /* Hyper-V: the host bridge lies below the machine's bus. */
    {"infiniband", "mlx5_2", "LNXSYSTM:00/VMBUS:00/0a-1b/pci8a3c:00/8a3c:00:02.0"},
    {"net", "end1", "platform/pcie@1000/x"}, /* no host bridge */
};

static int make_machine(void **state)
{
    char path[256], target[256];
    int result = tree_make(state);
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        (void)snprintf(path, sizeof(path), "sys/devices/%s/numa_node", functions[i].path);
        tree_text(path, functions[i].node);
        (void)snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", functions[i].pci);
        (void)snprintf(target, sizeof(target), "../../../devices/%s", functions[i].path);
        tree_link(path, target);
    }
    tree_text("sys/devices/pci0000:70/0000:70:00.0/virtio2/x", "");
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        (void)snprintf(path, sizeof(path), "sys/class/%s/%s/device", devices[i].class,
                       devices[i].name);
        (void)snprintf(target, sizeof(target), "../../../devices/%s", devices[i].target);
        tree_link(path, target);
    }
    tree_text("sys/class/net/lo/dev_port", "0\n");
    tree_text("sys/devices/platform/soc/x", "");
    tree_text("sys/devices/platform/pcie@1000/x/y", "");
    tree_link("sys/class/net/end0/device", "../../../devices/platform/soc");
    return result;
}

static void test_distances_are_those_of_the_tree(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *distance;
    } pairs[] = {
        {"0000:3d:00.0", "0000:3e:00.0", "PIX"}, /* at one switch */
        {"0000:3e:00.0", "0000:3e:00.1", "PIX"}, /* two functions of one device */
        {"0000:3d:00.0", "0000:3d:00.0", "PIX"},
        {"0000:3d:00.0", "0000:35:00.0", "PXB"},
        {"0000:3d:00.0", "0000:3f:00.0", "PHB"},
        {"0000:3d:00.0", "0000:41:00.0", "NODE"},
        {"0000:3d:00.0", "0000:5e:00.0", "SYS"},
        {"0000:70:00.0", "0000:71:00.0", "SYS"},
        {"0000:3D:00.0", "0000:3E:00.0", "PIX"}, /* CUDA may write capitals. */
        {"0000:3d:00.0", "8a3c:00:02.0", "NODE"},
        {"0000:3d:00.0", "0000:99:00.0", "-"},
        {"0000:3d:00.0", "", "-"},
        {"0000:3d:00.0", "../../../etc/x", "-"},
        {"0000:3d:00.0", "0000:3e:00.00", "-"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct amb_pci_place a, b;
        (void)amb_pci_place_of(tree_root, pairs[i].a, &a);
        (void)amb_pci_place_of(tree_root, pairs[i].b, &b);
        const char *there = amb_distance_name(amb_distance_between(&a, &b));
        const char *back = amb_distance_name(amb_distance_between(&b, &a));
        if (strcmp(there, pairs[i].distance) != 0 || strcmp(there, back) != 0) {
            fail_msg("%s to %s: %s and %s, not %s", pairs[i].a, pairs[i].b, there, back,
                     pairs[i].distance);
        }
    }
}

static void test_devices_have_the_place_of_their_pci_function(void **state)
{
    (void)state;
    static const struct {
        const char *device, *pci;
        int node;
    } places[] = {
        {"mlx5_0", "0000:3e:00.0", 0},
        {"mlx5_0:1", "0000:3e:00.0", 0},
        {"ib0", "0000:3e:00.0", 0},
        {"mlx5_1:1", "0000:5e:00.0", 1},
        {"eth1", "0000:70:00.0", -1},
        {"lo", "", -1},
        {"mlx5_2", "8a3c:00:02.0", 0},
        {"end0", "", -1},
        {"end1", "", -1},
        {"no", "", -1},
        {"../net/ib0", "", -1},
        {"", "", -1},
    };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct amb_pci_place place;
        bool is_found = amb_pci_place_of_device(tree_root, places[i].device, &place);
        assert_int_equal(is_found, places[i].pci[0] != '\0');
        assert_string_equal(place.pci, places[i].pci);
        assert_int_equal(place.node, places[i].node);
    }
}

static void test_the_closest_devices_are_those_of_each_gpu(void **state)
{
    (void)state;
    static const char *const at_switch[] = {"0000:3d:00.0"}, *const at_port[] = {"0000:3f:00.0"};
    static const char *const second[] = {"0000:5e:00.0"}, *const none[] = {"0000:99:00.0"};
    static const char *const all[] = {"0000:3d:00.0", "0000:5e:00.0", "0000:99:00.0"};
    static const struct {
        const char *devices;
        const char *const *gpus;
        size_t count;
        const char *closest; /* NULL: there is nothing to go by */
    } cases[] = {
        {"lo,eth0,ib0,mlx5_0:1,mlx5_1:1", at_switch, 1, "ib0,mlx5_0:1"},
        {"lo,eth0,ib0,mlx5_0:1,mlx5_1:1", second, 1, "mlx5_1:1"},
        {"lo,eth0,mlx5_0:1,mlx5_1:1", all, 3, "mlx5_0:1,mlx5_1:1"},
        {"lo,eth0,mlx5_1:1", at_switch, 1, "eth0"},
        {"mlx5_1:1,eth0,mlx5_0", at_port, 1, "mlx5_0"},
        {"mlx5_1:1", at_switch, 1, "mlx5_1:1"}, /* However far it is. */
        {"lo,end0", at_switch, 1, NULL},
        {"mlx5_0", none, 1, NULL},
        {"mlx5_0", NULL, 0, NULL},
        {"", at_switch, 1, NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[128];
        bool is_known = amb_closest_devices(tree_root, cases[i].devices, cases[i].gpus,
                                            cases[i].count, out, sizeof(out));
        assert_int_equal(is_known, cases[i].closest != NULL);
        if (is_known) {
            assert_string_equal(out, cases[i].closest);
        }
    }
}

static void test_names_that_do_not_fit_change_nothing(void **state)
{
    (void)state;
    static const char *const gpu[] = {"0000:3d:00.0"};
    char out[128], small[sizeof("mlx5_0") - 1], name[100], list[400] = "";
    (void)memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_false(amb_closest_devices(tree_root, name, gpu, 1, out, sizeof(out)));
    assert_false(amb_closest_devices(tree_root, "mlx5_0", gpu, 1, small, sizeof(small)));
    for (unsigned i = 0; i < 65; i++) {
        (void)strcat(list, i == 0 ? "lo" : ",lo");
    }
    assert_false(amb_closest_devices(tree_root, list, gpu, 1, out, sizeof(out)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distances_are_those_of_the_tree),
        cmocka_unit_test(test_devices_have_the_place_of_their_pci_function),
        cmocka_unit_test(test_the_closest_devices_are_those_of_each_gpu),
        cmocka_unit_test(test_names_that_do_not_fit_change_nothing),
    };
    return cmocka_run_group_tests(tests, make_machine, tree_remove);
}
