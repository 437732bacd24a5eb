/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, events and copies on the fake driver, whose streams are held where a test looks at what
 * has not happened yet.
 */
#include "tests/fakecuda/fakecuda.h"
#include "wire/mem/cuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LEN ((size_t)4096)

struct fixture {
    struct amb_cuda *device;
    struct amb_cuda_scope scope;
    void *stream, *event;
    uint64_t memory;
    unsigned char *pinned;
};
static struct fixture fixture;

static int set_up(void **state)
{
    struct fixture *f = &fixture;
    *state = f;
    void *pinned = NULL;
    if (amb_cuda_at(0, &f->device) != AMB_OK || amb_cuda_enter(f->device, &f->scope) != AMB_OK ||
        amb_cuda_stream_create(f->device, &f->stream) != AMB_OK ||
        amb_cuda_event_create(f->device, &f->event) != AMB_OK ||
        amb_cuda_alloc(f->device, LEN, &f->memory) != AMB_OK ||
        amb_cuda_pin(f->device, LEN, &pinned) != AMB_OK) {
        return -1;
    }
    f->pinned = pinned;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    fakecuda_hold(false);
    amb_cuda_event_destroy(f->device, f->event);
    amb_cuda_stream_destroy(f->device, f->stream);
    amb_cuda_free(f->device, f->memory);
    amb_cuda_unpin(f->device, f->pinned);
    amb_cuda_leave(&f->scope);
    return fakecuda_live_streams() + fakecuda_live_events() + fakecuda_live_device() == 0 ? 0 : -1;
}

static bool holds(uint64_t memory, unsigned char value)
{
    unsigned char bytes[LEN];
    assert_true(fakecuda_peek(memory, bytes, LEN));
    for (size_t i = 0; i < LEN; i++) {
        if (bytes[i] != value) {
            return false;
        }
    }
    return true;
}

static void test_copy_from_pinned_memory_runs_when_the_stream_does(void **state)
{
    struct fixture *f = *state;
    memset(f->pinned, 0xab, LEN);
    fakecuda_hold(true);
    assert_int_equal(amb_cuda_copy(f->device, f->memory, (uintptr_t)f->pinned, LEN, f->stream),
                     AMB_OK);
    assert_false(holds(f->memory, 0xab));
    fakecuda_hold(false);
    assert_int_equal(amb_cuda_stream_sync(f->device, f->stream), AMB_OK);
    assert_true(holds(f->memory, 0xab));
}

static void test_event_is_done_when_what_it_follows_is(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(amb_cuda_event_query(f->device, f->event), AMB_OK); /* Never recorded. */
    memset(f->pinned, 0xcd, LEN);
    fakecuda_hold(true);
    assert_int_equal(amb_cuda_copy(f->device, f->memory, (uintptr_t)f->pinned, LEN, f->stream),
                     AMB_OK);
    assert_int_equal(amb_cuda_event_record(f->device, f->event, f->stream), AMB_OK);
    assert_int_equal(amb_cuda_event_query(f->device, f->event), AMB_EAGAIN);
    fakecuda_hold(false);
    assert_int_equal(amb_cuda_event_sync(f->device, f->event), AMB_OK);
    assert_int_equal(amb_cuda_event_query(f->device, f->event), AMB_OK);
    assert_true(holds(f->memory, 0xcd));
}

static void test_stream_waits_for_another_streams_event(void **state)
{
    struct fixture *f = *state;
    void *other = NULL;
    unsigned char back[LEN];
    assert_int_equal(amb_cuda_stream_create(f->device, &other), AMB_OK);
    memset(f->pinned, 0x11, LEN);
    fakecuda_hold(true);
    assert_int_equal(amb_cuda_copy(f->device, f->memory, (uintptr_t)f->pinned, LEN, f->stream),
                     AMB_OK);
    assert_int_equal(amb_cuda_event_record(f->device, f->event, f->stream), AMB_OK);
    assert_int_equal(amb_cuda_stream_wait(f->device, other, f->event), AMB_OK);
    fakecuda_hold(false);
    /* Pageable: done when the call is. */
    assert_int_equal(amb_cuda_copy(f->device, (uintptr_t)back, f->memory, LEN, other), AMB_OK);
    memset(f->pinned, 0x11, LEN);
    assert_memory_equal(back, f->pinned, LEN);
    amb_cuda_stream_destroy(f->device, other);
}

static void test_a_stream_of_another_device_is_told_and_is_no_failure(void **state)
{
    struct fixture *f = *state;
    struct amb_cuda *other;
    struct amb_cuda_scope scope;
    void *far;
    char before[200], after[200];
    assert_int_equal(amb_cuda_at(1, &other), AMB_OK);
    assert_int_equal(amb_cuda_enter(other, &scope), AMB_OK);
    assert_int_equal(amb_cuda_stream_create(other, &far), AMB_OK);
    amb_cuda_leave(&scope);
    amb_cuda_failure(f->device, before, sizeof(before));
    assert_int_equal(amb_cuda_event_follow(f->device, f->event, far), AMB_ENOTSUP);
    amb_cuda_failure(f->device, after, sizeof(after));
    assert_string_equal(after, before);
    assert_int_equal(amb_cuda_event_follow(f->device, f->event, f->stream), AMB_OK);
    assert_int_equal(amb_cuda_event_sync(f->device, f->event), AMB_OK);
    amb_cuda_stream_destroy(other, far);
}

static void test_copy_between_devices(void **state)
{
    struct fixture *f = *state;
    struct amb_cuda *other = NULL;
    struct amb_cuda_scope scope;
    uint64_t far = 0;
    unsigned char bytes[LEN];
    memset(bytes, 0x42, LEN);
    assert_int_equal(amb_cuda_at(1, &other), AMB_OK);
    assert_int_equal(amb_cuda_enter(other, &scope), AMB_OK);
    assert_int_equal(amb_cuda_alloc(other, LEN, &far), AMB_OK);
    amb_cuda_leave(&scope);
    assert_true(fakecuda_poke(far, bytes, LEN));
    assert_int_equal(amb_cuda_copy_peer(f->device, f->memory, other, far, LEN, f->stream), AMB_OK);
    assert_int_equal(amb_cuda_stream_sync(f->device, f->stream), AMB_OK);
    assert_true(holds(f->memory, 0x42));
    assert_int_equal(amb_cuda_enter(other, &scope), AMB_OK);
    amb_cuda_free(other, far);
    amb_cuda_leave(&scope);
}

static void test_copy_past_an_allocation_is_an_error_that_harms_nobody(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(amb_cuda_copy(f->device, f->memory + 1, (uintptr_t)f->pinned, LEN, f->stream),
                     AMB_ECUDA);
    assert_true(amb_cuda_is_sound(f->device));
}

#define WITH_DEVICE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
    const struct CMUnitTest tests[] = {
        WITH_DEVICE(test_copy_from_pinned_memory_runs_when_the_stream_does),
        WITH_DEVICE(test_event_is_done_when_what_it_follows_is),
        WITH_DEVICE(test_stream_waits_for_another_streams_event),
        WITH_DEVICE(test_a_stream_of_another_device_is_told_and_is_no_failure),
        WITH_DEVICE(test_copy_between_devices),
        WITH_DEVICE(test_copy_past_an_allocation_is_an_error_that_harms_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
