/* SPDX-License-Identifier: Apache-2.0 */
/* Signals and their calls, sent to this process itself. */
#include "broker/signals.h"

#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct counts {
    sem_t drains, reloads, reopens, calls;
};

static void on_drain(void *arg)
{
    struct counts *counts = arg;
    assert_int_equal(sem_post(&counts->drains), 0);
}

static void on_reload(void *arg)
{
    struct counts *counts = arg;
    assert_int_equal(sem_post(&counts->reloads), 0);
}

static void on_reopen(void *arg)
{
    struct counts *counts = arg;
    assert_int_equal(sem_post(&counts->reopens), 0);
}

static void on_call(void *arg)
{
    struct counts *counts = arg;
    assert_int_equal(sem_post(&counts->calls), 0);
}

static const struct amb_signals_events events = {on_drain, on_reload, on_reopen, on_call};

static int values(sem_t *sem)
{
    int value = 0;
    assert_int_equal(sem_getvalue(sem, &value), 0);
    return value;
}

/* Returns when the signal has been taken and what it calls has ended. */
static void await(struct counts *counts, int number)
{
    sigset_t pending;
    do {
        (void)sched_yield();
        assert_int_equal(sigpending(&pending), 0);
    } while (sigismember(&pending, number) == 1);
    /* Signals are handled one after the other. */
    assert_int_equal(kill(getpid(), SIGHUP), 0);
    assert_int_equal(sem_wait(&counts->reloads), 0);
}

static void deliver(struct counts *counts, int number)
{
    assert_int_equal(kill(getpid(), number), 0);
    await(counts, number);
}

static void deliver_from_outside(struct counts *counts, int number)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(kill(getppid(), number) == 0 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    await(counts, number);
}

static struct counts *begin(struct amb_signals *signals)
{
    static struct counts counts;
    assert_int_equal(sem_init(&counts.drains, 0, 0), 0);
    assert_int_equal(sem_init(&counts.reloads, 0, 0), 0);
    assert_int_equal(sem_init(&counts.reopens, 0, 0), 0);
    assert_int_equal(sem_init(&counts.calls, 0, 0), 0);
    amb_signals_block();
    assert_int_equal(amb_signals_start(signals, &events, &counts), AMB_OK);
    return &counts;
}

static void test_each_term_drains_once(void **state)
{
    (void)state;
    struct amb_signals signals;
    struct counts *counts = begin(&signals);
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    assert_int_equal(sem_wait(&counts->drains), 0);
    assert_int_equal(kill(getpid(), SIGINT), 0);
    assert_int_equal(sem_wait(&counts->drains), 0);
    amb_signals_stop(&signals);
    assert_int_equal(values(&counts->drains), 0);
}

static void test_usr2_drains_once_and_term_after_it_does_not_hurry(void **state)
{
    (void)state;
    struct amb_signals signals;
    struct counts *counts = begin(&signals);
    assert_int_equal(kill(getpid(), SIGUSR2), 0);
    assert_int_equal(sem_wait(&counts->drains), 0);
    deliver(counts, SIGUSR2);
    deliver(counts, SIGTERM);
    amb_signals_stop(&signals);
    assert_int_equal(values(&counts->drains), 0);
}

static void test_harmless_signals_do_nothing(void **state)
{
    (void)state;
    struct amb_signals signals;
    struct counts *counts = begin(&signals);
    deliver(counts, SIGUSR1);
    deliver(counts, SIGPIPE);
    amb_signals_reload(&signals);
    assert_int_equal(sem_wait(&counts->reloads), 0);
    amb_signals_call(&signals);
    assert_int_equal(sem_wait(&counts->calls), 0);
    amb_signals_stop(&signals);
    assert_int_equal(values(&counts->reopens), 1);
    assert_int_equal(values(&counts->drains), 0);
    assert_int_equal(values(&counts->reloads), 0);
}

/* A stray one neither ends the thread nor detaches it, and calls nobody where nobody is. */
static void test_urgent_signals_from_outside_are_harmless(void **state)
{
    (void)state;
    struct amb_signals signals;
    struct counts *counts = begin(&signals);
    deliver_from_outside(counts, SIGURG);
    assert_int_equal(values(&counts->calls), 1);
    assert_int_equal(values(&signals.detached), 0);
    amb_signals_stop(&signals);

    const struct amb_signals_events no_call = {on_drain, on_reload, on_reopen, NULL};
    assert_int_equal(amb_signals_start(&signals, &no_call, counts), AMB_OK);
    deliver_from_outside(counts, SIGURG);
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    assert_int_equal(sem_wait(&counts->drains), 0);
    amb_signals_stop(&signals);
    assert_int_equal(values(&counts->drains), 0);
    assert_int_equal(values(&counts->calls), 1);
}

static void test_a_storm_of_hup_is_survived(void **state)
{
    (void)state;
    struct amb_signals signals;
    struct counts *counts = begin(&signals);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(kill(getpid(), SIGHUP), 0);
    }
    deliver(counts, SIGUSR1);
    amb_signals_stop(&signals);
    assert_true(values(&counts->reloads) <= 1000);
}

/* Signals of a child whose user has used up RLIMIT_SIGPENDING. */
static struct counts *begin_without_queue(struct amb_signals *signals)
{
    const struct rlimit none = {0, 0};
    struct counts *counts = begin(signals);
    if (setrlimit(RLIMIT_SIGPENDING, &none) != 0) {
        _exit(1);
    }
    return counts;
}

static void assert_child_ends_with_0(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Calls are as many as clients ask for, and other processes of this user have signals, too. */
static void test_a_call_needs_no_place_in_a_queue(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct amb_signals signals;
        struct counts *counts = begin_without_queue(&signals);
        for (int i = 0; i < 1000; i++) {
            amb_signals_call(&signals);
        }
        _exit(sem_wait(&counts->calls) == 0 ? 0 : 1);
    }
    assert_child_ends_with_0(pid);
}

/* A broker that ends must not abort for it. */
static void test_an_end_needs_no_place_in_a_queue(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct amb_signals signals;
        struct counts *counts = begin_without_queue(&signals);
        amb_signals_detach(&signals);
        amb_signals_stop(&signals);
        _exit(values(&counts->calls) == 0 ? 0 : 2);
    }
    assert_child_ends_with_0(pid);
}

/* Its callbacks would work on memory that is being freed then. */
static void test_a_detached_thread_calls_nobody_and_still_counts(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct amb_signals signals;
        struct counts *counts = begin(&signals);
        (void)kill(getpid(), SIGTERM);
        (void)sem_wait(&counts->drains);
        amb_signals_detach(&signals);
        (void)kill(getpid(), SIGHUP);
        (void)kill(getpid(), SIGUSR2);
        while (values(&counts->drains) == 0 && values(&counts->reloads) == 0) {
            (void)kill(getpid(), SIGTERM); /* One that is pending takes in the next. */
            (void)sched_yield();
        }
        _exit(3);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

static void test_a_third_term_ends_the_process(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct amb_signals signals;
        struct counts *counts = begin(&signals);
        for (int i = 0; i < 2; i++) {
            (void)kill(getpid(), SIGTERM);
            (void)sem_wait(&counts->drains);
        }
        (void)kill(getpid(), SIGTERM);
        (void)sem_wait(&counts->drains);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_detached_thread_calls_nobody_and_still_counts),
        cmocka_unit_test(test_a_third_term_ends_the_process),
        cmocka_unit_test(test_a_call_needs_no_place_in_a_queue),
        cmocka_unit_test(test_an_end_needs_no_place_in_a_queue),
        cmocka_unit_test(test_each_term_drains_once),
        cmocka_unit_test(test_usr2_drains_once_and_term_after_it_does_not_hurry),
        cmocka_unit_test(test_harmless_signals_do_nothing),
        cmocka_unit_test(test_urgent_signals_from_outside_are_harmless),
        cmocka_unit_test(test_a_storm_of_hup_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
