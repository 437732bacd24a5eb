/* SPDX-License-Identifier: Apache-2.0 */
/* The bell of a ring: each side hears the other, and some systems cannot read without waiting. */
#include "wire/link/ring/ring_bell.h"

#include "wire/link/ring/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

static bool is_system_old;

ssize_t __real_preadv2(int fd, const struct iovec *iov, int count, off_t at, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int count, off_t at, int flags);

ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
    if (is_system_old) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return __real_preadv2(fd, iov, count, at, flags);
}

/* Takes the edge of the beginning. */
static int watch(int bell, uint32_t events)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = events | EPOLLET};
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, bell, &event), 0);
    (void)epoll_wait(epoll, &event, 1, 0);
    return epoll;
}

static bool has_edge(int epoll)
{
    struct epoll_event event;
    return epoll_wait(epoll, &event, 1, 0) == 1;
}

static void test_each_hears_the_other_however_often(void **state)
{
    (void)state;
    struct ring broker = {.is_broker = true}, client = {.is_broker = false};
    assert_int_equal(ring_bell_make(&broker, &client.bell), AMB_OK);
    int hears_client = watch(broker.bell, EPOLLIN), hears_broker = watch(client.bell, EPOLLOUT);
    for (unsigned i = 0; i < 100; i++) {
        ring_bell_ring(&broker);
        assert_true(has_edge(hears_broker));
        assert_false(has_edge(hears_client) || has_edge(hears_broker));
        for (unsigned rings = 0; rings <= i % 3; rings++) {
            ring_bell_ring(&client);
        }
        assert_true(has_edge(hears_client));
        assert_false(has_edge(hears_client) || has_edge(hears_broker));
    }
    assert_int_equal(close(hears_client) | close(hears_broker), 0);
    assert_int_equal(close(broker.bell) | close(client.bell), 0);
}

static void test_an_old_system_has_no_rings(void **state)
{
    (void)state;
    struct ring ring = {.is_broker = true};
    int copy = -1;
    is_system_old = true;
    assert_int_equal(ring_bell_make(&ring, &copy), AMB_ENOTSUP);
    assert_false(amb_ring_is_possible());
    is_system_old = false;
    assert_true(amb_ring_is_possible());
    assert_int_equal(copy, -1);
    assert_int_equal(close(ring.bell), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_hears_the_other_however_often),
        cmocka_unit_test(test_an_old_system_has_no_rings),
    };
    return cmocka_run_group_tests_name("wire/ring_bell", tests, NULL, NULL);
}
