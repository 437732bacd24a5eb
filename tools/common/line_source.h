/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a descriptor that may be a terminal, a pipe or a file. A line is given as soon as it is
 * whole. A wait ends in time, so that its caller can look at signals.
 * Threads: one. Memory: owns its buffer, which grows with the longest line.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum amb_line_is {
    AMB_LINE_HERE,
    AMB_LINE_NOT_YET,  /* nothing has come in time, or a signal came */
    AMB_LINE_END,      /* there are no more */
    AMB_LINE_TOO_LONG, /* more than max bytes */
    AMB_LINE_FAILED,   /* errno says why */
};

struct amb_line_source {
    int fd;
    size_t max; /* bytes of a line */
    uint8_t *data;
    size_t cap, from, to; /* data[from..to) has been read and not yet given */
    size_t seen;          /* of these so many have no line feed */
    bool has_ended;
};

void amb_line_source_init(struct amb_line_source *source, int fd, size_t max);
/* HERE: *line has *len bytes, without the line feed, until the next call. The last line may lack
 * its line feed. */
enum amb_line_is amb_line_source_next(struct amb_line_source *source, int timeout_ms,
                                      const uint8_t **line, size_t *len);
void amb_line_source_fini(struct amb_line_source *source);
