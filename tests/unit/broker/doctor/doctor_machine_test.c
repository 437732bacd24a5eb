/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor's findings on machines made of folders. */
#include "broker/doctor/doctor_machine.h"

#include "tests/support/link/ucx_tree.h"

#include <sys/wait.h>

#define GIB (UINT64_C(1) << 30)

static struct amb_doctor_machine look;

static int make_machine(void **state)
{
    int result = tree_make(state);
    look = (struct amb_doctor_machine){.root = tree_root, .connections = 100, .memory_bytes = GIB};
    return result == 0 ? chmod(tree_root, 0755) : result;
}

static const json_t *row_of(const json_t *rows, const char *check)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (strcmp(json_string_value(json_object_get(row, "check")), check) == 0) {
            return row;
        }
    }
    return NULL;
}

/* state NULL: there is no such finding. */
static void expect(const char *check, const char *state, const char *finding, const char *fix)
{
    json_t *rows = json_array();
    amb_doctor_machine(&look, rows);
    const json_t *row = row_of(rows, check);
    if (state == NULL) {
        assert_null(row);
        json_decref(rows);
        return;
    }
    if (row == NULL) {
        fail_msg("no finding about %s", check);
    }
    assert_string_equal(json_string_value(json_object_get(row, "state")), state);
    const char *found = json_string_value(json_object_get(row, "finding"));
    const char *mends = json_string_value(json_object_get(row, "fix"));
    if (strstr(found, finding) == NULL || strstr(mends, fix) == NULL) {
        fail_msg("%s: '%s', '%s'", check, found, mends);
    }
    /* A finding that is not well has a fix. */
    assert_true(strcmp(state, "ok") == 0 || mends[0] != '\0');
    json_decref(rows);
}

static void a_bare_machine_is_well(void **state)
{
    (void)state;
    expect("interfaces", "ok", "no interface is trusted", "transports.trusted");
    expect("/dev/shm", "ok", "no tmpfs", "--ipc=host");
    expect("huge pages", "ok", "none for shared memory", "");
    expect("memlock", NULL, "", "");
    expect("memory", NULL, "", "");
}

static void interfaces_are_up_and_fast(void **state)
{
    (void)state;
    static const char *const trusted[] = {"eth0", "ib0", "mlx5_0:1", "veth1"};
    look.trusted = trusted;
    look.trusted_count = 4;
    tree_text("sys/class/net/eth0/operstate", "down\n");
    tree_text("sys/class/net/ib0/operstate", "up\n");
    tree_text("sys/class/net/ib0/speed", "200000\n");
    tree_text("sys/class/net/ib0/mtu", "1500\n");
    tree_text("sys/class/net/veth1/operstate", "up\n");
    tree_text("sys/class/net/veth1/speed", "-1\n");
    expect("interface eth0", "warning", "eth0 is trusted, and is down", "transports.trusted");
    expect("interface ib0", "hint", "200000 Mb/s and packets of 1500", "9000");
    expect("interface veth1", "ok", "veth1 is up", "");
    expect("interface mlx5_0:1", NULL, "", "");
    tree_text("sys/class/net/eth0/operstate", "up\n");
    tree_text("sys/class/net/eth0/speed", "100\n");
    expect("interface eth0", "warning", "100 Mb/s", "faster");
    tree_text("sys/class/net/eth0/speed", "1000\n");
    tree_text("sys/class/net/eth0/mtu", "576\n");
    expect("interface eth0", "warning", "packets of 576 bytes (wanted: at least 1500)", "mtu 1500");
    look.trusted_count = 0;
}

static void an_interface_that_is_not_there_is_named(void **state)
{
    (void)state;
    static const char *const trusted[] = {"eth7", "mlx5_0:1"};
    look.trusted = trusted;
    look.trusted_count = 2;
    expect("interfaces", NULL, "", ""); /* Another namespace's /sys: nothing is known. */
    tree_text("sys/class/net/lo/operstate", "unknown\n");
    tree_text("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    expect("interfaces", "error", "transports.trusted: eth7 is not there", "ip link");
    look.trusted_count = 0;
}

static void files_may_have_any_content(void **state)
{
    (void)state;
    static char huge[1 << 20];
    static const char *const files[] = {"proc/self/limits",
                                        "proc/self/mounts",
                                        "proc/self/cgroup",
                                        "proc/meminfo",
                                        "sys/kernel/mm/transparent_hugepage/shmem_enabled",
                                        "sys/fs/cgroup/memory.max",
                                        "sys/class/net/eth0/operstate",
                                        "sys/class/net/eth0/speed",
                                        "sys/class/net/eth0/mtu",
                                        "sys/class/infiniband/mlx5_0/ports/1/state"};
    static const char *const trusted[] = {"eth0"};
    look.trusted = trusted;
    look.trusted_count = 1;
    for (unsigned kind = 0; kind < 3; kind++) {
        for (size_t i = 0; i < sizeof(huge); i++) {
            huge[i] = kind == 0 ? 'x' : kind == 1 ? (char)(i * 7919 >> 3) : '\0';
        }
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
            tree_file(files[i], huge, sizeof(huge));
        }
        json_t *rows = json_array();
        amb_doctor_machine(&look, rows);
        char *text = json_dumps(rows, 0);
        assert_non_null(text);
        free(text);
        json_decref(rows);
    }
    look.trusted_count = 0;
}

static void an_rdma_device_needs_a_port(void **state)
{
    (void)state;
    tree_text("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    tree_text("sys/class/infiniband/mlx5_0/ports/2/state", "2: INIT\n");
    expect("rdma mlx5_0:1", "ok", "active", "");
    expect("rdma mlx5_0:2", "warning", "2: INIT", "subnet manager");
    tree_text("dev/infiniband/rdma_cm", "");
    tree_text("dev/infiniband/uverbs0", "");
    expect("rdma access", NULL, "", "");
}

/* As a user that the device's mode shuts out; root is never shut out. */
static int look_as_nobody(void)
{
    json_t *rows = json_array();
    if (geteuid() == 0 && setuid(65534) != 0) {
        return 2;
    }
    amb_doctor_machine(&look, rows);
    const json_t *row = row_of(rows, "rdma access");
    const char *finding = json_string_value(json_object_get(row, "finding"));
    int result = finding != NULL && strstr(finding, "uverbs0 may not be opened") != NULL ? 0 : 1;
    json_decref(rows);
    return result;
}

static void a_device_that_may_not_be_opened_is_named(void **state)
{
    (void)state;
    tree_text("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    tree_text("dev/infiniband/uverbs0", "");
    assert_int_equal(chmod(tree_path("dev/infiniband/uverbs0"), 0400), 0);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(look_as_nobody());
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

#define LIMITS(locked, files)                                                                      \
    "Limit                     Soft Limit           Hard Limit           Units     \n"             \
    "Max open files            " files "                 1048576              files     \n"        \
    "Max locked memory         " locked "             unlimited            bytes     \n"

static void limits_are_large_enough(void **state)
{
    (void)state;
    look.has_rdma = false;
    tree_text("proc/self/limits", LIMITS("8388608", "1024"));
    expect("memlock", "ok", "8388608 bytes may be locked; nothing here locks memory", "");
    expect("descriptors", "warning",
           "1024 descriptors may be open, which is enough for 100 clients", "LimitNOFILE");
    look.has_rdma = true;
    expect("memlock", "warning", "RDMA locks all of memory.host.size", "LimitMEMLOCK");
    tree_text("proc/self/limits", LIMITS("unlimited", "65536"));
    expect("memlock", "ok", "without a limit", "");
    expect("descriptors", "ok", "65536", "");
    tree_text("proc/self/limits", LIMITS("2147483648", "65536"));
    expect("memlock", "ok", "2147483648", "");
    tree_text("proc/self/limits", "Max locked memory         nonsense\n");
    expect("memlock", NULL, "", "");
    look.has_rdma = false;
}

static void memory_is_seen_as_it_is(void **state)
{
    (void)state;
    tree_text("proc/self/mounts",
              "proc /proc proc rw 0 0\nshm /dev/shm tmpfs rw,size=65536k 0 0\n");
    expect("/dev/shm", "ok", "67108864 bytes; rings and segments take nothing", "--shm-size");
    tree_text("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,size=8388608k 0 0\n");
    expect("/dev/shm", "ok", "8589934592 bytes", "");
    tree_text("proc/self/mounts", "shm /dev/shm tmpfs rw,size=65536k 0 0\n"
                                  "big /dev/shm tmpfs rw,size=8388608k 0 0\n");
    expect("/dev/shm", "ok", "8589934592 bytes", ""); /* The one on top. */
    tree_text("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid 0 0\n");
    expect("/dev/shm", "ok", "default size", "");
    tree_text("sys/kernel/mm/transparent_hugepage/shmem_enabled",
              "always within_size advise [never] deny force\n");
    expect("huge pages", "hint", "pages of 4 KiB", "within_size");
    tree_text("sys/kernel/mm/transparent_hugepage/shmem_enabled",
              "always [within_size] advise never deny force\n");
    expect("huge pages", "ok", "huge pages", "");
    tree_text("sys/fs/cgroup/memory.max", "536870912\n");
    expect("memory", "warning", "536870912", "memory.host.size");
    tree_text("sys/fs/cgroup/memory.max", "max\n");
    expect("memory", NULL, "", "");
    tree_text("sys/fs/cgroup/memory.max", "4294967296\n");
    expect("memory", NULL, "", "");
    tree_text("proc/self/cgroup", "0::/a/b\n");
    tree_text("sys/fs/cgroup/a/memory.max", "1000000\n"); /* Of a group above ours. */
    tree_text("sys/fs/cgroup/a/b/memory.max", "max\n");
    expect("memory", "warning", "has 1000000 bytes", "MemoryMax=");
    tree_text("sys/fs/cgroup/a/memory.max", "max\n");
    tree_text("proc/meminfo", "MemFree: 1 kB\nMemTotal:         524288 kB\n");
    expect("memory", "warning", "this machine has 536870912 bytes of memory", "memory.host.size");
    tree_text("proc/meminfo", "MemTotal: nonsense\n");
    expect("memory", NULL, "", "");
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, make_machine, tree_remove)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(a_bare_machine_is_well),
        CASE(interfaces_are_up_and_fast),
        CASE(an_interface_that_is_not_there_is_named),
        CASE(files_may_have_any_content),
        CASE(an_rdma_device_needs_a_port),
        CASE(a_device_that_may_not_be_opened_is_named),
        CASE(limits_are_large_enough),
        CASE(memory_is_seen_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
