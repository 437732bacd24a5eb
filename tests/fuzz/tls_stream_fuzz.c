/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream link over TLS, of a peer that has keys and writes any bytes through them, in records of
 * the first byte's size. A plain link is given the same bytes. Both must come to the same upcalls.
 */
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/fuzz_tls.h"
#include "wire/link/stream/stream.h"

#include <unistd.h>

#define BODY_MAX (UINT64_C(1) << 18)
#define POLLS 16u

FUZZ_PLAIN static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst,
                                           void **cookie, struct amb_link_mem **mem)
{
    struct fuzz_target *target = arg;
    (void)mem;
    uint64_t len = fuzz_note_frame(target, frame);
    if (len != 0 && len <= BODY_MAX) { /* Larger ones are discarded. */
        *dst = *cookie = fuzz_body_begin(target, len);
    }
    return AMB_OK;
}

FUZZ_PLAIN static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    struct fuzz_target *target = arg;
    amb_assert(cookie == target->open && target->open != NULL);
    for (uint64_t i = 0; status == AMB_OK && i < target->open_len; i += 1 + target->open_len / 64) {
        fuzz_note(target, target->open[i]);
    }
    fuzz_body_end(target);
    return status;
}

FUZZ_PLAIN static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle,
                                          uint64_t value)
{
    fuzz_note_flow(arg, kind, handle, value);
    return AMB_OK;
}

FUZZ_PLAIN static void on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    (void)arg, (void)tx, (void)status;
}

FUZZ_PLAIN static void on_down(void *arg, enum amb_status why, const char *text)
{
    fuzz_note_down(arg, why, text);
}

FUZZ_PLAIN static void on_closed(void *arg)
{
    (void)arg;
}

static const struct amb_link_events events = {.on_frame = on_frame,
                                              .on_body = on_body,
                                              .on_flow = on_flow,
                                              .on_sent = on_sent,
                                              .on_down = on_down,
                                              .on_closed = on_closed};

/* The bytes in pieces, then the end. client NULL: as they are. Returns what the link made of it. */
static uint64_t run(struct amb_link *link, struct fuzz_target *target, int fd,
                    struct amb_tls *client, const uint8_t *bytes, size_t len, size_t piece)
{
    while (len != 0 && target->downs == 0) {
        size_t part = piece < len ? piece : len;
        ssize_t sent = client != NULL ? (ssize_t)fuzz_tls_say(client, bytes, part)
                                      : send(fd, bytes, part, MSG_NOSIGNAL | MSG_DONTWAIT);
        amb_assert(sent > 0 || target->downs != 0);
        bytes += sent;
        len -= (size_t)sent;
        (void)amb_link_poll(link, 1 + (unsigned)piece % 7);
    }
    if (client != NULL) {
        amb_tls_farewell(client);
    }
    (void)shutdown(fd, SHUT_WR);
    for (unsigned n = 0; target->downs == 0; n++) {
        amb_assert(n < 100000);
        (void)amb_link_poll(link, POLLS);
    }
    amb_assert(amb_link_close(link) && target->open == NULL);
    return target->digest;
}

FUZZ_PLAIN int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_target plain = {.digest = 1}, hidden = {.digest = 1};
    struct tls_two one, two;
    struct amb_link *link;
    if (len < 2) {
        return 0;
    }
    size_t piece = data[0] == 0 ? len : data[0];
    fuzz_tls_init();
    tls_two_connect_narrow(&one, FUZZ_TLS_BUFFER);
    tls_two_connect_narrow(&two, FUZZ_TLS_BUFFER);
    fuzz_tls_shake(&two, AMB_TLS_ALPN_LINK);
    amb_assert(amb_stream_create(one.broker_fd, &events, &plain, &link) == AMB_OK);
    uint64_t want = run(link, &plain, one.client_fd, NULL, data + 1, len - 1, piece);
    amb_assert(amb_stream_create_tls(two.broker_fd, two.broker, &events, &hidden, &link) == AMB_OK);
    two.broker = NULL;
    uint64_t got = run(link, &hidden, two.client_fd, two.client, data + 1, len - 1, piece);
    amb_assert(want == got);
    amb_tls_destroy(&two.client);
    (void)close(one.client_fd);
    (void)close(two.client_fd);
    return 0;
}
