/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers that are too large to be kept, on the fake driver. Their release waits for no device.
 * Their memory is there for the next one.
 */
#include "client/memory/gpu_buffer.h"

#include "client/conn/conn.h"
#include "client/drive/lock.h"
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
    (void)amb_later_wait(0);
    busy_end(&busy);
    assert_int_equal(fakecuda_live_device(), 0);
    amb_conn_unref(conn);
}

/* The device has room for one of them. */
static void test_memory_that_is_being_freed_is_waited_for(void **state)
{
    (void)state;
    struct amb_conn *conn = amb_conn_create();
    struct amb_gpu *gpu = gpu_of(conn);
    for (int i = 0; i < 50; i++) {
        struct amb_gpu_buffer *buffer = amb_gpu_buffer_get(gpu, AMB_MEM_CUDA, LARGE);
        assert_non_null(buffer);
        assert_null(amb_gpu_buffer_get(gpu, AMB_MEM_CUDA, LARGE));
        amb_gpu_buffer_put(gpu, buffer);
    }
    amb_conn_unref(conn);
    assert_int_equal(fakecuda_live_device(), 0);
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    (void)setenv("FAKECUDA_MEMORY", "600M", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_that_is_being_freed_is_waited_for),
        cmocka_unit_test(test_a_release_does_not_wait_for_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
