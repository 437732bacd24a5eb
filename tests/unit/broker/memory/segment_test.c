/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/memory/segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE ((uint64_t)256 << 10)

static struct amb_segment *make(void)
{
    struct amb_segment *segment = NULL;
    assert_int_equal(amb_segment_create(7, SIZE, &segment), AMB_OK);
    return segment;
}

/* The attacks of a client that owns the same uid, by the descriptor that it got. */
static int reopen_read_write(const struct amb_segment *segment)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", segment->fd_ro);
    return open(path, O_RDWR | O_CLOEXEC);
}

static void test_creation_fills_in_what_the_owner_needs(void **state)
{
    (void)state;
    struct amb_segment *segment = make();
    assert_int_equal(segment->id, 7);
    assert_int_equal(segment->size, SIZE);
    assert_non_null(segment->base);
    assert_int_equal(fcntl(segment->fd_ro, F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_int_equal(fcntl(segment->fd_ro, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    struct stat st;
    assert_int_equal(fstat(segment->fd_ro, &st), 0);
    assert_int_equal(st.st_size, SIZE);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_blocks * 512, SIZE);
    amb_segment_destroy(&segment);
    assert_null(segment);
}

static void test_sizes_that_are_no_pages_are_refused(void **state)
{
    (void)state;
    struct amb_segment *segment = NULL;
    assert_int_equal(amb_segment_create(1, 0, &segment), AMB_EINVAL);
    assert_int_equal(amb_segment_create(1, 100, &segment), AMB_EINVAL);
    assert_int_equal(amb_segment_create(1, UINT64_C(1) << 63, &segment), AMB_EINVAL);
    assert_null(segment);
}

static void test_a_reader_sees_what_the_broker_writes(void **state)
{
    (void)state;
    struct amb_segment *segment = make();
    const uint8_t *view = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, segment->fd_ro, 0);
    assert_ptr_not_equal(view, MAP_FAILED);
    memset(segment->base, 0x5a, SIZE);
    assert_int_equal(view[0], 0x5a);
    assert_int_equal(view[SIZE - 1], 0x5a);
    amb_segment_destroy(&segment);
    assert_int_equal(view[1], 0x5a); /* The view outlives the segment. */
    assert_int_equal(munmap((void *)(uintptr_t)view, SIZE), 0);
}

static void test_the_descriptor_given_out_cannot_write(void **state)
{
    (void)state;
    struct amb_segment *segment = make();
    char byte = 1;
    assert_int_equal(write(segment->fd_ro, &byte, 1), -1);
    assert_int_equal(ftruncate(segment->fd_ro, 0), -1);
    void *view = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd_ro, 0);
    assert_ptr_equal(view, MAP_FAILED);
    view = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, segment->fd_ro, 0);
    assert_ptr_not_equal(view, MAP_FAILED);
    assert_int_equal(mprotect(view, SIZE, PROT_READ | PROT_WRITE), -1);
    assert_int_equal(munmap(view, SIZE), 0);
    amb_segment_destroy(&segment);
}

static void test_a_descriptor_reopened_for_writing_cannot_write(void **state)
{
    (void)state;
    struct amb_segment *segment = make();
    int fd = reopen_read_write(segment);
    assert_true(fd >= 0);
    char byte = 1;
    assert_int_equal(pwrite(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_ptr_equal(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    assert_int_equal(errno, EPERM);
    assert_int_equal(close(fd), 0);
    amb_segment_destroy(&segment);
}

static void test_nobody_can_change_the_size_or_take_pages_away(void **state)
{
    (void)state;
    struct amb_segment *segment = make();
    int fd = reopen_read_write(segment);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, (off_t)(2 * SIZE)), -1);
    assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    assert_int_equal(errno, EPERM);
    segment->base[SIZE - 1] = 1;
    assert_int_equal(close(fd), 0);
    amb_segment_destroy(&segment);
}

static void test_nobody_can_add_seals(void **state)
{
    (void)state;
    struct amb_segment *segment = make();
    int fd = reopen_read_write(segment);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GET_SEALS),
                     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(close(fd), 0);
    amb_segment_destroy(&segment);
}

static void test_destroying_leaves_no_descriptor_behind(void **state)
{
    (void)state;
    int before = dup(0);
    assert_int_equal(close(before), 0);
    for (int i = 0; i < 8; i++) {
        struct amb_segment *segment = make();
        amb_segment_destroy(&segment);
    }
    int after = dup(0);
    assert_int_equal(close(after), 0);
    assert_int_equal(before, after);
    struct amb_segment *none = NULL;
    amb_segment_destroy(&none);
}

static void test_a_leased_one_has_one_writer_beside_us_and_then_no_more(void **state)
{
    (void)state;
    struct amb_segment *segment = NULL;
    assert_int_equal(amb_segment_create_leased(9, SIZE, &segment), AMB_OK);
    assert_int_equal(fcntl(segment->fd_rw, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(fcntl(segment->fd_rw, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW);
    struct stat st;
    assert_int_equal(fstat(segment->fd_rw, &st), 0);
    assert_int_equal(st.st_blocks, 0);
    assert_int_equal(amb_segment_fill(segment->fd_rw, 0, SIZE / 2), AMB_OK);
    assert_int_equal(amb_segment_fill(segment->fd_rw, SIZE / 2, SIZE / 2), AMB_OK);
    assert_int_equal(fstat(segment->fd_rw, &st), 0);
    assert_int_equal(st.st_blocks * 512, SIZE);
    uint8_t *theirs = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd_rw, 0);
    assert_true(theirs != MAP_FAILED);
    assert_int_equal(amb_segment_seal(segment), AMB_OK);
    assert_true(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd_rw, 0) ==
                MAP_FAILED);
    amb_segment_finish(segment);
    assert_int_equal(segment->fd_rw, -1);
    theirs[5] = 55;
    assert_int_equal(segment->base[5], 55);
    (void)munmap(theirs, SIZE);
    amb_segment_destroy(&segment);
}

/* Its process is of our own user, and it has the description that a client is given. */
static void test_a_clients_lease_on_a_descriptor_holds_nobody_up(void **state)
{
    (void)state;
    struct amb_segment *segment = make();
    amb_segment_finish(segment);
    int theirs = fcntl(segment->fd_ro, F_DUPFD_CLOEXEC, 0);
    assert_true(theirs >= 0);
    (void)signal(SIGIO, SIG_IGN);
    if (fcntl(theirs, F_SETLEASE, F_WRLCK) != 0) {
        (void)close(theirs);
        amb_segment_destroy(&segment);
        skip(); /* This kernel, or this user, has none. */
    }
    (void)alarm(20); /* An open that waits for the lease takes 45 s. */
    assert_int_equal(amb_segment_ask_use(segment), AMB_SEGMENT_IN_USE);
    (void)alarm(0);
    assert_int_equal(fcntl(theirs, F_SETLEASE, F_UNLCK), 0);
    (void)close(theirs);
    assert_int_equal(amb_segment_ask_use(segment), AMB_SEGMENT_UNUSED);
    amb_segment_destroy(&segment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_creation_fills_in_what_the_owner_needs),
        cmocka_unit_test(test_sizes_that_are_no_pages_are_refused),
        cmocka_unit_test(test_a_reader_sees_what_the_broker_writes),
        cmocka_unit_test(test_the_descriptor_given_out_cannot_write),
        cmocka_unit_test(test_a_descriptor_reopened_for_writing_cannot_write),
        cmocka_unit_test(test_nobody_can_change_the_size_or_take_pages_away),
        cmocka_unit_test(test_nobody_can_add_seals),
        cmocka_unit_test(test_destroying_leaves_no_descriptor_behind),
        cmocka_unit_test(test_a_leased_one_has_one_writer_beside_us_and_then_no_more),
        cmocka_unit_test(test_a_clients_lease_on_a_descriptor_holds_nobody_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
