/* SPDX-License-Identifier: Apache-2.0 */
/* Calls inside a handle, and its close. Under TSan it also shows that the memory may go then. */
#include "client/python/src/gate.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS INT64_C(1000000)
#define LONG (10000 * MS)
#define THREADS 4
#define ROUNDS 2000

static void one_call_after_the_other(void **state)
{
    (void)state;
    struct amb_gate gate = {0};
    assert_true(amb_gate_enter(&gate));
    assert_true(amb_gate_enter(&gate));
    assert_false(amb_gate_is_closed(&gate));
    amb_gate_leave(&gate);
    assert_true(amb_gate_close(&gate));
    assert_true(amb_gate_is_closed(&gate));
    assert_false(amb_gate_close(&gate)); /* Somebody else closes it. */
    assert_false(amb_gate_enter(&gate));
    assert_false(amb_gate_await(&gate, 0));
    assert_false(amb_gate_await(&gate, 2 * MS));
    amb_gate_leave(&gate);
    assert_true(amb_gate_await(&gate, 0));
    assert_false(amb_gate_enter(&gate));
    assert_true(amb_gate_await(&gate, 0));
    amb_gate_reenter(&gate);
    assert_false(amb_gate_await(&gate, 0));
    amb_gate_leave(&gate);
    assert_true(amb_gate_await(&gate, 0));
}

/* A handle, and memory of it that calls use. */
struct handle {
    struct amb_gate gate;
    uint64_t *memory;
    _Atomic(uint64_t *) shared;
    bool is_free;
    _Atomic uint32_t ready, closers;
};

/* Calls until the gate is closed, as `next` does: it waits inside, and looks whether it is. */
static void *call(void *arg)
{
    struct handle *handle = arg;
    uint64_t calls = 0;
    atomic_fetch_add(&handle->ready, 1);
    while (amb_gate_enter(&handle->gate)) {
        for (int i = 0; i < 10 && !amb_gate_is_closed(&handle->gate); i++) {
            calls += *handle->memory;
            (void)sched_yield();
        }
        amb_gate_leave(&handle->gate);
    }
    return calls != UINT64_MAX ? NULL : arg;
}

/* The first one that closes it frees it, once nobody is inside. */
static void *close_and_free(void *arg)
{
    struct handle *handle = arg;
    if (amb_gate_close(&handle->gate)) {
        while (!amb_gate_await(&handle->gate, LONG)) {
        }
        *handle->memory = 0; /* TSan: no call reads it meanwhile. */
        free(handle->memory);
        handle->memory = NULL;
        atomic_fetch_add(&handle->closers, 1);
    }
    return NULL;
}

static void a_close_waits_for_calls_of_other_threads(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct handle handle = {0};
        pthread_t callers[THREADS], closers[2];
        handle.memory = malloc(sizeof(*handle.memory));
        assert_non_null(handle.memory);
        *handle.memory = 1;
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_create(&callers[i], NULL, call, &handle), 0);
        }
        /* Before all of them have come, in every other round. */
        while (round % 2 == 0 && atomic_load(&handle.ready) != THREADS) {
            (void)sched_yield();
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pthread_create(&closers[i], NULL, close_and_free, &handle), 0);
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pthread_join(closers[i], NULL), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            void *failed = &handle;
            assert_int_equal(pthread_join(callers[i], &failed), 0);
            assert_null(failed);
        }
        assert_int_equal(atomic_load(&handle.closers), 1);
        assert_null(handle.memory);
        assert_int_equal(atomic_load(&handle.gate.state), AMB_GATE_CLOSED);
    }
}

/* As the package closes a publisher: whichever takes the memory frees it, and others wait for that.
 */
static void *take_and_free(void *arg)
{
    struct handle *handle = arg;
    (void)amb_gate_close(&handle->gate);
    while (!amb_gate_await(&handle->gate, LONG)) {
    }
    amb_gate_reenter(&handle->gate);
    uint64_t *memory = atomic_exchange(&handle->shared, NULL);
    if (memory != NULL) {
        *memory = 0;
        (void)sched_yield();
        free(memory);
        handle->is_free = true;
    }
    amb_gate_leave(&handle->gate);
    while (!amb_gate_await(&handle->gate, LONG)) {
    }
    return handle->is_free ? NULL : arg; /* TSan: nobody writes it meanwhile. */
}

static void a_second_close_waits_for_the_first_one(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS / 4; round++) {
        struct handle handle = {0};
        pthread_t closers[THREADS];
        atomic_store(&handle.shared, malloc(sizeof(uint64_t)));
        assert_non_null(atomic_load(&handle.shared));
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_create(&closers[i], NULL, take_and_free, &handle), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            void *failed = &handle;
            assert_int_equal(pthread_join(closers[i], &failed), 0);
            assert_null(failed);
        }
    }
}

static void *leave_at_last(void *arg)
{
    struct handle *handle = arg;
    while (!amb_gate_is_closed(&handle->gate)) {
        (void)sched_yield();
    }
    amb_gate_leave(&handle->gate);
    return NULL;
}

static void the_last_call_wakes_the_one_who_waits(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct handle handle = {0};
        pthread_t thread;
        assert_true(amb_gate_enter(&handle.gate));
        assert_int_equal(pthread_create(&thread, NULL, leave_at_last, &handle), 0);
        assert_true(amb_gate_close(&handle.gate));
        assert_true(amb_gate_await(&handle.gate, LONG));
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_call_after_the_other),
        cmocka_unit_test(a_close_waits_for_calls_of_other_threads),
        cmocka_unit_test(a_second_close_waits_for_the_first_one),
        cmocka_unit_test(the_last_call_wakes_the_one_who_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
