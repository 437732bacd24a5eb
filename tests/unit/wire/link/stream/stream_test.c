/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream link: the suite of all links over TCP and over a Unix socket with a tiny buffer. Then
 * come peers that are not a stream link but somebody who writes bytes.
 */
#include "tests/support/link/link_peer.h"
#include "tests/support/link/link_suite.h"
#include "tests/support/tcp_pair.h"
#include "wire/link/stream/stream.h"
#include "wire/link/stream/stream_state.h"

#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void unix_pair(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

static void make_links(const int fds[2], struct link_suite_pair *pair,
                       const struct amb_link_events *events, void *args[2])
{
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(amb_stream_create(fds[i], events, args[i], &pair->end[i]), AMB_OK);
    }
}

static void make_tcp(struct link_suite_pair *pair, const struct amb_link_events *events,
                     void *args[2])
{
    int fds[2];
    tcp_pair(fds);
    make_links(fds, pair, events, args);
}

/* Everything is cut everywhere: the smallest buffers that the kernel gives. */
static void make_narrow(struct link_suite_pair *pair, const struct amb_link_events *events,
                        void *args[2])
{
    int fds[2];
    unix_pair(fds);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &(int){20000}, sizeof(int)), 0);
    }
    make_links(fds, pair, events, args);
}

static int send_buffer(int fd)
{
    int bytes = 0;
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, &(socklen_t){sizeof(bytes)}), 0);
    return bytes;
}

static void test_little_waits_in_the_kernel_for_a_peer_on_the_same_host(void **state)
{
    (void)state;
    struct link_peer peers[2];
    int tcp[2], local[2];
    tcp_pair(tcp);
    unix_pair(local);
    int before = send_buffer(local[0]);
    const int fds[2] = {tcp[0], local[0]};
    for (unsigned i = 0; i < 2; i++) {
        link_peer_init(&peers[i], &peers[1 - i], true);
        assert_int_equal(amb_stream_create(fds[i], &link_peer_events, &peers[i], &peers[i].link),
                         AMB_OK);
    }
    /* Neither grows from here: the kernel doubles what it is asked for, or gives its own limit. */
    int near = send_buffer(tcp[0]);
    assert_true(near <= 2 * AMB_STREAM_NEAR_BUFFER);
    assert_int_equal(
        setsockopt(tcp[1], SOL_SOCKET, SO_SNDBUF, &(int){AMB_STREAM_NEAR_BUFFER}, sizeof(int)), 0);
    assert_int_equal(near, send_buffer(tcp[1]));
    assert_int_equal(send_buffer(local[0]), before);
    for (unsigned i = 0; i < 2; i++) {
        link_peer_close(&peers[i]);
        link_peer_fini(&peers[i]);
    }
    (void)close(tcp[1]);
    (void)close(local[1]);
}

/* One stream link, the broker's, and the raw other end of its socket. */
struct hostile {
    struct link_peer peer, nobody;
    int fd;
};

static int setup_hostile(void **state)
{
    struct hostile *hostile = calloc(1, sizeof(*hostile));
    int fds[2];
    assert_non_null(hostile);
    unix_pair(fds);
    link_peer_init(&hostile->peer, &hostile->nobody, true);
    link_peer_init(&hostile->nobody, &hostile->peer, false);
    hostile->fd = fds[0];
    assert_int_equal(
        amb_stream_create(fds[1], &link_peer_events, &hostile->peer, &hostile->peer.link), AMB_OK);
    *state = hostile;
    return 0;
}

static int teardown_hostile(void **state)
{
    struct hostile *hostile = *state;
    if (hostile->fd >= 0) {
        (void)close(hostile->fd);
    }
    if (hostile->peer.link != NULL) {
        link_peer_close(&hostile->peer);
    }
    link_peer_fini(&hostile->peer);
    link_peer_fini(&hostile->nobody);
    free(hostile);
    return 0;
}

static void write_all(struct hostile *hostile, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    while (len != 0) {
        ssize_t sent = send(hostile->fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)amb_link_poll(hostile->peer.link, 64);
        if (hostile->peer.downs != 0) {
            return;
        }
        if (sent > 0) {
            at += sent;
            len -= (size_t)sent;
        }
    }
    while (amb_link_poll(hostile->peer.link, 64) != 0) {
    }
}

static void write_unit_head(struct hostile *hostile, uint32_t kind, uint32_t len, uint64_t zero)
{
    uint32_t words[2] = {htole32(kind), htole32(len)};
    uint8_t head[16];
    memcpy(head, words, sizeof(words));
    memcpy(head + 8, &zero, sizeof(zero));
    write_all(hostile, head, sizeof(head));
}

/* A batch of body_len bytes, which the peer will expect. */
static void encode_batch(struct hostile *hostile, uint64_t body_len,
                         uint8_t head[AMB_FRAME_HEAD_SIZE])
{
    struct amb_frame frame = {.type = AMB_FRAME_BATCH,
                              .handle = 3,
                              .seq = 1,
                              .count = 1,
                              .meta_len = 16,
                              .data_len = body_len - 16};
    amb_frame_encode(&frame, head);
    struct link_peer *peer = &hostile->peer;
    peer->expected[peer->expected_tail++ % LINK_PEER_EXPECTED_MAX] =
        (struct link_peer_expected){.frame = frame};
}

static void expect_violation(struct hostile *hostile)
{
    assert_int_equal(hostile->peer.downs, 1);
    assert_int_equal(hostile->peer.down_status, AMB_EPROTO);
    /* The other end learns of it at once. */
    uint8_t byte;
    assert_true(recv(hostile->fd, &byte, 1, MSG_DONTWAIT) <= 0);
}

#define FRAME 1u
#define CHUNK 2u
#define FLOW 3u

static void test_unknown_unit_is_refused(void **state)
{
    static const uint32_t kinds[] = {0, 5, 255, UINT32_MAX};
    for (size_t n = 0; n < sizeof(kinds) / sizeof(kinds[0]); n++) {
        if (n != 0) {
            (void)teardown_hostile(state);
            (void)setup_hostile(state);
        }
        write_unit_head(*state, kinds[n], 16, 0);
        expect_violation(*state);
    }
}

static void test_unit_head_with_unknown_fields_is_refused(void **state)
{
    write_unit_head(*state, FLOW, 16, UINT64_C(1) << 40);
    expect_violation(*state);
}

static void test_impossible_lengths_are_refused(void **state)
{
    static const struct {
        uint32_t kind, len;
    } units[] = {
        {FRAME, 0},          {FRAME, 127},       {FRAME, 128 + AMB_STREAM_CHUNK + 1},
        {FRAME, UINT32_MAX}, {CHUNK, 1},         {CHUNK, 0},
        {CHUNK, UINT32_MAX}, {FLOW, 0},          {FLOW, 8},
        {FLOW, 257 * 16},    {FLOW, UINT32_MAX}, {FLOW, UINT32_MAX - 15},
    };
    for (size_t n = 0; n < sizeof(units) / sizeof(units[0]); n++) {
        if (n != 0) {
            (void)teardown_hostile(state);
            (void)setup_hostile(state);
        }
        write_unit_head(*state, units[n].kind, units[n].len, 0);
        expect_violation(*state);
    }
}

static void test_flow_of_no_counter_is_refused(void **state)
{
    static const uint32_t which[][2] = {
        {AMB_FLOW_KINDS, 0}, {UINT32_MAX, 0}, {0, AMB_HANDLES_MAX}, {1, UINT32_MAX}};
    for (size_t n = 0; n < sizeof(which) / sizeof(which[0]); n++) {
        if (n != 0) {
            (void)teardown_hostile(state);
            (void)setup_hostile(state);
        }
        uint32_t words[4] = {htole32(which[n][0]), htole32(which[n][1]), 1, 0};
        write_unit_head(*state, FLOW, 16, 0);
        write_all(*state, words, sizeof(words));
        expect_violation(*state);
        assert_int_equal(((struct hostile *)*state)->peer.flow_calls, 0);
    }
}

static void test_frame_inside_a_body_is_refused(void **state)
{
    struct hostile *hostile = *state;
    uint8_t head[AMB_FRAME_HEAD_SIZE];
    encode_batch(hostile, 4096, head);
    for (unsigned n = 0; n < 2; n++) {
        write_unit_head(hostile, FRAME, sizeof(head), 0);
        write_all(hostile, head, sizeof(head));
    }
    expect_violation(hostile);
    assert_int_equal(hostile->peer.bodies_given, 1);
    assert_int_equal(hostile->peer.bodies_failed, 1);
}

static void test_more_body_than_announced_is_refused(void **state)
{
    struct hostile *hostile = *state;
    uint8_t head[AMB_FRAME_HEAD_SIZE];
    encode_batch(hostile, 4096, head);
    write_unit_head(hostile, FRAME, sizeof(head) + 4112, 0);
    write_all(hostile, head, sizeof(head));
    expect_violation(hostile);
    assert_int_equal(hostile->peer.frames, 0);

    (void)teardown_hostile(state);
    (void)setup_hostile(state);
    hostile = *state;
    encode_batch(hostile, 4096, head);
    write_unit_head(hostile, FRAME, sizeof(head), 0);
    write_all(hostile, head, sizeof(head));
    write_unit_head(hostile, CHUNK, 4097, 0);
    expect_violation(hostile);
}

static void test_malformed_head_is_refused(void **state)
{
    uint8_t head[AMB_FRAME_HEAD_SIZE] = {0};
    write_unit_head(*state, FRAME, sizeof(head), 0);
    write_all(*state, head, sizeof(head));
    expect_violation(*state);
}

/* Units may arrive byte by byte, and a body in chunks of any size with flow values between. */
static void test_units_may_be_cut_anywhere(void **state)
{
    struct hostile *hostile = *state;
    uint8_t head[AMB_FRAME_HEAD_SIZE], body[4096];
    for (size_t n = 0; n < sizeof(body) / 8; n++) {
        uint64_t word = UINT64_C(0x9e3779b97f4a7c15) ^ ((n + 1) * UINT64_C(0xd1b54a32d192ed03));
        memcpy(body + n * 8, &word, 8);
    }
    encode_batch(hostile, sizeof(body), head);
    uint8_t bytes[16384];
    size_t used = 0;
    uint32_t unit[4] = {htole32(FRAME), htole32(sizeof(head)), 0, 0};
    memcpy(bytes, unit, sizeof(unit));
    memcpy(bytes + 16, head, sizeof(head));
    used = 16 + sizeof(head);
    for (size_t at = 0, part = 1; at < sizeof(body); at += part, part = part * 2 + 1) {
        part = part < sizeof(body) - at ? part : sizeof(body) - at;
        uint32_t flow[8] = {htole32(FLOW),
                            htole32(16),
                            0,
                            0,
                            htole32(AMB_FLOW_RELEASE),
                            htole32(9),
                            htole32((uint32_t)(at + part)),
                            0};
        uint32_t chunk[4] = {htole32(CHUNK), htole32((uint32_t)part), 0, 0};
        memcpy(bytes + used, flow, sizeof(flow));
        memcpy(bytes + used + sizeof(flow), chunk, sizeof(chunk));
        memcpy(bytes + used + sizeof(flow) + sizeof(chunk), body + at, part);
        used += sizeof(flow) + sizeof(chunk) + part;
    }
    for (size_t n = 0; n < used; n++) {
        write_all(hostile, bytes + n, 1);
    }
    assert_int_equal(hostile->peer.downs, 0);
    assert_int_equal(hostile->peer.bodies_ok, 1);
    assert_true(hostile->peer.flow_calls > 8);
}

/* So many bytes of it, from there on, in a unit of their own. */
static void write_part(struct hostile *hostile, const uint8_t *body, uint32_t at, uint32_t len)
{
    write_unit_head(hostile, CHUNK, len, 0);
    write_all(hostile, body + at, len);
}

static void test_a_body_goes_on_in_other_memory_or_nowhere(void **state)
{
    struct hostile *hostile = *state;
    uint8_t head[AMB_FRAME_HEAD_SIZE], body[4096];
    for (size_t n = 0; n < sizeof(body) / 8; n++) {
        uint64_t word = UINT64_C(0x9e3779b97f4a7c15) ^ ((n + 1) * UINT64_C(0xd1b54a32d192ed03));
        memcpy(body + n * 8, &word, 8);
    }
    assert_false(link_peer_move_body(&hostile->peer));
    for (unsigned round = 0; round < 2; round++) {
        encode_batch(hostile, sizeof(body), head);
        write_unit_head(hostile, FRAME, sizeof(head), 0);
        write_all(hostile, head, sizeof(head));
        for (uint32_t at = 0; at < sizeof(body); at += 1024) {
            assert_true(round == 0 || at > 1024 || link_peer_move_body(&hostile->peer));
            if (round == 0 && at == 2048) {
                assert_true(link_peer_drop_body(&hostile->peer));
            }
            write_part(hostile, body, at, 1024);
        }
        assert_int_equal(hostile->peer.bodies_failed, 1);
        assert_int_equal(hostile->peer.bodies_ok, round);
    }
    assert_int_equal(hostile->peer.downs, 0);
}

static void test_truncated_unit_is_a_lost_peer(void **state)
{
    struct hostile *hostile = *state;
    uint8_t head[AMB_FRAME_HEAD_SIZE];
    encode_batch(hostile, 4096, head);
    write_unit_head(hostile, FRAME, sizeof(head) + 1000, 0);
    write_all(hostile, head, sizeof(head));
    write_all(hostile, head, 100);
    (void)close(hostile->fd);
    hostile->fd = -1;
    while (amb_link_poll(hostile->peer.link, 64) != 0) {
    }
    assert_int_equal(hostile->peer.downs, 1);
    assert_int_equal(hostile->peer.down_status, AMB_ELOST);
    assert_int_equal(hostile->peer.bodies_failed, 1);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Random bytes, some of them behind a unit head that is right: down or not, never more. */
static void test_garbage_takes_the_link_down_and_nothing_else(void **state)
{
    uint64_t seed = UINT64_C(0x2545f4914f6cdd1d);
    for (unsigned round = 0; round < 300; round++) {
        uint8_t bytes[1024];
        struct hostile *hostile = *state;
        hostile->peer.flow_answer = AMB_OK;
        for (size_t n = 0; n < sizeof(bytes); n += 8) {
            uint64_t word = next_random(&seed);
            memcpy(bytes + n, &word, 8);
        }
        if (round % 2 == 0) {
            uint32_t unit[4] = {htole32(FRAME + 2 * (round / 2 % 2)), htole32(512), 0, 0};
            memcpy(bytes, unit, sizeof(unit));
        }
        write_all(hostile, bytes, sizeof(bytes));
        expect_violation(hostile);
        (void)teardown_hostile(state);
        (void)setup_hostile(state);
    }
}

static void test_budget_bounds_one_poll(void **state)
{
    struct hostile *hostile = *state;
    uint8_t bytes[64 * 32];
    for (uint32_t n = 0; n < 64; n++) {
        uint32_t flow[8] = {htole32(FLOW), htole32(16), 0, 0, 0, htole32(n), htole32(7), 0};
        memcpy(bytes + (size_t)n * sizeof(flow), flow, sizeof(flow));
    }
    assert_int_equal(send(hostile->fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
    for (unsigned n = 0; n < 3; n++) {
        uint64_t before = hostile->peer.flow_calls;
        assert_true(amb_link_poll(hostile->peer.link, 10) <= 10);
        assert_true(hostile->peer.flow_calls - before <= 10);
        assert_false(amb_link_arm(hostile->peer.link, true));
    }
    while (amb_link_poll(hostile->peer.link, 10) != 0) {
    }
    assert_int_equal(hostile->peer.flow_calls, 64);
    assert_true(amb_link_arm(hostile->peer.link, true));
}

static void test_a_link_is_dry_when_all_that_came_was_read(void **state)
{
    struct hostile *hostile = *state;
    uint32_t flow[8] = {htole32(FLOW), htole32(16), 0, 0, 0, htole32(1), htole32(7), 0};
    uint8_t bytes[4 * sizeof(flow)];
    for (size_t n = 0; n < 4; n++) {
        memcpy(bytes + n * sizeof(flow), flow, sizeof(flow));
    }
    assert_int_equal(send(hostile->fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
    (void)amb_link_poll(hostile->peer.link, 2);
    assert_false(hostile->peer.link->is_dry); /* The bytes read are not yet told. */
    (void)amb_link_poll(hostile->peer.link, 100);
    assert_int_equal(hostile->peer.flow_calls, 4);
    assert_true(hostile->peer.link->is_dry);
}

static void test_the_end_behind_the_last_bytes_is_seen_before_sleeping(void **state)
{
    struct hostile *hostile = *state;
    uint32_t flow[8] = {htole32(FLOW), htole32(16), 0, 0, 0, htole32(1), htole32(7), 0};
    assert_int_equal(send(hostile->fd, flow, sizeof(flow), MSG_NOSIGNAL), sizeof(flow));
    assert_int_equal(close(hostile->fd), 0);
    hostile->fd = -1;
    (void)amb_link_poll(hostile->peer.link, 100);
    assert_int_equal(hostile->peer.flow_calls, 1);
    assert_false(amb_link_arm(hostile->peer.link, true));
    (void)amb_link_poll(hostile->peer.link, 100);
    assert_true(hostile->peer.link->is_down);
}

/* A waiter that is told of the end apart from data need not read once more. */
static void test_a_short_read_is_enough_where_the_end_is_heard(void **state)
{
    struct hostile *hostile = *state;
    struct amb_link *link = hostile->peer.link;
    uint32_t flow[8] = {htole32(FLOW), htole32(16), 0, 0, 0, htole32(1), htole32(7), 0};
    assert_int_equal(send(hostile->fd, flow, sizeof(flow), MSG_NOSIGNAL), sizeof(flow));
    (void)amb_link_poll(link, 100);
    assert_true(link->is_dry);
    assert_false(amb_link_arm(link, true));
    link->hears_end = true;
    assert_true(amb_link_arm(link, true));
    amb_link_disarm(link);
    link->hears_end = false; /* It was told of the end. */
    assert_false(amb_link_arm(link, true));
    (void)amb_link_poll(link, 100);
    assert_true(amb_link_arm(link, true));
}

static bool has_event(const struct amb_link *link, short events)
{
    struct pollfd one = {.fd = amb_link_fd(link), .events = events};
    return poll(&one, 1, 0) == 1;
}

static void test_a_link_rests_without_a_read_that_finds_nothing(void **state)
{
    struct hostile *hostile = *state;
    struct amb_link *link = hostile->peer.link;
    uint32_t flow[8] = {htole32(FLOW), htole32(16), 0, 0, 0, htole32(1), htole32(7), 0};
    short events = 0;
    for (unsigned n = 0; n < 4; n++) {
        assert_int_equal(send(hostile->fd, flow, sizeof(flow), MSG_NOSIGNAL), sizeof(flow));
    }
    /* Unread bytes end the wait; units that were read and not told prevent it. */
    assert_true(amb_link_rest(link, &events));
    assert_int_equal(events, POLLIN);
    assert_true(has_event(link, events));
    (void)amb_link_poll(link, 2);
    assert_false(amb_link_rest(link, &events));
    (void)amb_link_poll(link, 100);
    assert_int_equal(hostile->peer.flow_calls, 4);
    assert_true(amb_link_rest(link, &events));
    assert_false(has_event(link, events));
    /* The end behind the last bytes is an event of its own. */
    assert_int_equal(send(hostile->fd, flow, sizeof(flow), MSG_NOSIGNAL), sizeof(flow));
    assert_int_equal(close(hostile->fd), 0);
    hostile->fd = -1;
    (void)amb_link_poll(link, 100);
    assert_int_equal(hostile->peer.flow_calls, 5);
    assert_true(amb_link_rest(link, &events) && has_event(link, events));
    (void)amb_link_poll(link, 100);
    assert_true(link->is_down);
    assert_false(amb_link_rest(link, &events));
}

static void test_a_link_that_could_not_send_all_waits_for_room(void **state)
{
    struct link_peer peers[2];
    struct link_suite_pair pair = {0};
    void *args[2] = {&peers[0], &peers[1]};
    short events = 0;
    (void)state;
    link_peer_init(&peers[0], &peers[1], true);
    link_peer_init(&peers[1], &peers[0], false);
    make_narrow(&pair, &link_peer_events, args);
    peers[0].link = pair.end[0];
    peers[1].link = pair.end[1];
    assert_int_equal(link_peer_send(&peers[0], link_peer_type(&peers[0], 0), 1 << 20), AMB_EAGAIN);
    amb_link_flush(peers[0].link);
    assert_true(amb_link_rest(peers[0].link, &events));
    assert_int_equal(events, POLLIN | POLLOUT);
    assert_false(has_event(peers[0].link, events));
    while (!has_event(peers[0].link, events)) {
        assert_true(amb_link_poll(peers[1].link, 100) != 0);
    }
    while (peers[0].link->queued != 0) {
        (void)amb_link_poll(peers[0].link, 100);
        (void)amb_link_poll(peers[1].link, 100);
    }
    assert_true(amb_link_rest(peers[0].link, &events));
    assert_int_equal(events, POLLIN);
    for (unsigned i = 0; i < 2; i++) {
        link_peer_close(&peers[i]);
        link_peer_fini(&peers[i]);
    }
}

/* A thread in poll(2) keeps a closed socket open: the end must reach both sides all the same. */
static void test_close_is_heard_by_the_peer_and_by_a_sleeper(void **state)
{
    struct hostile *hostile = *state;
    uint8_t byte;
    int kept = dup(amb_link_fd(hostile->peer.link));
    assert_true(kept >= 0);
    link_peer_close(&hostile->peer);
    assert_int_equal(recv(hostile->fd, &byte, 1, 0), 0);
    struct pollfd sleeper = {.fd = kept, .events = POLLIN};
    assert_int_equal(poll(&sleeper, 1, 0), 1);
    (void)close(kept);
}

static void test_closed_descriptor_is_refused(void **state)
{
    struct amb_link *link = NULL;
    (void)state;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(close(fd), 0);
    assert_int_not_equal(amb_stream_create(fd, &link_peer_events, NULL, &link), AMB_OK);
    assert_null(link);
}

#define HOSTILE(test) cmocka_unit_test_setup_teardown(test, setup_hostile, teardown_hostile)

int main(void)
{
    static const struct link_suite_factory tcp = {.name = "stream, tcp",
                                                  .make = make_tcp,
                                                  .delivers_before_down = true,
                                                  .flow_overtakes = true};
    static const struct link_suite_factory narrow = {.name = "stream, narrow unix socket",
                                                     .make = make_narrow,
                                                     .delivers_before_down = true,
                                                     .flow_overtakes = true};
    const struct CMUnitTest tests[] = {
        HOSTILE(test_unknown_unit_is_refused),
        HOSTILE(test_unit_head_with_unknown_fields_is_refused),
        HOSTILE(test_impossible_lengths_are_refused),
        HOSTILE(test_flow_of_no_counter_is_refused),
        HOSTILE(test_frame_inside_a_body_is_refused),
        HOSTILE(test_more_body_than_announced_is_refused),
        HOSTILE(test_malformed_head_is_refused),
        HOSTILE(test_units_may_be_cut_anywhere),
        HOSTILE(test_a_body_goes_on_in_other_memory_or_nowhere),
        HOSTILE(test_truncated_unit_is_a_lost_peer),
        HOSTILE(test_garbage_takes_the_link_down_and_nothing_else),
        HOSTILE(test_budget_bounds_one_poll),
        HOSTILE(test_a_link_is_dry_when_all_that_came_was_read),
        HOSTILE(test_the_end_behind_the_last_bytes_is_seen_before_sleeping),
        HOSTILE(test_a_short_read_is_enough_where_the_end_is_heard),
        HOSTILE(test_a_link_rests_without_a_read_that_finds_nothing),
        HOSTILE(test_close_is_heard_by_the_peer_and_by_a_sleeper),
        cmocka_unit_test(test_a_link_that_could_not_send_all_waits_for_room),
        cmocka_unit_test(test_closed_descriptor_is_refused),
        cmocka_unit_test(test_little_waits_in_the_kernel_for_a_peer_on_the_same_host),
    };
    return link_suite_run(&tcp) + link_suite_run(&narrow) +
           cmocka_run_group_tests_name("stream, hostile peer", tests, NULL, NULL);
}
