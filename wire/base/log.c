/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/base/log.h"
#include "wire/base/clock.h"
#include "wire/base/text.h"
#include "wire/base/utf8.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1024

/* Atomic only so that a setter that comes late is no data race. sink and arg are one thing and are
 * set before other threads run, as the header asks. */
static _Atomic(amb_log_fn) current_sink;
static _Atomic(void *) current_arg;
static _Atomic int current_level = AMB_LOG_INFO;
static _Atomic int current_format = AMB_LOG_TEXT;
static _Atomic(amb_log_filter_fn) current_filter;
static _Atomic(amb_log_witness_fn) current_witness;

void amb_log_set_sink(amb_log_fn sink, void *arg)
{
    atomic_store_explicit(&current_arg, arg, memory_order_relaxed);
    /* Release: pairs with the acquire in amb_log_write, so that a sink never sees an older arg. */
    atomic_store_explicit(&current_sink, sink, memory_order_release);
}

void amb_log_set_level(enum amb_log_level level)
{
    atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

void amb_log_set_filter(amb_log_filter_fn filter)
{
    atomic_store_explicit(&current_filter, filter, memory_order_relaxed);
}

void amb_log_set_witness(amb_log_witness_fn witness)
{
    atomic_store_explicit(&current_witness, witness, memory_order_relaxed);
}

void amb_log_set_format(enum amb_log_format format)
{
    atomic_store_explicit(&current_format, (int)format, memory_order_relaxed);
}

bool amb_log_is_journal(const char *journal_stream)
{
    struct stat at;
    unsigned long long device = 0, inode = 0;
    char rest = '\0';
    return journal_stream != NULL && fstat(STDERR_FILENO, &at) == 0 &&
           sscanf(journal_stream, "%llu:%llu%c", &device, &inode, &rest) == 2 &&
           device == (unsigned long long)at.st_dev && inode == (unsigned long long)at.st_ino;
}

enum amb_log_level amb_log_level(void)
{
    return (enum amb_log_level)atomic_load_explicit(&current_level, memory_order_relaxed);
}

static void write_line(enum amb_log_level level, bool may_filter, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

static void write_line(enum amb_log_level level, bool may_filter, const char *format, va_list args)
{
    /* Acquire: pairs with the release in amb_log_set_sink. */
    amb_log_fn sink = atomic_load_explicit(&current_sink, memory_order_acquire);
    if (sink == NULL) {
        return;
    }
    int saved_errno = errno;
    char line[LINE_MAX_BYTES];
    int len = vsnprintf(line, sizeof(line), format, args);
    if (len < 0) {
        line[0] = '\0';
    }
    /* Names that a peer chose may be part of it: one call stays one line. */
    for (char *c = line; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *c = '?';
        }
    }
    amb_log_witness_fn witness = atomic_load_explicit(&current_witness, memory_order_relaxed);
    if (witness != NULL && level <= AMB_LOG_WARN) {
        witness(level, format, line);
    }
    amb_log_filter_fn filter = atomic_load_explicit(&current_filter, memory_order_relaxed);
    if (!may_filter || filter == NULL || filter(level, format, line)) {
        sink(level, line, atomic_load_explicit(&current_arg, memory_order_relaxed));
    }
    errno = saved_errno;
}

void amb_log_write(enum amb_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(level, true, format, args);
    va_end(args);
}

void amb_log_answer(enum amb_log_level level, const char *format, ...)
{
    if (level <= amb_log_level()) {
        va_list args;
        va_start(args, format);
        write_line(level, false, format, args);
        va_end(args);
    }
}

static const char *level_name(enum amb_log_level level)
{
    switch (level) {
    case AMB_LOG_ERROR:
        return "ERROR";
    case AMB_LOG_WARN:
        return "WARN";
    case AMB_LOG_INFO:
        return "INFO";
    case AMB_LOG_DEBUG:
        return "DEBUG";
    case AMB_LOG_TRACE:
        return "TRACE";
    }
    return "?";
}

static const char *level_word(enum amb_log_level level)
{
    static const char *const words[] = {
        [AMB_LOG_ERROR] = "error", [AMB_LOG_WARN] = "warn",   [AMB_LOG_INFO] = "info",
        [AMB_LOG_DEBUG] = "debug", [AMB_LOG_TRACE] = "trace",
    };
    return words[level];
}

/* One write, so that lines of several threads do not mix. SIGPIPE is held back for this thread and
 * swallowed if it is ours: a reader of our stderr that has gone must not end us. */
static void write_without_sigpipe(const char *bytes, size_t len)
{
    sigset_t pipe_set, old_set, pending;
    (void)sigemptyset(&pipe_set);
    (void)sigaddset(&pipe_set, SIGPIPE);
    (void)sigemptyset(&pending);
    (void)sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGPIPE) == 1;
    (void)pthread_sigmask(SIG_BLOCK, &pipe_set, &old_set);
    ssize_t written;
    do {
        written = write(STDERR_FILENO, bytes, len);
    } while (written < 0 && errno == EINTR);
    if (written < 0 && errno == EPIPE && !was_pending) {
        struct timespec none = {0, 0};
        while (sigtimedwait(&pipe_set, NULL, &none) < 0 && errno == EINTR) {
        }
    }
    (void)pthread_sigmask(SIG_SETMASK, &old_set, NULL);
}

static int priority_of(enum amb_log_level level)
{
    static const int priorities[] = {
        [AMB_LOG_ERROR] = LOG_ERR,   [AMB_LOG_WARN] = LOG_WARNING, [AMB_LOG_INFO] = LOG_INFO,
        [AMB_LOG_DEBUG] = LOG_DEBUG, [AMB_LOG_TRACE] = LOG_DEBUG,
    };
    return priorities[level];
}

static void say_when(char *out, size_t size)
{
    amb_text_format_date(amb_clock_realtime_ns(), 3, out, size);
}

/* The line as the inside of a JSON string: amb_log_write has left no control characters. A byte
 * that is no UTF-8 becomes "?", and the line is cut where it does not fit. */
static void say_json(const char *line, char *out, size_t size)
{
    size_t at = 0;
    uint32_t code = 0;
    for (const unsigned char *c = (const unsigned char *)line; *c != '\0' && at + 6 < size;) {
        size_t len = amb_utf8_decode(c, AMB_UTF8_MAX, &code);
        if (*c == '"' || *c == '\\') {
            out[at++] = '\\';
        }
        if (len == 0) {
            out[at++] = '?';
            c++;
        }
        for (size_t i = 0; i < len; i++) {
            out[at++] = (char)*c++;
        }
    }
    out[at] = '\0';
}

static int format_line(enum amb_log_level level, const char *line, char *out, size_t size)
{
    char when[64], quoted[2 * LINE_MAX_BYTES];
    switch ((enum amb_log_format)atomic_load_explicit(&current_format, memory_order_relaxed)) {
    case AMB_LOG_JOURNAL:
        return snprintf(out, size, "<%d>%s\n", priority_of(level), line);
    case AMB_LOG_JSON:
        say_when(when, sizeof(when));
        say_json(line, quoted, sizeof(quoted));
        return snprintf(out, size, "{\"time\":\"%s\",\"level\":\"%s\",\"text\":\"%s\"}\n", when,
                        level_word(level), quoted);
    case AMB_LOG_TEXT:
        break;
    }
    say_when(when, sizeof(when));
    return snprintf(out, size, "%s %s %s\n", when, level_name(level), line);
}

void amb_log_to_stderr(enum amb_log_level level, const char *line, void *arg)
{
    (void)arg;
    int saved_errno = errno;
    char text[2 * LINE_MAX_BYTES + 128];
    int len = format_line(level, line, text, sizeof(text));
    if (len > 0) {
        size_t size = (size_t)len;
        if (size >= sizeof(text)) {
            size = sizeof(text) - 1;
            text[size - 1] = '\n';
        }
        write_without_sigpipe(text, size);
    }
    errno = saved_errno;
}
