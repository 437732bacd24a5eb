/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handshakers: honest clients come through, in whatever company. Strangers, silent ones and those
 * that are evicted are closed and counted. Each comes back. The test is the door and the control
 * thread.
 */
#include "broker/tls/handshaker.h"

#include "tests/support/tls/tls_made.h"
#include "tests/support/tls/tls_two.h"
#include "wire/base/clock.h"
#include "wire/tls/tls.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_NS (20 * AMB_NS_PER_SEC)
#define MANY 20u
#define PEERS 6u
#define STEPS 1000u

static struct tls_made made;
static struct amb_tls_context *server, *client;

/* A client of the random sequences. */
struct peer {
    int fd;                        /* -1: the place is free */
    struct amb_handshake_way *way; /* NULL: it has come back, or is evicted */
    bool has_spoken;
};

struct desk {
    struct amb_inbox inbox;
    struct amb_handshakers all;
    struct amb_handshake_way *given; /* the last one */
    struct peer *peers;              /* NULL: nobody looks */
    unsigned begun, done, closed;
};

/* Each handshake that has begun is half open, or has ended in one way. */
static void expect_sum(const struct desk *desk)
{
    const struct amb_handshake_stats *stats = &desk->all.stats;
    uint64_t sum = desk->all.half_open;
    for (unsigned i = 0; i < AMB_HANDSHAKE_ENDS; i++) {
        sum += stats->ended[i];
    }
    assert_int_equal(sum, desk->begun);
    assert_int_equal(stats->ended[AMB_HANDSHAKE_DONE], desk->done);
}

static void forget(const struct desk *desk, const struct amb_handshake_way *way)
{
    for (unsigned i = 0; desk->peers != NULL && i < PEERS; i++) {
        if (desk->peers[i].way == way) {
            desk->peers[i].way = NULL;
        }
    }
}

static void on_end(struct amb_mail *mail, void *owner)
{
    struct desk *desk = owner;
    struct amb_handshake_way *way = AMB_CONTAINER_OF(mail, struct amb_handshake_way, mail);
    assert_int_equal(way->from.ss_family, AF_INET);
    assert_false(way->is_evicted);
    if (way->fd >= 0) {
        assert_int_equal(amb_tls_agreed(way->tls), AMB_TLS_ALPN_CONTROL);
        desk->done++;
    } else {
        assert_null(way->tls);
        desk->closed++;
    }
    forget(desk, way);
    amb_handshake_way_close(way);
}

static void open_desk(struct desk *desk, unsigned threads)
{
    memset(desk, 0, sizeof(*desk));
    assert_int_equal(amb_inbox_init(&desk->inbox, desk), AMB_OK);
    assert_int_equal(amb_handshakers_start(&desk->all, threads, &desk->inbox, on_end), AMB_OK);
}

static void close_desk(struct desk *desk)
{
    amb_handshakers_stop(&desk->all);
    (void)amb_inbox_run(&desk->inbox);
    assert_int_equal(desk->all.half_open, 0);
    assert_int_equal(desk->all.closing, 0);
    expect_sum(desk);
    amb_handshakers_stop(&desk->all);
    amb_inbox_fini(&desk->inbox);
}

/* Gives the broker's end of a fresh connection away; returns the client's. */
static int give(struct desk *desk, int64_t timeout_ns)
{
    struct tls_two two;
    struct sockaddr_storage from = {.ss_family = AF_INET};
    tls_two_connect(&two);
    desk->begun++;
    desk->given = amb_handshakers_give(&desk->all, two.broker_fd, &from, server,
                                       amb_clock_monotonic_ns() + timeout_ns);
    return two.client_fd;
}

/* A thread has posted mail, which is not run. */
static void await_mail(struct desk *desk)
{
    struct pollfd bell = {.fd = desk->inbox.bell, .events = POLLIN};
    if (amb_inbox_arm(&desk->inbox)) {
        assert_int_equal(poll(&bell, 1, (int)(PATIENCE_NS / AMB_NS_PER_MS)), 1);
        amb_inbox_disarm(&desk->inbox, true);
    }
}

static uint64_t ended(const struct desk *desk, enum amb_handshake_end end)
{
    return desk->all.stats.ended[end];
}

/* Runs mail until so many have ended so. */
static void await_ended(struct desk *desk, enum amb_handshake_end end, uint64_t count)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + PATIENCE_NS;
    while (ended(desk, end) < count) {
        await_mail(desk);
        (void)amb_inbox_run(&desk->inbox);
        assert_true(amb_clock_monotonic_ns() < deadline_ns);
    }
    assert_int_equal(ended(desk, end), count);
    expect_sum(desk);
}

/* desk: whose mail is run; NULL: nobody's. */
static void shake(struct desk *desk, int fd)
{
    struct amb_tls *tls = NULL;
    short events = 0;
    enum amb_status status;
    assert_int_equal(
        amb_tls_create_connecting(client, fd, &(struct amb_tls_wish){.name = "localhost"}, &tls),
        AMB_OK);
    while ((status = amb_tls_step(tls, &events)) == AMB_EAGAIN) {
        if (desk != NULL) {
            (void)amb_inbox_run(&desk->inbox);
        }
        tls_two_await(fd);
    }
    assert_int_equal(status, AMB_OK);
    amb_tls_destroy(&tls);
}

static bool is_closed(int fd)
{
    uint8_t byte;
    tls_two_await(fd);
    return recv(fd, &byte, 1, 0) <= 0;
}

static void test_honest_clients_come_through(void **state)
{
    (void)state;
    struct desk desk;
    open_desk(&desk, 2);
    int fds[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        fds[i] = give(&desk, PATIENCE_NS);
    }
    for (unsigned i = MANY; i > 0; i--) { /* The last to come are the first to speak. */
        shake(&desk, fds[i - 1]);
    }
    await_ended(&desk, AMB_HANDSHAKE_DONE, MANY);
    assert_int_equal(ended(&desk, AMB_HANDSHAKE_FAILED), 0);
    for (unsigned i = 0; i < MANY; i++) {
        (void)close(fds[i]);
    }
    close_desk(&desk);
}

static void test_strangers_and_those_that_go_are_counted(void **state)
{
    (void)state;
    struct desk desk;
    open_desk(&desk, 1);
    int plain = give(&desk, PATIENCE_NS), broken = give(&desk, PATIENCE_NS);
    int gone = give(&desk, PATIENCE_NS);
    assert_int_equal(send(plain, "GET / HTTP/1.1\r\n", 16, MSG_NOSIGNAL), 16);
    assert_int_equal(send(broken, "\x16\x03\x01\x00\x04oops", 9, MSG_NOSIGNAL), 9);
    (void)close(gone);
    await_ended(&desk, AMB_HANDSHAKE_PLAIN, 1);
    await_ended(&desk, AMB_HANDSHAKE_FAILED, 2);
    assert_int_equal(desk.closed, 3);
    assert_true(is_closed(plain));
    assert_int_equal(desk.done, 0);
    (void)close(plain);
    (void)close(broken);
    close_desk(&desk);
}

static void test_silence_ends_at_the_deadline(void **state)
{
    (void)state;
    struct desk desk;
    open_desk(&desk, 1);
    int64_t began_ns = amb_clock_monotonic_ns();
    int patient = give(&desk, PATIENCE_NS), silent = give(&desk, 50 * AMB_NS_PER_MS);
    int half = give(&desk, 100 * AMB_NS_PER_MS);
    assert_int_equal(send(half, "\x16\x03", 2, MSG_NOSIGNAL), 2);
    await_ended(&desk, AMB_HANDSHAKE_LATE, 2);
    assert_true(amb_clock_monotonic_ns() - began_ns >= 100 * AMB_NS_PER_MS);
    assert_true(is_closed(silent));
    assert_true(is_closed(half));
    shake(&desk, patient); /* Nobody else was hurt. */
    await_ended(&desk, AMB_HANDSHAKE_DONE, 1);
    (void)close(patient);
    (void)close(silent);
    (void)close(half);
    close_desk(&desk);
}

static void test_an_eviction_closes_its_connection_and_no_other(void **state)
{
    (void)state;
    struct desk desk;
    open_desk(&desk, 2);
    struct amb_handshake_way *ways[4];
    int fds[4];
    for (unsigned i = 0; i < 4; i++) {
        fds[i] = give(&desk, PATIENCE_NS);
        ways[i] = desk.given;
        assert_non_null(ways[i]);
    }
    assert_ptr_not_equal(ways[0]->handshaker, ways[1]->handshaker); /* They take turns. */
    amb_handshakers_evict(ways[1]);
    amb_handshakers_evict(ways[2]);
    assert_int_equal(desk.all.closing, 2);
    await_ended(&desk, AMB_HANDSHAKE_EVICTED, 2);
    assert_true(is_closed(fds[1]));
    assert_true(is_closed(fds[2]));
    shake(&desk, fds[0]);
    shake(&desk, fds[3]);
    await_ended(&desk, AMB_HANDSHAKE_DONE, 2);
    assert_int_equal(desk.closed, 0);
    for (unsigned i = 0; i < 4; i++) {
        (void)close(fds[i]);
    }
    close_desk(&desk);
}

/* The control thread evicts connections before it hears that one is through, and one closed. */
static void test_an_eviction_may_come_too_late(void **state)
{
    (void)state;
    struct desk desk;
    open_desk(&desk, 1);
    int through = give(&desk, PATIENCE_NS);
    struct amb_handshake_way *through_way = desk.given;
    int plain = give(&desk, PATIENCE_NS);
    shake(NULL, through);
    await_mail(&desk);
    assert_int_equal(send(plain, "GET / HTTP/1.1\r\n", 16, MSG_NOSIGNAL), 16);
    assert_true(is_closed(plain));
    amb_handshakers_evict(through_way);
    amb_handshakers_evict(desk.given);
    await_ended(&desk, AMB_HANDSHAKE_EVICTED, 1);
    uint8_t byte;
    while (recv(through, &byte, 1, 0) > 0) { /* The broker's half of the handshake. */
        tls_two_await(through);
    }
    (void)close(through);
    (void)close(plain);
    close_desk(&desk); /* Both are freed. */
    assert_int_equal(desk.done + desk.closed, 0);
    assert_int_equal(ended(&desk, AMB_HANDSHAKE_EVICTED), 1);
    assert_int_equal(ended(&desk, AMB_HANDSHAKE_PLAIN), 1); /* It had ended so before. */
}

static atomic_bool is_held;

static void hold(struct amb_mail *mail, void *owner)
{
    (void)mail, (void)owner;
    while (atomic_load(&is_held)) {
        (void)poll(NULL, 0, 1);
    }
}

/* A crowd comes faster than handshakes are done. Those that are given up cost no signature. */
static void test_no_handshake_is_done_for_one_that_is_evicted(void **state)
{
    (void)state;
    struct desk desk;
    struct amb_mail held;
    struct amb_tls *tls = NULL;
    short events = 0;
    uint8_t byte;
    open_desk(&desk, 1);
    atomic_store(&is_held, true);
    amb_mail_post(&desk.all.threads[0].inbox, &held, hold);
    int fd = give(&desk, PATIENCE_NS);
    assert_int_equal(
        amb_tls_create_connecting(client, fd, &(struct amb_tls_wish){.name = "localhost"}, &tls),
        AMB_OK);
    assert_int_equal(amb_tls_step(tls, &events), AMB_EAGAIN); /* It has said hello. */
    amb_handshakers_evict(desk.given);
    atomic_store(&is_held, false);
    await_ended(&desk, AMB_HANDSHAKE_EVICTED, 1);
    tls_two_await(fd);
    assert_true(recv(fd, &byte, 1, 0) <= 0); /* The end, and no answer before. */
    amb_tls_destroy(&tls);
    (void)close(fd);
    close_desk(&desk);
    assert_int_equal(ended(&desk, AMB_HANDSHAKE_EVICTED), 1);
    assert_int_equal(desk.done + desk.closed, 0);
}

static void test_an_end_closes_what_is_under_way(void **state)
{
    (void)state;
    struct desk desk;
    open_desk(&desk, 4);
    int fds[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        fds[i] = give(&desk, PATIENCE_NS);
    }
    close_desk(&desk);
    for (unsigned i = 0; i < MANY; i++) {
        assert_true(is_closed(fds[i]));
        (void)close(fds[i]);
    }
    int late = give(&desk, PATIENCE_NS); /* There are no threads any more. */
    assert_true(is_closed(late));
    (void)close(late);
}

/* ---- random sequences ---- */

/* A xorshift generator: the same numbers each time. */
static unsigned next_random(unsigned below)
{
    static uint64_t state = 0x2545f4914f6cdd1d;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state % below);
}

/* Handshakes as well as it can: the broker may close it meanwhile. No mail is run. */
static void try_to_shake(int fd)
{
    struct amb_tls *tls = NULL;
    short events = 0;
    assert_int_equal(
        amb_tls_create_connecting(client, fd, &(struct amb_tls_wish){.name = "localhost"}, &tls),
        AMB_OK);
    while (amb_tls_step(tls, &events) == AMB_EAGAIN) {
        tls_two_await(fd);
    }
    amb_tls_destroy(&tls);
}

static void hang_up(struct peer *peer)
{
    (void)close(peer->fd);
    peer->fd = -1; /* The broker hears of it, and the way comes back. */
    peer->way = NULL;
}

static void act(struct desk *desk, struct peer *peer)
{
    static const char plain[] = "GET / HTTP/1.1\r\n", broken[] = "\x16\x03\x01\x00\x04oops";
    if (peer->fd < 0) {
        peer->fd = give(desk, next_random(8) == 0 ? AMB_NS_PER_MS : PATIENCE_NS);
        peer->way = desk->given;
        peer->has_spoken = false;
        return;
    }
    /* Nobody answers a second handshake while mail of the first is there. */
    unsigned first = peer->has_spoken ? 3 : 0;
    peer->has_spoken = true;
    switch (first + next_random(6 - first)) {
    case 0:
        try_to_shake(peer->fd);
        break;
    case 1:
        (void)!send(peer->fd, plain, sizeof(plain) - 1, MSG_NOSIGNAL);
        break;
    case 2:
        (void)!send(peer->fd, broken, sizeof(broken) - 1, MSG_NOSIGNAL);
        break;
    case 3:
        hang_up(peer);
        break;
    default:
        if (peer->way != NULL) {
            amb_handshakers_evict(peer->way);
        }
        hang_up(peer);
    }
}

/* Handshakes end in all ways, and the control thread hears of it soon or late. */
static void test_each_handshake_ends_in_one_way(void **state)
{
    (void)state;
    struct desk desk;
    struct peer peers[PEERS];
    open_desk(&desk, 2);
    for (unsigned i = 0; i < PEERS; i++) {
        peers[i] = (struct peer){.fd = -1};
    }
    desk.peers = peers;
    for (unsigned i = 0; i < STEPS; i++) {
        act(&desk, &peers[next_random(PEERS)]);
        if (next_random(3) == 0) {
            (void)amb_inbox_run(&desk.inbox);
        }
        expect_sum(&desk);
    }
    for (unsigned i = 0; i < PEERS; i++) {
        if (peers[i].fd >= 0) {
            hang_up(&peers[i]);
        }
    }
    close_desk(&desk);
    for (unsigned i = 0; i < AMB_HANDSHAKE_ENDS; i++) {
        assert_true(desk.all.stats.ended[i] > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_honest_clients_come_through),
        cmocka_unit_test(test_strangers_and_those_that_go_are_counted),
        cmocka_unit_test(test_silence_ends_at_the_deadline),
        cmocka_unit_test(test_an_eviction_closes_its_connection_and_no_other),
        cmocka_unit_test(test_an_eviction_may_come_too_late),
        cmocka_unit_test(test_no_handshake_is_done_for_one_that_is_evicted),
        cmocka_unit_test(test_an_end_closes_what_is_under_way),
        cmocka_unit_test(test_each_handshake_ends_in_one_way),
    };
    tls_made_ends(&made, "localhost", &server, &client);
    int failed = cmocka_run_group_tests_name("handshaker", tests, NULL, NULL);
    tls_made_ends_fini(&made, &server, &client);
    return failed;
}
