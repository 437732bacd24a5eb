/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ctl/local/lines.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WRITE_MAX 4096u /* so much a pipe that is ready takes at once (PIPE_BUF) */

bool amb_sink_put(struct amb_sink *sink, const char *prefix, const char *text, size_t len)
{
    size_t prefix_len = strlen(prefix);
    size_t need = prefix_len + len + 1;
    if (sink->is_gone) {
        return true;
    }
    if (AMB_SINK_MAX - sink->len < need) {
        return false;
    }
    if (AMB_SINK_MAX - sink->begin - sink->len < need) {
        memmove(sink->bytes, sink->bytes + sink->begin, sink->len);
        sink->begin = 0;
    }
    char *to = sink->bytes + sink->begin + sink->len;
    memcpy(to, prefix, prefix_len);
    memcpy(to + prefix_len, text, len);
    to[prefix_len + len] = '\n';
    sink->len += need;
    return true;
}

void amb_sink_write(struct amb_sink *sink)
{
    const char *from = sink->bytes + sink->begin;
    size_t len = sink->len < WRITE_MAX ? sink->len : WRITE_MAX;
    ssize_t n = send(sink->fd, from, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == ENOTSOCK) {
        n = write(sink->fd, from, len);
    }
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        sink->error = errno == EPIPE || errno == ECONNRESET ? 0 : errno;
        sink->is_gone = true;
        sink->len = 0;
    }
    sink->begin += n > 0 ? (size_t)n : 0;
    sink->len -= n > 0 ? (size_t)n : 0;
    if (sink->len == 0) {
        sink->begin = 0;
    }
}

void amb_lines_read(struct amb_lines *lines)
{
    ssize_t n = read(lines->fd, lines->bytes + lines->len, AMB_LINES_MAX - lines->len);
    if (n > 0) {
        lines->len += (size_t)n;
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        (void)close(lines->fd);
        lines->fd = -1;
    }
}

void amb_lines_move(struct amb_lines *lines, struct amb_sink *sink)
{
    size_t at = 0;
    if (lines->is_broken && lines->len > 0) { /* The end of a line that is there already. */
        at = lines->bytes[0] == '\n' ? 1 : 0;
        lines->is_broken = false;
    }
    while (at < lines->len) {
        const char *text = lines->bytes + at;
        size_t left = lines->len - at;
        const char *end = memchr(text, '\n', left);
        bool is_all = lines->fd < 0 || left == AMB_LINES_MAX;
        if (end == NULL && !is_all) {
            break;
        }
        size_t len = end != NULL ? (size_t)(end - text) : left;
        if (!amb_sink_put(sink, lines->prefix, text, len)) {
            break;
        }
        at += len + (end != NULL ? 1 : 0);
        lines->is_broken = end == NULL;
    }
    memmove(lines->bytes, lines->bytes + at, lines->len - at);
    lines->len -= at;
}
