/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/base/passed: descriptors that come with bytes, and that nobody's read may take along.
 */
#include "wire/base/passed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static void make_pair(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    amb_passed_prepare(pair[1]);
}

/* Sends bytes with the end of a pipe, which has gone when nobody holds that descriptor any more. */
static int pass(int fd, const char *bytes, int flags)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = strlen(bytes)};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &ends[1], sizeof(int));
    assert_int_equal(sendmsg(fd, &message, flags), (ssize_t)strlen(bytes));
    (void)close(ends[1]);
    return ends[0];
}

/* Nobody else has the pipe's other end. */
static bool is_dropped(int fd)
{
    uint8_t byte;
    int flag = fcntl(fd, F_SETFL, O_NONBLOCK);
    return flag == 0 && read(fd, &byte, 1) == 0;
}

static ssize_t receive(int fd, char *bytes, size_t size, bool *has_passed)
{
    struct iovec iov[2] = {{.iov_base = bytes, .iov_len = size / 2},
                           {.iov_base = bytes + size / 2, .iov_len = size - size / 2}};
    return amb_passed_receive(fd, iov, 2, has_passed);
}

static void test_bytes_come_as_they_were_sent(void **state)
{
    (void)state;
    int pair[2];
    char bytes[8];
    bool has_passed = true;
    make_pair(pair);
    assert_int_equal(receive(pair[1], bytes, sizeof(bytes), &has_passed), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(send(pair[0], "abcdefghijk", 11, 0), 11);
    assert_int_equal(receive(pair[1], bytes, sizeof(bytes), &has_passed), 8);
    assert_memory_equal(bytes, "abcdefgh", 8);
    assert_int_equal(receive(pair[1], bytes, sizeof(bytes), &has_passed), 3);
    assert_memory_equal(bytes, "ijk", 3);
    (void)close(pair[0]);
    assert_int_equal(receive(pair[1], bytes, sizeof(bytes), &has_passed), 0);
    assert_false(has_passed);
    assert_false(amb_passed_is_left(pair[1]));
    (void)close(pair[1]);
}

static void test_bytes_with_a_descriptor_stay_where_they_are(void **state)
{
    (void)state;
    int pair[2];
    char bytes[8];
    bool has_passed;
    make_pair(pair);
    int end = pass(pair[0], "x", 0);
    for (int i = 0; i < 2; i++) {
        (void)receive(pair[1], bytes, sizeof(bytes), &has_passed);
        assert_true(has_passed);
        assert_false(is_dropped(end));
    }
    assert_true(amb_passed_is_left(pair[1]));
    (void)close(pair[1]);
    assert_true(is_dropped(end));
    (void)close(end);
    (void)close(pair[0]);
}

static void test_what_comes_between_plain_bytes_is_found(void **state)
{
    (void)state;
    int pair[2];
    char bytes[8];
    bool has_passed;
    make_pair(pair);
    assert_int_equal(send(pair[0], "ab", 2, 0), 2);
    int end = pass(pair[0], "c", 0);
    assert_int_equal(send(pair[0], "de", 2, 0), 2);
    (void)receive(pair[1], bytes, sizeof(bytes), &has_passed);
    assert_true(has_passed);
    assert_true(amb_passed_is_left(pair[1]));
    assert_false(is_dropped(end));
    (void)close(end);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

/* The kernel throws a byte out of band away where the next read begins, with everything that came
 * with it. */
static void test_a_byte_out_of_band_does_not_take_its_descriptor_past_us(void **state)
{
    (void)state;
    int pair[2];
    char bytes[8];
    bool has_passed;
    make_pair(pair);
    int end = pass(pair[0], "x", MSG_OOB);
    assert_int_equal(send(pair[0], "ab", 2, 0), 2);
    (void)receive(pair[1], bytes, sizeof(bytes), &has_passed);
    assert_true(has_passed);
    assert_true(amb_passed_is_left(pair[1]));
    assert_false(is_dropped(end));
    (void)close(end);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

static void test_a_full_queue_without_descriptors_is_emptied(void **state)
{
    (void)state;
    int pair[2];
    char bytes[4096] = {0};
    make_pair(pair);
    while (send(pair[0], bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
    }
    assert_int_equal(shutdown(pair[1], SHUT_RDWR), 0);
    assert_false(amb_passed_is_left(pair[1]));
    assert_int_equal(recv(pair[1], bytes, 1, 0), 0);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_come_as_they_were_sent),
        cmocka_unit_test(test_bytes_with_a_descriptor_stay_where_they_are),
        cmocka_unit_test(test_what_comes_between_plain_bytes_is_found),
        cmocka_unit_test(test_a_byte_out_of_band_does_not_take_its_descriptor_past_us),
        cmocka_unit_test(test_a_full_queue_without_descriptors_is_emptied),
    };
    return cmocka_run_group_tests_name("wire/base/passed", tests, NULL, NULL);
}
