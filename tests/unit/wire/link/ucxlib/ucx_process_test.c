/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a process, and a fork while another thread is at it. */
#include "wire/link/ucxlib/ucx_process.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS 20
#define CHILD_MAX_S 20 /* a child that waits for a lock which nobody has is ended */

static atomic_uint looked;
static atomic_bool is_over;

static enum amb_status look(void)
{
    const struct amb_ucx_wish wish = {.library = "/nonexistent", .source = "test"};
    struct amb_ucx_library library;
    char error[256];
    return amb_ucx_library_expect(&wish, error, sizeof(error), &library);
}

static void *look_on(void *arg)
{
    while (!atomic_load(&is_over)) {
        (void)look();
        atomic_fetch_add(&looked, 1);
    }
    return arg;
}

/* The lock is held nearly all the time, as this thread does nothing else. */
static void test_a_child_of_fork_may_choose(void **state)
{
    (void)state;
    pthread_t thread;
    unsigned failed = 0;
    assert_int_equal(pthread_create(&thread, NULL, look_on, NULL), 0);
    while (atomic_load(&looked) == 0) {
        (void)sched_yield();
    }
    for (unsigned i = 0; i < FORKS && failed == 0; i++) {
        int status = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)alarm(CHILD_MAX_S);
            _exit(look() == AMB_ENOTSUP ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        failed += status != 0;
    }
    atomic_store(&is_over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_child_of_fork_may_choose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
