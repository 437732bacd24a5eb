/* SPDX-License-Identifier: Apache-2.0 */
/* Workers against processors and the clock, on machines made of folders. */
#include "broker/doctor/doctor_cpu.h"

#include "tests/support/doctor/findings_try.h"
#include "tests/support/link/ucx_tree.h"

static int64_t clock_ns, clock_step;

static int64_t tick(void)
{
    return clock_ns += clock_step;
}

static json_t *look(unsigned workers)
{
    const struct amb_doctor_cpu cpu = {.root = tree_root, .workers = workers, .now_ns = tick};
    json_t *rows = json_array();
    clock_step = clock_step == 0 ? 1 : clock_step;
    amb_doctor_cpu(&cpu, rows);
    return rows;
}

static void a_machine_that_tells_nothing_is_well(void **state)
{
    (void)state;
    json_t *rows = look(64);
    assert_int_equal(json_array_size(rows), 0);
    json_decref(rows);
}

static void a_quota_below_the_workers_is_named(void **state)
{
    (void)state;
    tree_text("proc/self/cgroup", "0::/a/b\n");
    tree_text("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    tree_text("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    expect_none(look(2), "cpu-quota");
    expect_found(look(4), "cpu-quota", "has 1.5 processors, and there are 4 workers");
    tree_text("sys/fs/cgroup/a/cpu.max", "nonsense\n");
    expect_none(look(4), "cpu-quota");
}

static void a_mask_below_the_workers_is_named(void **state)
{
    (void)state;
    tree_text("proc/self/status", "Name:\tbrokerd\nCpus_allowed_list:\t0,2-3\n");
    expect_none(look(3), "cpu-affinity");
    expect_found(look(4), "cpu-affinity", "3 processors (0,2-3), and there are 4 workers");
    tree_text("proc/self/status", "Cpus_allowed_list:\tall of them\n");
    expect_none(look(4), "cpu-affinity");
}

static void a_clock_that_costs_a_call_is_named(void **state)
{
    (void)state;
    tree_text("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    expect_none(look(1), "clock-slow");
    tree_text("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
    expect_found(look(1), "clock-slow", "the clock source is hpet");
}

static void a_clock_that_stands_is_named(void **state)
{
    (void)state;
    const struct amb_doctor_cpu cpu = {.root = tree_root, .workers = 2, .now_ns = tick};
    json_t *rows = json_array();
    clock_step = 0;
    amb_doctor_cpu(&cpu, rows);
    expect_found(rows, "clock-frozen", "stands still");
    expect_none(look(2), "clock-frozen");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, tree_make, tree_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_machine_that_tells_nothing_is_well), CASE(a_quota_below_the_workers_is_named),
        CASE(a_mask_below_the_workers_is_named),    CASE(a_clock_that_costs_a_call_is_named),
        CASE(a_clock_that_stands_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
