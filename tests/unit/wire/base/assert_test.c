/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/assert.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_true_condition_goes_on(void **state)
{
    (void)state;
    amb_assert(1 + 1 == 2);
    amb_debug_assert(1 + 1 == 2);
}

static void a_false_condition_names_itself_and_aborts(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)signal(SIGABRT, SIG_DFL); /* CMocka catches it */
        (void)dup2(fds[1], STDERR_FILENO);
        volatile int one = 1;
        amb_assert(one == 2);
        _exit(0);
    }
    assert_int_equal(close(fds[1]), 0);
    char text[1024] = "";
    size_t len = 0;
    ssize_t got;
    while (len < sizeof(text) - 1 && (got = read(fds[0], text + len, sizeof(text) - 1 - len)) > 0) {
        len += (size_t)got;
    }
    assert_int_equal(close(fds[0]), 0);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "assertion failed: one == 2 ("));
    assert_non_null(strstr(text, "assert_test.c:"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_true_condition_goes_on),
        cmocka_unit_test(a_false_condition_names_itself_and_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
