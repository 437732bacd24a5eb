/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks on the stream link of a client that came by TCP: by attaching, and by units. */
#include "tests/support/hostile/hostile.h"

#include "wire/base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define UNIT_FRAME 1u
#define UNIT_CHUNK 2u
#define UNIT_FLOW 3u

struct unit_head {
    uint32_t kind, len;
    uint64_t zero;
};

static void log_in(struct hostile *h)
{
    if (!hostile_handshake(h, AMB_LINK_STREAM)) {
        hostile_fail("no session over TCP: %d %s", h->over_status, h->over_text);
    }
}

static int attach(struct hostile *h)
{
    bool is_ok;
    int fd =
        hostile_attach(h, h->welcome.session, h->welcome.generation, h->welcome.secret, &is_ok);
    if (!is_ok) {
        hostile_fail("Attach is refused");
    }
    return fd;
}

static enum hostile_verdict wrong_secrets(struct hostile *h)
{
    log_in(h);
    unsigned first = (unsigned)hostile_below(h, 3);
    for (unsigned i = first; i < first + 2; i++) { /* Each answer may take a second. */
        bool is_ok;
        uint64_t flip = UINT64_C(1) << hostile_below(h, 64);
        uint32_t session = h->welcome.session, generation = h->welcome.generation;
        if (i % 3 == 1) {
            session += 1 + (uint32_t)hostile_below(h, 10);
        } else if (i % 3 == 2) {
            generation ^= 1u << hostile_below(h, 32);
        }
        (void)close(hostile_attach(h, session, generation,
                                   i % 3 == 0 ? h->welcome.secret ^ flip : h->welcome.secret,
                                   &is_ok));
        if (is_ok) {
            hostile_fail("Attach with a wrong secret is answered by Ok");
        }
    }
    return HOSTILE_LIVES;
}

/* The second one is told no, or the whole session ends; the first one's link is never replaced. */
static enum hostile_verdict attach_twice(struct hostile *h)
{
    log_in(h);
    int first = attach(h);
    bool is_ok;
    int second =
        hostile_attach(h, h->welcome.session, h->welcome.generation, h->welcome.secret, &is_ok);
    hostile_hear(h, 20);
    char byte;
    if (second >= 0 && recv(second, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN && is_ok &&
        !h->is_over) {
        hostile_hear(h, 1000);
        if (recv(second, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN) {
            hostile_fail("two connections are attached to one session");
        }
    }
    (void)close(first);
    (void)close(second);
    return HOSTILE_GONE;
}

static enum hostile_verdict attach_late(struct hostile *h)
{
    log_in(h);
    (void)close(h->control);
    bool is_ok;
    (void)usleep((useconds_t)hostile_below(h, 2000));
    int fd =
        hostile_attach(h, h->welcome.session, h->welcome.generation, h->welcome.secret, &is_ok);
    (void)usleep(1000);
    (void)close(fd);
    h->control = -1;
    return HOSTILE_GONE;
}

static void send_unit(struct hostile *h, int fd, uint32_t kind, uint32_t len, const void *bytes,
                      size_t n)
{
    const struct unit_head head = {
        .kind = kind, .len = len, .zero = hostile_below(h, 50) == 0 ? hostile_random(h) : 0};
    (void)!send(fd, &head, sizeof(head), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)!send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static uint32_t flow_unit(struct hostile *h, uint8_t *out)
{
    uint32_t count = (uint32_t)hostile_below(h, 20);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t words[2] = {(uint32_t)hostile_below(h, 5), (uint32_t)hostile_below(h, 1026)};
        const uint64_t value = hostile_edge(h);
        memcpy(out + i * 16, words, 8);
        memcpy(out + i * 16 + 8, &value, 8);
    }
    return count * 16;
}

static uint32_t frame_unit(struct hostile *h, uint8_t *out)
{
    const struct amb_frame frame = {.type = (uint8_t)(1 + hostile_below(h, 6)),
                                    .handle = (uint32_t)hostile_below(h, 3),
                                    .seq = 1 + hostile_below(h, 3),
                                    .number = hostile_edge(h),
                                    .count = (uint32_t)(1 + hostile_below(h, 4)),
                                    .meta_len = (uint32_t)(16 * hostile_below(h, 8)),
                                    .data_len = 16 * hostile_below(h, 8)};
    amb_frame_encode(&frame, out);
    hostile_bytes(h, out + AMB_FRAME_HEAD_SIZE, 512);
    uint64_t body = hostile_below(h, 3) == 0 ? hostile_below(h, 512) : amb_frame_body_len(&frame);
    return AMB_FRAME_HEAD_SIZE + (uint32_t)(body % 512);
}

static enum hostile_verdict units(struct hostile *h)
{
    log_in(h);
    int fd = attach(h);
    (void)hostile_pub_open(h, 0, "hostile.stream", true);
    (void)hostile_await(h, hostile_subscribe(h, 0, "hostile.>", AMB_SLOW_DROP_OLDEST, 0, false));
    for (unsigned i = 0; i < 40 && !h->is_over; i++) {
        uint8_t bytes[1024];
        hostile_bytes(h, bytes, sizeof(bytes));
        uint32_t len;
        switch (hostile_below(h, 5)) {
        case 0:
            len = flow_unit(h, bytes);
            send_unit(h, fd, UNIT_FLOW, len, bytes, len);
            break;
        case 1:
        case 2:
            len = frame_unit(h, bytes);
            send_unit(h, fd, UNIT_FRAME, len, bytes, len);
            break;
        case 3:
            len = (uint32_t)hostile_below(h, sizeof(bytes));
            send_unit(h, fd, UNIT_CHUNK, len, bytes, len);
            break;
        default:
            send_unit(h, fd, (uint32_t)hostile_edge(h), (uint32_t)hostile_edge(h), bytes,
                      hostile_below(h, sizeof(bytes)));
        }
        hostile_hear(h, i % 8 == 0);
    }
    (void)close(fd);
    return HOSTILE_GONE;
}

/* One that is certainly wrong, and the reason is told. */
static enum hostile_verdict bad_unit(struct hostile *h)
{
    log_in(h);
    int fd = attach(h);
    uint8_t bytes[64] = {0};
    send_unit(h, fd, 4 + (uint32_t)hostile_below(h, 1000), 16, bytes, sizeof(bytes));
    hostile_hear(h, 5000);
    (void)close(fd);
    return HOSTILE_ENDS;
}

/* Publishes to itself and takes nothing from the socket. */
static enum hostile_verdict stream_unread(struct hostile *h)
{
    if (!hostile_login(h, AMB_LINK_STREAM)) {
        hostile_fail("no session over TCP");
    }
    (void)hostile_pub_open(h, 0, "hostile.stream", true);
    (void)hostile_await(
        h, hostile_subscribe(h, 0, "hostile.>", AMB_SLOW_DROP_OLDEST, UINT64_MAX, false));
    int64_t until_ns = amb_clock_monotonic_ns() + 30 * AMB_NS_PER_MS;
    while (amb_clock_monotonic_ns() < until_ns) {
        (void)hostile_publish(h, 0, hostile_below(h, 1000));
        amb_link_flush(h->link);
    }
    return HOSTILE_LIVES;
}

/* Plain bytes on a link, as if it were the control connection, or the web. */
static enum hostile_verdict stream_garbage(struct hostile *h)
{
    log_in(h);
    int fd = attach(h);
    uint8_t bytes[3000];
    hostile_bytes(h, bytes, sizeof(bytes));
    bytes[3] = 0x77;
    (void)!send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
    hostile_hear(h, 5000);
    (void)close(fd);
    return HOSTILE_ENDS;
}

const struct hostile_attack hostile_stream_attacks[] = {
    {.name = "wrong-secrets", .run = wrong_secrets, .is_bare = true},
    {.name = "attach-twice", .run = attach_twice, .is_bare = true},
    {.name = "attach-late", .run = attach_late, .is_bare = true},
    {.name = "units", .run = units, .is_bare = true},
    {.name = "bad-unit", .run = bad_unit, .is_bare = true},
    {.name = "stream-unread", .run = stream_unread, .is_bare = true},
    {.name = "stream-garbage", .run = stream_garbage, .is_bare = true},
    {.name = NULL},
};
