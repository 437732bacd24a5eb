/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that do not fit the broker: namespaces, visible GPUs, releases of libamb and of UCX. */
#include "broker/doctor/doctor_clients.h"

#include "tests/support/doctor/findings_try.h"
#include "tests/support/link/ucx_tree.h"

static const struct amb_doctor_side own = {.release = "1.4.2",
                                           .pid_ns = 1,
                                           .ipc_ns = 2,
                                           .net_ns = 3,
                                           .ucx_release = 0x011600,
                                           .ucx_tx_seg = 1,
                                           .ucx_rx_seg = 2};

static json_t *rows_of(const struct amb_doctor_side *clients, size_t count)
{
    struct amb_doctor_clients all;
    struct amb_doctor_proc proc = {.asked = 0};
    json_t *rows = json_array();
    for (size_t i = 0; i < count; i++) {
        (void)amb_doctor_proc_ask(&proc, &clients[i]);
    }
    amb_doctor_proc_read(&proc, tree_root);
    amb_doctor_clients_init(&all, &proc, &own);
    for (size_t i = 0; i < count; i++) {
        amb_doctor_clients_add(&all, &clients[i]);
    }
    amb_doctor_clients_rows(&all, rows);
    return rows;
}

static void clients_that_fit_have_no_row(void **state)
{
    (void)state;
    const struct amb_doctor_side fit[] = {
        {.name = "a", .release = "1.4.0", .is_local = true, .pid_ns = 1},
        {.name = "b", .release = "", .pid = 77, .is_local = true},
        {.name = "c", .release = "of tomorrow", .is_local = false, .pid_ns = 9},
        {.name = "d", .release = "1.4", .ucx_release = 0x011600, .ucx_tx_seg = 1, .ucx_rx_seg = 2},
    };
    json_t *rows = rows_of(fit, sizeof(fit) / sizeof(fit[0]));
    assert_int_equal(json_array_size(rows), 0); /* Nor is one left out. */
    json_decref(rows);
}

static void other_namespaces_are_named(void **state)
{
    (void)state;
    tree_link("proc/77/ns/pid", "pid:[9]");
    tree_link("proc/77/ns/ipc", "ipc:[2]");
    tree_link("proc/77/ns/net", "net:[8]");
    const struct amb_doctor_side one = {
        .name = "boxed", .release = "1.4.2", .pid = 77, .is_local = true};
    expect_found(rows_of(&one, 1), "client-pid", "'boxed' is in another pid namespace");
    expect_found(rows_of(&one, 1), "client-net", "'boxed' is in another net namespace");
    expect_none(rows_of(&one, 1), "client-ipc");
    /* By its own word: /proc does not show everybody. */
    const struct amb_doctor_side told = {
        .name = "told", .release = "", .is_local = true, .ipc_ns = 5};
    expect_found(rows_of(&told, 1), "client-ipc", "'told' is in another ipc namespace");
    /* ... and is not asked about one that has told. */
    const struct amb_doctor_side both = {
        .name = "both", .release = "", .pid = 77, .is_local = true, .pid_ns = 1, .net_ns = 3};
    json_t *rows = rows_of(&both, 1);
    assert_int_equal(json_array_size(rows), 0);
    json_decref(rows);
}

/* However many clients have not told where they are, /proc is asked about a few. */
static void files_of_few_processes_are_looked_at(void **state)
{
    (void)state;
    struct amb_doctor_clients all;
    struct amb_doctor_proc proc = {.asked = 0};
    struct amb_doctor_side silent = {.name = "silent", .release = "", .is_local = true};
    const unsigned first = 1000, count = AMB_DOCTOR_ASKED_MAX + 1;
    for (unsigned i = 0; i < count; i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "proc/%u/ns/net", first + i);
        tree_link(path, "net:[8]");
        silent.pid = (pid_t)(first + i);
        bool has_place = i < AMB_DOCTOR_ASKED_MAX;
        assert_int_equal(amb_doctor_proc_ask(&proc, &silent), has_place);
        assert_int_equal(amb_doctor_proc_ask(&proc, &silent),
                         has_place); /* A second client of it. */
    }
    assert_int_equal(proc.asked, AMB_DOCTOR_ASKED_MAX);
    assert_int_equal(proc.left_out, 2);
    amb_doctor_proc_read(&proc, tree_root);
    amb_doctor_clients_init(&all, &proc, &own);
    for (unsigned i = 0; i < count; i++) {
        silent.pid = (pid_t)(first + i);
        amb_doctor_clients_add(&all, &silent);
    }
    assert_int_equal(all.misfits[AMB_DOCTOR_MISFIT_NET].count, AMB_DOCTOR_ASKED_MAX);
    json_t *rows = json_array();
    amb_doctor_clients_rows(&all, rows);
    expect_found(rows, "clients-left-out", "say their namespaces, 2 were left out");
    silent.net_ns = 4;
    amb_doctor_clients_add(&all, &silent); /* This client has told where it is. */
    assert_int_equal(all.misfits[AMB_DOCTOR_MISFIT_NET].count, AMB_DOCTOR_ASKED_MAX + 1);
}

static json_t *visible_rows(const char *theirs)
{
    const struct amb_doctor_side one = {.name = "trainer", .release = "", .visible = theirs};
    return rows_of(&one, 1);
}

static void clients_that_are_shown_other_devices_are_named(void **state)
{
    (void)state;
    static const char own_environment[] = "XCUDA_VISIBLE_DEVICES=7\0CUDA_VISIBLE_DEVICES=0";
    expect_none(visible_rows("=1"), "gpu-visible"); /* The broker sees all. */
    tree_file("proc/self/environ", own_environment, sizeof(own_environment));
    expect_found(visible_rows("=1"), "gpu-visible",
                 "'trainer' has CUDA_VISIBLE_DEVICES=1, and the broker 0");
    expect_found(visible_rows("="), "gpu-visible", "CUDA_VISIBLE_DEVICES=, and");
    expect_found(visible_rows("-"), "gpu-visible", "(unset)");
    expect_none(visible_rows("=0"), "gpu-visible");
    expect_none(visible_rows(""), "gpu-visible");   /* It has not told. */
    expect_none(visible_rows(NULL), "gpu-visible"); /* It uses no GPU. */
    struct amb_doctor_side many[9];
    for (size_t i = 0; i < 9; i++) {
        many[i] = (struct amb_doctor_side){.name = "trainer", .release = "", .visible = "=1"};
    }
    expect_found(rows_of(many, 9), "gpu-visible", "'trainer' (and 8 more) has");
}

static void many_are_one_row(void **state)
{
    (void)state;
    struct amb_doctor_side many[1000];
    for (size_t i = 0; i < 1000; i++) {
        many[i] = (struct amb_doctor_side){.name = "\033x", .release = "2.0.0"};
    }
    expect_found(rows_of(many, 1000), "client-release",
                 "client '?x' (and 999 more) has libamb 2.0.0, and the broker is 1.4.2");
    json_t *rows = rows_of(many, 1000);
    assert_int_equal(json_array_size(rows), 1);
    json_decref(rows);
}

static void releases_are_compared_by_their_minor(void **state)
{
    (void)state;
    static const struct {
        const char *release;
        bool fits;
    } tries[] = {{"1.4.9", true}, {"1.4", true},   {"1.40.2", false}, {"1.3.2", false},
                 {"11.4", false}, {"1", true},     {".4", true},      {"1.x", true},
                 {"1.4x", true},  {"2.4.2", false}};
    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        const struct amb_doctor_side one = {.name = "a", .release = tries[i].release};
        if (tries[i].fits) {
            expect_none(rows_of(&one, 1), "client-release");
        } else {
            expect_found(rows_of(&one, 1), "client-release", tries[i].release);
        }
    }
}

static void releases_of_ucx_that_do_not_fit_are_named(void **state)
{
    (void)state;
    const struct amb_doctor_side old = {
        .name = "old", .release = "", .ucx_release = 0x010d01, .ucx_tx_seg = 1, .ucx_rx_seg = 2};
    expect_found(rows_of(&old, 1), "ucx-releases", "'old' has UCX 1.13.1, and the broker 1.22.0");
    const struct amb_doctor_side other = {
        .name = "seg", .release = "", .ucx_release = 0x011600, .ucx_tx_seg = 9, .ucx_rx_seg = 2};
    expect_found(rows_of(&other, 1), "ucx-releases", "'seg'");
    const struct amb_doctor_side none = {.name = "none", .release = ""};
    expect_none(rows_of(&none, 1), "ucx-releases");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, tree_make, tree_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(clients_that_fit_have_no_row),
        CASE(other_namespaces_are_named),
        CASE(files_of_few_processes_are_looked_at),
        CASE(clients_that_are_shown_other_devices_are_named),
        CASE(many_are_one_row),
        CASE(releases_are_compared_by_their_minor),
        CASE(releases_of_ucx_that_do_not_fit_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
