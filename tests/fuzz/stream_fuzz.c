/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reading of a stream link, of bytes that somebody writes into its socket. The first byte says
 * how often the link is polled meanwhile; bodies go to memory of exactly their size. The whole link
 * with a socket, and so slow: its receiver runs far more often in stream_rx.
 */
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/codec/frame.h"
#include "wire/link/stream/stream.h"

#include <sys/socket.h>
#include <unistd.h>

#define BODY_MAX (UINT64_C(1) << 20)

struct target {
    uint8_t *open; /* the body on its way */
    unsigned downs;
};

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct target *target = arg;
    (void)mem;
    amb_assert(target->downs == 0 && target->open == NULL);
    uint64_t len = frame->data_len + frame->meta_len;
    if (frame->handle == 666) {
        return AMB_EPROTO;
    }
    /* Larger ones are discarded. */
    if (amb_frame_has_body(frame->type) && len != 0 && len <= BODY_MAX) {
        target->open = malloc(len);
        amb_assert(target->open != NULL);
        *dst = *cookie = target->open;
    }
    return AMB_OK;
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    struct target *target = arg;
    amb_assert(cookie == target->open && target->open != NULL);
    free(target->open);
    target->open = NULL;
    return status;
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    struct target *target = arg;
    amb_assert((unsigned)kind < AMB_FLOW_KINDS && handle < AMB_HANDLES_MAX);
    amb_assert(target->downs == 0);
    return value == 666 ? AMB_EPROTO : AMB_OK;
}

static void on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    (void)arg;
    (void)tx;
    (void)status;
}

static void on_down(void *arg, enum amb_status why, const char *text)
{
    struct target *target = arg;
    amb_assert(why != AMB_OK && text != NULL);
    amb_assert(target->downs == 0 && target->open == NULL);
    target->downs++;
}

static void on_closed(void *arg)
{
    (void)arg;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct amb_link_events events = {.on_frame = on_frame,
                                                  .on_body = on_body,
                                                  .on_flow = on_flow,
                                                  .on_sent = on_sent,
                                                  .on_down = on_down,
                                                  .on_closed = on_closed};
    struct target target = {0};
    struct amb_link *link;
    int fds[2];
    if (len == 0) {
        return 0;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0 ||
        amb_stream_create(fds[0], &events, &target, &link) != AMB_OK) {
        return 0;
    }
    size_t piece = data[0] == 0 ? len : data[0];
    data++;
    len--;
    while (len != 0 && target.downs == 0) {
        size_t part = piece < len ? piece : len;
        ssize_t sent = send(fds[1], data, part, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            data += sent;
            len -= (size_t)sent;
        }
        (void)amb_link_poll(link, 1 + (unsigned)piece % 7);
    }
    (void)close(fds[1]);
    /* A closed peer is noticed after what it has said, or not at all before close. */
    for (unsigned n = 0; n < 8 && target.downs == 0; n++) {
        (void)amb_link_poll(link, 64);
    }
    amb_assert(amb_link_close(link));
    amb_assert(target.open == NULL);
    return 0;
}
