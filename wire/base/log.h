/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines: one sink per process, levels, never on the data path above TRACE.
 * libamb leaves the sink unset, so a library never writes to its host's stderr.
 * Threads: amb_log from any; the setters at start-up only, before other threads run.
 * Memory: formats into the caller's stack; the line is valid during the sink's call only.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>

enum amb_log_level {
    AMB_LOG_ERROR,
    AMB_LOG_WARN,
    AMB_LOG_INFO,
    AMB_LOG_DEBUG,
    AMB_LOG_TRACE,
};

/* How amb_log_to_stderr writes a line. */
enum amb_log_format {
    AMB_LOG_TEXT,    /* 2026-11-21T12:00:00.123Z WARN text */
    AMB_LOG_JSON,    /* {"time":"2026-11-21T12:00:00.123Z","level":"warn","text":"text"} */
    AMB_LOG_JOURNAL, /* <4>text: systemd's journal has a clock of its own */
};

/* site: the format of the line, which is the same for all lines of one place in the code. False:
 * the line is not written. */
typedef bool (*amb_log_filter_fn)(enum amb_log_level level, const char *site, const char *line);

/* Sees a line from WARN up, also one that the filter keeps back. */
typedef void (*amb_log_witness_fn)(enum amb_log_level level, const char *site, const char *line);

typedef void (*amb_log_fn)(enum amb_log_level level, const char *line, void *arg);

/* sink NULL: lines are dropped before they are formatted. */
void amb_log_set_sink(amb_log_fn sink, void *arg);
void amb_log_set_level(enum amb_log_level level);
enum amb_log_level amb_log_level(void);
/* Asked before each line, also before one that it logs itself; NULL: all are written. Any time. */
void amb_log_set_filter(amb_log_filter_fn filter);
/* Called before the filter, on the thread of the line; NULL: nobody. Any time. */
void amb_log_set_witness(amb_log_witness_fn witness);
/* Any time. */
void amb_log_set_format(enum amb_log_format format);
/* Is standard error the stream that JOURNAL_STREAM (its value, or NULL) names, "DEVICE:INODE"? */
bool amb_log_is_journal(const char *journal_stream);
/* A sink that writes to stderr, in the format that was set; survives a closed stderr. */
void amb_log_to_stderr(enum amb_log_level level, const char *line, void *arg);

void amb_log_write(enum amb_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The answer to an operator, as to a signal, for which the log is the only place. It is written
 * each time: the filter is not asked. */
void amb_log_answer(enum amb_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define amb_log(level, ...)                                                                        \
    do {                                                                                           \
        if ((level) <= amb_log_level()) {                                                          \
            amb_log_write((level), __VA_ARGS__);                                                   \
        }                                                                                          \
    } while (0)
#define amb_error(...) amb_log(AMB_LOG_ERROR, __VA_ARGS__)
#define amb_warn(...) amb_log(AMB_LOG_WARN, __VA_ARGS__)
#define amb_info(...) amb_log(AMB_LOG_INFO, __VA_ARGS__)
#define amb_debug(...) amb_log(AMB_LOG_DEBUG, __VA_ARGS__)
#define amb_trace(...) amb_log(AMB_LOG_TRACE, __VA_ARGS__)
