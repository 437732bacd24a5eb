/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DESIGN. Everything lands in staging first, except the bytes of an open body. Those are read into
 * their destination, and the bytes behind them into staging by the same readv. Where another chunk
 * of the same body must follow, only its head is read, so that large bodies are never copied.
 * The peer may send anything: each length is checked before it is used.
 */
#include "wire/link/stream/stream_rx.h"

#include "wire/base/passed.h"
#include "wire/link/stream/stream_down.h"
#include "wire/tls/tls_io.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

static bool refuse(struct stream *stream, const char *text)
{
    amb_stream_fail(stream, AMB_EPROTO, text);
    return false;
}

static bool check_answer(struct stream *stream, enum amb_status answer, const char *text)
{
    if (answer != AMB_OK) {
        amb_stream_fail(stream, answer, text);
        return false;
    }
    return true;
}

/* Fills len bytes from `to` with the record in front of them. */
static void repeat_record(uint8_t *to, uint32_t len)
{
    uint64_t record[STREAM_RECORD_SIZE / 8]; /* In registers: each store waits for no other. */
    memcpy(record, to - STREAM_RECORD_SIZE, sizeof(record));
    for (uint32_t at = 0; at < len; at += STREAM_RECORD_SIZE) {
        memcpy(to + at, record, sizeof(record));
    }
}

/* `len` bytes of the open body are where they belong. */
static bool advance_body(struct stream *stream, uint64_t len)
{
    struct stream_rx *rx = &stream->rx;
    rx->part_left -= len;
    rx->body_left -= len;
    if (rx->dst == NULL) {
        return true;
    }
    rx->dst += len;
    if (rx->body_left != 0) {
        return true;
    }
    /* on_frame gave room for all of the body. */
    if (rx->run_left != 0) {
        repeat_record(rx->dst, rx->run_left);
    }
    rx->dst = NULL;
    enum amb_status answer = stream->link.events->on_body(stream->link.arg, rx->cookie, AMB_OK);
    return check_answer(stream, answer, "body refused");
}

static bool parse_body(struct stream *stream)
{
    struct stream_rx *rx = &stream->rx;
    uint32_t here = rx->end - rx->start;
    if (here == 0) {
        return false;
    }
    uint32_t len = here < rx->part_left ? here : (uint32_t)rx->part_left;
    if (rx->dst != NULL) {
        memcpy(rx->dst, rx->staging + rx->start, len);
    }
    rx->start += len;
    return advance_body(stream, len);
}

/* The bytes of a frame's body that a RUN of `part` bytes leaves out; 0: it cannot be one. */
static uint32_t run_left_out(const struct amb_frame *frame, uint64_t part)
{
    uint64_t data = amb_frame_body_data(frame);
    bool is_one = data != 0 && part == data + STREAM_RECORD_SIZE &&
                  frame->meta_len > STREAM_RECORD_SIZE && frame->meta_len % STREAM_RECORD_SIZE == 0;
    return is_one ? frame->meta_len - STREAM_RECORD_SIZE : 0;
}

static bool parse_frame(struct stream *stream, uint32_t kind, uint32_t len, uint32_t here)
{
    struct stream_rx *rx = &stream->rx;
    if (rx->body_left != 0) {
        return refuse(stream, "frame inside a body");
    }
    if (len < AMB_FRAME_HEAD_SIZE || len - AMB_FRAME_HEAD_SIZE > AMB_STREAM_CHUNK) {
        return refuse(stream, "frame unit of an impossible length");
    }
    if (here < STREAM_FRAME_HEAD) {
        rx->need = STREAM_FRAME_HEAD - here;
        return false;
    }
    struct amb_frame frame;
    if (amb_frame_decode(rx->staging + rx->start + STREAM_UNIT_HEAD, &frame) != AMB_OK) {
        return refuse(stream, "malformed head");
    }
    uint64_t body = amb_frame_body_len(&frame);
    uint64_t part = len - AMB_FRAME_HEAD_SIZE;
    if (part > body) {
        return refuse(stream, "more bytes than the frame has");
    }
    uint32_t left_out = kind == STREAM_UNIT_RUN ? run_left_out(&frame, part) : 0;
    if (kind == STREAM_UNIT_RUN && left_out == 0) {
        return refuse(stream, "run of a frame that cannot have one");
    }
    rx->start += STREAM_FRAME_HEAD;
    stream->link.stats.frames_received++;

    void *dst = NULL, *cookie = NULL;
    struct amb_link_mem *mem = NULL;
    enum amb_status answer =
        stream->link.events->on_frame(stream->link.arg, &frame, &dst, &cookie, &mem);
    if (!check_answer(stream, answer, "frame refused")) {
        return false;
    }
    rx->dst = body != 0 ? dst : NULL;
    rx->cookie = cookie;
    rx->body_left = rx->last_body = body - left_out;
    rx->part_left = part;
    rx->run_left = left_out;
    return true;
}

static bool parse_flows(struct stream *stream, uint32_t len, uint32_t here)
{
    struct stream_rx *rx = &stream->rx;
    if (len == 0 || len % STREAM_FLOW_SIZE != 0 || len > STREAM_FLOWS_MAX * STREAM_FLOW_SIZE) {
        return refuse(stream, "flow unit of an impossible length");
    }
    if (here - STREAM_UNIT_HEAD < len) {
        rx->need = len - (here - STREAM_UNIT_HEAD);
        return false;
    }
    const uint8_t *in = rx->staging + rx->start + STREAM_UNIT_HEAD;
    rx->start += STREAM_UNIT_HEAD + len;
    for (const uint8_t *end = in + len; in < end; in += STREAM_FLOW_SIZE) {
        uint32_t which[2];
        uint64_t value;
        memcpy(which, in, sizeof(which));
        memcpy(&value, in + sizeof(which), sizeof(value));
        uint32_t kind = le32toh(which[0]), handle = le32toh(which[1]);
        if (kind >= AMB_FLOW_KINDS || handle >= AMB_HANDLES_MAX) {
            return refuse(stream, "flow value of no counter");
        }
        enum amb_status answer = stream->link.events->on_flow(
            stream->link.arg, (enum amb_flow_kind)kind, handle, le64toh(value));
        if (!check_answer(stream, answer, "flow value refused")) {
            return false;
        }
    }
    return true;
}

/* One unit's head, with all of a flow unit. False: not all there, or the link is down. */
static bool parse_unit(struct stream *stream)
{
    struct stream_rx *rx = &stream->rx;
    uint32_t here = rx->end - rx->start;
    if (here < STREAM_UNIT_HEAD) {
        rx->need = STREAM_UNIT_HEAD - here;
        return false;
    }
    uint32_t words[4];
    memcpy(words, rx->staging + rx->start, sizeof(words));
    uint32_t kind = le32toh(words[0]), len = le32toh(words[1]);
    if ((words[2] | words[3]) != 0) {
        return refuse(stream, "unit head with unknown fields");
    }
    switch (kind) {
    case STREAM_UNIT_FRAME:
    case STREAM_UNIT_RUN:
        return parse_frame(stream, kind, len, here);
    case STREAM_UNIT_FLOW:
        return parse_flows(stream, len, here);
    case STREAM_UNIT_CHUNK:
        if (len == 0 || len > AMB_STREAM_CHUNK || len > rx->body_left) {
            return refuse(stream, "chunk of an impossible length");
        }
        rx->start += STREAM_UNIT_HEAD;
        rx->part_left = len;
        return true;
    default:
        return refuse(stream, "unit of an unknown kind");
    }
}

unsigned amb_stream_parse(struct stream *stream, unsigned budget)
{
    struct stream_rx *rx = &stream->rx;
    unsigned units = 0;
    while (units < budget && !stream->link.is_down) {
        if (rx->part_left != 0) {
            if (!parse_body(stream)) {
                break;
            }
            continue;
        }
        if (!parse_unit(stream)) {
            break;
        }
        units++;
    }
    return units;
}

/* How much to read into staging, behind what is read into a body. */
static uint32_t staging_wanted(const struct stream_rx *rx)
{
    bool is_direct = rx->part_left != 0 && rx->dst != NULL;
    if (is_direct && rx->body_left > rx->part_left) {
        return STREAM_UNIT_HEAD;
    }
    if (rx->part_left == 0 && rx->body_left != 0) {
        return rx->need;
    }
    /* Bytes to be thrown away come through staging; then all of it. */
    bool is_discarding = rx->part_left != 0 && rx->dst == NULL;
    if (rx->last_body > STREAM_LARGE_BODY && !is_discarding) {
        return STREAM_STAGING_SMALL;
    }
    return STREAM_STAGING;
}

/* The meaning of a read that failed, or found the end. */
static void read_failed(struct stream *stream, ssize_t got, int error)
{
    if (got == 0) {
        amb_stream_fail(stream, AMB_ELOST, "the peer closed the connection");
    } else if (error == EPROTO && stream->tls != NULL) {
        amb_stream_fail(stream, AMB_ELOST, amb_tls_why(stream->tls));
    } else if (error != EAGAIN && error != EWOULDBLOCK) {
        amb_stream_fail(stream, AMB_ELOST, strerrordesc_np(error));
    } else if (stream->is_mute) {
        amb_stream_fail(stream, AMB_ELOST, "sending failed");
    } else {
        stream->rx.is_drained = stream->link.is_dry = true;
    }
}

/* Of the next bytes, those of the open body that go straight to where they belong. */
static uint64_t direct_left(const struct stream_rx *rx)
{
    return rx->dst != NULL ? rx->part_left : 0;
}

size_t amb_stream_room(struct stream *stream, struct iovec iov[2])
{
    struct stream_rx *rx = &stream->rx;
    /* The rest is less than a unit, and most often nothing. */
    memmove(rx->staging, rx->staging + rx->start, rx->end - rx->start);
    rx->end -= rx->start;
    rx->start = 0;

    size_t count = 0;
    uint64_t direct = direct_left(rx);
    uint32_t staged = staging_wanted(rx), room = STREAM_STAGING - rx->end;
    staged = staged < room ? staged : room;
    if (direct != 0) {
        iov[count++] = (struct iovec){.iov_base = rx->dst, .iov_len = direct};
    }
    iov[count++] = (struct iovec){.iov_base = rx->staging + rx->end, .iov_len = staged};
    return count;
}

void amb_stream_take(struct stream *stream, uint64_t bytes)
{
    struct stream_rx *rx = &stream->rx;
    uint64_t direct = direct_left(rx);
    uint64_t into_body = bytes < direct ? bytes : direct;
    stream->link.stats.bytes_received += bytes;
    rx->end += (uint32_t)(bytes - into_body);
    if (into_body != 0) {
        (void)advance_body(stream, into_body);
    }
}

/* Through TLS, where nobody passes descriptors. An answer of libssl's may have to wait for room. */
static ssize_t receive_tls(struct stream *stream, const struct iovec *iov, size_t count)
{
    ssize_t got = amb_tls_receive(stream->tls, iov, count);
    int error = errno;
    if (amb_tls_has_unsent(stream->tls)) {
        stream->link.is_pending = stream->link.is_blocked = true;
    }
    errno = error;
    return got;
}

/* One readv. False: nothing came. *is_short: no more is there, or hardly. */
static bool read_some(struct stream *stream, bool *is_short)
{
    struct iovec iov[2];
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = amb_stream_room(stream, iov)};
    uint64_t room = iov[0].iov_len + (message.msg_iovlen > 1 ? iov[1].iov_len : 0);
    ssize_t got;
    bool has_passed = false;
    do {
        got = stream->tls != NULL ? receive_tls(stream, iov, message.msg_iovlen)
              : stream->is_guarded
                  ? amb_passed_receive(stream->fd, iov, message.msg_iovlen, &has_passed)
                  : recvmsg(stream->fd, &message, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (has_passed) {
        amb_stream_fail(stream, AMB_EPROTO, "descriptors were passed on a stream");
        return false;
    }
    if (got <= 0) {
        read_failed(stream, got, errno);
        return false;
    }
    stream->rx.is_drained = false;
    /* A short read has emptied the socket; whether the end is behind it, arm must know. */
    *is_short = stream->link.is_dry = (uint64_t)got < room;
    amb_stream_take(stream, (uint64_t)got);
    return true;
}

unsigned amb_stream_pull(struct stream *stream, unsigned budget)
{
    unsigned done = 0;
    bool is_short = false;
    while (done < budget) {
        done += amb_stream_parse(stream, budget - done);
        /* A short read has emptied the socket; whether for good, the next poll will see. */
        if (done >= budget || is_short || stream->link.is_down || !read_some(stream, &is_short)) {
            break;
        }
        done++;
    }
    stream->rx.has_more = done >= budget;
    if (stream->rx.has_more) {
        stream->link.is_dry = false;
    }
    return done + (stream->link.is_down ? 1 : 0);
}

bool amb_stream_has_unread(struct stream *stream)
{
    if (stream->tls == NULL || stream->link.is_down || !amb_tls_has_unread(stream->tls)) {
        return false;
    }
    stream->rx.has_more = true;
    stream->rx.is_drained = stream->link.is_dry = false;
    return true;
}
