/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: wire/link/ucx_log, with the UCX there is, each case in a process of its own. */
#include "wire/link/ucxlib/ucx_log.h"

#include "wire/base/log.h"
#include "wire/link/ucxlib/ucx_api.h"
#include "wire/link/ucxlib/ucx_process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void (*dispatch_fn)(const char *file, unsigned line, const char *function,
                            ucs_log_level_t level, ucs_log_component_config_t *component,
                            const char *format, ...);

static unsigned logged; /* lines that came to our log */
static char last[256];

static void sink(enum amb_log_level level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    logged++;
    (void)snprintf(last, sizeof(last), "%s", line);
}

/* As UCX says something. */
static void ucx_says(const char *text)
{
    static ucs_log_component_config_t component = {UCS_LOG_LEVEL_WARN, "test", "*"};
    void *symbol = dlsym(dlopen("libucs.so.0", RTLD_LAZY | RTLD_NOLOAD), "ucs_log_dispatch");
    dispatch_fn dispatch;
    memcpy(&dispatch, &symbol, sizeof(dispatch));
    dispatch("../src/thing.c", 7, "f", UCS_LOG_LEVEL_ERROR, &component, "%s", text);
}

/* The text that `body` has printed on standard output; it returns whether all was as it should. */
static void run(bool (*body)(void), char *printed, size_t size)
{
    int fds[2], status = 0;
    assert_int_equal(pipe(fds), 0);
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(fds[1], STDOUT_FILENO);
        amb_log_set_sink(sink, NULL);
        bool is_right = body();
        (void)fflush(NULL);
        _exit(is_right ? 0 : 1);
    }
    (void)close(fds[1]);
    size_t len = 0;
    ssize_t got;
    while ((got = read(fds[0], printed + len, size - 1 - len)) > 0) { /* It prints line by line. */
        len += (size_t)got;
    }
    printed[len] = '\0';
    (void)close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void *from_a_thread(void *arg)
{
    ucx_says(arg);
    return NULL;
}

static bool in_a_process_of_ours(void)
{
    static char text[] = "from a thread";
    pthread_t thread;
    amb_ucx_own_process();
    if (!amb_ucx_load()) {
        return false;
    }
    ucx_says("scandir failed");
    bool is_right = logged == 1 && strcmp(last, "ucx: scandir failed (thing.c:7)") == 0;
    if (pthread_create(&thread, NULL, from_a_thread, text) != 0) {
        return false;
    }
    (void)pthread_join(thread, NULL);
    return is_right && logged == 2 && strcmp(last, "ucx: from a thread (thing.c:7)") == 0;
}

static void test_all_lines_are_logged_in_a_process_of_ours(void **state)
{
    (void)state;
    char printed[512];
    run(in_a_process_of_ours, printed, sizeof(printed));
    assert_string_equal(printed, "");
}

static bool too_many_lines(void)
{
    amb_ucx_own_process();
    if (!amb_ucx_load()) {
        return false;
    }
    for (unsigned i = 0; i < 10000; i++) {
        ucx_says("accept failed");
    }
    return logged >= 20 && logged <= 20 * 60; /* a second, however slow this machine is */
}

static void test_a_flood_of_lines_is_kept_back(void **state)
{
    (void)state;
    char printed[512];
    run(too_many_lines, printed, sizeof(printed));
    assert_string_equal(printed, "");
}

static void our_call(const char *text)
{
    AMB_UCX_OURS;
    ucx_says(text);
}

static bool in_somebodys_process(void)
{
    if (!amb_ucx_load()) {
        return false;
    }
    ucx_says("the program's own");
    our_call("libamb's");
    bool is_right = logged == 1 && strcmp(last, "ucx: libamb's (thing.c:7)") == 0;
    ucx_says("the program's again");
    return is_right && logged == 1;
}

static void test_a_program_keeps_its_own_lines(void **state)
{
    (void)state;
    char printed[2048];
    run(in_somebodys_process, printed, sizeof(printed));
    assert_non_null(strstr(printed, "the program's own"));
    assert_non_null(strstr(printed, "the program's again"));
    assert_null(strstr(printed, "libamb's"));
}

static bool with_a_file(void)
{
    (void)setenv("UCX_LOG_FILE", "/dev/null", 1);
    if (!amb_ucx_load()) {
        return false;
    }
    our_call("to the file");
    return logged == 0;
}

static void test_a_log_file_of_ucx_gets_all_lines(void **state)
{
    (void)state;
    char printed[512];
    run(with_a_file, printed, sizeof(printed));
    assert_string_equal(printed, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_lines_are_logged_in_a_process_of_ours),
        cmocka_unit_test(test_a_flood_of_lines_is_kept_back),
        cmocka_unit_test(test_a_program_keeps_its_own_lines),
        cmocka_unit_test(test_a_log_file_of_ucx_gets_all_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
