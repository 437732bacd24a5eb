/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathered copies on the fake driver: each piece comes to its place, and jobs are over in their
 * order. One that fails is alone with that. A piece costs one call of the driver, and a chunk two.
 */
#include "tests/fakecuda/fakecuda.h"
#include "tests/support/torture.h"
#include "wire/mem/gather.h"

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
#define MAX (CHUNK * 16)
#define JOBS_MAX 5000u

static struct amb_cuda *device;
static struct amb_gather *gather;
static uint64_t memory;
static uint8_t pattern[MAX], back[MAX];
static struct job {
    bool is_over;
    enum amb_status status;
} jobs[JOBS_MAX];
static unsigned over; /* jobs */
static uint64_t bytes_ok;
static unsigned failures;

static void job_over(void *arg, enum amb_status status)
{
    struct job *job = arg;
    assert_ptr_equal(job, &jobs[over]); /* In their order. */
    job->is_over = true;
    job->status = status;
    over++;
}

static void note(void *owner, enum amb_status status, uint64_t bytes)
{
    assert_ptr_equal(owner, &gather);
    bytes_ok += status == AMB_OK ? bytes : 0;
    failures += status != AMB_OK;
}

/* The device is this thread's from here on. */
static enum amb_status begin(void)
{
    enum amb_status status = amb_cuda_at(0, &device);
    status = status == AMB_OK ? amb_cuda_bind(device) : status;
    status = status == AMB_OK ? amb_cuda_alloc(device, MAX, &memory) : status;
    status = status == AMB_OK ? amb_gather_create(device, CHUNK, note, &gather, &gather) : status;
    for (size_t i = 0; i < MAX; i++) {
        pattern[i] = (uint8_t)(i * 7 + i / 251);
    }
    memset(back, 0, sizeof(back));
    memset(jobs, 0, sizeof(jobs));
    over = failures = 0;
    bytes_ok = 0;
    return status;
}

static int set_up(void **state)
{
    (void)state;
    return begin() == AMB_OK && fakecuda_poke(memory, pattern, MAX) ? 0 : -1;
}

static unsigned left(void)
{
    return fakecuda_live_pinned() + fakecuda_live_device() + fakecuda_live_streams() +
           fakecuda_live_events();
}

static int tear_down(void **state)
{
    (void)state;
    fakecuda_fail(NULL);
    fakecuda_hold(false);
    amb_gather_destroy(&gather);
    amb_gather_destroy(&gather);
    amb_cuda_free(device, memory);
    return left() == 0 ? 0 : -1;
}

static void add(uint64_t at, uint64_t len)
{
    amb_gather_add(gather, back + at, memory + at, len);
}

static void end(unsigned job)
{
    amb_gather_end(gather, &jobs[job], job_over);
}

static void finish(void)
{
    while (amb_gather_turn(gather)) {
    }
}

static void test_jobs_are_whole_at_every_size(void **state)
{
    (void)state;
    const uint64_t sizes[] = {
        0, 1, 63, 64, 65, CHUNK - 1, CHUNK, CHUNK + 1, 12345, 2 * CHUNK, 3 * CHUNK + 9, MAX / 2};
    const unsigned count = sizeof(sizes) / sizeof(sizes[0]);
    uint64_t total = 0;
    for (unsigned i = 0; i < count; i++) {
        memset(back, 0, sizeof(back));
        add(total % 100, sizes[i]);
        end(i);
        finish();
        assert_true(jobs[i].is_over && jobs[i].status == AMB_OK);
        assert_memory_equal(back + total % 100, pattern + total % 100, sizes[i]);
        assert_int_equal(back[total % 100 + sizes[i]], 0);
        total += sizes[i];
    }
    assert_int_equal(bytes_ok, total);
}

static void test_pieces_of_many_jobs_come_to_their_places(void **state)
{
    (void)state;
    uint64_t at = 0;
    unsigned job = 0;
    for (uint64_t len = 1; at + 4 * len < MAX; len = len % 700 + 13) {
        for (unsigned i = 0; i < job % 4; i++) {
            add(at, len);
            at += len;
        }
        end(job++);
        if (job % 10 == 0) {
            (void)amb_gather_turn(gather);
        }
    }
    finish();
    assert_int_equal(over, job);
    assert_int_equal(bytes_ok, at);
    assert_memory_equal(back, pattern, at);
    assert_int_equal(failures, 0);
}

/* The engine works on one chunk, and the next one is filled. */
static void test_nothing_is_over_before_its_bytes_are_there(void **state)
{
    (void)state;
    fakecuda_hold(true);
    add(0, 100);
    end(0);
    assert_true(amb_gather_turn(gather));
    add(100, 100);
    end(1);
    assert_int_equal(over, 0);
    fakecuda_hold(false);
    assert_true(amb_gather_turn(gather)); /* Waits for the first alone. */
    assert_int_equal(over, 1);
    assert_memory_equal(back, pattern, 100);
    finish();
    assert_int_equal(over, 2);
    assert_memory_equal(back, pattern, 200);
    assert_false(amb_gather_turn(gather));
}

#define ITEMS 1024u /* of a chunk: pieces and ends */

/* A chunk has room for their bytes, and not for one item more. */
static void test_a_chunk_is_full_of_pieces_before_the_end_of_their_job(void **state)
{
    (void)state;
    struct amb_gather *large = NULL;
    assert_int_equal(amb_gather_create(device, 0, note, &gather, &large), AMB_OK);
    for (unsigned extra = 0; extra < 3; extra++) {
        memset(back, 0, sizeof(back));
        over = 0;
        for (unsigned i = 0; i < ITEMS - 1 + extra; i++) {
            amb_gather_add(large, back + i, memory + i, 1);
        }
        amb_gather_end(large, &jobs[0], job_over);
        amb_gather_end(large, &jobs[1], job_over);
        while (amb_gather_turn(large)) {
        }
        assert_int_equal(over, 2);
        assert_memory_equal(back, pattern, ITEMS - 1 + extra);
        assert_int_equal(back[ITEMS - 1 + extra], 0);
    }
    amb_gather_destroy(&large);
}

static void test_a_chunk_is_full_of_empty_jobs(void **state)
{
    (void)state;
    unsigned long before = fakecuda_calls();
    for (unsigned i = 0; i < 2 * ITEMS + 1; i++) {
        end(i);
    }
    finish();
    assert_int_equal(over, 2 * ITEMS + 1);
    assert_int_equal(fakecuda_calls(), before); /* There is nothing to wait for. */
}

/* Calls for so many jobs of one piece each. */
static unsigned long calls_of(unsigned count, uint64_t len)
{
    over = 0;
    unsigned long before = fakecuda_calls();
    for (unsigned i = 0; i < count; i++) {
        add(0, len);
        end(i);
    }
    finish();
    assert_int_equal(over, count);
    return fakecuda_calls() - before;
}

static void test_a_chunk_is_waited_for_and_no_message(void **state)
{
    (void)state;
    unsigned long one = calls_of(1, 16), some = calls_of(64, 16), many = calls_of(JOBS_MAX, 16);
    unsigned long large = calls_of(1, MAX);
    (void)printf("driver calls of 1, 64 and %u pieces: %lu, %lu, %lu; of %u chunks: %lu\n",
                 JOBS_MAX, one, some, many, (unsigned)(MAX / CHUNK), large);
    assert_int_equal(one, 3);
    assert_int_equal(some, 64 + 2);
    assert_in_range(many, JOBS_MAX, JOBS_MAX + 2 * (JOBS_MAX * 64 / CHUNK + 1));
    assert_int_equal(large, 3 * MAX / CHUNK);
}

static void test_a_piece_that_fails_fails_its_job_alone(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        fakecuda_fail(i == 1 ? "cuMemcpyAsync:2=1" : NULL);
        for (unsigned k = 0; k < 3; k++) {
            add(i * 3000 + k * 1000, 1000);
        }
        end(i);
    }
    finish();
    assert_int_equal(jobs[0].status, AMB_OK);
    assert_int_equal(jobs[1].status, AMB_ECUDA);
    assert_int_equal(jobs[2].status, AMB_OK);
    assert_memory_equal(back, pattern, 3000);
    assert_memory_equal(back + 6000, pattern + 6000, 3000);
    assert_int_equal(failures, 1);
    assert_int_equal(bytes_ok, 6000);
}

/* Refused: the event is not recorded, or the wait is asked for again. */
static void test_calls_around_the_copies_may_be_refused(void **state)
{
    (void)state;
    static const char *const plans[] = {"cuEventRecord:1=2", "cuEventSynchronize:1=304",
                                        "cuEventRecord:1=2,cuStreamSynchronize:1=304"};
    for (unsigned i = 0; i < 3; i++) {
        fakecuda_fail(plans[i]);
        fakecuda_hold(true);
        add(i * CHUNK, CHUNK);
        end(i);
        assert_true(amb_gather_turn(gather));
        fakecuda_hold(false);
        finish();
        assert_true(jobs[i].is_over && jobs[i].status == AMB_OK);
        assert_memory_equal(back + i * CHUNK, pattern + i * CHUNK, CHUNK);
    }
}

/* One round in a process of its own; which call fails is the argument. 0: it went as it must. */
static int torture_round(unsigned turn, int error)
{
    char plan[64];
    (void)snprintf(plan, sizeof(plan), "*:%u=%d", turn, error);
    (void)setenv("FAKECUDA_FAIL", plan, 1);
    enum amb_status status = begin();
    bool is_filled = status == AMB_OK && fakecuda_poke(memory, pattern, MAX);
    for (unsigned i = 0; is_filled && i < 8; i++) {
        add(i * 2 * CHUNK, CHUNK / 2);
        add(i * 2 * CHUNK + CHUNK / 2, CHUNK / 2 + 100);
        end(i);
        if (i == 4) {
            (void)amb_gather_turn(gather);
        }
    }
    if (is_filled) {
        finish();
    }
    for (unsigned i = 0; is_filled && i < 8; i++) {
        uint64_t at = i * 2 * CHUNK;
        if (!jobs[i].is_over ||
            (jobs[i].status == AMB_OK && memcmp(back + at, pattern + at, CHUNK + 100) != 0)) {
            return 1;
        }
    }
    if (gather != NULL) {
        amb_gather_destroy(&gather);
    }
    if (memory != 0 && amb_cuda_is_sound(device)) {
        amb_cuda_free(device, memory);
    }
    /* A call that frees and fails keeps what it was to free; no more than that is lost. */
    return device == NULL || !amb_cuda_is_sound(device) || left() <= 1 ? 0 : 2;
}

static void test_any_call_may_fail_at_any_turn(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    const unsigned step = 6; /* A process takes most of a second. */
#else
    const unsigned step = 1;
#endif
    torture_turns(torture_round, 72, step);
}

int main(void)
{
    (void)setenv(AMB_CUDA_LIBRARY_ENV, AMB_FAKECUDA, 1);
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_call_may_fail_at_any_turn), /* Before this process starts it. */
        TEST(test_jobs_are_whole_at_every_size),
        TEST(test_pieces_of_many_jobs_come_to_their_places),
        TEST(test_nothing_is_over_before_its_bytes_are_there),
        TEST(test_a_chunk_is_full_of_pieces_before_the_end_of_their_job),
        TEST(test_a_chunk_is_full_of_empty_jobs),
        TEST(test_a_chunk_is_waited_for_and_no_message),
        TEST(test_a_piece_that_fails_fails_its_job_alone),
        TEST(test_calls_around_the_copies_may_be_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
