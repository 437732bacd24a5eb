/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of many processes on one descriptor, line by line: each line whole, with a prefix.
 *
 *   process ─► pipe ─► amb_lines ─► amb_sink ─► standard output or standard error
 *
 * Nothing here blocks, however slow the reader of the sink is. Then lines stay where they are, and
 * at last in the pipe of the process that writes them. A reader that has gone takes everything.
 * Threads: one. Memory: the caller's, of fixed size.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define AMB_LINES_MAX (16u << 10) /* bytes of a line; a longer one is broken there */
#define AMB_LINES_PREFIX_MAX 16u
#define AMB_SINK_MAX (128u << 10)

struct amb_sink {
    int fd;
    bool is_gone; /* nobody reads it any more, */
    int error;    /* ... or it takes no more: the reason */
    size_t begin, len;
    char bytes[AMB_SINK_MAX];
};

struct amb_lines {
    int fd; /* -1: at its end */
    char prefix[AMB_LINES_PREFIX_MAX];
    bool is_broken; /* the last line that was moved had no line feed */
    size_t len;
    char bytes[AMB_LINES_MAX];
};

/* One line, without its line feed. False: there is no room now. */
bool amb_sink_put(struct amb_sink *sink, const char *prefix, const char *text, size_t len);
/* Writes some of it. The descriptor is ready for that (poll), or this may block. */
void amb_sink_write(struct amb_sink *sink);

/* Is there room for more of the process's output? */
static inline bool amb_lines_want(const struct amb_lines *lines)
{
    return lines->fd >= 0 && lines->len < AMB_LINES_MAX;
}
/* Reads once. The descriptor is ready for that. At the end it is closed. */
void amb_lines_read(struct amb_lines *lines);
/* Whole lines go to the sink while it has room; at the end the rest, too. */
void amb_lines_move(struct amb_lines *lines, struct amb_sink *sink);
