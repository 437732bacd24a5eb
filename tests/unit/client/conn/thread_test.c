/* SPDX-License-Identifier: Apache-2.0 */
#include "client/conn/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>

static void *its_signals(void *arg)
{
    (void)pthread_sigmask(SIG_SETMASK, NULL, arg);
    return NULL;
}

static void it_takes_no_signals_and_its_caller_takes_the_same(void **state)
{
    (void)state;
    sigset_t own, its, before, after;
    (void)sigemptyset(&own);
    (void)sigaddset(&own, SIGUSR2);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &own, &before), 0);
    pthread_t thread;
    assert_int_equal(amb_thread_begin(&thread, its_signals, &its), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sigismember(&its, SIGUSR1), 1);
    assert_int_equal(sigismember(&its, SIGTERM), 1);
    assert_int_equal(sigismember(&its, SIGPROF), 1);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
    assert_int_equal(sigismember(&after, SIGUSR2), 1);
    assert_int_equal(sigismember(&after, SIGUSR1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_takes_no_signals_and_its_caller_takes_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
