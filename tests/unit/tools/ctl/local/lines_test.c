/* SPDX-License-Identifier: Apache-2.0 */
/* Under test: tools/ctl/local/lines, with pipes on both sides. */
#include "tools/ctl/local/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct amb_lines lines;
static struct amb_sink sink;
static int from, to; /* where the process writes, where the sink's reader reads */

static int begin(void **state)
{
    (void)state;
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
        return -1;
    }
    lines = (struct amb_lines){.fd = in[0], .prefix = "[7] "};
    sink = (struct amb_sink){.fd = out[1]};
    from = in[1];
    to = out[0];
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (lines.fd >= 0) {
        (void)close(lines.fd);
    }
    if (from >= 0) {
        (void)close(from);
    }
    (void)close(sink.fd);
    if (to >= 0) {
        (void)close(to);
    }
    return 0;
}

static void feed(const char *text)
{
    assert_int_equal(write(from, text, strlen(text)), (ssize_t)strlen(text));
    amb_lines_read(&lines);
    amb_lines_move(&lines, &sink);
}

static void expect(const char *text)
{
    char got[256];
    while (sink.len > 0) {
        amb_sink_write(&sink);
    }
    ssize_t n = *text != '\0' ? read(to, got, sizeof(got) - 1) : 0;
    assert_true(n >= 0);
    got[n] = '\0';
    assert_string_equal(got, text);
}

static void close_writer(void)
{
    (void)close(from);
    from = -1;
    amb_lines_read(&lines);
    assert_int_equal(lines.fd, -1);
    amb_lines_move(&lines, &sink);
}

static void test_lines_come_whole_with_a_prefix(void **state)
{
    (void)state;
    feed("one\ntw");
    expect("[7] one\n");
    feed("o");
    expect("");
    feed("\n\nthree\n");
    expect("[7] two\n[7] \n[7] three\n");
}

static void test_rest_without_a_line_feed_comes_at_the_end(void **state)
{
    (void)state;
    feed("last words");
    expect("");
    close_writer();
    expect("[7] last words\n");
    assert_false(amb_lines_want(&lines));
}

static void test_line_that_is_too_long_is_broken(void **state)
{
    (void)state;
    char *text = malloc(AMB_LINES_MAX);
    assert_non_null(text);
    memset(text, 'x', AMB_LINES_MAX);
    for (size_t sent = 0; sent < AMB_LINES_MAX;) {
        assert_true(amb_lines_want(&lines));
        assert_int_equal(write(from, text, 4096), 4096);
        amb_lines_read(&lines);
        sent += 4096;
    }
    assert_false(amb_lines_want(&lines)); /* Full, and no line in it. */
    amb_lines_move(&lines, &sink);
    assert_true(amb_lines_want(&lines));
    assert_int_equal(sink.len, strlen("[7] ") + AMB_LINES_MAX + 1);
    assert_int_equal(sink.bytes[sink.len - 1], '\n');
    free(text);
    /* The line feed that comes now is its end, and no line. The next one is a line. */
    size_t len = sink.len;
    feed("\n");
    assert_int_equal(sink.len, len);
    feed("\n");
    assert_int_equal(sink.len, len + strlen("[7] \n"));
}

static void test_output_that_takes_no_more_has_a_reason(void **state)
{
    (void)state;
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0 && dup2(full, sink.fd) == sink.fd);
    (void)close(full);
    feed("a\n");
    amb_sink_write(&sink);
    assert_true(sink.is_gone);
    assert_int_equal(sink.error, ENOSPC);
}

static void test_slow_reader_keeps_lines_where_they_are(void **state)
{
    (void)state;
    char text[1024];
    memset(text, 'y', sizeof(text));
    text[sizeof(text) - 1] = '\n';
    unsigned put = 0;
    while (amb_sink_put(&sink, "[7] ", text, sizeof(text) - 1)) {
        put++;
    }
    assert_int_equal(put, AMB_SINK_MAX / (sizeof(text) + 4));
    assert_int_equal(write(from, text, sizeof(text)), (ssize_t)sizeof(text));
    amb_lines_read(&lines);
    amb_lines_move(&lines, &sink);
    assert_int_equal(lines.len, sizeof(text)); /* No room: it waits. */
    amb_sink_write(&sink);
    amb_lines_move(&lines, &sink); /* A write has made some. */
    assert_int_equal(lines.len, 0);
    /* Every byte, in order, beyond the end of the buffer. */
    size_t total = sink.len + 4096, got = 0;
    char piece[4096];
    while (got < total) {
        struct pollfd pfd = {.fd = to, .events = POLLIN};
        if (poll(&pfd, 1, 0) == 1) {
            ssize_t n = read(to, piece, sizeof(piece));
            assert_true(n > 0);
            for (ssize_t i = 0; i < n; i++, got++) {
                size_t at = got % (sizeof(text) + 4);
                char want = at < 4 ? "[7] "[at] : at == sizeof(text) + 3 ? '\n' : 'y';
                assert_int_equal(piece[i], want);
            }
        } else {
            amb_sink_write(&sink);
        }
    }
    assert_int_equal(sink.len, 0);
}

static void test_reader_that_has_gone_takes_everything(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    feed("a\n");
    (void)close(to);
    to = -1;
    amb_sink_write(&sink);
    assert_true(sink.is_gone);
    assert_int_equal(sink.error, 0);
    for (unsigned i = 0; i < 1000; i++) {
        feed("more and more of what nobody reads\n");
    }
    assert_int_equal(sink.len, 0);
    assert_int_equal(lines.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines_come_whole_with_a_prefix, begin, end),
        cmocka_unit_test_setup_teardown(test_rest_without_a_line_feed_comes_at_the_end, begin, end),
        cmocka_unit_test_setup_teardown(test_line_that_is_too_long_is_broken, begin, end),
        cmocka_unit_test_setup_teardown(test_slow_reader_keeps_lines_where_they_are, begin, end),
        cmocka_unit_test_setup_teardown(test_reader_that_has_gone_takes_everything, begin, end),
        cmocka_unit_test_setup_teardown(test_output_that_takes_no_more_has_a_reason, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
