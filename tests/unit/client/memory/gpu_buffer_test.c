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
#include "client/memory/later.h"
#include "client/session/life.h"
#include "tests/unit/client/memory/gpu_begin.h"

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

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    (void)setenv("FAKECUDA_MEMORY", "600M", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_free_that_is_put_off_is_told),
        cmocka_unit_test(test_no_close_waits_for_the_device),
        cmocka_unit_test(test_a_link_gets_what_is_there_and_the_next_time_more),
        cmocka_unit_test(test_a_release_does_not_wait_for_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
