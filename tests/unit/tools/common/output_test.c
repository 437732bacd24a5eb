/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/common/output, in child processes whose standard output a test chooses. */
#include "tools/common/output.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct result {
    int exit_code;
    char error[256]; /* its text on standard error */
};

/* A tool that prints a line into `out` and ends with `code` so far. */
static struct result run(int out, enum amb_exit code)
{
    struct result result = {.exit_code = -1};
    int errors[2], status = 0;
    assert_int_equal(pipe(errors), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)signal(SIGPIPE, SIG_IGN);
        (void)dup2(out, STDOUT_FILENO);
        (void)dup2(errors[1], STDERR_FILENO);
        (void)printf("a line\n");
        _exit((int)amb_output_end(code));
    }
    (void)close(errors[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    ssize_t len = read(errors[0], result.error, sizeof(result.error) - 1);
    result.error[len > 0 ? len : 0] = '\0';
    (void)close(errors[0]);
    assert_true(WIFEXITED(status));
    result.exit_code = WEXITSTATUS(status);
    return result;
}

static bool is_unread(int out)
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(out, STDOUT_FILENO);
        _exit(amb_output_is_unread() ? 1 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

static void test_a_reader_that_has_gone_is_a_quiet_end(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_false(is_unread(fds[1]));
    (void)close(fds[0]);
    assert_true(is_unread(fds[1]));
    struct result result = run(fds[1], AMB_EXIT_OK);
    assert_int_equal(result.exit_code, AMB_EXIT_OK);
    assert_string_equal(result.error, "");
    assert_int_equal(run(fds[1], AMB_EXIT_DATA).exit_code, AMB_EXIT_DATA);
    (void)close(fds[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_false(is_unread(fds[1]));
    (void)close(fds[0]);
    assert_true(is_unread(fds[1]));
    (void)close(fds[1]);
}

static void test_a_full_disk_is_said(void **state)
{
    (void)state;
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (full < 0) {
        skip();
    }
    assert_false(is_unread(full));
    struct result result = run(full, AMB_EXIT_OK);
    assert_int_equal(result.exit_code, AMB_EXIT_SOFTWARE);
    assert_string_equal(result.error,
                        "ambroker: standard output: cannot write: No space left on device\n");
    (void)close(full);
}

static void test_what_was_printed_arrives(void **state)
{
    (void)state;
    int fds[2];
    char text[64] = "";
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(run(fds[1], AMB_EXIT_OK).exit_code, AMB_EXIT_OK);
    assert_int_equal(read(fds[0], text, sizeof(text) - 1), 7);
    assert_string_equal(text, "a line\n");
    (void)close(fds[0]);
    (void)close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_reader_that_has_gone_is_a_quiet_end),
        cmocka_unit_test(test_a_full_disk_is_said),
        cmocka_unit_test(test_what_was_printed_arrives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
