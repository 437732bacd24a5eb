/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staged copies on the fake driver: whole at every size, and behind the stream that they are told.
 * They leave no trace when any call of the driver fails.
 */
#include "tests/fakecuda/fakecuda.h"
#include "tests/support/torture.h"
#include "wire/mem/stage.h"

#include <cuda.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define CHUNK UINT64_C(4096)
#define MAX (CHUNK * 5 + 77)

static struct amb_cuda *device;
static struct amb_stage *stage;
static uint64_t memory;
static uint8_t pattern[MAX], back[MAX];

static void allocate(void)
{
    struct amb_cuda_scope scope;
    assert_int_equal(amb_cuda_enter(device, &scope), AMB_OK);
    assert_int_equal(amb_cuda_alloc(device, MAX, &memory), AMB_OK);
    amb_cuda_leave(&scope);
}

static int set_up(void **state)
{
    (void)state;
    if (amb_cuda_at(0, &device) != AMB_OK || amb_stage_create(device, CHUNK, &stage) != AMB_OK) {
        return -1;
    }
    allocate();
    for (size_t i = 0; i < MAX; i++) {
        pattern[i] = (uint8_t)(i * 7 + i / 251);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    struct amb_cuda_scope scope;
    fakecuda_fail(NULL);
    fakecuda_hold(false);
    amb_stage_destroy(&stage);
    amb_stage_destroy(&stage);
    assert_int_equal(amb_cuda_enter(device, &scope), AMB_OK);
    amb_cuda_free(device, memory);
    amb_cuda_leave(&scope);
    return fakecuda_live_pinned() + fakecuda_live_device() + fakecuda_live_streams() +
                       fakecuda_live_events() ==
                   0
               ? 0
               : -1;
}

static void test_copies_are_whole_at_every_size(void **state)
{
    (void)state;
    const uint64_t sizes[] = {1,         15,        CHUNK - 1,     CHUNK,         CHUNK + 1,
                              2 * CHUNK, 3 * CHUNK, 3 * CHUNK + 1, 4 * CHUNK + 9, MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(back, 0, sizeof(back));
        assert_int_equal(amb_stage_write(stage, memory, pattern, sizes[i]), AMB_OK);
        assert_true(fakecuda_peek(memory, back, sizes[i]));
        assert_memory_equal(back, pattern, sizes[i]);
        memset(back, 0, sizeof(back));
        assert_int_equal(amb_stage_read(stage, back, memory, sizes[i], NULL), AMB_OK);
        assert_memory_equal(back, pattern, sizes[i]);
        assert_true(sizes[i] == MAX || back[sizes[i]] == 0);
    }
}

struct late {
    void *stream;
    _Atomic bool is_done;
    enum amb_status status;
};

static void *read_late(void *arg)
{
    struct late *late = arg;
    late->status = amb_stage_read(stage, back, memory, MAX, late->stream);
    late->is_done = true;
    return NULL;
}

static void test_read_comes_after_what_is_on_the_callers_stream(void **state)
{
    (void)state;
    struct amb_cuda_scope scope;
    struct late late = {.stream = NULL};
    pthread_t thread;
    assert_int_equal(amb_cuda_enter(device, &scope), AMB_OK);
    assert_int_equal(amb_cuda_stream_create(device, &late.stream), AMB_OK);
    memset(back, 0, sizeof(back));
    fakecuda_hold(true);
    assert_int_equal(cuMemsetD8Async(memory, 0x3c, MAX, late.stream), CUDA_SUCCESS);
    assert_int_equal(pthread_create(&thread, NULL, read_late, &late), 0);
    fakecuda_hold(false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(late.status, AMB_OK);
    for (size_t i = 0; i < MAX; i++) {
        assert_int_equal(back[i], 0x3c);
    }
    amb_cuda_stream_destroy(device, late.stream);
    amb_cuda_leave(&scope);
}

/* One round in a process of its own; which call fails is the argument. 0: it went as it must. */
static int torture_round(unsigned turn, int error)
{
    char plan[64];
    (void)snprintf(plan, sizeof(plan), "*:%u=%d", turn, error);
    (void)setenv("FAKECUDA_FAIL", plan, 1);
    device = NULL;
    stage = NULL;
    enum amb_status status = amb_cuda_at(0, &device);
    if (status != AMB_OK) {
        return 0; /* Said so at the start. */
    }
    struct amb_cuda_scope scope;
    memory = 0;
    if (amb_cuda_enter(device, &scope) == AMB_OK) {
        status = amb_cuda_alloc(device, MAX, &memory);
        amb_cuda_leave(&scope);
    }
    if (memory != 0 && amb_stage_create(device, CHUNK, &stage) == AMB_OK) {
        enum amb_status wrote = amb_stage_write(stage, memory, pattern, MAX);
        enum amb_status has_read = amb_stage_read(stage, back, memory, MAX, NULL);
        if (wrote == AMB_OK && has_read == AMB_OK && memcmp(back, pattern, MAX) != 0) {
            return 1;
        }
        amb_stage_destroy(&stage);
    }
    if (memory != 0 && amb_cuda_enter(device, &scope) == AMB_OK) {
        amb_cuda_free(device, memory);
        amb_cuda_leave(&scope);
    }
    /* A call that frees and fails keeps what it was to free; no more than that is lost. */
    unsigned left = fakecuda_live_pinned() + fakecuda_live_device() + fakecuda_live_streams() +
                    fakecuda_live_events();
    return !amb_cuda_is_sound(device) || left <= 1 ? 0 : 2;
}

static void test_any_call_may_fail_at_any_turn(void **state)
{
    (void)state;
    torture_turns(torture_round, 64, 1);
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_call_may_fail_at_any_turn), /* Before this process starts it. */
        cmocka_unit_test_setup_teardown(test_copies_are_whole_at_every_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_read_comes_after_what_is_on_the_callers_stream, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
