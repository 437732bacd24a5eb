/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of a driver that take long, made aside: a broker's GPU memory that is opened while its view
 * is dropped, or its session ends. Nobody waits for it but those who ask for the same. A process
 * plays the broker.
 */
#include "client/memory/aside.h"

#include "client/conn/conn.h"
#include "client/drive/lock.h"
#include "client/memory/import.h"
#include "client/memory/later.h"
#include "client/memory/view.h"
#include "client/message/landing.h"
#include "client/session/life.h"
#include "tests/unit/client/memory/gpu_begin.h"

#include <pthread.h>
#include <string.h>

#define POOL (UINT64_C(4) << 20)
#define LONG_MS 300

static struct exporter broker;

static int set_up(void **state)
{
    (void)state;
    char plan[64];
    (void)snprintf(plan, sizeof(plan), "cuIpcOpenMemHandle=%d", LONG_MS);
    fakecuda_slow(plan);
    return exporter_start(&broker, POOL);
}

static int tear_down(void **state)
{
    (void)state;
    fakecuda_slow(NULL);
    return exporter_stop(&broker);
}

/* Is a call that took less than the driver's? */
static bool is_quick(int64_t since_ns)
{
    return amb_clock_monotonic_ns() - since_ns < LONG_MS * AMB_NS_PER_MS / 2;
}

static void add(struct amb_conn *conn, uint64_t id)
{
    int64_t begin = amb_clock_monotonic_ns();
    amb_view_add_gpu(conn, id, 4096, &broker.range);
    assert_true(is_quick(begin));
}

static bool is_readable(struct amb_conn *conn, uint64_t id)
{
    struct amb_view *view = NULL;
    if (amb_view_borrow(conn, id, 0, 0, &view) == NULL) {
        return false;
    }
    amb_view_return(view);
    return true;
}

static void test_a_pool_is_opened_without_the_lock(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    amb_conn_lock(conn);
    add(conn, 1);
    assert_false(is_readable(conn, 1));
    amb_conn_unlock(conn);
    struct amb_gpus_staged staged;
    int64_t begin = amb_clock_monotonic_ns();
    amb_conn_gpus_staged(conn, &staged); /* As each heartbeat does. */
    amb_conn_lock(conn);
    amb_imports_over(conn); /* As a session's end. */
    amb_conn_unlock(conn);
    assert_true(is_quick(begin));
    amb_asides_wait(conn);
    amb_conn_lock(conn);
    assert_true(is_readable(conn, 1));
    begin = amb_clock_monotonic_ns();
    amb_view_add_gpu(conn, 2, 4096, &broker.range); /* It is open, so this one is there at once. */
    assert_true(is_readable(conn, 2));
    assert_true(is_quick(begin));
    amb_conn_unlock(conn);
    amb_conn_unref(conn);
    amb_later_wait();
    assert_int_equal(fakecuda_live_device(), 0);
}

static void test_all_who_want_a_pool_wait_for_one_opening(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create(), *other = amb_conn_create();
    int64_t begin = amb_clock_monotonic_ns();
    amb_conn_lock(conn);
    add(conn, 1);
    add(conn, 2);
    amb_conn_unlock(conn);
    amb_conn_lock(other);
    add(other, 1);
    amb_conn_unlock(other);
    amb_asides_wait(conn);
    amb_asides_wait(other);
    assert_true(amb_clock_monotonic_ns() - begin < 2 * LONG_MS * AMB_NS_PER_MS);
    assert_int_equal(fakecuda_live_device(), 1);
    amb_conn_lock(conn);
    assert_true(is_readable(conn, 1) && is_readable(conn, 2));
    amb_conn_unlock(conn);
    amb_conn_unref(conn);
    amb_later_wait();
    assert_int_equal(fakecuda_live_device(), 1);
    amb_conn_unref(other);
    amb_later_wait();
    assert_int_equal(fakecuda_live_device(), 0);
}

/* An id is a segment's once. */
static void test_a_second_announcement_is_refused(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    amb_conn_lock(conn);
    add(conn, 1);
    amb_view_add_gpu(conn, 1, 4096, &broker.range);
    amb_conn_unlock(conn);
    amb_asides_wait(conn);
    amb_conn_lock(conn);
    assert_true(is_readable(conn, 1));
    assert_ptr_equal(conn->views.current.next, conn->views.current.prev);
    amb_conn_unlock(conn);
    amb_conn_unref(conn);
}

static void test_a_range_is_dropped_while_it_is_opened(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    amb_conn_lock(conn);
    add(conn, 1);
    amb_view_drop(conn, 1);
    amb_conn_unlock(conn);
    amb_asides_wait(conn);
    assert_true(amb_views_are_gone(conn));
    amb_conn_unref(conn);
    amb_later_wait();
    assert_int_equal(fakecuda_live_device(), 0);
}

static void test_a_session_ends_while_a_range_is_opened(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    amb_conn_lock(conn);
    add(conn, 1);
    amb_views_orphan(conn);
    amb_imports_over(conn);
    conn->session.life++;
    broker.range.life = conn->session.life;
    add(conn, 1); /* The same number, of the next session. */
    amb_conn_unlock(conn);
    amb_asides_wait(conn);
    amb_conn_lock(conn);
    assert_true(is_readable(conn, 1));
    assert_true(amb_list_is_empty(&conn->views.former));
    amb_conn_unlock(conn);
    amb_conn_unref(conn);
    amb_later_wait();
    assert_int_equal(fakecuda_live_device(), 0);
}

static void test_a_connection_ends_while_a_range_is_opened(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    amb_conn_lock(conn);
    add(conn, 1);
    amb_views_drop_all(conn);
    amb_conn_unlock(conn);
    int64_t begin = amb_clock_monotonic_ns();
    amb_conn_unref(conn); /* Its last holder is the thread aside. */
    assert_true(is_quick(begin));
    for (int i = 0; fakecuda_live_device() == 0 && i < 2 * LONG_MS; i++) {
        (void)usleep(1000); /* Until it is open, */
    }
    for (int i = 0; fakecuda_live_device() != 0 && i < 5000; i++) {
        (void)usleep(1000); /* ... and until it is closed. */
    }
    assert_int_equal(fakecuda_live_device(), 0);
}

static void *get(void *arg)
{
    struct amb_conn *conn = arg;
    struct amb_gpu *gpu;
    assert_int_equal(amb_gpu_get(conn, 0, &gpu), AMB_OK);
    return gpu;
}

/* A device comes up, for two threads at once; a heartbeat does not wait for it. */
static void test_a_device_comes_up_once(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    pthread_t threads[2];
    void *first, *second;
    char plan[64];
    struct amb_gpus_staged staged;
    (void)snprintf(plan, sizeof(plan), "cuStreamCreate=%d", LONG_MS);
    fakecuda_slow(plan);
    assert_int_equal(pthread_create(&threads[0], NULL, get, conn), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, get, conn), 0);
    (void)usleep(LONG_MS * 250);
    int64_t begin = amb_clock_monotonic_ns();
    amb_conn_gpus_staged(conn, &staged);
    assert_true(is_quick(begin));
    assert_int_equal(pthread_join(threads[0], &first), 0);
    assert_int_equal(pthread_join(threads[1], &second), 0);
    assert_ptr_equal(first, second);
    amb_conn_unref(conn);
    amb_later_wait();
    assert_int_equal(fakecuda_live_streams() + fakecuda_live_pinned(), 0);
}

/* On a connection of its own. */
static bool gets_host_memory(void)
{
    struct amb_conn *conn = amb_conn_create();
    struct amb_landing *landing;
    struct amb_gpu *gpu;
    (void)alarm(5);
    enum amb_status status = amb_landing_create(conn, AMB_SUB(.mem = AMB_MEM_AS_SENT), &landing);
    bool is_good = status == AMB_OK && landing == NULL &&
                   amb_gpu_get(conn, 0, &gpu) == AMB_ENOTSUP &&
                   strstr(amb_last_error(conn).text, "fork") != NULL;
    amb_conn_unref(conn);
    return is_good;
}

/* A child that wants AS_SENT waits for nothing that its parent's threads are at. */
static void test_a_fork_while_a_device_comes_up(void **state)
{
    (void)state;
    pid_t pid = fork(); /* The driver is started once a process. */
    assert_true(pid >= 0);
    if (pid == 0) {
        struct amb_conn *conn = amb_conn_create();
        pthread_t thread;
        (void)setenv("FAKECUDA_SLOW", "cuInit=1000", 1);
        (void)pthread_create(&thread, NULL, get, conn);
        (void)usleep(300000); /* It is in the driver, */
        pid = fork();
        if (pid == 0) {
            _exit(gets_host_memory() ? 0 : 1);
        }
        int status = -1;
        (void)waitpid(pid, &status, 0);
        (void)pthread_join(thread, NULL);
        amb_conn_unref(conn);
        amb_later_wait();
        _exit(status == 0 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    char machine[64];
    fake_machine(machine, sizeof(machine), "aside");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fork_while_a_device_comes_up),
        cmocka_unit_test_setup_teardown(test_a_pool_is_opened_without_the_lock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_all_who_want_a_pool_wait_for_one_opening, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_second_announcement_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_range_is_dropped_while_it_is_opened, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_session_ends_while_a_range_is_opened, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_connection_ends_while_a_range_is_opened, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_device_comes_up_once, set_up, tear_down),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(machine);
    return failed;
}
