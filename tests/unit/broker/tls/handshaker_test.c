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

static struct tls_made made;
static struct amb_tls_context *server, *client;

struct desk {
    struct amb_inbox inbox;
    struct amb_handshakers all;
    struct amb_handshake_way *given; /* the last one */
    unsigned done, closed;
};

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
    assert_int_equal(atomic_load(&desk->all.half_open), 0);
    amb_handshakers_stop(&desk->all);
    amb_inbox_fini(&desk->inbox);
}

/* Gives the broker's end of a fresh connection away; returns the client's. */
static int give(struct desk *desk, int64_t timeout_ns)
{
    struct tls_two two;
    struct sockaddr_storage from = {.ss_family = AF_INET};
    tls_two_connect(&two);
    desk->given = amb_handshakers_give(&desk->all, two.broker_fd, &from, server,
                                       amb_clock_monotonic_ns() + timeout_ns);
    return two.client_fd;
}

/* The counter reaches the value while no mail is run. */
static void await_unread(const _Atomic uint64_t *counter, uint64_t value)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + PATIENCE_NS;
    while (atomic_load(counter) < value) {
        (void)poll(NULL, 0, 1);
        assert_true(amb_clock_monotonic_ns() < deadline_ns);
    }
}

/* Runs mail until so many connections have come back: a thread counts, and posts a moment later. */
static void run_mail(struct desk *desk, const unsigned *mails, unsigned count)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + PATIENCE_NS;
    while (*mails < count) {
        (void)amb_inbox_run(&desk->inbox);
        (void)poll(NULL, 0, 1);
        assert_true(amb_clock_monotonic_ns() < deadline_ns);
    }
}

/* The counter reaches the value while mail is run. */
static void await(struct desk *desk, const _Atomic uint64_t *counter, uint64_t value)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + PATIENCE_NS;
    while (atomic_load(counter) < value) {
        (void)amb_inbox_run(&desk->inbox);
        (void)poll(NULL, 0, 1);
        assert_true(amb_clock_monotonic_ns() < deadline_ns);
    }
    (void)amb_inbox_run(&desk->inbox);
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
    run_mail(&desk, &desk.done, MANY);
    assert_int_equal(atomic_load(&desk.all.stats.failed), 0);
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
    await(&desk, &desk.all.stats.plain, 1);
    await(&desk, &desk.all.stats.failed, 2);
    run_mail(&desk, &desk.closed, 3);
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
    await(&desk, &desk.all.stats.late, 2);
    assert_true(amb_clock_monotonic_ns() - began_ns >= 100 * AMB_NS_PER_MS);
    assert_true(is_closed(silent));
    assert_true(is_closed(half));
    shake(&desk, patient); /* Nobody else was hurt. */
    await(&desk, &desk.all.stats.done, 1);
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
    await(&desk, &desk.all.stats.evicted, 2);
    assert_true(is_closed(fds[1]));
    assert_true(is_closed(fds[2]));
    shake(&desk, fds[0]);
    shake(&desk, fds[3]);
    run_mail(&desk, &desk.done, 2);
    assert_int_equal(desk.closed, 0);
    for (unsigned i = 0; i < 4; i++) {
        (void)close(fds[i]);
    }
    close_desk(&desk);
    assert_int_equal(desk.all.closing, 0);
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
    assert_int_equal(send(plain, "GET / HTTP/1.1\r\n", 16, MSG_NOSIGNAL), 16);
    await_unread(&desk.all.stats.done, 1);
    await_unread(&desk.all.stats.plain, 1);
    amb_handshakers_evict(through_way);
    amb_handshakers_evict(desk.given);
    await(&desk, &desk.all.stats.evicted, 1);
    uint8_t byte;
    while (recv(through, &byte, 1, 0) > 0) { /* The broker's half of the handshake. */
        tls_two_await(through);
    }
    assert_true(is_closed(plain));
    (void)close(through);
    (void)close(plain);
    close_desk(&desk); /* Both are freed. */
    assert_int_equal(desk.done + desk.closed, 0);
    assert_int_equal(desk.all.closing, 0);
    assert_int_equal(atomic_load(&desk.all.stats.evicted), 1); /* The other one had ended. */
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
    await(&desk, &desk.all.stats.evicted, 1);
    tls_two_await(fd);
    assert_true(recv(fd, &byte, 1, 0) <= 0); /* The end, and no answer before. */
    amb_tls_destroy(&tls);
    (void)close(fd);
    close_desk(&desk);
    assert_int_equal(atomic_load(&desk.all.stats.evicted), 1);
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
    };
    tls_made_ends(&made, "localhost", &server, &client);
    int failed = cmocka_run_group_tests_name("handshaker", tests, NULL, NULL);
    tls_made_ends_fini(&made, &server, &client);
    return failed;
}
