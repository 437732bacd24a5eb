/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/line_source.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP ((size_t)1 << 16)

void amb_line_source_init(struct amb_line_source *source, int fd, size_t max)
{
    *source = (struct amb_line_source){.fd = fd, .max = max};
}

/* The line that is there already. */
static bool take(struct amb_line_source *source, const uint8_t **line, size_t *len)
{
    const uint8_t *start = source->data + source->from;
    size_t there = source->to - source->from;
    const uint8_t *feed =
        there > source->seen ? memchr(start + source->seen, '\n', there - source->seen) : NULL;
    if (feed == NULL && !(source->has_ended && there > 0)) {
        source->seen = there;
        return false;
    }
    *line = start;
    *len = feed != NULL ? (size_t)(feed - start) : there;
    source->from += feed != NULL ? *len + 1 : *len;
    source->seen = 0;
    return true;
}

/* Room behind what is there. */
static bool make_room(struct amb_line_source *source)
{
    if (source->from > 0) {
        memmove(source->data, source->data + source->from, source->to - source->from);
        source->to -= source->from;
        source->from = 0;
    }
    if (source->to < source->cap) {
        return true;
    }
    size_t cap = source->cap + source->cap / 2 + STEP;
    uint8_t *data = realloc(source->data, cap);
    if (data == NULL) {
        return false;
    }
    source->data = data;
    source->cap = cap;
    return true;
}

/* HERE: something has been read, or the end. */
static enum amb_line_is fill(struct amb_line_source *source, int timeout_ms)
{
    struct pollfd pfd = {.fd = source->fd, .events = POLLIN};
    int ready = poll(&pfd, 1, timeout_ms);
    if (ready <= 0) {
        return ready == 0 || errno == EINTR ? AMB_LINE_NOT_YET : AMB_LINE_FAILED;
    }
    if (!make_room(source)) {
        errno = ENOMEM;
        return AMB_LINE_FAILED;
    }
    ssize_t n = read(source->fd, source->data + source->to, source->cap - source->to);
    if (n < 0) {
        return errno == EINTR || errno == EAGAIN ? AMB_LINE_NOT_YET : AMB_LINE_FAILED;
    }
    source->has_ended = n == 0;
    source->to += (size_t)n;
    return AMB_LINE_HERE;
}

enum amb_line_is amb_line_source_next(struct amb_line_source *source, int timeout_ms,
                                      const uint8_t **line, size_t *len)
{
    for (;;) {
        if (take(source, line, len)) {
            return *len > source->max ? AMB_LINE_TOO_LONG : AMB_LINE_HERE;
        }
        if (source->has_ended) {
            return AMB_LINE_END;
        }
        if (source->to - source->from > source->max) {
            return AMB_LINE_TOO_LONG;
        }
        enum amb_line_is is = fill(source, timeout_ms);
        if (is != AMB_LINE_HERE) {
            return is;
        }
    }
}

void amb_line_source_fini(struct amb_line_source *source)
{
    free(source->data);
    source->data = NULL;
}
