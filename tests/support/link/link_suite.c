/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/link/link_suite.h"

#include "tests/support/link/link_peer.h"
#include "wire/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)
#define BUDGET 64u

/* One test's pair and its two recorders. */
struct suite {
    const struct link_suite_factory *factory;
    struct link_suite_pair pair;
    struct link_peer peer[2];
    int64_t deadline_ns;
};

static int setup(void **state)
{
    const struct link_suite_factory *factory = *state;
    struct suite *suite = calloc(1, sizeof(*suite));
    assert_non_null(suite);
    suite->factory = factory;
    link_peer_init(&suite->peer[0], &suite->peer[1], false);
    link_peer_init(&suite->peer[1], &suite->peer[0], true);
    void *args[2] = {&suite->peer[0], &suite->peer[1]};
    factory->make(&suite->pair, &link_peer_events, args);
    for (unsigned i = 0; i < 2; i++) {
        assert_non_null(suite->pair.end[i]);
        suite->peer[i].link = suite->pair.end[i];
    }
    suite->deadline_ns = amb_clock_monotonic_ns() + 60 * AMB_NS_PER_SEC;
    *state = suite;
    return 0;
}

/* Gives one end its turn, whatever has become of it. */
static void turn(struct suite *suite, unsigned i, unsigned budget)
{
    struct link_peer *peer = &suite->peer[i];
    if (peer->link != NULL) {
        amb_link_flush(peer->link);
        (void)amb_link_poll(peer->link, budget);
    }
    if (suite->factory->progress != NULL && !link_peer_is_closed(peer)) {
        suite->factory->progress(&suite->pair, i);
    }
    if (amb_clock_monotonic_ns() > suite->deadline_ns) {
        fail_msg("nothing more happens: end %u sent %llu and settled %llu, its peer got %llu", i,
                 (unsigned long long)peer->sent, (unsigned long long)peer->settled_ok,
                 (unsigned long long)peer->other->frames);
    }
}

static void turn_both(struct suite *suite)
{
    turn(suite, 0, BUDGET);
    turn(suite, 1, BUDGET);
}

static bool is_quiet(const struct suite *suite)
{
    for (unsigned i = 0; i < 2; i++) {
        if (link_peer_unsettled(&suite->peer[i]) != 0 || !link_peer_has_all(&suite->peer[i])) {
            return false;
        }
    }
    return true;
}

/* Until everything sent has arrived and is settled; then the counters say so too. */
static void pump_all(struct suite *suite)
{
    while (!is_quiet(suite)) {
        turn_both(suite);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(suite->peer[i].link->queued, 0);
        assert_int_equal(suite->peer[i].link->queued_bytes, 0);
        assert_int_equal(suite->peer[i].downs, 0);
        assert_int_equal(suite->peer[i].bodies_failed, 0);
    }
}

static void close_end(struct suite *suite, unsigned i)
{
    suite->pair.end[i] = NULL;
    link_peer_close(&suite->peer[i]);
    while (!link_peer_is_closed(&suite->peer[i])) {
        turn_both(suite);
    }
}

static int teardown(void **state)
{
    struct suite *suite = *state;
    for (unsigned i = 0; i < 2; i++) {
        if (suite->peer[i].link != NULL) {
            close_end(suite, i);
        }
    }
    if (suite->factory->clean != NULL) {
        suite->factory->clean(&suite->pair);
    }
    link_peer_fini(&suite->peer[0]);
    link_peer_fini(&suite->peer[1]);
    free(suite);
    return 0;
}

static void test_frames_keep_order_fields_and_bodies(void **state)
{
    static const uint64_t sizes[] = {16,    32,    80,     1008,    4096,         16384,
                                     65536, 65552, 262144, MIB / 2, MIB / 2 + 16, MIB + 48};
    struct suite *suite = *state;
    for (unsigned n = 0; n < 120; n++) {
        for (unsigned i = 0; i < 2; i++) {
            struct link_peer *peer = &suite->peer[i];
            unsigned kind = n % 3 == 0 ? 0 : n;
            (void)link_peer_send(peer, link_peer_type(peer, kind),
                                 sizes[n / 3 % (sizeof(sizes) / sizeof(sizes[0]))]);
        }
        if (n % 7 == 0) {
            turn_both(suite);
        }
    }
    pump_all(suite);
    assert_int_equal(suite->peer[0].frames, 120);
    assert_int_equal(suite->peer[1].frames, 120);
}

static void test_eight_mebibytes_arrive_whole(void **state)
{
    struct suite *suite = *state;
    for (unsigned i = 0; i < 2; i++) {
        struct link_peer *peer = &suite->peer[i];
        (void)link_peer_send(peer, link_peer_type(peer, 0), 8 * MIB);
        (void)link_peer_send(peer, link_peer_type(peer, 1), 16);
        (void)link_peer_send(peer, link_peer_type(peer, 0), 8 * MIB + 16);
        (void)link_peer_send(peer, link_peer_type(peer, 0), 16);
    }
    pump_all(suite);
    assert_int_equal(suite->peer[0].bodies_ok, 3);
    assert_int_equal(suite->peer[1].bodies_ok, 3);
}

static void test_small_frames_in_bulk(void **state)
{
    struct suite *suite = *state;
    struct link_peer *peer = &suite->peer[0];
    for (unsigned n = 0; n < 8000; n++) {
        (void)link_peer_send(peer, link_peer_type(peer, n % 2), 16 + 16 * (uint64_t)(n % 9));
    }
    pump_all(suite);
    assert_int_equal(suite->peer[1].frames, 8000);
}

static void test_queued_counts_what_is_not_settled(void **state)
{
    struct suite *suite = *state;
    struct link_peer *peer = &suite->peer[1];
    for (unsigned n = 0; n < 24; n++) {
        (void)link_peer_send(peer, link_peer_type(peer, 0), 2 * MIB);
        assert_int_equal(peer->link->queued, link_peer_unsettled(peer));
        if (n % 4 == 0) {
            turn(suite, 1, BUDGET);
            assert_int_equal(peer->link->queued, link_peer_unsettled(peer));
        }
    }
    assert_true(peer->link->queued > 0);
    assert_true(peer->link->queued_bytes > 0);
    pump_all(suite);
    assert_int_equal(peer->settled_ok, 24);
}

static uint64_t flow_value(uint64_t round, unsigned kind, uint32_t handle)
{
    return round * 100000 + handle * 7u + kind;
}

static void set_all_flows(struct link_peer *peer, uint64_t round)
{
    for (unsigned kind = 0; kind < link_peer_flow_kinds(peer); kind++) {
        for (uint32_t handle = 0; handle < AMB_HANDLES_MAX; handle++) {
            link_peer_flow(peer, (enum amb_flow_kind)kind, handle, flow_value(round, kind, handle));
        }
    }
}

static bool has_all_flows(const struct link_peer *peer, uint64_t round)
{
    for (unsigned kind = 0; kind < link_peer_flow_kinds(peer->other); kind++) {
        for (uint32_t handle = 0; handle < AMB_HANDLES_MAX; handle++) {
            if (peer->flow[kind][handle] != flow_value(round, kind, handle)) {
                return false;
            }
        }
    }
    return true;
}

static void test_flow_newest_value_of_each_counter_arrives(void **state)
{
    struct suite *suite = *state;
    for (uint64_t round = 1; round <= 5; round++) {
        set_all_flows(&suite->peer[0], round);
        set_all_flows(&suite->peer[1], round);
        if (round % 2 == 0) {
            turn_both(suite);
        }
    }
    while (!has_all_flows(&suite->peer[0], 5) || !has_all_flows(&suite->peer[1], 5)) {
        turn_both(suite);
    }
    for (unsigned i = 0; i < 2; i++) {
        unsigned counters = AMB_HANDLES_MAX * link_peer_flow_kinds(suite->peer[i].other);
        assert_true(suite->peer[i].flow_calls <= 5ull * counters);
    }
}

static void test_flow_does_not_wait_behind_bodies(void **state)
{
    struct suite *suite = *state;
    struct link_peer *sender = &suite->peer[1], *receiver = &suite->peer[0];
    const unsigned bodies = 6;
    for (unsigned n = 0; n < bodies; n++) {
        (void)link_peer_send(sender, link_peer_type(sender, 0), 8 * MIB);
    }
    while (receiver->frames == 0) {
        turn(suite, 1, BUDGET);
        turn(suite, 0, 1);
    }
    link_peer_flow(sender, AMB_FLOW_ACCEPTED, 17, 4711);
    while (receiver->flow[AMB_FLOW_ACCEPTED][17] != 4711) {
        turn(suite, 1, BUDGET);
        turn(suite, 0, 1);
    }
    if (suite->factory->flow_overtakes) {
        assert_true(receiver->bodies_ok < bodies);
    }
    pump_all(suite);
}

static void test_flow_passes_in_both_directions_under_load(void **state)
{
    struct suite *suite = *state;
    struct link_peer *client = &suite->peer[0], *broker = &suite->peer[1];
    for (unsigned n = 0; n < 24; n++) {
        (void)link_peer_send(client, link_peer_type(client, 0), MIB);
    }
    turn(suite, 0, BUDGET);
    link_peer_flow(client, AMB_FLOW_RELEASE, AMB_HANDLES_MAX - 1, 99);
    link_peer_flow(broker, AMB_FLOW_WINDOW, 0, 98);
    while (broker->flow[AMB_FLOW_RELEASE][AMB_HANDLES_MAX - 1] != 99 ||
           client->flow[AMB_FLOW_WINDOW][0] != 98) {
        turn_both(suite);
    }
    pump_all(suite);
}

static void test_body_without_destination_is_discarded(void **state)
{
    struct suite *suite = *state;
    struct link_peer *sender = &suite->peer[0], *receiver = &suite->peer[1];
    receiver->discards = true;
    (void)link_peer_send(sender, link_peer_type(sender, 0), 16);
    (void)link_peer_send(sender, link_peer_type(sender, 0), 3 * MIB);
    (void)link_peer_send(sender, link_peer_type(sender, 1), 16);
    (void)link_peer_send(sender, link_peer_type(sender, 0), 65536);
    pump_all(suite);
    assert_int_equal(receiver->bodies_given, 0);
    receiver->discards = false;
    (void)link_peer_send(sender, link_peer_type(sender, 0), 65536);
    pump_all(suite);
    assert_int_equal(receiver->bodies_ok, 1);
    assert_int_equal(receiver->frames, 5);
}

/* Until end i is down; the other one may still be up. */
static void pump_until_down(struct suite *suite, unsigned i)
{
    while (suite->peer[i].downs == 0) {
        turn_both(suite);
    }
    /* Once is once. */
    for (unsigned n = 0; n < 4; n++) {
        turn_both(suite);
    }
    assert_int_equal(suite->peer[i].downs, 1);
    assert_true(suite->peer[i].link->is_down);
}

static void check_down_link_is_inert(struct suite *suite, unsigned i)
{
    struct link_peer *peer = &suite->peer[i];
    size_t queued = peer->link->queued;
    enum amb_status status = link_peer_send(peer, link_peer_type(peer, 0), 64);
    assert_true(status != AMB_OK && status != AMB_EAGAIN);
    link_peer_flow(peer, AMB_FLOW_RELEASE, 1, UINT64_C(1) << 40);
    amb_link_flush(peer->link);
    (void)amb_link_poll(peer->link, BUDGET);
    assert_true(peer->link->queued <= queued);
}

static void test_refused_frame_takes_the_link_down(void **state)
{
    struct suite *suite = *state;
    suite->peer[1].frame_answer = AMB_ENOMEM;
    (void)link_peer_send(&suite->peer[0], link_peer_type(&suite->peer[0], 0), MIB);
    (void)link_peer_send(&suite->peer[0], link_peer_type(&suite->peer[0], 0), 64);
    pump_until_down(suite, 1);
    assert_int_equal(suite->peer[1].frames, 1);
    check_down_link_is_inert(suite, 1);
    close_end(suite, 1);
    pump_until_down(suite, 0);
    assert_int_equal(suite->peer[0].down_status, AMB_ELOST);
}

static void test_refused_body_takes_the_link_down(void **state)
{
    struct suite *suite = *state;
    suite->peer[0].body_answer = AMB_EPROTO;
    (void)link_peer_send(&suite->peer[1], link_peer_type(&suite->peer[1], 0), 65536);
    pump_until_down(suite, 0);
    assert_int_equal(suite->peer[0].bodies_ok, 1);
    assert_int_equal(suite->peer[0].down_status, AMB_EPROTO);
}

static void test_refused_flow_takes_the_link_down(void **state)
{
    struct suite *suite = *state;
    suite->peer[0].flow_answer = AMB_EPROTO;
    link_peer_flow(&suite->peer[1], AMB_FLOW_WINDOW, 5, 6);
    pump_until_down(suite, 0);
    assert_int_equal(suite->peer[0].flow_calls, 1);
    check_down_link_is_inert(suite, 0);
}

static void test_close_cancels_what_is_queued(void **state)
{
    struct suite *suite = *state;
    struct link_peer *peer = &suite->peer[0];
    for (unsigned n = 0; n < 48; n++) {
        (void)link_peer_send(peer, link_peer_type(peer, n % 5 == 0 ? 1 : 0), MIB);
    }
    turn(suite, 0, BUDGET);
    uint64_t unsettled = link_peer_unsettled(peer);
    assert_true(unsettled > 0);
    close_end(suite, 0);
    assert_int_equal(peer->settled_ok + peer->settled_canceled, peer->sent);
    assert_true(peer->settled_canceled > 0);
    assert_true(peer->settled_canceled <= unsettled);
    pump_until_down(suite, 1);
}

static void test_close_before_anything_was_sent(void **state)
{
    struct suite *suite = *state;
    close_end(suite, 1);
    pump_until_down(suite, 0);
    assert_int_equal(suite->peer[0].down_status, AMB_ELOST);
    check_down_link_is_inert(suite, 0);
}

static void test_what_was_sent_arrives_before_the_peer_is_lost(void **state)
{
    struct suite *suite = *state;
    struct link_peer *sender = &suite->peer[1], *receiver = &suite->peer[0];
    for (unsigned n = 0; n < 10; n++) {
        (void)link_peer_send(sender, link_peer_type(sender, n), 4096);
    }
    /* The receiver takes no more than it must for the rest to leave. */
    turn(suite, 1, BUDGET);
    while (link_peer_unsettled(sender) != 0) {
        turn(suite, 0, 1);
        turn(suite, 1, BUDGET);
    }
    close_end(suite, 1);
    pump_until_down(suite, 0);
    assert_int_equal(receiver->down_status, AMB_ELOST);
    if (suite->factory->delivers_before_down) {
        assert_int_equal(receiver->frames, 10);
        assert_int_equal(receiver->bodies_failed, 0);
    }
}

/* Stops in the middle of a large body, where the link has such a middle. */
static void open_a_body(struct suite *suite)
{
    struct link_peer *sender = &suite->peer[0], *receiver = &suite->peer[1];
    for (unsigned n = 0; n < 4; n++) {
        (void)link_peer_send(sender, link_peer_type(sender, 0), 8 * MIB);
    }
    while (receiver->bodies_given == 0) {
        turn(suite, 0, 1);
        turn(suite, 1, 1);
    }
}

static void test_open_body_fails_once_when_the_peer_closes(void **state)
{
    struct suite *suite = *state;
    struct link_peer *receiver = &suite->peer[1];
    open_a_body(suite);
    close_end(suite, 0);
    pump_until_down(suite, 1);
    while (receiver->bodies != NULL) {
        turn_both(suite);
    }
    assert_int_equal(receiver->bodies_given, receiver->bodies_ok + receiver->bodies_failed);
}

static void test_open_body_is_canceled_when_its_receiver_closes(void **state)
{
    struct suite *suite = *state;
    struct link_peer *receiver = &suite->peer[1];
    open_a_body(suite);
    uint64_t open = receiver->bodies_given - receiver->bodies_ok;
    close_end(suite, 1);
    assert_null(receiver->bodies);
    assert_true(receiver->bodies_failed <= open);
    if (receiver->bodies_failed != 0) {
        assert_int_equal(receiver->body_failure, AMB_ECANCELED);
    }
    pump_until_down(suite, 0);
}

static void test_both_directions_flooded_do_not_deadlock(void **state)
{
    static const uint64_t sizes[] = {64, 4096, 60000, MIB, 3 * MIB};
    struct suite *suite = *state;
    for (unsigned n = 0; n < 60; n++) {
        for (unsigned i = 0; i < 2; i++) {
            struct link_peer *peer = &suite->peer[i];
            (void)link_peer_send(peer, link_peer_type(peer, n % 4 == 3 ? n : 0), sizes[n % 5]);
            link_peer_flow(peer, AMB_FLOW_RELEASE, n % 8, n);
        }
    }
    /* Each end first pushes as much as goes, without reading. */
    for (unsigned n = 0; n < 3; n++) {
        amb_link_flush(suite->peer[0].link);
        amb_link_flush(suite->peer[1].link);
    }
    pump_all(suite);
}

static void test_upcalls_may_send(void **state)
{
    struct suite *suite = *state;
    suite->peer[0].echoes = 500;
    suite->peer[1].echoes = 500;
    (void)link_peer_send(&suite->peer[0], link_peer_type(&suite->peer[0], 0), 64);
    while (suite->peer[0].echoes + suite->peer[1].echoes != 0) {
        turn_both(suite);
    }
    pump_all(suite);
    assert_int_equal(suite->peer[0].frames, 500);
    assert_int_equal(suite->peer[1].frames, 501);
    while (suite->peer[0].flow[AMB_FLOW_RELEASE][3] != 500) {
        turn_both(suite);
    }
}

static void test_describe_is_terminated(void **state)
{
    struct suite *suite = *state;
    char text[64], tiny[4];
    memset(text, 'x', sizeof(text));
    memset(tiny, 'x', sizeof(tiny));
    amb_link_describe(suite->peer[0].link, text, sizeof(text));
    amb_link_describe(suite->peer[1].link, tiny, sizeof(tiny));
    assert_true(strnlen(text, sizeof(text)) > 0 && strnlen(text, sizeof(text)) < sizeof(text));
    assert_true(strnlen(tiny, sizeof(tiny)) < sizeof(tiny));
}

/* An epoll instance that watches one end as loops do; -1 if there is nothing to watch. */
static int watch(struct suite *suite, unsigned i)
{
    int fd = suite->factory->fd != NULL ? suite->factory->fd(&suite->pair, i)
                                        : amb_link_fd(suite->peer[i].link);
    if (fd < 0) {
        return -1;
    }
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    assert_true(epoll >= 0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET};
    if (suite->factory->fd == NULL) {
        event.events = amb_link_fd_events(suite->peer[i].link) | EPOLLET;
    }
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
    return epoll;
}

/* Polls one end until it says it may sleep, and takes the edges that are already there. */
static void go_to_sleep(struct suite *suite, unsigned i, int epoll, bool want_flow)
{
    for (;;) {
        struct epoll_event event;
        (void)epoll_wait(epoll, &event, 1, 0);
        turn(suite, i, BUDGET);
        if (suite->factory->arm != NULL ? suite->factory->arm(&suite->pair, i)
                                        : amb_link_arm(suite->peer[i].link, want_flow)) {
            break;
        }
        amb_link_disarm(suite->peer[i].link);
    }
}

static void expect_wake(struct suite *suite, unsigned i, int epoll)
{
    struct epoll_event event;
    assert_int_equal(epoll_wait(epoll, &event, 1, 2000), 1);
    amb_link_disarm(suite->peer[i].link);
}

static void test_frame_wakes_an_armed_end(void **state)
{
    struct suite *suite = *state;
    for (unsigned i = 0; i < 2; i++) {
        int epoll = watch(suite, i);
        if (epoll < 0) {
            return;
        }
        struct link_peer *sender = &suite->peer[1 - i];
        for (unsigned n = 0; n < 3; n++) {
            go_to_sleep(suite, i, epoll, false);
            (void)link_peer_send(sender, link_peer_type(sender, n), 64);
            turn(suite, 1 - i, BUDGET);
            expect_wake(suite, i, epoll);
            pump_all(suite);
        }
        (void)close(epoll);
    }
}

static void test_flow_wakes_an_end_that_wants_it(void **state)
{
    struct suite *suite = *state;
    for (unsigned i = 0; i < 2; i++) {
        int epoll = watch(suite, i);
        if (epoll < 0) {
            return;
        }
        for (uint64_t n = 1; n <= 3; n++) {
            go_to_sleep(suite, i, epoll, true);
            link_peer_flow(&suite->peer[1 - i], AMB_FLOW_RELEASE, 2, n);
            turn(suite, 1 - i, BUDGET);
            expect_wake(suite, i, epoll);
            while (suite->peer[i].flow[AMB_FLOW_RELEASE][2] != n) {
                turn_both(suite);
            }
        }
        (void)close(epoll);
    }
}

static void test_room_wakes_an_end_with_queued_frames(void **state)
{
    struct suite *suite = *state;
    struct link_peer *sender = &suite->peer[0];
    int epoll = watch(suite, 0);
    if (epoll < 0) {
        return;
    }
    for (unsigned n = 0; n < 32; n++) {
        (void)link_peer_send(sender, link_peer_type(sender, 0), MIB);
    }
    while (!is_quiet(suite)) {
        bool is_blocked;
        go_to_sleep(suite, 0, epoll, false);
        is_blocked = link_peer_unsettled(sender) != 0;
        for (unsigned n = 0; n < 200; n++) {
            turn(suite, 1, BUDGET);
        }
        if (is_blocked) {
            expect_wake(suite, 0, epoll);
        } else {
            amb_link_disarm(sender->link);
        }
    }
    (void)close(epoll);
    pump_all(suite);
}

#define SUITE_TEST(function)                                                                       \
    {                                                                                              \
        .name = #function, .test_func = function, .setup_func = setup, .teardown_func = teardown,  \
        .initial_state = initial                                                                   \
    }

int link_suite_run(const struct link_suite_factory *factory)
{
    /* CMocka's state is not const; setup only reads it. */
    const union {
        const struct link_suite_factory *given;
        void *state;
    } cast = {.given = factory};
    void *initial = cast.state;
    const struct CMUnitTest tests[] = {
        SUITE_TEST(test_frames_keep_order_fields_and_bodies),
        SUITE_TEST(test_eight_mebibytes_arrive_whole),
        SUITE_TEST(test_small_frames_in_bulk),
        SUITE_TEST(test_queued_counts_what_is_not_settled),
        SUITE_TEST(test_flow_newest_value_of_each_counter_arrives),
        SUITE_TEST(test_flow_does_not_wait_behind_bodies),
        SUITE_TEST(test_flow_passes_in_both_directions_under_load),
        SUITE_TEST(test_body_without_destination_is_discarded),
        SUITE_TEST(test_refused_frame_takes_the_link_down),
        SUITE_TEST(test_refused_body_takes_the_link_down),
        SUITE_TEST(test_refused_flow_takes_the_link_down),
        SUITE_TEST(test_close_cancels_what_is_queued),
        SUITE_TEST(test_close_before_anything_was_sent),
        SUITE_TEST(test_what_was_sent_arrives_before_the_peer_is_lost),
        SUITE_TEST(test_open_body_fails_once_when_the_peer_closes),
        SUITE_TEST(test_open_body_is_canceled_when_its_receiver_closes),
        SUITE_TEST(test_both_directions_flooded_do_not_deadlock),
        SUITE_TEST(test_upcalls_may_send),
        SUITE_TEST(test_describe_is_terminated),
        SUITE_TEST(test_frame_wakes_an_armed_end),
        SUITE_TEST(test_flow_wakes_an_end_that_wants_it),
        SUITE_TEST(test_room_wakes_an_end_with_queued_frames),
    };
    return cmocka_run_group_tests_name(factory->name, tests, NULL, NULL);
}
