/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream link over TLS: the suite of all links, through sockets with much room and with little.
 * Then the particulars of TLS: when frames are settled, sleeping, rest, and bytes of somebody else.
 */
#include "tests/support/link/link_peer.h"
#include "tests/support/link/link_suite.h"
#include "tests/support/tls/tls_made.h"
#include "tests/support/tls/tls_two.h"
#include "wire/link/stream/stream.h"
#include "wire/link/stream/stream_state.h"
#include "wire/tls/tls_io.h"
#include "wire/tls/tls_state.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

/* A Unix socket holds that at least: everything is cut everywhere. */
#define NARROW 20000

static struct tls_made made;
static struct amb_tls_context *server, *client;

static const struct amb_tls_wish wish = {.alpn = AMB_TLS_ALPN_LINK, .name = "localhost"};

static void make_links(struct tls_two *two, struct link_suite_pair *pair,
                       const struct amb_link_events *events, void *args[2])
{
    tls_two_dress(two, server, client, &wish);
    tls_two_shake(two);
    assert_int_equal(two->client_status, AMB_OK);
    assert_int_equal(two->broker_status, AMB_OK);
    assert_int_equal(
        amb_stream_create_tls(two->client_fd, two->client, events, args[0], &pair->end[0]), AMB_OK);
    assert_int_equal(
        amb_stream_create_tls(two->broker_fd, two->broker, events, args[1], &pair->end[1]), AMB_OK);
}

static void make_wide(struct link_suite_pair *pair, const struct amb_link_events *events,
                      void *args[2])
{
    struct tls_two two;
    tls_two_connect(&two);
    make_links(&two, pair, events, args);
}

static void make_narrow(struct link_suite_pair *pair, const struct amb_link_events *events,
                        void *args[2])
{
    struct tls_two two;
    tls_two_connect_narrow(&two, NARROW);
    make_links(&two, pair, events, args);
}

/* Two links, each with its recorder. */
struct ends {
    struct link_peer peer[2]; /* 0: the client's */
};

static int set_up(void **state, bool is_wide)
{
    struct ends *ends = calloc(1, sizeof(*ends));
    struct link_suite_pair pair = {.state = NULL};
    assert_non_null(ends);
    link_peer_init(&ends->peer[0], &ends->peer[1], false);
    link_peer_init(&ends->peer[1], &ends->peer[0], true);
    void *args[2] = {&ends->peer[0], &ends->peer[1]};
    (is_wide ? make_wide : make_narrow)(&pair, &link_peer_events, args);
    ends->peer[0].link = pair.end[0];
    ends->peer[1].link = pair.end[1];
    *state = ends;
    return 0;
}

static int setup(void **state)
{
    return set_up(state, false);
}

static int setup_wide(void **state)
{
    return set_up(state, true);
}

static int teardown(void **state)
{
    struct ends *ends = *state;
    for (unsigned i = 0; i < 2; i++) {
        if (ends->peer[i].link != NULL) {
            link_peer_close(&ends->peer[i]);
        }
    }
    link_peer_fini(&ends->peer[0]);
    link_peer_fini(&ends->peer[1]);
    free(ends);
    return 0;
}

static struct stream *stream_of(const struct link_peer *peer)
{
    return AMB_CONTAINER_OF(peer->link, struct stream, link);
}

static void send_frame(struct link_peer *peer, uint64_t body)
{
    (void)link_peer_send(peer, link_peer_type(peer, 0), body);
}

/* Records that are not in the socket are lost with the link, so they are not sent yet. */
static void test_a_frame_is_settled_when_its_last_record_is_in_the_socket(void **state)
{
    struct ends *ends = *state;
    struct link_peer *from = &ends->peer[0], *to = &ends->peer[1];
    /* So much that the buffer of records holds all of the frames, and the socket does not. */
    for (unsigned i = 0; i < 12; i++) {
        send_frame(from, 16384);
    }
    amb_link_flush(from->link);
    assert_true(amb_tls_has_unsent(stream_of(from)->tls));
    assert_true(amb_list_is_empty(&stream_of(from)->queue));
    assert_int_equal(from->settled_ok, 0);
    assert_int_equal(from->link->queued, 12);
    assert_true(from->link->is_blocked);
    while (from->settled_ok < 12) {
        (void)amb_link_poll(to->link, 64);
        (void)amb_link_poll(from->link, 64);
    }
    assert_int_equal(from->link->queued_bytes, 0);
    while (!link_peer_has_all(to)) {
        (void)amb_link_poll(to->link, 64);
    }
    assert_int_equal(from->link->stats.frames_sent, 12);
}

static void test_frames_under_way_are_given_back_when_the_link_closes(void **state)
{
    struct ends *ends = *state;
    struct link_peer *from = &ends->peer[0];
    for (unsigned i = 0; i < 40; i++) {
        send_frame(from, 16384);
    }
    amb_link_flush(from->link);
    assert_false(amb_list_is_empty(&stream_of(from)->flying));
    link_peer_close(from);
    assert_int_equal(from->settled_canceled, 40);
}

static void sleeps(struct link_peer *peer)
{
    while (!amb_link_arm(peer->link, true)) {
        (void)amb_link_poll(peer->link, 64);
    }
}

/* A turn's budget may end while libssl or the buffer has more: the socket tells of none of it. */
static void test_a_link_with_bytes_in_hand_does_not_sleep(void **state)
{
    struct ends *ends = *state;
    struct link_peer *from = &ends->peer[0], *to = &ends->peer[1];
    short events;
    for (unsigned i = 0; i < 50; i++) {
        send_frame(from, 16);
    }
    amb_link_flush(from->link);
    tls_two_await(amb_link_fd(to->link));
    (void)poll(NULL, 0, 20);
    uint64_t seen = 0;
    while (to->frames < 50) {
        assert_false(amb_link_arm(to->link, false));
        assert_true(amb_link_poll(to->link, 3) != 0);
        assert_true(to->frames > seen || to->frames == 0);
        seen = to->frames;
        if (to->frames < 50) {
            assert_false(amb_link_rest(to->link, &events));
        }
    }
    sleeps(to);
    assert_true(amb_link_rest(to->link, &events));
    assert_int_equal(events, POLLIN);
}

static void test_a_link_at_rest_gives_back_its_memory_and_works_again(void **state)
{
    struct ends *ends = *state;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 2; i++) {
            send_frame(&ends->peer[i], 100000);
        }
        while (!link_peer_has_all(&ends->peer[0]) || !link_peer_has_all(&ends->peer[1]) ||
               ends->peer[0].link->queued + ends->peer[1].link->queued != 0) {
            for (unsigned i = 0; i < 2; i++) {
                amb_link_flush(ends->peer[i].link);
                (void)amb_link_poll(ends->peer[i].link, 64);
            }
        }
        sleeps(&ends->peer[0]);
        (void)amb_link_trim(ends->peer[0].link);
        assert_true(amb_link_trim(ends->peer[0].link));
        assert_false(amb_link_trim(ends->peer[0].link));
    }
}

static void test_bytes_that_are_not_the_peers_take_the_link_down(void **state)
{
    struct ends *ends = *state;
    struct link_peer *to = &ends->peer[1];
    static const uint8_t forged[] = {23, 3,  3,  0,  32, 1,  2,  3,  4,  5,  6,  7,  8,
                                     9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                     22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};
    assert_int_equal(send(amb_link_fd(ends->peer[0].link), forged, sizeof(forged), MSG_NOSIGNAL),
                     sizeof(forged));
    tls_two_await(amb_link_fd(to->link));
    while (to->downs == 0) {
        (void)amb_link_poll(to->link, 64);
    }
    assert_int_equal(to->down_status, AMB_ELOST);
    assert_int_equal(to->frames, 0);
}

/* The socket is empty then, and will not tell of anything. */
static void test_a_forged_record_behind_a_frame_is_not_slept_on(void **state)
{
    struct ends *ends = *state;
    struct link_peer *from = &ends->peer[0], *to = &ends->peer[1];
    static const uint8_t forged[40] = {23, 3, 3, 0, 35};
    short events;
    send_frame(from, 16);
    amb_link_flush(from->link);
    assert_int_equal(send(amb_link_fd(from->link), forged, sizeof(forged), MSG_NOSIGNAL),
                     sizeof(forged));
    tls_two_await(amb_link_fd(to->link));
    (void)poll(NULL, 0, 20);
    to->link->hears_end = true;
    assert_true(amb_link_poll(to->link, 64) != 0);
    assert_int_equal(to->frames, 1);
    for (unsigned turns = 0; to->downs == 0; turns++) {
        assert_true(turns < 3);
        assert_false(to->link->is_dry);
        assert_false(amb_link_arm(to->link, false));
        assert_false(amb_link_rest(to->link, &events));
        (void)amb_link_poll(to->link, 64);
    }
    assert_int_equal(to->down_status, AMB_ELOST);
}

/* The peer asks for new keys, and sends a frame behind that. */
static void ask_for_keys(struct link_peer *from, struct link_peer *to)
{
    SSL *ssl = stream_of(from)->tls->ssl;
    SSL_set_msg_callback(ssl, NULL);                   /* So many answers are no flood. */
    stream_of(to)->tls->heard_bytes = TLS_REKEY_APART; /* As if it had sent so much. */
    assert_int_equal(SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    assert_int_equal(SSL_do_handshake(ssl), 1);
    send_frame(from, 16);
    amb_link_flush(from->link);
    assert_int_equal(from->link->queued, 0);
    tls_two_await(amb_link_fd(to->link));
}

/* Fills the socket with bytes that are nobody's, and then the buffer of records. Returns how many
 * of the former there are. */
static size_t fill_all(struct link_peer *peer)
{
    static const uint8_t bytes[1000];
    size_t len = 0;
    ssize_t sent;
    while ((sent = send(amb_link_fd(peer->link), bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        len += (size_t)sent;
    }
    for (unsigned i = 0; i < 20; i++) {
        send_frame(peer, 16384);
    }
    amb_link_flush(peer->link);
    assert_true(peer->link->is_blocked);
    return len;
}

static void take_out(const struct link_peer *peer, size_t len)
{
    uint8_t bytes[1000];
    while (len != 0) {
        ssize_t got = recv(amb_link_fd(peer->link), bytes, len < 1000 ? len : 1000, 0);
        assert_true(got > 0);
        len -= (size_t)got;
    }
}

/* The peer does not read, and asks for new keys: libssl answers before it reads on. */
static void test_what_waits_behind_an_answer_is_read_when_there_is_room(void **state)
{
    struct ends *ends = *state;
    struct link_peer *from = &ends->peer[0], *to = &ends->peer[1];
    size_t len = fill_all(to);
    uint64_t frames;
    do {
        frames = to->frames;
        assert_true(frames < 20);
        ask_for_keys(from, to);
        for (unsigned i = 0; i < 3; i++) {
            (void)amb_link_poll(to->link, 64);
        }
    } while (to->frames != frames);
    assert_int_equal(to->downs, 0);
    assert_true(amb_link_arm(to->link, true)); /* Until there is room, it sleeps. */
    take_out(from, len);
    assert_int_equal(
        setsockopt(amb_link_fd(to->link), SOL_SOCKET, SO_SNDBUF, &(int){1 << 20}, sizeof(int)), 0);
    bool has_edge = true; /* There is room now, and of the rest nobody will tell. */
    for (unsigned i = 0; has_edge || to->link->is_blocked; i++) {
        assert_true(i < 1000);
        (void)amb_link_poll(from->link, 64);
        has_edge = amb_link_poll(to->link, 64) != 0 && !to->link->is_dry;
    }
    assert_int_equal(to->frames, frames + 1);
    assert_int_equal(to->downs, 0);
}

static void test_it_says_that_it_is_tls(void **state)
{
    const struct ends *ends = *state;
    char text[80];
    amb_link_describe(ends->peer[0].link, text, sizeof(text));
    assert_non_null(strstr(text, "stream tls 127.0.0.1:"));
}

int main(void)
{
    static const struct link_suite_factory factories[] = {
        {.name = "stream over TLS",
         .make = make_wide,
         .delivers_before_down = true,
         .flow_overtakes = true},
        {.name = "stream over TLS, little room",
         .make = make_narrow,
         .delivers_before_down = true,
         .flow_overtakes = true},
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_a_frame_is_settled_when_its_last_record_is_in_the_socket, setup, teardown),
        cmocka_unit_test_setup_teardown(test_frames_under_way_are_given_back_when_the_link_closes,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_link_with_bytes_in_hand_does_not_sleep, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_link_at_rest_gives_back_its_memory_and_works_again,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_bytes_that_are_not_the_peers_take_the_link_down, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_forged_record_behind_a_frame_is_not_slept_on, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_what_waits_behind_an_answer_is_read_when_there_is_room,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_it_says_that_it_is_tls, setup_wide, teardown),
    };
    tls_made_ends(&made, "localhost", &server, &client);
    int failed = link_suite_run(&factories[0]) + link_suite_run(&factories[1]) +
                 cmocka_run_group_tests_name("stream over TLS alone", tests, NULL, NULL);
    tls_made_ends_fini(&made, &server, &client);
    return failed;
}
