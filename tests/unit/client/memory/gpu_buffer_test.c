/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers that are too large to be kept, on the fake driver. Their release waits for no device.
 * Their memory is there for the next one.
 */
#include "client/memory/gpu_buffer.h"

#include "client/conn/conn.h"
#include "client/drive/lock.h"
#include "client/memory/aside.h"
#include "client/memory/gpu.h"
#include "client/memory/gpu_private.h"
#include "client/memory/later.h"
#include "client/session/life.h"
#include "tests/unit/client/memory/gpu_begin.h"
#include "wire/base/clock.h"

#include <time.h>

#define LARGE (UINT64_C(300) << 20) /* more than the cache keeps */

static struct amb_gpu *gpu_of(struct amb_conn *conn)
{
    struct amb_gpu *gpu;
    assert_int_equal(amb_gpu_get(conn, 0, &gpu), AMB_OK);
    return gpu;
}

/* A kernel may wait for the program's next message, and the program for this release. */
static void test_a_release_does_not_wait_for_the_device(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    struct amb_gpu *gpu = gpu_of(conn);
    struct busy busy;
    struct amb_gpu_buffer *buffer = amb_gpu_buffer_get(gpu, AMB_MEM_CUDA, LARGE);
    assert_non_null(buffer);
    busy_begin(&busy, gpu);
    amb_gpu_buffer_put(gpu, buffer);
    assert_int_equal(fakecuda_live_device(), 2);
    fakecuda_hold(false);
    amb_later_wait();
    busy_end(&busy);
    assert_int_equal(fakecuda_live_device(), 0);
    amb_conn_unref(conn);
}

/* The device has room for one of them: the next one comes when the first is freed, and says so. */
static void test_a_free_that_is_put_off_is_told(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    struct amb_gpu *gpu = gpu_of(conn);
    for (int i = 0; i < 50; i++) {
        struct amb_gpu_buffer *buffer = amb_gpu_buffer_get(gpu, AMB_MEM_CUDA, LARGE);
        while (buffer == NULL && atomic_load(&conn->gpu.frees) != (uint32_t)i) {
            buffer = amb_gpu_buffer_get(gpu, AMB_MEM_CUDA, LARGE);
        }
        buffer = buffer == NULL ? amb_gpu_buffer_get(gpu, AMB_MEM_CUDA, LARGE) : buffer;
        assert_non_null(buffer);
        assert_null(amb_gpu_buffer_get(gpu, AMB_MEM_CUDA, LARGE));
        amb_gpu_buffer_put(gpu, buffer);
    }
    amb_conn_unref(conn);
    amb_later_wait();
    assert_int_equal(fakecuda_live_device(), 0);
}

/* Nor does the last release after it, which ends the connection's memory. */
static void test_no_close_waits_for_the_device(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create(), *other = amb_conn_create();
    struct amb_gpu *gpu = gpu_of(conn);
    struct amb_gpu_buffer *small = amb_gpu_buffer_get(gpu, AMB_MEM_CUDA, 4096);
    struct amb_gpu_buffer *large = amb_gpu_buffer_get(gpu, AMB_MEM_CUDA, LARGE);
    struct busy busy;
    busy_begin(&busy, gpu);
    amb_gpu_buffer_put(gpu, large);
    amb_gpu_buffer_put(gpu, small);
    amb_conn_unref(other);
    amb_conn_unref(conn);
    assert_int_equal(fakecuda_live_device(), 3);
    fakecuda_hold(false);
    amb_later_wait();
    busy_end(&busy);
    assert_int_equal(fakecuda_left(), 0);
}

/* Under the connection's lock nothing is allocated, for that may wait for the device. */
static void test_a_link_gets_what_is_there_and_the_next_time_more(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    struct amb_gpu *gpu = gpu_of(conn);
    amb_conn_lock(conn);
    fakecuda_slow("cuMemAlloc=100");
    assert_null(amb_gpu_buffer_take(gpu, 100000));
    assert_null(amb_gpu_buffer_take(gpu, 100000));
    amb_conn_unlock(conn);
    amb_asides_wait(conn);
    fakecuda_slow(NULL);
    assert_int_equal(fakecuda_live_device(), 1); /* It was asked for once. */
    amb_conn_lock(conn);
    struct amb_gpu_buffer *buffer = amb_gpu_buffer_take(gpu, 70000);
    amb_conn_unlock(conn);
    assert_non_null(buffer);
    amb_gpu_buffer_put(gpu, buffer);
    amb_conn_unref(conn);
    assert_int_equal(fakecuda_left(), 0);
}

/* Whether its message comes again or not, it is none of what is kept for the others. */
static void test_one_that_was_made_beyond_the_bound_leaves_the_bound_to_others(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    struct amb_gpu *gpu = gpu_of(conn);
    assert_null(amb_gpu_buffer_take(gpu, LARGE));
    amb_asides_wait(conn);
    assert_int_equal(fakecuda_live_device(), 1);
    unsigned long before = fakecuda_calls_of("cuMemAlloc");
    for (int i = 0; i < 10; i++) {
        struct amb_gpu_buffer *small = amb_gpu_buffer_get(gpu, AMB_MEM_CUDA, 4096);
        assert_non_null(small);
        amb_gpu_buffer_put(gpu, small);
    }
    assert_int_equal(fakecuda_calls_of("cuMemAlloc") - before, 1);
    struct amb_gpu_buffer *large = amb_gpu_buffer_take(gpu, LARGE);
    assert_non_null(large);
    amb_gpu_buffer_put(gpu, large);
    amb_later_wait();
    assert_int_equal(fakecuda_live_device(), 1);
    /* It goes where another class wants its room. */
    assert_null(amb_gpu_buffer_take(gpu, LARGE));
    amb_asides_wait(conn);
    assert_null(amb_gpu_buffer_get(gpu, AMB_MEM_CUDA_MANAGED, LARGE));
    amb_later_wait();
    struct amb_gpu_buffer *other = amb_gpu_buffer_get(gpu, AMB_MEM_CUDA_MANAGED, LARGE);
    assert_non_null(other);
    amb_gpu_buffer_put(gpu, other);
    amb_later_wait();
    /* ... and after a while. */
    assert_null(amb_gpu_buffer_take(gpu, LARGE));
    amb_asides_wait(conn);
    assert_int_equal(fakecuda_live_device(), 2);
    (void)pthread_mutex_lock(&gpu->lock);
    gpu->buffers.made_ns -= 60 * AMB_NS_PER_SEC;
    (void)pthread_mutex_unlock(&gpu->lock);
    amb_gpu_buffer_put(gpu, amb_gpu_buffer_get(gpu, AMB_MEM_CUDA, 4096));
    amb_later_wait();
    assert_int_equal(fakecuda_live_device(), 1);
    amb_conn_unref(conn);
    assert_int_equal(fakecuda_left(), 0);
}

static void ask_often(struct amb_conn *conn, struct amb_gpu *gpu)
{
    for (int i = 0; i < 50; i++) {
        assert_null(amb_gpu_buffer_take(gpu, 4096));
        amb_asides_wait(conn);
    }
}

static void test_a_full_device_is_not_asked_for_each_message(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    struct amb_gpu *gpu = gpu_of(conn);
    int64_t start = amb_clock_monotonic_ns();
    unsigned long before = fakecuda_calls_of("cuMemAlloc");
    fakecuda_fail("cuMemAlloc:1=2,cuMemAlloc:2=2,cuMemAlloc:3=2,cuMemAlloc:4=2");
    ask_often(conn, gpu);
    unsigned long tries = fakecuda_calls_of("cuMemAlloc") - before;
    assert_in_range(tries, 1, 1 + (unsigned long)((amb_clock_monotonic_ns() - start) / 100000000));
    (void)atomic_fetch_add(&conn->gpu.frees, 1); /* Something was freed. */
    fakecuda_fail("cuMemAlloc:1=2");
    before = fakecuda_calls_of("cuMemAlloc");
    assert_null(amb_gpu_buffer_take(gpu, 4096));
    amb_asides_wait(conn);
    assert_int_equal(fakecuda_calls_of("cuMemAlloc") - before, 1);
    fakecuda_fail(NULL);
    const struct timespec moment = {.tv_nsec = 110000000};
    (void)nanosleep(&moment, NULL);
    assert_null(amb_gpu_buffer_take(gpu, 4096));
    amb_asides_wait(conn);
    struct amb_gpu_buffer *buffer = amb_gpu_buffer_take(gpu, 4096);
    assert_non_null(buffer);
    amb_gpu_buffer_put(gpu, buffer);
    amb_conn_unref(conn);
    assert_int_equal(fakecuda_left(), 0);
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    (void)setenv("FAKECUDA_MEMORY", "600M", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_free_that_is_put_off_is_told),
        cmocka_unit_test(test_no_close_waits_for_the_device),
        cmocka_unit_test(test_a_link_gets_what_is_there_and_the_next_time_more),
        cmocka_unit_test(test_one_that_was_made_beyond_the_bound_leaves_the_bound_to_others),
        cmocka_unit_test(test_a_full_device_is_not_asked_for_each_message),
        cmocka_unit_test(test_a_release_does_not_wait_for_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
