/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char last_line[2048];
static enum amb_log_level last_level;
static int lines;

static void remember(enum amb_log_level level, const char *line, void *arg)
{
    assert_ptr_equal(arg, &lines);
    last_level = level;
    (void)snprintf(last_line, sizeof(last_line), "%s", line);
    lines++;
    errno = EBADF;
}

static bool drop_passwords(enum amb_log_level level, const char *site, const char *line)
{
    return level != AMB_LOG_WARN || strcmp(site, "password %s") != 0 ||
           strcmp(line, "password x") != 0;
}

static int setup(void **state)
{
    (void)state;
    lines = 0;
    last_line[0] = '\0';
    amb_log_set_sink(remember, &lines);
    amb_log_set_level(AMB_LOG_INFO);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    amb_log_set_sink(NULL, NULL);
    amb_log_set_filter(NULL);
    amb_log_set_format(AMB_LOG_TEXT);
    amb_log_set_level(AMB_LOG_INFO);
    return 0;
}

static void lines_up_to_the_level_reach_the_sink(void **state)
{
    (void)state;
    amb_info("client %d", 7);
    assert_int_equal(lines, 1);
    assert_int_equal(last_level, AMB_LOG_INFO);
    assert_string_equal(last_line, "client 7");
    amb_debug("not this");
    assert_int_equal(lines, 1);
    amb_log_set_level(AMB_LOG_ERROR);
    assert_int_equal(amb_log_level(), AMB_LOG_ERROR);
    amb_warn("nor this");
    assert_int_equal(lines, 1);
    amb_error("this");
    assert_int_equal(lines, 2);
}

static int count_calls(int *calls)
{
    return ++*calls;
}

static void arguments_below_the_level_are_not_evaluated(void **state)
{
    (void)state;
    int calls = 0;
    amb_trace("%d", count_calls(&calls));
    assert_int_equal(calls, 0);
}

static void without_a_sink_lines_are_dropped(void **state)
{
    (void)state;
    amb_log_set_sink(NULL, NULL);
    amb_error("nobody hears this");
    assert_int_equal(lines, 0);
}

static void one_call_is_one_line_whatever_a_peer_called_itself(void **state)
{
    (void)state;
    amb_info("name %s", "a\nERROR forged\x1b[2J\x7f");
    assert_string_equal(last_line, "name a?ERROR forged?[2J?");
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    amb_info("%5000d", 1);
    assert_int_equal(strlen(last_line), 1023);
}

static void errno_survives_a_log_call(void **state)
{
    (void)state;
    errno = ENOENT;
    amb_info("x");
    assert_int_equal(errno, ENOENT);
}

/* Runs the stderr sink with stderr replaced by fd (-1: closed), and puts it back. */
static void log_into(int fd, const char *line)
{
    int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    assert_true(saved >= 0);
    if (fd >= 0) {
        assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
    } else {
        assert_int_equal(close(STDERR_FILENO), 0);
    }
    amb_log_to_stderr(AMB_LOG_WARN, line, NULL);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(close(saved), 0);
}

static void stderr_lines_carry_utc_time_and_level(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    log_into(fds[1], "text");
    char got[128] = "";
    ssize_t len = read(fds[0], got, sizeof(got) - 1);
    assert_int_equal(len, (ssize_t)strlen("2026-11-21T12:00:00.123Z WARN text\n"));
    unsigned y, mo, d, h, mi, s, ms;
    int end = 0;
    assert_int_equal(sscanf(got, "%4u-%2u-%2uT%2u:%2u:%2u.%3uZ WARN text%n", &y, &mo, &d, &h, &mi,
                            &s, &ms, &end),
                     7);
    assert_string_equal(got + end, "\n");
    assert_int_equal(close(fds[0]), 0);
    assert_int_equal(close(fds[1]), 0);
}

static void long_stderr_lines_still_end_in_a_newline(void **state)
{
    (void)state;
    char line[3000];
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    log_into(fds[1], line);
    char got[4096];
    ssize_t len = read(fds[0], got, sizeof(got));
    assert_true(len > 1000);
    assert_int_equal(got[len - 1], '\n');
    assert_int_equal(close(fds[0]), 0);
    assert_int_equal(close(fds[1]), 0);
}

static void a_gone_reader_of_stderr_does_not_end_the_process(void **state)
{
    (void)state;
    struct sigaction old, dfl = {.sa_handler = SIG_DFL};
    assert_int_equal(sigaction(SIGPIPE, &dfl, &old), 0);
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(close(fds[0]), 0);
    errno = ENOENT;
    log_into(fds[1], "text");
    assert_int_equal(close(fds[1]), 0);
    sigset_t pending;
    assert_int_equal(sigpending(&pending), 0);
    assert_false(sigismember(&pending, SIGPIPE));
    assert_int_equal(sigaction(SIGPIPE, &old, NULL), 0);
}

static void a_closed_stderr_does_not_end_the_process(void **state)
{
    (void)state;
    log_into(-1, "text");
}

static void a_filter_sees_the_place_and_the_line(void **state)
{
    (void)state;
    amb_log_set_filter(drop_passwords);
    amb_warn("password %s", "x");
    assert_int_equal(lines, 0);
    amb_warn("password %s", "y");
    assert_int_equal(lines, 1);
}

static void an_answer_is_written_whatever_the_filter_says(void **state)
{
    (void)state;
    amb_log_set_filter(drop_passwords);
    amb_log_answer(AMB_LOG_ERROR, "password %s", "x");
    amb_log_answer(AMB_LOG_ERROR, "password %s", "x");
    assert_int_equal(lines, 2);
    amb_log_answer(AMB_LOG_TRACE, "password %s", "x");
    assert_int_equal(lines, 2);
}

static const char *written(enum amb_log_format format, const char *line)
{
    static char got[4096];
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    amb_log_set_format(format);
    log_into(fds[1], line);
    amb_log_set_format(AMB_LOG_TEXT);
    ssize_t len = read(fds[0], got, sizeof(got) - 1);
    assert_true(len > 0);
    got[len] = '\0';
    assert_int_equal(close(fds[0]), 0);
    assert_int_equal(close(fds[1]), 0);
    return got;
}

static void the_journal_gets_priorities_and_no_time(void **state)
{
    (void)state;
    assert_string_equal(written(AMB_LOG_JOURNAL, "text"), "<4>text\n");
}

static void json_is_one_object_whatever_the_line_has(void **state)
{
    (void)state;
    static const struct {
        const char *line, *text;
    } cases[] = {
        {"text", "text"},
        {"a \"name\" and \\", "a \\\"name\\\" and \\\\"},
        {"f\xc3\xbcr \xe2\x82\xac \xf0\x9f\x98\x80", "f\xc3\xbcr \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xff \xc3 \xc0\xaf \xed\xa0\x80 \xf5\x80\x80\x80 \xe0\x80\x80 \xf4\x90\x80\x80",
         "? ? ?? ??? ???? ??? ????"},
        {"cut \xe2\x82", "cut ??"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *got = written(AMB_LOG_JSON, cases[i].line);
        char wanted[512];
        (void)snprintf(wanted, sizeof(wanted), "\",\"level\":\"warn\",\"text\":\"%s\"}\n",
                       cases[i].text);
        assert_memory_equal(got, "{\"time\":\"20", 11);
        assert_string_equal(strstr(got, "\",\"level\""), wanted);
    }
    char quotes[1024];
    memset(quotes, '"', sizeof(quotes) - 1);
    quotes[sizeof(quotes) - 1] = '\0';
    const char *got = written(AMB_LOG_JSON, quotes);
    assert_string_equal(got + strlen(got) - 3, "\"}\n");
}

static void a_journal_is_known_by_its_device_and_inode(void **state)
{
    (void)state;
    struct stat at;
    char own[64], other[80];
    assert_int_equal(fstat(STDERR_FILENO, &at), 0);
    (void)snprintf(own, sizeof(own), "%llu:%llu", (unsigned long long)at.st_dev,
                   (unsigned long long)at.st_ino);
    (void)snprintf(other, sizeof(other), "%llu:%llu", (unsigned long long)at.st_dev,
                   (unsigned long long)at.st_ino + 1);
    assert_true(amb_log_is_journal(own));
    assert_false(amb_log_is_journal(other));
    assert_false(amb_log_is_journal(NULL));
    assert_false(amb_log_is_journal(""));
    assert_false(amb_log_is_journal("8"));
    assert_false(amb_log_is_journal("x:y"));
    (void)snprintf(other, sizeof(other), "%s ", own);
    assert_false(amb_log_is_journal(other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_up_to_the_level_reach_the_sink, setup, teardown),
        cmocka_unit_test_setup_teardown(arguments_below_the_level_are_not_evaluated, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(without_a_sink_lines_are_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(one_call_is_one_line_whatever_a_peer_called_itself, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(long_lines_are_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(errno_survives_a_log_call, setup, teardown),
        cmocka_unit_test_setup_teardown(a_filter_sees_the_place_and_the_line, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_is_written_whatever_the_filter_says, setup,
                                        teardown),
        cmocka_unit_test(the_journal_gets_priorities_and_no_time),
        cmocka_unit_test(json_is_one_object_whatever_the_line_has),
        cmocka_unit_test(a_journal_is_known_by_its_device_and_inode),
        cmocka_unit_test(stderr_lines_carry_utc_time_and_level),
        cmocka_unit_test(long_stderr_lines_still_end_in_a_newline),
        cmocka_unit_test(a_gone_reader_of_stderr_does_not_end_the_process),
        cmocka_unit_test(a_closed_stderr_does_not_end_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
