/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring link: the suite of all links at two sizes, its own promises, and sleeping with a peer in
 * another thread. The attacks of a hostile peer are in ring_hostile_test.c.
 */
#include "tests/support/link/link_peer.h"
#include "tests/support/link/link_suite.h"
#include "wire/link/ring/ring.h"
#include "wire/link/ring/ring_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALL (UINT64_C(64) << 10)

static void make_pair(uint64_t size, const struct amb_link_events *events, void *args[2],
                      struct amb_link *end[2])
{
    struct amb_ring_fds fds;
    assert_int_equal(amb_ring_create(size, events, args[1], &fds, &end[1]), AMB_OK);
    assert_int_equal(amb_ring_attach(size, &fds, events, args[0], &end[0]), AMB_OK);
}

static void make_small(struct link_suite_pair *pair, const struct amb_link_events *events,
                       void *args[2])
{
    make_pair(SMALL, events, args, pair->end);
}

static void make_default(struct link_suite_pair *pair, const struct amb_link_events *events,
                         void *args[2])
{
    make_pair(AMB_RING_SIZE_DEFAULT, events, args, pair->end);
}

struct couple {
    struct link_peer client, broker;
};

static void couple_init(struct couple *c, uint64_t size)
{
    link_peer_init(&c->client, &c->broker, false);
    link_peer_init(&c->broker, &c->client, true);
    void *args[2] = {&c->client, &c->broker};
    struct amb_link *end[2];
    make_pair(size, &link_peer_events, args, end);
    c->client.link = end[0];
    c->broker.link = end[1];
}

static void couple_fini(struct couple *c)
{
    link_peer_close(&c->client);
    link_peer_close(&c->broker);
    link_peer_fini(&c->client);
    link_peer_fini(&c->broker);
}

/* Until one has to wait. Returns how many went. */
static unsigned fill(struct link_peer *peer, uint8_t type)
{
    unsigned sent = 0;
    while (link_peer_send(peer, type, 4096) == AMB_OK) {
        sent++;
    }
    return sent;
}

static int lowest_free_fd(void)
{
    int fd = dup(0);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    return fd;
}

/* ---- making ---- */

static void test_sizes_are_powers_of_two_within_limits(void **state)
{
    static const uint64_t bad[] = {
        0, 4096, SMALL - 1, SMALL + 4096, 3 * SMALL, 2 * AMB_RING_SIZE_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct amb_ring_fds fds;
        struct amb_link *link;
        assert_int_equal(amb_ring_create(bad[i], &link_peer_events, NULL, &fds, &link), AMB_EINVAL);
    }
}

static void test_no_descriptor_is_left_behind(void **state)
{
    (void)state;
    int before = lowest_free_fd();
    for (int i = 0; i < 4; i++) {
        struct couple c;
        couple_init(&c, SMALL);
        couple_fini(&c);
    }
    assert_int_equal(lowest_free_fd(), before);
}

static void test_memory_is_sealed_and_private(void **state)
{
    (void)state;
    struct amb_ring_fds fds;
    struct amb_link *link;
    assert_int_equal(amb_ring_create(SMALL, &link_peer_events, NULL, &fds, &link), AMB_OK);
    assert_int_equal(ftruncate(fds.memory, 0), -1);
    assert_int_equal(ftruncate(fds.memory, (off_t)1 << 30), -1);
    assert_int_equal(fcntl(fds.memory, F_ADD_SEALS, F_SEAL_WRITE), -1);
    assert_int_equal(close(fds.memory) | close(fds.bell), 0);
    assert_true(amb_link_close(link));
}

static struct amb_link_waste *left;

static void keep_waste(void *arg, struct amb_link_waste *waste)
{
    (void)arg;
    left = waste;
}

static int64_t blocks_of(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return st.st_blocks;
}

/* A client that keeps its mapping, or a descriptor, keeps no memory. */
static void test_a_disposed_ring_frees_pages_that_its_client_has_mapped(void **state)
{
    (void)state;
    struct amb_link_events events = link_peer_events;
    struct amb_ring_fds fds;
    struct couple c;
    events.on_waste = keep_waste;
    link_peer_init(&c.client, &c.broker, false);
    link_peer_init(&c.broker, &c.client, true);
    assert_int_equal(amb_ring_create(SMALL, &events, &c.broker, &fds, &c.broker.link), AMB_OK);
    int kept = dup(fds.memory);
    assert_int_equal(amb_ring_attach(SMALL, &fds, &link_peer_events, &c.client, &c.client.link),
                     AMB_OK);
    (void)link_peer_send(&c.broker, link_peer_type(&c.broker, 1), 0);
    amb_link_flush(c.broker.link);
    while (c.client.frames == 0) {
        (void)amb_link_poll(c.client.link, 16);
    }
    (void)link_peer_send(&c.broker, link_peer_type(&c.broker, 1), 0);
    amb_link_flush(c.broker.link);
    link_peer_close(&c.broker);
    assert_true(left->unread > 0 && left->unread <= 4096);
    assert_true(left->bytes >= 2 * SMALL);
    assert_true(blocks_of(kept) > (int64_t)(2 * sizeof(struct ring_control) / 512));
    left->dispose(left, true);
    assert_int_equal(blocks_of(kept), 0);
    for (int i = 0; i < 10; i++) {
        (void)amb_link_poll(c.client.link, 16);
    }
    assert_int_equal(c.client.downs, 1); /* An end, and no broken rule. */
    assert_int_equal(c.client.down_status, AMB_ELOST);
    assert_int_equal(close(kept), 0);
    link_peer_close(&c.client);
    link_peer_fini(&c.client);
    link_peer_fini(&c.broker);
}

static struct couple *ending;

/* The broker ends the session when its client has seen a frame's head, and not its body. */
static enum amb_status frame_and_end(void *arg, const struct amb_frame *frame, void **dst,
                                     void **cookie, struct amb_link_mem **mem)
{
    enum amb_status status = link_peer_events.on_frame(arg, frame, dst, cookie, mem);
    if (ending != NULL) {
        link_peer_close(&ending->broker);
        left->dispose(left, true);
        ending = NULL;
    }
    return status;
}

/* A broker that does not know its client's process does not wait for it. */
static void test_bytes_that_were_taken_back_meanwhile_are_no_body(void **state)
{
    (void)state;
    struct amb_link_events events = link_peer_events, client_events = link_peer_events;
    struct amb_ring_fds fds;
    struct couple c;
    events.on_waste = keep_waste;
    client_events.on_frame = frame_and_end;
    link_peer_init(&c.client, &c.broker, false);
    link_peer_init(&c.broker, &c.client, true);
    assert_int_equal(amb_ring_create(SMALL, &events, &c.broker, &fds, &c.broker.link), AMB_OK);
    assert_int_equal(amb_ring_attach(SMALL, &fds, &client_events, &c.client, &c.client.link),
                     AMB_OK);
    for (unsigned i = 0; i < 2; i++) {
        (void)link_peer_send(&c.broker, link_peer_type(&c.broker, 0), 4096);
        amb_link_flush(c.broker.link);
        ending = i == 1 ? &c : NULL;
        for (unsigned turn = 0; turn < 10; turn++) {
            (void)amb_link_poll(c.client.link, 16); /* link_peer.c compares every byte. */
        }
    }
    assert_null(ending);
    assert_int_equal(c.client.frames, 2);
    assert_int_equal(c.client.bodies_ok, 1);
    assert_int_equal(c.client.body_failure, AMB_ELOST);
    assert_int_equal(c.client.downs, 1);
    assert_int_equal(c.client.down_status, AMB_ELOST);
    link_peer_close(&c.client);
    link_peer_fini(&c.client);
    link_peer_fini(&c.broker);
}

enum tampering {
    SIZE,
    SEALS,
    BLOCKING_BELL,
    NO_WRITING,
    NO_BELL,
    NO_MEMORY,
    TAMPERINGS
};

static void tamper(struct amb_ring_fds *fds, enum tampering how)
{
    int fd = -1;
    switch (how) {
    case SIZE:
    case TAMPERINGS:
        return;
    case SEALS:
        fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(ftruncate(fd, (off_t)(2 * sizeof(struct ring_control) + 2 * SMALL)), 0);
        assert_int_equal(close(fds->memory), 0);
        fds->memory = fd;
        return;
    case BLOCKING_BELL:
        assert_int_equal(fcntl(fds->bell, F_SETFL, 0), 0);
        return;
    case NO_WRITING:
        assert_int_equal(close(fds->bell), 0);
        fds->bell = open("/dev/null", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        return;
    case NO_BELL:
        assert_int_equal(close(fds->bell), 0);
        fds->bell = -1;
        return;
    case NO_MEMORY:
        assert_int_equal(close(fds->memory), 0);
        fds->memory = -1;
        return;
    }
}

static void test_attach_refuses_what_could_hurt_it(void **state)
{
    (void)state;
    int before = lowest_free_fd();
    for (enum tampering how = SIZE; how < TAMPERINGS; how++) {
        struct amb_ring_fds fds;
        struct amb_link *broker, *client = NULL;
        assert_int_equal(amb_ring_create(SMALL, &link_peer_events, NULL, &fds, &broker), AMB_OK);
        tamper(&fds, how);
        uint64_t size = how == SIZE ? 2 * SMALL : SMALL;
        assert_int_equal(amb_ring_attach(size, &fds, &link_peer_events, NULL, &client), AMB_EPROTO);
        assert_null(client);
        assert_true(amb_link_close(broker));
        assert_int_equal(lowest_free_fd(), before);
    }
}

/* ---- sending ---- */

static void test_small_frames_with_room_are_settled_at_once(void **state)
{
    (void)state;
    struct couple c;
    couple_init(&c, SMALL);
    assert_int_equal(link_peer_send(&c.client, AMB_FRAME_BATCH, 4096), AMB_OK);
    assert_int_equal(c.client.link->queued, 0);
    assert_int_equal(amb_link_poll(c.broker.link, 8), 0); /* Not before the flush. */
    amb_link_flush(c.client.link);
    assert_int_equal(amb_link_poll(c.broker.link, 8), 1);
    assert_int_equal(c.broker.bodies_ok, 1);
    couple_fini(&c);
}

static void test_a_full_ring_queues_and_goes_on_when_polled(void **state)
{
    (void)state;
    struct couple c;
    couple_init(&c, SMALL);
    unsigned sent = fill(&c.client, AMB_FRAME_BATCH);
    assert_true(sent >= 14 && sent <= 16);
    assert_int_equal(c.client.link->queued, 1);
    amb_link_flush(c.client.link);
    assert_int_equal(c.client.settled_ok, sent);
    assert_int_equal(amb_link_poll(c.broker.link, 64), sent);
    assert_int_equal(amb_link_poll(c.client.link, 64), 1);
    assert_int_equal(c.client.settled_ok, sent + 1);
    amb_link_flush(c.client.link);
    assert_int_equal(amb_link_poll(c.broker.link, 64), 1);
    couple_fini(&c);
}

static void test_flow_values_pass_a_stuck_body(void **state)
{
    (void)state;
    struct couple c;
    couple_init(&c, SMALL);
    assert_int_equal(link_peer_send(&c.broker, AMB_FRAME_DELIVER, 8 << 20), AMB_EAGAIN);
    amb_link_flush(c.broker.link);
    link_peer_flow(&c.broker, AMB_FLOW_ACCEPTED, 1023, 77);
    amb_link_flush(c.broker.link);
    (void)amb_link_poll(c.client.link, 1);
    assert_int_equal(c.client.flow[AMB_FLOW_ACCEPTED][1023], 77);
    assert_int_equal(c.client.bodies_ok, 0);
    couple_fini(&c);
}

/* Polls until the last of the frames has come whole. */
static void receive_all(struct couple *c)
{
    for (unsigned n = 0; n < 100000 && !link_peer_has_all(&c->client); n++) {
        (void)amb_link_poll(c->broker.link, 64);
        amb_link_flush(c->broker.link);
        (void)amb_link_poll(c->client.link, 64);
    }
    assert_true(link_peer_has_all(&c->client));
}

static void test_a_body_goes_on_in_other_memory_or_nowhere(void **state)
{
    (void)state;
    struct couple c;
    couple_init(&c, SMALL);
    assert_false(link_peer_move_body(&c.client));
    assert_int_equal(link_peer_send(&c.broker, AMB_FRAME_DELIVER, 1 << 20), AMB_EAGAIN);
    assert_int_equal(link_peer_send(&c.broker, AMB_FRAME_DELIVER, 1 << 20), AMB_EAGAIN);
    assert_int_equal(link_peer_send(&c.broker, AMB_FRAME_DELIVER, 64), AMB_EAGAIN);
    amb_link_flush(c.broker.link);
    (void)amb_link_poll(c.client.link, 1);
    assert_true(link_peer_move_body(&c.client));
    while (c.client.bodies_given < 2) {
        (void)amb_link_poll(c.broker.link, 64);
        (void)amb_link_poll(c.client.link, 1);
    }
    assert_int_equal(c.client.bodies_ok, 1);
    assert_true(link_peer_drop_body(&c.client));
    assert_false(link_peer_move_body(&c.client));
    receive_all(&c);
    assert_int_equal(c.client.bodies_ok, 2);
    assert_int_equal(c.client.bodies_failed, 1);
    couple_fini(&c);
}

static void test_flow_values_set_often_arrive_once(void **state)
{
    (void)state;
    struct couple c;
    couple_init(&c, SMALL);
    for (uint64_t i = 1; i <= 1000; i++) {
        link_peer_flow(&c.broker, AMB_FLOW_WINDOW, 5, i);
    }
    amb_link_flush(c.broker.link);
    assert_int_equal(amb_link_poll(c.client.link, 64), 1);
    assert_int_equal(c.client.flow[AMB_FLOW_WINDOW][5], 1000);
    assert_int_equal(amb_link_poll(c.client.link, 64), 0);
    couple_fini(&c);
}

static void test_a_poll_does_no_more_than_its_budget(void **state)
{
    (void)state;
    struct couple c;
    couple_init(&c, SMALL);
    for (uint32_t i = 0; i < 100; i++) {
        link_peer_flow(&c.broker, AMB_FLOW_WINDOW, i, i);
        (void)link_peer_send(&c.broker, AMB_FRAME_DELIVER, 16);
    }
    amb_link_flush(c.broker.link);
    unsigned done = amb_link_poll(c.client.link, 10);
    assert_int_equal(done, 20);
    assert_int_equal(c.client.frames, 10);
    assert_false(amb_link_arm(c.client.link, false));
    amb_link_disarm(c.client.link);
    while (amb_link_poll(c.client.link, 10) > 0) {
    }
    assert_int_equal(c.client.frames, 100);
    assert_int_equal(c.client.flow_calls, 100);
    couple_fini(&c);
}

/* ---- sleeping ---- */

static void test_one_flush_rings_at_most_once(void **state)
{
    (void)state;
    struct couple c;
    couple_init(&c, SMALL);
    amb_link_flush(c.client.link);
    (void)link_peer_send(&c.client, AMB_FRAME_BATCH, 16);
    amb_link_flush(c.client.link);
    assert_int_equal(c.client.link->stats.wakes_sent, 0); /* Nobody sleeps. */
    assert_false(amb_link_arm(c.broker.link, true));
    assert_int_equal(amb_link_poll(c.broker.link, 8), 1);
    assert_true(amb_link_arm(c.broker.link, true));
    for (int i = 0; i < 3; i++) {
        (void)link_peer_send(&c.client, AMB_FRAME_BATCH, 16);
        link_peer_flow(&c.client, AMB_FLOW_WANT, 1, (uint64_t)i);
        amb_link_flush(c.client.link);
    }
    assert_int_equal(c.client.link->stats.wakes_sent, 1);
    amb_link_disarm(c.broker.link);
    couple_fini(&c);
}

static void test_flow_values_wake_only_who_wants_them(void **state)
{
    (void)state;
    struct couple c;
    couple_init(&c, SMALL);
    assert_true(amb_link_arm(c.client.link, false));
    link_peer_flow(&c.broker, AMB_FLOW_WINDOW, 0, 1);
    amb_link_flush(c.broker.link);
    assert_int_equal(c.broker.link->stats.wakes_sent, 0);
    amb_link_disarm(c.client.link);
    assert_true(amb_link_arm(c.client.link, false));
    amb_link_disarm(c.client.link);
    assert_false(amb_link_arm(c.client.link, true));
    amb_link_disarm(c.client.link);
    couple_fini(&c);
}

/* An epoll that watches one end. The edge of the beginning is taken. */
static int watch(const struct amb_link *link)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = amb_link_fd_events(link) | EPOLLET};
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, amb_link_fd(link), &event), 0);
    (void)epoll_wait(epoll, &event, 1, 0);
    return epoll;
}

static bool has_edge(int epoll)
{
    struct epoll_event event;
    return epoll_wait(epoll, &event, 1, 0) == 1;
}

/* One open file has both, and each hears the other only. */
static void test_the_bell_rings_once_and_for_the_other_side_alone(void **state)
{
    (void)state;
    struct couple c;
    couple_init(&c, SMALL);
    int client = watch(c.client.link), broker = watch(c.broker.link);
    for (int i = 0; i < 3; i++) {
        assert_true(amb_link_arm(c.client.link, true));
        assert_true(amb_link_arm(c.broker.link, true));
        assert_false(has_edge(client) || has_edge(broker));
        link_peer_flow(&c.broker, AMB_FLOW_WINDOW, 0, (uint64_t)i);
        amb_link_flush(c.broker.link);
        assert_false(has_edge(broker));
        assert_true(has_edge(client));
        amb_link_disarm(c.client.link);
        assert_false(has_edge(client));
        assert_int_equal(amb_link_poll(c.client.link, 8), 1);
        link_peer_flow(&c.client, AMB_FLOW_WANT, 0, (uint64_t)i);
        amb_link_flush(c.client.link);
        assert_false(has_edge(client));
        assert_true(has_edge(broker));
        amb_link_disarm(c.broker.link);
        assert_false(has_edge(broker));
        assert_int_equal(amb_link_poll(c.broker.link, 8), 1);
    }
    assert_int_equal(close(client) | close(broker), 0);
    couple_fini(&c);
}

static unsigned count_fds(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) != -1;
    }
    return count;
}

/* Beside its memory, which its maker closes. */
static void test_a_ring_has_one_descriptor(void **state)
{
    (void)state;
    struct amb_ring_fds fds;
    struct amb_link *link;
    unsigned before = count_fds();
    assert_int_equal(amb_ring_create(SMALL, &link_peer_events, NULL, &fds, &link), AMB_OK);
    assert_int_equal(close(fds.memory) | close(fds.bell), 0);
    assert_int_equal(count_fds(), before + 1);
    assert_true(amb_link_close(link));
    assert_int_equal(count_fds(), before);
}

/* Bytes that have waited for room leave with the poll that found some: its owner sends nothing
 * then, and has no reason to flush. */
static void test_what_has_waited_for_room_wakes_a_peer_that_sleeps(void **state)
{
    (void)state;
    struct couple c;
    couple_init(&c, SMALL);
    unsigned sent = fill(&c.client, AMB_FRAME_BATCH);
    amb_link_flush(c.client.link);
    assert_int_equal(amb_link_poll(c.broker.link, 64), sent);
    amb_link_flush(c.broker.link);
    assert_true(amb_link_arm(c.broker.link, false));
    assert_int_equal(amb_link_poll(c.client.link, 64), 1);
    assert_int_equal(c.client.link->stats.wakes_sent, 1);
    amb_link_disarm(c.broker.link);
    assert_int_equal(amb_link_poll(c.broker.link, 64), 1);
    couple_fini(&c);
}

static void test_the_room_that_a_poll_makes_wakes_a_peer_that_sleeps(void **state)
{
    (void)state;
    struct couple c;
    couple_init(&c, SMALL);
    unsigned sent = fill(&c.broker, AMB_FRAME_DELIVER);
    amb_link_flush(c.broker.link);
    assert_true(amb_link_arm(c.broker.link, false));
    assert_int_equal(amb_link_poll(c.client.link, 64), sent);
    assert_int_equal(c.client.link->stats.wakes_sent, 1);
    amb_link_disarm(c.broker.link);
    assert_int_equal(amb_link_poll(c.broker.link, 64), 1);
    couple_fini(&c);
}

static void test_a_poll_tells_nobody_who_has_room(void **state)
{
    (void)state;
    struct couple c;
    couple_init(&c, SMALL);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(link_peer_send(&c.broker, AMB_FRAME_DELIVER, 4096), AMB_OK);
    }
    amb_link_flush(c.broker.link);
    assert_true(amb_link_arm(c.broker.link, false));
    assert_int_equal(amb_link_poll(c.client.link, 64), 4);
    assert_int_equal(c.client.link->stats.wakes_sent, 0);
    amb_link_disarm(c.broker.link);
    couple_fini(&c);
}

/* One thread's end: counts, and sleeps whenever there is nothing to do. */
struct sleeper {
    struct amb_link *link;
    struct amb_link_tx tx;
    struct amb_frame frame;
    uint8_t *data, *room;
    uint64_t data_len;
    unsigned to_send, to_receive; /* frames left */
    unsigned owed;                /* ping-pong: may send so many now */
    int epoll;
    bool is_pinging, is_busy, is_lost, is_wrong;
};

static enum amb_status sleeper_frame(void *arg, const struct amb_frame *frame, void **dst,
                                     void **cookie, struct amb_link_mem **mem)
{
    struct sleeper *s = arg;
    (void)cookie;
    (void)mem;
    s->is_wrong |= frame->seq != s->to_receive;
    *dst = s->room;
    return AMB_OK;
}

static enum amb_status sleeper_body(void *arg, void *cookie, enum amb_status status)
{
    struct sleeper *s = arg;
    (void)cookie;
    s->is_wrong |= status == AMB_OK && s->room[0] != (uint8_t)s->to_receive;
    s->to_receive--;
    s->owed++;
    amb_link_flow(s->link, AMB_FLOW_RELEASE, 9, s->to_receive);
    return AMB_OK;
}

static enum amb_status sleeper_flow(void *arg, enum amb_flow_kind kind, uint32_t handle,
                                    uint64_t value)
{
    struct sleeper *s = arg;
    s->is_wrong |= kind != AMB_FLOW_RELEASE || handle != 9 || value > 1000000;
    return AMB_OK;
}

static void sleeper_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    struct sleeper *s = arg;
    (void)tx;
    s->is_busy = false;
    s->is_wrong |= status != AMB_OK;
}

static void sleeper_down(void *arg, enum amb_status why, const char *text)
{
    struct sleeper *s = arg;
    (void)why;
    (void)text;
    s->is_wrong |= s->to_send > 0 || s->to_receive > 0;
}

static void sleeper_closed(void *arg)
{
    (void)arg;
}

static const struct amb_link_events sleeper_events = {
    .on_frame = sleeper_frame,
    .on_body = sleeper_body,
    .on_flow = sleeper_flow,
    .on_sent = sleeper_sent,
    .on_down = sleeper_down,
    .on_closed = sleeper_closed,
};

static bool sleeper_can_send(const struct sleeper *s)
{
    return s->to_send > 0 && !s->is_busy && (!s->is_pinging || s->owed > 0);
}

static void sleeper_send(struct sleeper *s)
{
    while (sleeper_can_send(s)) {
        s->data[0] = (uint8_t)s->to_send;
        s->frame.seq = s->to_send--;
        s->owed -= s->is_pinging ? 1 : 0;
        s->is_busy = amb_link_send(s->link, &s->tx) == AMB_EAGAIN;
    }
}

static void *sleeper_run(void *arg)
{
    struct sleeper *s = arg;
    while (!s->is_lost && !s->is_wrong) {
        sleeper_send(s);
        amb_link_flush(s->link);
        if (amb_link_poll(s->link, 16) > 0 || sleeper_can_send(s)) {
            continue;
        }
        if (s->to_send == 0 && s->to_receive == 0 && !s->is_busy) {
            break;
        }
        if (amb_link_arm(s->link, false)) {
            struct epoll_event event;
            s->is_lost = epoll_wait(s->epoll, &event, 1, 5000) != 1; /* Only then so long. */
        }
        amb_link_disarm(s->link);
    }
    return NULL;
}

static void sleeper_init(struct sleeper *s, uint64_t len, unsigned count, bool is_pinging)
{
    memset(s, 0, sizeof(*s));
    s->data = calloc(1, len);
    s->room = calloc(1, len + 16);
    assert_true(s->data != NULL && s->room != NULL);
    s->data_len = len;
    s->frame = (struct amb_frame){
        .type = AMB_FRAME_BATCH, .count = 1, .data_len = len - 16, .meta_len = 16};
    s->tx = (struct amb_link_tx){.frame = &s->frame, .data = s->data, .meta = s->data + len - 16};
    s->to_send = s->to_receive = count;
    s->is_pinging = is_pinging;
}

static void run_sleepers(uint64_t len, unsigned count, bool is_pinging)
{
    struct sleeper s[2];
    struct amb_link *end[2];
    void *args[2] = {&s[0], &s[1]};
    make_pair(SMALL, &sleeper_events, args, end);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        sleeper_init(&s[i], len, count, is_pinging);
        s[i].link = end[i];
        s[i].epoll = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event event = {.events = amb_link_fd_events(end[i]) | EPOLLET};
        assert_int_equal(epoll_ctl(s[i].epoll, EPOLL_CTL_ADD, amb_link_fd(end[i]), &event), 0);
    }
    s[0].owed = 1;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, sleeper_run, &s[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_false(s[i].is_lost);
        assert_false(s[i].is_wrong);
        assert_int_equal(s[i].to_send + s[i].to_receive, 0);
        assert_true(amb_link_close(end[i]));
        assert_int_equal(close(s[i].epoll), 0);
        free(s[i].data);
        free(s[i].room);
    }
}

static void test_no_wake_up_is_lost_between_two_threads_that_take_turns(void **state)
{
    (void)state;
    run_sleepers(64, 4000, true);
}

static void test_no_wake_up_is_lost_when_both_wait_for_room(void **state)
{
    (void)state;
    run_sleepers(60000, 1000, false);
    run_sleepers(300000, 200, false);
}

int main(void)
{
    static const struct link_suite_factory small = {.name = "ring of 64 KiB",
                                                    .make = make_small,
                                                    .delivers_before_down = true,
                                                    .flow_overtakes = true};
    static const struct link_suite_factory normal = {.name = "ring of 1 MiB",
                                                     .make = make_default,
                                                     .delivers_before_down = true,
                                                     .flow_overtakes = true};
    const struct CMUnitTest own[] = {
        cmocka_unit_test(test_sizes_are_powers_of_two_within_limits),
        cmocka_unit_test(test_no_descriptor_is_left_behind),
        cmocka_unit_test(test_memory_is_sealed_and_private),
        cmocka_unit_test(test_a_disposed_ring_frees_pages_that_its_client_has_mapped),
        cmocka_unit_test(test_bytes_that_were_taken_back_meanwhile_are_no_body),
        cmocka_unit_test(test_attach_refuses_what_could_hurt_it),
        cmocka_unit_test(test_small_frames_with_room_are_settled_at_once),
        cmocka_unit_test(test_a_full_ring_queues_and_goes_on_when_polled),
        cmocka_unit_test(test_flow_values_pass_a_stuck_body),
        cmocka_unit_test(test_a_body_goes_on_in_other_memory_or_nowhere),
        cmocka_unit_test(test_flow_values_set_often_arrive_once),
        cmocka_unit_test(test_a_poll_does_no_more_than_its_budget),
        cmocka_unit_test(test_one_flush_rings_at_most_once),
        cmocka_unit_test(test_flow_values_wake_only_who_wants_them),
        cmocka_unit_test(test_the_bell_rings_once_and_for_the_other_side_alone),
        cmocka_unit_test(test_a_ring_has_one_descriptor),
        cmocka_unit_test(test_what_has_waited_for_room_wakes_a_peer_that_sleeps),
        cmocka_unit_test(test_the_room_that_a_poll_makes_wakes_a_peer_that_sleeps),
        cmocka_unit_test(test_a_poll_tells_nobody_who_has_room),
        cmocka_unit_test(test_no_wake_up_is_lost_between_two_threads_that_take_turns),
        cmocka_unit_test(test_no_wake_up_is_lost_when_both_wait_for_room),
    };
    return link_suite_run(&small) + link_suite_run(&normal) +
           cmocka_run_group_tests_name("ring", own, NULL, NULL);
}
