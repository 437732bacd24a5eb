/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor's findings on hosts made of folders. */
#include "broker/doctor/doctor_host.h"

#include "tests/support/link/ucx_tree.h"

#include <sys/wait.h>

static const json_t *row_of(const json_t *rows, const char *check)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (strcmp(json_string_value(json_object_get(row, "check")), check) == 0) {
            return row;
        }
    }
    fail_msg("no finding about %s", check);
    return NULL;
}

static void expect(const struct amb_doctor_host *look, const char *check, const char *state,
                   const char *finding, const char *fix)
{
    json_t *rows = json_array();
    amb_doctor_host(look, rows);
    const json_t *row = row_of(rows, check);
    assert_string_equal(json_string_value(json_object_get(row, "state")), state);
    assert_non_null(strstr(json_string_value(json_object_get(row, "finding")), finding));
    assert_non_null(strstr(json_string_value(json_object_get(row, "fix")), fix));
    json_decref(rows);
}

static void a_plain_host_has_nothing_to_mend(void **state)
{
    (void)state;
    const struct amb_doctor_host look = {.root = tree_root};
    expect(&look, "gpu driver", "ok", "no NVIDIA driver", "");
    expect(&look, "ucx cuda", "ok", "no ucx links", "");
    expect(&look, "gpudirect", "ok", "no RDMA", "");
}

static void a_driver_that_is_not_used_is_named(void **state)
{
    (void)state;
    struct amb_doctor_host look = {.root = tree_root};
    tree_text("proc/driver/nvidia/version", "NVRM version: 555.42\nmore\n");
    expect(&look, "gpu driver", "warning", "/dev/nvidiactl is not shown here", "--gpus");
    tree_text("dev/nvidiactl", "");
    expect(&look, "gpu driver", "warning", "/dev/nvidia-uvm is not shown here", "-u -c 0");
    tree_text("dev/nvidia-uvm", "");
    expect(&look, "gpu driver", "warning", "/dev/nvidia0 is not shown here", "-c 255");
    tree_text("dev/nvidia3", ""); /* Numbers have gaps. */
    expect(&look, "gpu driver", "warning", "NVRM version: 555.42", "memory.cuda.size");
    look.has_pools = true;
    expect(&look, "gpu driver", "ok", "NVRM version: 555.42", "");
}

/* As a user that the devices' mode shuts out; root is never shut out. */
static int look_as_nobody(const char *device)
{
    const struct amb_doctor_host look = {.root = tree_root, .has_pools = true};
    json_t *rows = json_array();
    if (geteuid() == 0 && setuid(65534) != 0) {
        return 2;
    }
    amb_doctor_host(&look, rows);
    const json_t *row = json_array_get(rows, 0);
    const char *finding = json_string_value(json_object_get(row, "finding"));
    const char *fix = json_string_value(json_object_get(row, "fix"));
    int result = fix != NULL && strstr(fix, "ambroker-gpu.service") != NULL &&
                         strstr(finding, device) != NULL
                     ? 0
                     : 1;
    json_decref(rows);
    return result;
}

static void devices_that_may_not_be_opened_are_named(void **state)
{
    (void)state;
    static const char *const devices[] = {"dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia2"};
    static const char *const folders[] = {"", "proc", "proc/driver", "proc/driver/nvidia", "dev"};
    tree_text("proc/driver/nvidia/version", "NVRM version: 555.42\n");
    tree_text("dev/nvidia0", "");
    assert_int_equal(chmod(tree_path("dev/nvidia0"), 0666), 0);
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        tree_text(devices[i], "");
        assert_int_equal(chmod(tree_path(devices[i]), 0666), 0);
    }
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        assert_int_equal(chmod(tree_path(folders[i]), 0755), 0);
    }
    assert_int_equal(chmod(tree_path("proc/driver/nvidia/version"), 0644), 0);
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        assert_int_equal(chmod(tree_path(devices[i]), 0400), 0);
        pid_t pid = fork();
        if (pid == 0) {
            _exit(look_as_nobody(devices[i]));
        }
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_int_equal(chmod(tree_path(devices[i]), 0666), 0);
    }
}

static void mps_is_named_with_what_it_means_for_the_broker(void **state)
{
    (void)state;
    struct amb_doctor_host look = {.root = tree_root, .has_pools = true, .mps = AMB_CUDA_MPS_NO};
    json_t *rows = json_array();
    amb_doctor_host(&look, rows);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *check = json_object_get(json_array_get(rows, i), "check");
        assert_string_not_equal(json_string_value(check), "gpu mps");
    }
    json_decref(rows);
    tree_text("tmp/nvidia-mps/control", "");
    expect(&look, "gpu mps", "ok", "beside it", "");
    look.mps = AMB_CUDA_MPS_UNKNOWN;
    expect(&look, "gpu mps", "ok", "does not say", "");
    look.mps = AMB_CUDA_MPS_YES;
    expect(&look, "gpu mps", "warning", "ends the GPU memory of all", "CUDA_MPS_PIPE_DIRECTORY");
    look.mps = AMB_CUDA_MPS_NO;
    look.mps_folder = "/run/mps"; /* Not there. */
    tree_text("run/mps/control", "");
    expect(&look, "gpu mps", "ok", "beside it", "");
}

static int see_pipe_as_nobody(void)
{
    const struct amb_doctor_host look = {.root = tree_root, .has_pools = true};
    json_t *rows = json_array();
    if (geteuid() == 0 && setuid(65534) != 0) {
        return 2;
    }
    amb_doctor_host(&look, rows);
    const json_t *row = row_of(rows, "gpu mps");
    const char *fix = json_string_value(json_object_get(row, "fix"));
    int result = strstr(fix, "one user at a time") != NULL ? 0 : 1;
    json_decref(rows);
    return result;
}

static void pipes_of_mps_that_may_not_be_opened_are_named(void **state)
{
    (void)state;
    static const char *const folders[] = {"", "tmp", "tmp/nvidia-mps"};
    tree_text("tmp/nvidia-mps/control", "");
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        assert_int_equal(chmod(tree_path(folders[i]), 0755), 0);
    }
    assert_int_equal(chmod(tree_path("tmp/nvidia-mps/control"), 0600), 0);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(see_pipe_as_nobody());
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void expect_device(const struct amb_cuda_info *info, const char *check, const char *state,
                          const char *finding, const char *fix)
{
    json_t *rows = json_array();
    amb_doctor_device(info, rows);
    assert_int_equal(json_array_size(rows), check != NULL);
    if (check != NULL) {
        const json_t *row = row_of(rows, check);
        assert_string_equal(json_string_value(json_object_get(row, "state")), state);
        assert_non_null(strstr(json_string_value(json_object_get(row, "finding")), finding));
        assert_non_null(strstr(json_string_value(json_object_get(row, "fix")), fix));
    }
    json_decref(rows);
}

static void modes_of_a_device_are_named(void **state)
{
    (void)state;
    struct amb_cuda_info info = {
        .index = 1, .uuid = "GPU-1", .name = "A100", .pci = "0000:02:00.0", .mps = AMB_CUDA_MPS_NO};
    expect_device(&info, NULL, "", "", "");
    info.mode = AMB_CUDA_MODE_EXCLUSIVE;
    expect_device(&info, "gpu 1 mode", "warning", "error 46", "nvidia-smi -i 0000:02:00.0");
    info.mode = AMB_CUDA_MODE_PROHIBITED;
    expect_device(&info, "gpu 1 mode", "warning", "PROHIBITED mode", "-c DEFAULT");
    info.mode = AMB_CUDA_MODE_EXCLUSIVE;
    info.mps = AMB_CUDA_MPS_YES;
    expect_device(&info, NULL, "", "", "");
    info.mps = AMB_CUDA_MPS_UNKNOWN; /* An older driver: nobody knows. */
    expect_device(&info, NULL, "", "", "");
    info.mode = AMB_CUDA_MODE_DEFAULT;
    info.is_mig = true;
    (void)strcpy(info.uuid, "MIG-7");
    expect_device(&info, "gpu 1 mig", "ok", "(MIG-7)", "CUDA_VISIBLE_DEVICES=MIG-7");
}

static void a_ucx_without_cuda_matters_only_beside_gpus(void **state)
{
    (void)state;
    struct amb_doctor_host look = {.root = tree_root, .ucx = AMB_UCX_CUDA_NONE};
    expect(&look, "ucx cuda", "ok", "staged", "");
    look.has_pools = true;
    expect(&look, "ucx cuda", "warning", "staged", "libuct_cuda");
    look.ucx = AMB_UCX_CUDA_THERE;
    expect(&look, "ucx cuda", "ok", "has its CUDA modules", "");
}

static void a_lane_that_is_left_out_is_named(void **state)
{
    (void)state;
    struct amb_doctor_host look = {
        .root = tree_root, .ucx = AMB_UCX_CUDA_THERE, .left_out = "UCX 1.22.0 without cuda_ipc"};
    expect(&look, "ucx cuda_ipc", "ok", "1.22.0", "newer");
    look.has_pools = true;
    expect(&look, "ucx cuda_ipc", "warning", "1.22.0", "transports.nvlink");
}

static void gpudirect_needs_a_module(void **state)
{
    (void)state;
    const struct amb_doctor_host look = {.root = tree_root, .has_rdma = true};
    expect(&look, "gpudirect", "warning", "no peer memory module", "nvidia_peermem");
    tree_text("sys/module/nvidia_peermem/version", "1\n");
    expect(&look, "gpudirect", "ok", "is there", "");
    tree_text("dev/gdrdrv", "");
    expect(&look, "gpudirect", "ok", "gdrcopy", "");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, tree_make, tree_remove)

static const struct amb_ucx_library with_ib = {"/s/libucp.so.0", AMB_UCX_SYSTEM, 0x010d01, true,
                                               false};
static const struct amb_ucx_library without_ib = {"/w/libucp.so.0", AMB_UCX_WHEEL, 0x011600, false,
                                                  true};

static unsigned count_of(const struct amb_doctor_host *look, const char *check)
{
    unsigned count = 0;
    json_t *rows = json_array();
    amb_doctor_host(look, rows);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *own = json_object_get(json_array_get(rows, i), "check");
        count += strcmp(json_string_value(own), check) == 0;
    }
    json_decref(rows);
    return count;
}

static void the_ucx_that_is_loaded_is_named(void **state)
{
    (void)state;
    struct amb_doctor_host look = {.root = tree_root, .library = &without_ib};
    expect(&look, "ucx", "ok", "UCX 1.22.0 (/w/libucp.so.0), found as wheel", "");
    look.library = NULL;
    assert_int_equal(count_of(&look, "ucx"), 0);
    look.ucx_why = "no UCX library (libucp.so.0) is installed";
    expect(&look, "ucx", "warning", "no UCX library", "libucx0");
}

static void a_machine_with_rdma_is_told_what_to_install(void **state)
{
    (void)state;
    struct amb_ucx_libraries found = {.count = 1, .items = {without_ib}};
    struct amb_doctor_host look = {.root = tree_root, .library = &without_ib, .found = &found};
    assert_int_equal(count_of(&look, "ucx infiniband"), 0); /* There is no such device. */
    tree_text("sys/class/infiniband/mlx5_0/ports/1/state", "");
    expect(&look, "ucx infiniband", "warning",
           "mlx5_0 is here, and UCX 1.22.0 (/w/libucp.so.0) has no InfiniBand module", "libucx0");
    expect(&look, "ucx infiniband", "warning", "by TCP", "transports.library = \"system\"");
    look.library = NULL;
    expect(&look, "ucx infiniband", "warning", "no UCX with its InfiniBand module",
           "ibverbs-providers");
    found.items[found.count++] = with_ib;
    expect(&look, "ucx infiniband", "ok", "a UCX with its InfiniBand module", "transports.trusted");
    look.library = &with_ib;
    expect(&look, "ucx infiniband", "warning", "/dev/infiniband are not shown",
           "--device /dev/infiniband");
    tree_text("dev/infiniband/uverbs0", "");
    expect(&look, "ucx infiniband", "warning", "/etc/libibverbs.d", "ibverbs-providers");
    tree_text("etc/libibverbs.d/mlx5.driver", "driver mlx5\n");
    expect(&look, "ucx infiniband", "ok", "no RDMA device is trusted", "transports.trusted");
    look.has_rdma = true;
    expect(&look, "ucx infiniband", "ok", "a trusted RDMA device", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_plain_host_has_nothing_to_mend),
        CASE(a_driver_that_is_not_used_is_named),
        CASE(devices_that_may_not_be_opened_are_named),
        CASE(mps_is_named_with_what_it_means_for_the_broker),
        CASE(pipes_of_mps_that_may_not_be_opened_are_named),
        CASE(modes_of_a_device_are_named),
        CASE(a_ucx_without_cuda_matters_only_beside_gpus),
        CASE(a_lane_that_is_left_out_is_named),
        CASE(gpudirect_needs_a_module),
        CASE(the_ucx_that_is_loaded_is_named),
        CASE(a_machine_with_rdma_is_told_what_to_install),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
