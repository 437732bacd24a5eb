/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Releases behind streams, on the fake driver: in their order, by few questions, and by a spin that
 * comes once a release. After a close they have one thread. The messages are none; only their
 * releases are counted.
 */
#include "client/memory/gpu_release.h"

#include "client/conn/conn.h"
#include "client/drive/lock.h"
#include "client/memory/aside.h"
#include "client/memory/gpu.h"
#include "client/memory/later.h"
#include "client/session/life.h"
#include "tests/fakecuda/fakecuda.h"
#include "tests/support/threads.h"

#include <cuda.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define STREAMS 8u
#define MANY 200u

static struct amb_conn *conn;
static struct amb_gpu *gpu;
static struct amb_cuda_scope scope;
static void *streams[STREAMS];
static char messages[MANY];
static _Atomic unsigned released;

static int set_up(void **state)
{
    (void)state;
    conn = amb_conn_create();
    if (conn == NULL || amb_gpu_get(conn, 0, &gpu) != AMB_OK ||
        amb_cuda_enter(amb_gpu_cuda(gpu), &scope) != AMB_OK) {
        return -1;
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        if (amb_cuda_stream_create(amb_gpu_cuda(gpu), &streams[i]) != AMB_OK) {
            return -1;
        }
    }
    released = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fakecuda_hold(false);
    amb_conn_gpus_drain(conn);
    amb_asides_wait(conn);
    for (unsigned i = 0; i < STREAMS; i++) {
        amb_cuda_stream_destroy(amb_gpu_cuda(gpu), streams[i]);
    }
    amb_cuda_leave(&scope);
    amb_conn_unref(conn);
    amb_later_wait();
    return fakecuda_live_streams() + fakecuda_live_events() == 0 ? 0 : -1;
}

/* All in the order of their streams, which end together. */
static void count(struct amb_msg *msg)
{
    assert_non_null(msg);
    released++;
}

static void give_back(unsigned i, void *stream)
{
    assert_int_equal(amb_gpu_release_after(gpu, (struct amb_msg *)(void *)&messages[i], count,
                                           stream, AMB_GPU_CAPTURING_REFUSED),
                     AMB_OK);
}

static unsigned long questions(void)
{
    return fakecuda_calls_of("cuEventQuery");
}

static void test_a_look_asks_once_a_stream_and_a_message_that_is_over(void **state)
{
    (void)state;
    fakecuda_hold(true);
    for (unsigned i = 0; i < MANY; i++) {
        give_back(i, streams[i % STREAMS]);
    }
    unsigned long before = questions();
    assert_true(amb_conn_gpus_look(conn));
    assert_int_equal(questions() - before, STREAMS);
    assert_int_equal(released, 0);
    fakecuda_hold(false);
    for (unsigned i = 0; i < STREAMS; i++) {
        assert_int_equal(amb_cuda_stream_sync(amb_gpu_cuda(gpu), streams[i]), AMB_OK);
    }
    before = fakecuda_calls();
    assert_false(amb_conn_gpus_look(conn));
    assert_int_equal(released, MANY);
    assert_int_equal(fakecuda_calls() - before, MANY);
}

static void test_a_spin_sees_the_end_of_a_stream(void **state)
{
    (void)state;
    fakecuda_hold_until_asked();
    give_back(0, streams[0]);
    amb_conn_gpus_spin(conn);
    assert_int_equal(released, 1);
    assert_false(amb_conn_gpus_may_spin(conn));
}

static void test_a_message_that_is_held_for_long_is_spun_for_once(void **state)
{
    (void)state;
    assert_false(amb_conn_gpus_may_spin(conn));
    fakecuda_hold(true);
    give_back(0, streams[0]);
    assert_true(amb_conn_gpus_may_spin(conn));
    unsigned long before = questions();
    amb_conn_gpus_spin(conn);
    unsigned long asked = questions() - before;
    assert_in_range(asked, 1, 21); /* One a microsecond. */
    assert_false(amb_conn_gpus_may_spin(conn));
    (void)amb_conn_gpus_look(conn);
    assert_false(amb_conn_gpus_may_spin(conn)); /* Not before the next nap either. */
    /* Where it does not help it is left out, all but once in a while. */
    unsigned spun = 0;
    for (unsigned i = 1; i <= 64; i++) {
        give_back(i, streams[0]);
        assert_true(amb_conn_gpus_may_spin(conn));
        before = questions();
        amb_conn_gpus_spin(conn);
        spun += questions() != before;
    }
    assert_in_range(spun, 3 + 3, 3 + 4);
    fakecuda_hold(false);
    while (amb_conn_gpus_look(conn)) {
    }
    assert_int_equal(released, 65);
}

static void CUDA_CB do_nothing(void *arg)
{
    (void)arg;
}

/* The event goes into the graph then, and asking for it answers 907. */
static void test_a_capture_may_begin_while_the_event_is_recorded(void **state)
{
    (void)state;
    CUgraph graph;
    fakecuda_capture_before("cuEventRecord", streams[0]);
    give_back(0, streams[0]);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(amb_conn_gpus_look(conn));
    }
    assert_int_equal(released, 0);
    fakecuda_hold(true);
    assert_int_equal(cuStreamEndCapture(streams[0], &graph), CUDA_SUCCESS);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(amb_conn_gpus_look(conn)); /* It is recorded once more, behind that end. */
    }
    assert_int_equal(released, 0);
    fakecuda_hold(false);
    while (amb_conn_gpus_look(conn)) {
    }
    assert_int_equal(released, 1);
}

/* No event of ours can be recorded there, so the stream itself is asked. */
static void test_a_stream_of_another_gpu_that_captured_is_asked_itself(void **state)
{
    (void)state;
    CUgraph graph;
    CUstream other;
    CUcontext context;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 1), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&context), CUDA_SUCCESS);
    assert_int_equal(amb_gpu_release_after(gpu, (struct amb_msg *)(void *)&messages[0], count,
                                           other, AMB_GPU_CAPTURING_AWAITED),
                     AMB_OK);
    assert_true(amb_conn_gpus_look(conn));
    assert_int_equal(released, 0);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuStreamEndCapture(other, &graph), CUDA_SUCCESS);
    fakecuda_hold(true);
    assert_int_equal(cuLaunchHostFunc(other, do_nothing, NULL), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&context), CUDA_SUCCESS);
    assert_true(amb_conn_gpus_look(conn));
    assert_int_equal(released, 0);
    fakecuda_hold(false);
    while (amb_conn_gpus_look(conn)) {
    }
    assert_int_equal(released, 1);
    assert_int_equal(cuStreamDestroy(other), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

/* There nothing may be asked of the driver, and nothing waits for ever. */
static void CUDA_CB release_in_host_function(void *arg)
{
    enum amb_status *status = arg;
    *status = amb_gpu_release_after(gpu, (struct amb_msg *)(void *)&messages[0], count, streams[1],
                                    AMB_GPU_CAPTURING_AWAITED);
}

static void CUDA_CB sync_in_host_function(void *arg)
{
    enum amb_status *status = arg;
    *status = amb_cuda_program_sync(streams[1]);
    *status = *status == AMB_ESTATE ? amb_cuda_program_sync(NULL) : *status;
}

static void test_a_host_function_is_answered_and_not_kept(void **state)
{
    (void)state;
    const CUhostFn functions[] = {release_in_host_function, sync_in_host_function};
    for (unsigned i = 0; i < 2; i++) {
        enum amb_status status = AMB_OK;
        assert_int_equal(cuLaunchHostFunc(streams[0], functions[i], &status), CUDA_SUCCESS);
        assert_int_equal(amb_cuda_stream_sync(amb_gpu_cuda(gpu), streams[0]), AMB_OK);
        assert_int_equal(status, AMB_ESTATE);
        assert_int_equal(released, 0);
    }
    assert_true(amb_gpu_is_sound(gpu));
}

static void *drain(void *arg)
{
    amb_conn_gpus_drain(conn);
    return arg;
}

/* The driver waits for a stream without the device's lock. */
static void test_a_drain_keeps_no_release_from_its_place(void **state)
{
    (void)state;
    pthread_t thread;
    fakecuda_hold(true);
    give_back(0, streams[0]);
    assert_int_equal(pthread_create(&thread, NULL, drain, NULL), 0);
    const struct timespec moment = {.tv_nsec = 20000000};
    (void)nanosleep(&moment, NULL); /* It waits by now, mostly. */
    give_back(1, streams[1]);
    assert_int_equal(released, 0);
    fakecuda_hold(false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    amb_conn_gpus_drain(conn);
    assert_int_equal(released, 2);
}

static void wait_until_released(unsigned n)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    for (unsigned i = 0; i < 10000 && released < n; i++) {
        (void)nanosleep(&moment, NULL);
    }
    assert_int_equal(released, n);
}

/* As a program that keeps its messages over a close. */
static void test_releases_after_a_close_have_one_thread(void **state)
{
    (void)state;
    fakecuda_hold(true);
    unsigned before = threads_count();
    for (unsigned i = 0; i < MANY; i++) {
        give_back(i, streams[i % STREAMS]);
        amb_conn_gpus_leave(conn);
    }
    assert_in_range(threads_count(), before, before + 2);
    assert_int_equal(released, 0);
    fakecuda_hold(false);
    wait_until_released(MANY);
    amb_asides_wait(conn);
    give_back(0, streams[0]); /* It has gone, and the next one has its own. */
    amb_conn_gpus_leave(conn);
    wait_until_released(MANY + 1);
}

static void test_a_stream_that_is_held_keeps_no_other_after_a_close(void **state)
{
    (void)state;
    struct amb_gpu *other;
    struct amb_cuda_scope inner;
    void *stream;
    assert_int_equal(amb_gpu_get(conn, 1, &other), AMB_OK);
    assert_int_equal(amb_cuda_enter(amb_gpu_cuda(other), &inner), AMB_OK);
    assert_int_equal(amb_cuda_stream_create(amb_gpu_cuda(other), &stream), AMB_OK);
    fakecuda_hold_device(0);
    give_back(0, streams[0]);
    amb_conn_gpus_leave(conn);
    assert_int_equal(amb_gpu_release_after(other, (struct amb_msg *)(void *)&messages[1], count,
                                           stream, AMB_GPU_CAPTURING_REFUSED),
                     AMB_OK);
    amb_conn_gpus_leave(conn);
    wait_until_released(1);
    fakecuda_hold_device(-1);
    wait_until_released(2);
    amb_cuda_stream_destroy(amb_gpu_cuda(other), stream);
    amb_cuda_leave(&inner);
}

/* Its event says nothing then, and the work before that capture may still read. */
static void test_nor_is_a_capture_that_began_meanwhile_the_end_after_a_close(void **state)
{
    (void)state;
    CUgraph graph;
    const struct timespec moment = {.tv_nsec = 30000000};
    fakecuda_capture_before("cuEventRecord", streams[0]);
    give_back(0, streams[0]);
    amb_conn_gpus_leave(conn);
    (void)nanosleep(&moment, NULL);
    assert_int_equal(released, 0);
    fakecuda_hold(true);
    assert_int_equal(cuStreamEndCapture(streams[0], &graph), CUDA_SUCCESS);
    (void)nanosleep(&moment, NULL);
    assert_int_equal(released, 0);
    fakecuda_hold(false);
    wait_until_released(1);
}

/* The program gave it back in the capture, whose end may never come. */
static void test_a_capture_that_goes_on_is_not_waited_for_after_a_close(void **state)
{
    (void)state;
    CUgraph graph;
    assert_int_equal(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED),
                     CUDA_SUCCESS);
    assert_int_equal(amb_gpu_release_after(gpu, (struct amb_msg *)(void *)&messages[0], count,
                                           streams[0], AMB_GPU_CAPTURING_AWAITED),
                     AMB_OK);
    assert_true(amb_conn_gpus_look(conn));
    amb_conn_gpus_leave(conn);
    wait_until_released(1);
    assert_int_equal(cuStreamEndCapture(streams[0], &graph), CUDA_SUCCESS);
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_look_asks_once_a_stream_and_a_message_that_is_over),
        TEST(test_a_spin_sees_the_end_of_a_stream),
        TEST(test_a_capture_may_begin_while_the_event_is_recorded),
        TEST(test_a_stream_of_another_gpu_that_captured_is_asked_itself),
        TEST(test_a_host_function_is_answered_and_not_kept),
        TEST(test_a_drain_keeps_no_release_from_its_place),
        TEST(test_releases_after_a_close_have_one_thread),
        TEST(test_a_stream_that_is_held_keeps_no_other_after_a_close),
        TEST(test_nor_is_a_capture_that_began_meanwhile_the_end_after_a_close),
        TEST(test_a_capture_that_goes_on_is_not_waited_for_after_a_close),
        TEST(test_a_message_that_is_held_for_long_is_spun_for_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
