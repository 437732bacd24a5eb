/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/watch: what epoll tells of a file that somebody else holds as well, before and after we
 * have closed our descriptor of it.
 */
#include "broker/control/clients/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct seen {
    struct amb_watch watch;
    unsigned calls;
};

static void note(struct amb_watch *watch, uint32_t events)
{
    (void)events;
    ((struct seen *)(void *)watch)->calls++;
}

/* The events so far, one at a time; returns how many there were. */
static int tell(struct amb_watches *watches, int timeout_ms)
{
    struct epoll_event events[8];
    int count = epoll_wait(watches->epoll_fd, events, 8, timeout_ms);
    for (int i = 0; i < count; i++) {
        amb_watches_tell(watches, &events[i]);
    }
    return count;
}

static void test_a_watch_is_told_until_it_is_removed(void **state)
{
    (void)state;
    struct amb_watches watches;
    struct seen seen = {.watch.fn = note};
    int fd = eventfd(1, EFD_CLOEXEC);
    assert_int_equal(amb_watches_init(&watches), AMB_OK);
    assert_int_equal(amb_watch_add(&watches, &seen.watch, fd, EPOLLIN), AMB_OK);
    assert_int_equal(tell(&watches, 0), 1);
    amb_watch_change(&watches, &seen.watch, fd, 0);
    assert_int_equal(tell(&watches, 0), 0);
    amb_watch_change(&watches, &seen.watch, fd, EPOLLIN);
    assert_int_equal(tell(&watches, 0), 1);
    assert_int_equal(seen.calls, 2);
    amb_watch_remove(&watches, &seen.watch, fd);
    amb_watch_remove(&watches, &seen.watch, fd);
    assert_int_equal(tell(&watches, 0), 0);
    (void)close(fd);
    amb_watches_fini(&watches);
    amb_watches_fini(&watches);
}

/* A process that waits to be ended, and holds all descriptors that we have open. */
static pid_t hold(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            (void)pause();
        }
    }
    assert_true(pid > 0);
    return pid;
}

static void end(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_a_pidfd_that_others_keep_tells_nothing_after_its_removal(void **state)
{
    (void)state;
    struct amb_watches watches;
    struct seen *seen = calloc(1, sizeof(*seen));
    assert_int_equal(amb_watches_init(&watches), AMB_OK);
    pid_t watched = hold();
    int pidfd = (int)syscall(SYS_pidfd_open, watched, 0);
    assert_true(pidfd >= 0);
    pid_t keeper = hold(); /* It has the same open file as our pidfd. */
    seen->watch.fn = note;
    assert_int_equal(amb_watch_add(&watches, &seen->watch, pidfd, EPOLLIN), AMB_OK);
    amb_watch_remove(&watches, &seen->watch, pidfd);
    (void)close(pidfd);
    free(seen); /* As a client is freed. */
    end(watched);
    assert_int_equal(tell(&watches, 50), 0);
    assert_int_equal(watches.stale_events, 0);
    end(keeper);
    amb_watches_fini(&watches);
}

static void test_an_item_that_was_left_behind_names_nothing(void **state)
{
    (void)state;
    struct amb_watches watches;
    struct seen *seen = calloc(1, sizeof(*seen));
    struct seen later = {.watch.fn = note};
    assert_int_equal(amb_watches_init(&watches), AMB_OK);
    int fd = eventfd(0, EFD_CLOEXEC);
    int kept = dup(fd), unwatched = dup(fd);
    seen->watch.fn = note;
    assert_int_equal(amb_watch_add(&watches, &seen->watch, fd, EPOLLIN), AMB_OK);
    (void)close(fd); /* Too early: the item stays, and can be removed by nobody. */
    amb_watch_remove(&watches, &seen->watch, fd);
    free(seen);
    assert_int_equal(eventfd_write(kept, 1), 0);
    assert_int_equal(tell(&watches, 1000), 1);
    assert_int_equal(watches.stale_events, 1);
    /* Nor is it taken for a later one, which has the same cell again. */
    for (uint32_t i = 0; i <= watches.cell_count; i++) {
        assert_int_equal(amb_watch_add(&watches, &later.watch, unwatched, 0), AMB_OK);
        assert_int_equal(tell(&watches, 1000), 1);
        assert_int_equal(later.calls, 0);
        amb_watch_remove(&watches, &later.watch, unwatched);
    }
    assert_int_equal(watches.stale_events, 2 + watches.cell_count);
    (void)close(kept);
    (void)close(unwatched);
    amb_watches_fini(&watches);
}

static void test_many_are_told_apart(void **state)
{
    (void)state;
    enum {
        COUNT = 200
    };
    struct amb_watches watches;
    static struct seen seen[COUNT];
    int fds[COUNT];
    assert_int_equal(amb_watches_init(&watches), AMB_OK);
    for (int i = 0; i < COUNT; i++) {
        seen[i] = (struct seen){.watch.fn = note};
        fds[i] = eventfd(0, EFD_CLOEXEC);
        assert_int_equal(amb_watch_add(&watches, &seen[i].watch, fds[i], EPOLLIN), AMB_OK);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(eventfd_write(fds[i], 1), 0);
        assert_int_equal(tell(&watches, 1000), 1);
        assert_int_equal(seen[i].calls, 1);
        amb_watch_remove(&watches, &seen[i].watch, fds[i]);
        (void)close(fds[i]);
    }
    struct seen bad = {.watch.fn = note};
    assert_int_not_equal(amb_watch_add(&watches, &bad.watch, -1, EPOLLIN), AMB_OK);
    assert_int_equal(bad.watch.place, 0);
    assert_int_equal(watches.stale_events, 0);
    amb_watches_fini(&watches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_watch_is_told_until_it_is_removed),
        cmocka_unit_test(test_a_pidfd_that_others_keep_tells_nothing_after_its_removal),
        cmocka_unit_test(test_an_item_that_was_left_behind_names_nothing),
        cmocka_unit_test(test_many_are_told_apart),
    };
    return cmocka_run_group_tests_name("broker/watch", tests, NULL, NULL);
}
