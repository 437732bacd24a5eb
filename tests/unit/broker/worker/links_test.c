/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The links that a worker asks, where it has many of them, and those that its epoll tells of.
 */
#include "broker/session/session.h"
#include "broker/worker/links.h"
#include "tests/support/shard/shard_pair.h"
#include "tests/support/tcp_pair.h"

#include <setjmp.h>
#include <stdarg.h>

#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int setup(void **state)
{
    struct shard_pair *w = shard_pair_begin(2, &(struct client_options){.may_map = true});
    client_open_pub(w->p, 0, w->topic, false);
    client_subscribe(w->s, 0, w->topic, NULL);
    harness_settle(&w->h);
    *state = w;
    return 0;
}

static void test_of_many_sessions_the_silent_ones_are_asked_in_turn(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    struct shard_client *others[40];
    for (unsigned i = 0; i < 40; i++) {
        others[i] = shard_client_create(&w->h, 0, &(struct client_options){.may_map = true});
    }
    client_open_pub(others[30], 0, w->topic, false);
    client_subscribe(others[20], 0, w->topic, NULL);
    harness_settle(&w->h);
    for (unsigned i = 0; i < 5000; i++) {
        client_send(w->p, 0, 1, 16);
        amb_link_flush(w->p->link);
        for (unsigned at = 0; at < 2; at++) {
            (void)harness_turn(&w->h, at);
        }
        (void)shard_client_turn(w->p);
        (void)shard_client_turn(w->s);
        (void)shard_client_turn(others[20]);
        client_release_all(w->s, 0);
        client_release_all(others[20], 0);
    }
    /* Sessions that publish and that receive are warm, at any place. */
    assert_true(shard->poll.warm_count <= 8 && shard->poll.warm_count >= 2);
    assert_false(w->p->session->is_cold);
    assert_false(others[20]->session->is_cold);
    assert_true(others[30]->session->is_cold);
    client_send(others[30], 0, 1, 16);
    amb_link_flush(others[30]->link);
    for (unsigned i = 0; i < 42 / 4 + 1; i++) {
        (void)harness_turn(&w->h, 0);
    }
    assert_false(others[30]->session->is_cold);
    harness_settle(&w->h);
    assert_int_equal(others[30]->pubs[0].accepted, 1);
    assert_int_equal(w->s->subs[0].lost, 0);
    assert_int_equal(w->s->subs[0].last, 5001);
    assert_int_equal(others[20]->subs[0].last, 5001);
    client_drain(w->s, 0);
    client_drain(others[20], 0);
}

/* The worker's epoll tells of the session's link. Returns what makes it tell. */
static int watch(struct amb_shard *shard, struct amb_session *session)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    assert_true(fd >= 0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET,
                                .data.u64 =
                                    amb_shard_watch_tag(session->index, session->generation)};
    assert_int_equal(epoll_ctl(shard->poll.epoll_fd, EPOLL_CTL_ADD, fd, &event), 0);
    return fd;
}

/* One or two sockets are asked without epoll, but not when they are cold. A worker that is busy
 * with others does not sleep, which would find them. */
static void test_a_silent_socket_is_found_while_the_worker_stays_awake(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    struct shard_client *socket = shard_client_create(&w->h, 0, NULL);
    for (unsigned i = 0; i < 8; i++) {
        (void)shard_client_create(&w->h, 0, NULL);
    }
    shard->poll.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    assert_true(shard->poll.epoll_fd >= 0);
    int fd = watch(shard, socket->session);
    socket->session->is_watched = true;
    client_open_pub(socket, 0, w->topic, false);
    for (unsigned i = 0; i < 5000; i++) {
        (void)harness_turn(&w->h, 0);
    }
    assert_true(socket->session->is_cold);
    assert_int_equal(shard->poll.cold_watched, 1);
    client_send(socket, 0, 1, 16);
    amb_link_flush(socket->link);
    assert_int_equal(eventfd_write(fd, 1), 0);
    for (unsigned i = 0; i < 4; i++) {
        (void)harness_turn(&w->h, 0);
    }
    assert_false(socket->session->is_cold);
    assert_int_equal(amb_paths_msgs(&socket->session->paths.in), 1);
    (void)close(fd);
    (void)close(shard->poll.epoll_fd);
    shard->poll.epoll_fd = -1;
    harness_settle(&w->h);
    assert_int_equal(w->s->subs[0].last, 1);
    client_drain(w->s, 0);
}

/* Before it sleeps: a link that has something keeps it awake, and is asked first. */
static void test_a_link_that_has_something_is_not_slept_over(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    assert_true(amb_links_arm(shard));
    amb_links_disarm(shard);
    client_send(w->p, 0, 1, 16);
    amb_link_flush(w->p->link);
    assert_false(amb_links_arm(shard));
    amb_links_disarm(shard);
    assert_true(amb_links_poll(shard, 0) > 0);
    harness_settle(&w->h);
    assert_true(amb_links_arm(shard));
    amb_links_disarm(shard);
    client_drain(w->s, 0);
}

/* Links with a bell are asked nothing while they are silent: neither by turns nor before a sleep.
 */
static void test_silent_links_with_a_bell_are_dormant(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    struct shard_client *others[20];
    int bells[20];
    shard->poll.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    assert_true(shard->poll.epoll_fd >= 0);
    for (unsigned i = 0; i < 20; i++) {
        others[i] = shard_client_create(&w->h, 0, NULL);
        bells[i] = watch(shard, others[i]->session);
        others[i]->session->has_bell = true;
    }
    client_open_pub(others[3], 0, w->topic, false);
    client_subscribe(others[4], 0, w->topic, NULL);
    harness_settle(&w->h);
    for (unsigned i = 0; i < 5000; i++) {
        (void)harness_turn(&w->h, 0);
    }
    assert_true(shard->poll.dormant_count >= 12);
    assert_true(shard->poll.cold_count <= 2); /* The pair has no bells. */
    assert_true(others[3]->session->is_dormant && others[4]->session->is_dormant);
    /* Nobody looks, whatever is there, until the bell rings. */
    client_send(others[3], 0, 1, 16);
    amb_link_flush(others[3]->link);
    for (unsigned i = 0; i < 100; i++) {
        (void)harness_turn(&w->h, 0);
    }
    assert_true(amb_links_arm(shard));
    amb_links_disarm(shard);
    assert_true(others[3]->session->is_dormant);
    assert_int_equal(eventfd_write(bells[3], 1), 0);
    for (unsigned i = 0; i < 100 && others[3]->session->is_dormant; i++) {
        w->h.now_ns += 100 * INT64_C(1000);
        (void)harness_turn(&w->h, 0);
    }
    harness_settle(&w->h);
    assert_int_equal(amb_paths_msgs(&others[3]->session->paths.in), 1);
    /* A delivery to a dormant one leaves at once. */
    assert_false(others[4]->session->is_cold);
    assert_int_equal(others[4]->subs[0].last, 1);
    client_drain(others[4], 0);
    /* One that ends while it is dormant. */
    assert_true(others[7]->session->is_dormant);
    uint32_t before = shard->poll.dormant_count;
    client_close(others[7], false);
    harness_settle(&w->h);
    assert_int_equal(shard->poll.dormant_count, before - 1);
    for (unsigned i = 0; i < 20; i++) {
        (void)close(bells[i]);
    }
    (void)close(shard->poll.epoll_fd);
    shard->poll.epoll_fd = -1;
}

/* Sockets ------------------------------------------------------------------------------------- */

/* A publisher over TCP on shard 0, whose worker sleeps at once. Its socket rests. */
static struct shard_client *resting_socket(struct shard_pair *w)
{
    struct amb_shard *shard = &w->h.shards[0];
    int fds[2];
    tcp_pair(fds);
    shard->poll.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    assert_true(shard->poll.epoll_fd >= 0);
    struct shard_client *socket =
        shard_client_create(&w->h, 0, &(struct client_options){.sockets = fds});
    assert_int_equal(amb_links_watch(socket->session), AMB_OK);
    client_open_pub(socket, 0, w->topic, false);
    harness_settle(&w->h);
    shard->poll.sleeps_at_once = true;
    (void)amb_links_wait(shard, 0); /* The edge of the beginning. */
    for (unsigned i = 0; i < 10; i++) {
        (void)harness_turn(&w->h, 0);
    }
    assert_false(socket->session->has_edge);
    assert_true(amb_links_arm(shard));
    amb_links_disarm(shard);
    return socket;
}

static void socket_over(struct shard_pair *w)
{
    struct amb_shard *shard = &w->h.shards[0];
    (void)close(shard->poll.epoll_fd);
    shard->poll.epoll_fd = -1;
    shard->poll.sleeps_at_once = false;
    harness_settle(&w->h);
    client_drain(w->s, 0);
}

static void await_arrived(const struct shard_client *socket, short events)
{
    struct pollfd one = {.fd = amb_link_fd(socket->session->link), .events = events};
    do {
        assert_int_equal(poll(&one, 1, 10000), 1);
    } while ((one.revents & events) != events);
}

/* Turns as a worker's that sleeps at once, and sleeps at most so often, until it finds nothing. */
static void turn_and_sleep(struct shard_pair *w, unsigned sleeps)
{
    struct amb_shard *shard = &w->h.shards[0];
    for (unsigned slept = 0; slept < sleeps;) {
        while (harness_turn(&w->h, 0) > 0) {
        }
        if (amb_links_arm(shard)) {
            (void)amb_links_wait(shard, 0);
            slept++;
        }
        amb_links_disarm(shard);
    }
    while (harness_turn(&w->h, 0) > 0) {
    }
}

/* The read of the data is short, and trusted to have emptied the socket. One edge told of the data
 * and of the end behind it: no other one comes. */
static void test_an_end_right_behind_data_is_not_slept_over(void **state)
{
    struct shard_pair *w = *state;
    struct shard_client *socket = resting_socket(w);
    client_send(socket, 0, 1, 16);
    amb_link_flush(socket->link);
    assert_int_equal(shutdown(amb_link_fd(socket->link), SHUT_WR), 0);
    await_arrived(socket, POLLIN | POLLRDHUP);
    turn_and_sleep(w, 2);
    assert_int_equal(amb_paths_msgs(&socket->session->paths.in), 1);
    assert_true(socket->session->is_link_down);
    assert_int_equal(socket->ended, 1);
    assert_int_equal(socket->ended_why, AMB_ELOST);
    socket_over(w);
    assert_int_equal(w->s->subs[0].last, 1);
}

/* It does not look at the socket before it sleeps: the edge wakes it. */
static void test_a_worker_that_sleeps_at_once_is_woken_by_a_resting_socket(void **state)
{
    struct shard_pair *w = *state;
    struct shard_client *socket = resting_socket(w);
    for (unsigned i = 1; i <= 5; i++) {
        client_send(socket, 0, 1, 16);
        amb_link_flush(socket->link);
        await_arrived(socket, POLLIN);
        turn_and_sleep(w, 1);
        assert_int_equal(amb_paths_msgs(&socket->session->paths.in), i);
        assert_false(socket->session->is_link_down);
    }
    socket_over(w);
    assert_int_equal(w->s->subs[0].last, 5);
}

/* ... and while others keep it awake, it asks now and then. */
static void test_a_resting_socket_is_found_by_a_worker_that_has_no_time_to_sleep(void **state)
{
    struct shard_pair *w = *state;
    struct shard_client *socket = resting_socket(w);
    client_send(socket, 0, 1, 16);
    amb_link_flush(socket->link);
    await_arrived(socket, POLLIN);
    unsigned turns = 0;
    for (; turns < 1000 && amb_paths_msgs(&socket->session->paths.in) == 0;
         turns++) { /* 1 us each */
        client_send(w->p, 0, 1, 16);
        amb_link_flush(w->p->link);
        assert_true(harness_turn(&w->h, 0) > 0);
    }
    assert_int_equal(amb_paths_msgs(&socket->session->paths.in), 1);
    assert_true(turns <= 110);
    socket_over(w);
}

/* Receipts of a steady flow wait for a millisecond. However many turns that is, their session stays
 * among those that a turn tells. */
static void test_a_session_whose_receipts_wait_stays_warm(void **state)
{
    struct shard_pair *w = *state;
    struct amb_shard *shard = &w->h.shards[0];
    struct shard_client *others[8];
    for (unsigned i = 0; i < 8; i++) {
        others[i] = shard_client_create(&w->h, 0, NULL);
    }
    struct shard_client *socket = resting_socket(w);
    for (unsigned i = 0; i < 5 * AMB_RHYTHM_MIN && socket->session->word.flow.since_ns == 0; i++) {
        client_send(socket, 0, 1, 16);
        amb_link_flush(socket->link);
        await_arrived(socket, POLLIN);
        turn_and_sleep(w, 1);
    }
    assert_true(socket->session->word.flow.since_ns != 0);
    uint64_t told = socket->pubs[0].accepted;
    for (unsigned i = 0; i < 8; i++) {
        amb_session_stir(others[i]->session);
    }
    assert_true(shard->poll.warm_count > 8);
    for (unsigned i = 0; i < 5000; i++) {
        (void)amb_links_poll(shard, 0);
    }
    assert_false(socket->session->is_cold);
    assert_true(others[0]->session->is_cold);
    harness_pass(&w->h, AMB_RHYTHM_HOLD_NS);
    (void)harness_turn(&w->h, 0);
    assert_true(socket->session->word.flow.since_ns == 0); /* Told. */
    socket_over(w);
    assert_true(socket->pubs[0].accepted > told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, shard_pair_teardown)
        T(test_of_many_sessions_the_silent_ones_are_asked_in_turn),
        T(test_a_silent_socket_is_found_while_the_worker_stays_awake),
        T(test_a_link_that_has_something_is_not_slept_over),
        T(test_silent_links_with_a_bell_are_dormant),
        T(test_an_end_right_behind_data_is_not_slept_over),
        T(test_a_worker_that_sleeps_at_once_is_woken_by_a_resting_socket),
        T(test_a_resting_socket_is_found_by_a_worker_that_has_no_time_to_sleep),
        T(test_a_session_whose_receipts_wait_stays_warm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
