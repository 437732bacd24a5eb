/* SPDX-License-Identifier: Apache-2.0 */
/* Calls without room, and the event that tells of some, against a fake broker. */
#include "client/batch/pub.h"
#include "client/drive/drive.h"
#include "client/drive/lock.h"
#include "tests/unit/client/session.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

struct heard {
    unsigned rooms, others, of_nobody;
    struct amb_pub *pub; /* the last one */
};

static void on_event(struct amb_conn *conn, const struct amb_event *event, void *arg)
{
    struct heard *heard = arg;
    assert_non_null(conn);
    if (event->type != AMB_EVENT_ROOM) {
        heard->others++;
        return;
    }
    assert_int_equal(event->size, sizeof(*event));
    assert_true(event->time_ns > 0);
    assert_non_null(event->text);
    assert_null(event->sub);
    heard->rooms++;
    heard->of_nobody += event->pub == NULL;
    heard->pub = event->pub;
}

static void open_heard(struct session *s, const struct fake_options *options,
                       enum amb_progress progress, struct heard *heard)
{
    *heard = (struct heard){0};
    session_open(s, options,
                 AMB_OPTIONS(.progress = progress, .on_event = on_event, .event_arg = heard));
}

static struct amb_pub *open_pub(struct session *s, const char *topic)
{
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s->conn, topic, NULL, &pub), AMB_OK);
    return pub;
}

/* Publishes until there is no room; returns how many had some. */
static unsigned fill(struct amb_pub *pub)
{
    static const char bytes[1000];
    for (unsigned i = 0; i < 10000; i++) {
        enum amb_status status = amb_pub_send(pub, bytes, sizeof(bytes), AMB_NOWAIT);
        if (status == AMB_EAGAIN) {
            return i;
        }
        assert_int_equal(status, AMB_OK);
    }
    fail_msg("there is room without end");
    return 0;
}

/* The broker gives the window that it was asked for. */
static void give_room(struct session *s, const struct amb_pub *pub)
{
    amb_conn_lock(s->conn);
    uint64_t wanted = pub->window.wanted; /* The newest, which the broker may hear of later. */
    amb_conn_unlock(s->conn);
    FAKE_WAIT(s->fake, &s->seen, s->seen.want[pub->handle] == wanted);
    fake_broker_window(s->fake, pub->handle, wanted);
}

/* Is amb_fd readable, at the latest so many ms from now? */
static bool is_readable(struct session *s, int ms)
{
    struct pollfd fd = {.fd = amb_fd(s->conn), .events = POLLIN};
    return poll(&fd, 1, ms) == 1;
}

/* As an event loop: amb_poll runs where amb_fd is readable alone. */
static void await_room(struct session *s, const struct heard *heard, unsigned rooms)
{
    for (unsigned i = 0; heard->rooms < rooms; i++) {
        assert_true(i < 100000);
        assert_true(is_readable(s, 10000));
        assert_int_equal(amb_poll(s->conn, AMB_NOWAIT), AMB_OK);
    }
    assert_int_equal(heard->rooms, rooms);
}

/* Nothing is told that is not so, for a moment. */
static void assert_silent(struct session *s, const struct heard *heard, unsigned rooms)
{
    for (int i = 0; i < 20; i++) {
        if (is_readable(s, 1)) {
            assert_int_equal(amb_poll(s->conn, AMB_NOWAIT), AMB_OK);
        }
    }
    assert_int_equal(heard->rooms, rooms);
}

static void a_full_window_is_told_once_it_opens(void **state)
{
    static const enum amb_progress modes[] = {AMB_PROGRESS_THREAD, AMB_PROGRESS_POLL};
    for (unsigned mode = 0; mode < 2; mode++) {
        struct session s;
        struct heard heard;
        open_heard(&s, *state, modes[mode], &heard);
        struct amb_pub *pub = open_pub(&s, "a");
        assert_true(amb_fd(s.conn) >= 0);
        fake_broker_hold_window(s.fake, true);
        for (unsigned round = 1; round <= 3; round++) {
            assert_int_not_equal(fill(pub), 0);
            assert_int_equal(fill(pub), 0); /* Many have none, and are told of once. */
            assert_int_equal(fill(pub), 0);
            assert_silent(&s, &heard, round - 1);
            give_room(&s, pub);
            await_room(&s, &heard, round);
            assert_ptr_equal(heard.pub, pub);
            assert_int_equal(amb_pub_send(pub, "x", 1, AMB_NOWAIT), AMB_OK);
            assert_silent(&s, &heard, round);
        }
        amb_conn_lock(s.conn);
        assert_int_equal(s.conn->driver.flow_waits, 0);
        amb_conn_unlock(s.conn);
        assert_int_equal(heard.others, 0);
        session_close(&s);
    }
}

static void messages_that_are_settled_make_room(void **state)
{
    struct session s;
    struct heard heard;
    open_heard(&s, *state, AMB_PROGRESS_THREAD, &heard);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", AMB_PUB(.window_msgs = 8), &pub), AMB_OK);
    for (unsigned round = 1; round <= 3; round++) {
        fake_broker_hold(s.fake, true);
        assert_int_not_equal(fill(pub), 0);
        assert_silent(&s, &heard, round - 1);
        fake_broker_hold(s.fake, false);
        await_room(&s, &heard, round);
        assert_int_equal(amb_pub_send(pub, "x", 1, AMB_NOWAIT), AMB_OK);
        assert_int_equal(amb_pub_flush(pub, 0, 10 * AMB_SEC), AMB_OK);
    }
    session_close(&s);
}

static void each_publisher_is_told_of(void **state)
{
    struct session s;
    struct heard heard;
    open_heard(&s, *state, AMB_PROGRESS_THREAD, &heard);
    fake_broker_hold_window(s.fake, true);
    struct amb_pub *pubs[4];
    for (unsigned i = 0; i < 4; i++) {
        pubs[i] = open_pub(&s, i % 2 == 0 ? "a" : "b");
        assert_int_not_equal(fill(pubs[i]), 0);
    }
    assert_int_equal(amb_pub_close(pubs[3], AMB_NOWAIT), AMB_OK); /* Of this one nobody hears. */
    for (unsigned i = 3; i > 0; i--) {
        give_room(&s, pubs[i - 1]);
        await_room(&s, &heard, 4 - i);
        assert_ptr_equal(heard.pub, pubs[i - 1]);
    }
    assert_silent(&s, &heard, 3);
    assert_int_equal(heard.of_nobody, 0);
    session_close(&s);
}

/* Their publishers are not the program's. */
static void of_amb_publish_no_publisher_is_named(void **state)
{
    struct session s;
    struct heard heard;
    open_heard(&s, *state, AMB_PROGRESS_THREAD, &heard);
    fake_broker_hold_window(s.fake, true);
    static const char bytes[1000];
    for (unsigned topic = 0; topic < 2; topic++) {
        enum amb_status status = AMB_OK;
        for (unsigned i = 0; i < 10000 && status == AMB_OK; i++) {
            status = amb_publish(s.conn, topic == 0 ? "a" : "b", bytes, sizeof(bytes), AMB_NOWAIT);
        }
        assert_int_equal(status, AMB_EAGAIN);
    }
    assert_silent(&s, &heard, 0);
    give_room(&s, s.conn->handles.pubs[1]);
    await_room(&s, &heard, 1);
    assert_int_equal(amb_publish(s.conn, "b", "x", 1, AMB_NOWAIT), AMB_OK);
    assert_int_equal(amb_publish(s.conn, "a", bytes, sizeof(bytes), AMB_NOWAIT), AMB_EAGAIN);
    give_room(&s, s.conn->handles.pubs[0]);
    await_room(&s, &heard, 2);
    assert_int_equal(amb_publish(s.conn, "a", bytes, sizeof(bytes), AMB_NOWAIT), AMB_OK);
    assert_int_equal(heard.of_nobody, heard.rooms);
    session_close(&s);
}

static void *poll_once(void *arg)
{
    return (void *)(intptr_t)amb_poll(arg, 10 * AMB_SEC);
}

static void a_thread_that_sleeps_in_poll_is_woken_for_it(void **state)
{
    struct session s;
    struct heard heard;
    open_heard(&s, *state, AMB_PROGRESS_THREAD, &heard);
    fake_broker_hold_window(s.fake, true);
    struct amb_pub *pub = open_pub(&s, "a");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, poll_once, s.conn), 0);
    session_wait_inside(&s, 1);
    assert_int_not_equal(fill(pub), 0);
    give_room(&s, pub);
    void *failed = NULL;
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_int_equal((intptr_t)failed, 0);
    assert_int_equal(heard.rooms, 1);
    session_close(&s);
}

/* The memory of sends, not the window. */
static void memory_that_comes_back_is_room(void **state)
{
    struct fake_options options = *(const struct fake_options *)*state;
    options.window = 16 * MIB;
    struct session s;
    struct heard heard = {0};
    session_open(&s, &options,
                 AMB_OPTIONS(.send_memory_max = MIB, .on_event = on_event, .event_arg = &heard));
    struct amb_pub *pub = open_pub(&s, "a");
    fake_broker_stall(s.fake, true);
    char *bytes = calloc(1, MIB);
    assert_non_null(bytes);
    const struct amb_out *out = AMB_OUT(.data = bytes, .len = MIB);
    unsigned taken = 0;
    enum amb_status status = AMB_OK;
    while (status == AMB_OK && taken < 14) {
        status = amb_pub_copy(pub, out, AMB_NOWAIT, NULL);
        taken += status == AMB_OK;
    }
    assert_int_equal(status, AMB_EAGAIN);
    assert_silent(&s, &heard, 0);
    fake_broker_stall(s.fake, false);
    await_room(&s, &heard, 1);
    assert_int_equal(amb_pub_copy(pub, out, AMB_NOWAIT, NULL), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 10 * AMB_SEC), AMB_OK);
    session_close(&s);
    free(bytes);
}

/* Takes leases until there are none. */
static unsigned take_all(struct amb_pub *pub, uint64_t len, struct amb_lease **leases, unsigned max)
{
    for (unsigned i = 0; i < max; i++) {
        enum amb_status status = amb_lease(pub, len, AMB_NOWAIT, &leases[i]);
        if (status == AMB_EAGAIN) {
            return i;
        }
        assert_int_equal(status, AMB_OK);
    }
    fail_msg("there are leases without end");
    return 0;
}

static void private_memory_that_comes_back_is_room_for_a_lease(void **state)
{
    struct session s;
    struct heard heard;
    open_heard(&s, *state, AMB_PROGRESS_THREAD, &heard);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", AMB_PUB(.window_bytes = 256 * KIB), &pub), AMB_OK);
    struct amb_lease *leases[16];
    unsigned count = take_all(pub, 64 * KIB, leases, 16);
    assert_int_not_equal(count, 0);
    assert_silent(&s, &heard, 0);
    amb_lease_abandon(leases[--count]);
    await_room(&s, &heard, 1);
    assert_ptr_equal(heard.pub, pub);
    assert_int_equal(amb_lease(pub, 64 * KIB, AMB_NOWAIT, &leases[count]), AMB_OK);
    count++;
    struct amb_lease *none;
    assert_int_equal(amb_lease(pub, 64 * KIB, AMB_NOWAIT, &none), AMB_EAGAIN);
    assert_null(none);
    assert_int_equal(amb_lease_commit(leases[--count], NULL, NULL), AMB_OK);
    await_room(&s, &heard, 2); /* Sent, too, it is room. */
    while (count != 0) {
        amb_lease_abandon(leases[--count]);
    }
    session_close(&s);
}

static void a_slot_that_comes_back_is_room_for_a_lease(void **state)
{
    (void)state;
    static const struct fake_options options = {.lease_bytes = 4 * MIB};
    struct session s;
    struct heard heard;
    open_heard(&s, &options, AMB_PROGRESS_THREAD, &heard);
    struct amb_pub *pub = open_pub(&s, "a");
    struct amb_lease *lease;
    fake_broker_hold_freed(s.fake, true);
    /* The first one asks for a segment, and hears when it is there. */
    assert_int_equal(amb_lease(pub, MIB, AMB_NOWAIT, &lease), AMB_EAGAIN);
    await_room(&s, &heard, 1);
    unsigned committed = 0;
    for (enum amb_status status = AMB_OK; status != AMB_EAGAIN;) {
        status = amb_lease(pub, MIB, AMB_NOWAIT, &lease);
        if (status == AMB_OK) {
            assert_int_equal(amb_lease_commit(lease, NULL, NULL), AMB_OK);
            assert_int_equal(amb_pub_flush(pub, 0, 10 * AMB_SEC), AMB_OK);
            assert_true(++committed <= 4);
        }
    }
    assert_int_equal(committed, 4);
    assert_silent(&s, &heard, 1);
    fake_broker_hold_freed(s.fake, false);
    await_room(&s, &heard, 2);
    assert_int_equal(amb_lease(pub, MIB, AMB_NOWAIT, &lease), AMB_OK);
    amb_lease_abandon(lease);
    session_close(&s);
}

/* A call would answer at once: so it is told. */
static void the_end_of_the_session_is_told_to_those_without_room(void **state)
{
    struct session s;
    struct heard heard;
    open_heard(&s, *state, AMB_PROGRESS_THREAD, &heard);
    fake_broker_hold_window(s.fake, true);
    struct amb_pub *pub = open_pub(&s, "a");
    assert_int_not_equal(fill(pub), 0);
    fake_broker_hang_up(s.fake);
    for (unsigned i = 0; heard.rooms == 0 && i < 1000; i++) {
        (void)is_readable(&s, 10);
        (void)amb_poll(s.conn, AMB_NOWAIT);
    }
    assert_int_equal(heard.rooms, 1);
    assert_int_equal(amb_pub_send(pub, "x", 1, AMB_NOWAIT), AMB_ELOST);
    session_close(&s);
}

static void without_a_callback_nothing_is_noted(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    fake_broker_hold_window(s.fake, true);
    struct amb_pub *pub = open_pub(&s, "a");
    assert_true(amb_fd(s.conn) >= 0);
    assert_int_not_equal(fill(pub), 0);
    amb_conn_lock(s.conn);
    assert_true(amb_list_is_empty(&s.conn->notify.rooms_awaited));
    assert_int_equal(s.conn->driver.flow_waits, 0);
    amb_conn_unlock(s.conn);
    session_close(&s);
}

static void a_close_may_come_before_it_is_told(void **state)
{
    struct session s;
    struct heard heard;
    open_heard(&s, *state, AMB_PROGRESS_THREAD, &heard);
    fake_broker_hold_window(s.fake, true);
    struct amb_pub *pub = open_pub(&s, "a"), *other = open_pub(&s, "b");
    assert_int_not_equal(fill(pub), 0);
    assert_int_not_equal(fill(other), 0);
    give_room(&s, pub);
    assert_true(is_readable(&s, 10000)); /* It is due, and not told. */
    assert_int_equal(amb_pub_close(pub, AMB_NOWAIT), AMB_OK);
    assert_silent(&s, &heard, 0);
    give_room(&s, other);
    await_room(&s, &heard, 1);
    assert_ptr_equal(heard.pub, other);
    assert_int_not_equal(fill(other), 0);
    session_close(&s); /* With one that waits. */
    assert_int_equal(heard.rooms, 1);
}

/* ---- more than one thread, more than one call ---- */

static void *send_one(void *arg)
{
    struct amb_pub *pub = arg;
    static const char bytes[3 * MIB / 2];
    return (void *)(intptr_t)amb_pub_send(pub, bytes, sizeof(bytes), 20 * AMB_SEC);
}

/* The bytes of a message that a call waits for are room when it is sent. The thread of that call
 * may run after the receipt has come, when nothing more happens. */
static void memory_of_a_call_that_wakes_late_is_room(void **state)
{
    (void)state;
    static const struct fake_options options = {.link = AMB_LINK_STREAM,
                                                .window = 16 * MIB,
                                                .heartbeat_ns = 100 * AMB_SEC,
                                                .peer_timeout_ns = 400 * AMB_SEC};
    struct session s;
    struct heard heard = {0};
    session_open(&s, &options,
                 AMB_OPTIONS(.send_memory_max = MIB, .on_event = on_event, .event_arg = &heard));
    struct amb_pub *pub = open_pub(&s, "a"), *other = open_pub(&s, "b");
    char *bytes = calloc(1, MIB);
    pthread_t thread;
    assert_non_null(bytes);
    assert_true(amb_fd(s.conn) >= 0);
    fake_broker_stall(s.fake, true);
    assert_int_equal(pthread_create(&thread, NULL, send_one, pub), 0);
    while (atomic_load(&pub->sent_batches) == 0) {
        fake_broker_nap();
    }
    const struct amb_out *out = AMB_OUT(.data = bytes, .len = MIB);
    assert_int_equal(amb_pub_copy(other, out, AMB_NOWAIT, NULL), AMB_EAGAIN);
    amb_conn_lock(s.conn);
    fake_broker_stall(s.fake, false);
    while (atomic_load(&pub->settled_seq) == 0) {
        (void)amb_conn_progress(s.conn);
        fake_broker_nap();
    }
    amb_conn_unlock(s.conn);
    void *status = NULL;
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_int_equal((intptr_t)status, AMB_OK);
    await_room(&s, &heard, 1);
    assert_ptr_equal(heard.pub, other);
    session_close(&s);
    free(bytes);
}

/* The last call that had no room is not the one that finds some first. */
static void a_small_lease_does_not_wait_for_room_for_a_large_one(void **state)
{
    struct session s;
    struct heard heard;
    open_heard(&s, *state, AMB_PROGRESS_THREAD, &heard);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", AMB_PUB(.window_bytes = 256 * KIB), &pub), AMB_OK);
    struct amb_lease *leases[16], *none;
    unsigned count = take_all(pub, 64 * KIB, leases, 16);
    assert_int_not_equal(count, 0);
    assert_int_equal(amb_lease(pub, 128 * KIB, AMB_NOWAIT, &none), AMB_EAGAIN);
    assert_silent(&s, &heard, 0);
    amb_lease_abandon(leases[--count]);
    await_room(&s, &heard, 1);
    assert_int_equal(amb_lease(pub, 64 * KIB, AMB_NOWAIT, &leases[count]), AMB_OK);
    count++;
    while (count != 0) {
        amb_lease_abandon(leases[--count]);
    }
    session_close(&s);
}

struct stage {
    sem_t begun, go;
    struct amb_pub *pub;
    struct amb_sub *sub;
    _Atomic bool is_closed;
};

static void on_slow_event(struct amb_conn *conn, const struct amb_event *event, void *arg)
{
    struct stage *stage = arg;
    (void)conn;
    assert_true((event->pub != NULL && event->pub == stage->pub) ||
                (event->sub != NULL && event->sub == stage->sub));
    assert_int_equal(sem_post(&stage->begun), 0);
    assert_int_equal(sem_wait(&stage->go), 0);
}

static void *close_it(void *arg)
{
    struct stage *stage = arg;
    enum amb_status status = stage->sub != NULL ? amb_sub_close(stage->sub, AMB_NOWAIT)
                                                : amb_pub_close(stage->pub, AMB_NOWAIT);
    atomic_store(&stage->is_closed, true);
    return (void *)(intptr_t)status;
}

/* As for its other callbacks: nothing names a handle after its close. */
static void a_close_waits_for_the_event_that_names_its_handle(void **state)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        struct session s;
        struct stage stage = {0};
        pthread_t poller, closer;
        void *failed = NULL;
        assert_int_equal(sem_init(&stage.begun, 0, 0) | sem_init(&stage.go, 0, 0), 0);
        session_open(&s, *state, AMB_OPTIONS(.on_event = on_slow_event, .event_arg = &stage));
        if (kind == 0) {
            assert_int_equal(amb_subscribe(s.conn, "t1", NULL, &stage.sub), AMB_OK);
            fake_broker_deliver(s.fake, 0, 1, "m", 1, 5, 4); /* Four are lost. */
        } else {
            fake_broker_hold_window(s.fake, true);
            stage.pub = open_pub(&s, "a");
            if (kind == 1) {
                fake_broker_subscribers(s.fake, 0, 7);
            } else {
                assert_int_not_equal(fill(stage.pub), 0);
                give_room(&s, stage.pub);
            }
        }
        assert_int_equal(pthread_create(&poller, NULL, poll_once, s.conn), 0);
        assert_int_equal(sem_wait(&stage.begun), 0);
        assert_int_equal(pthread_create(&closer, NULL, close_it, &stage), 0);
        for (unsigned i = 0; i < 200; i++) {
            fake_broker_nap();
            assert_false(atomic_load(&stage.is_closed));
        }
        assert_int_equal(sem_post(&stage.go), 0);
        assert_int_equal(pthread_join(closer, &failed), 0);
        assert_int_equal((intptr_t)failed, AMB_OK);
        assert_int_equal(pthread_join(poller, NULL), 0);
        session_close(&s);
        (void)sem_destroy(&stage.begun);
        (void)sem_destroy(&stage.go);
    }
}

int main(void)
{
    static struct fake_options ring = {.link = AMB_LINK_RING};
    static struct fake_options stream = {.link = AMB_LINK_STREAM};
#define BOTH(test) cmocka_unit_test_prestate(test, &ring), cmocka_unit_test_prestate(test, &stream)
    const struct CMUnitTest tests[] = {
        BOTH(a_full_window_is_told_once_it_opens),
        BOTH(messages_that_are_settled_make_room),
        BOTH(each_publisher_is_told_of),
        BOTH(of_amb_publish_no_publisher_is_named),
        BOTH(a_thread_that_sleeps_in_poll_is_woken_for_it),
        BOTH(memory_that_comes_back_is_room),
        BOTH(private_memory_that_comes_back_is_room_for_a_lease),
        BOTH(the_end_of_the_session_is_told_to_those_without_room),
        BOTH(without_a_callback_nothing_is_noted),
        BOTH(a_close_may_come_before_it_is_told),
        BOTH(a_close_waits_for_the_event_that_names_its_handle),
        cmocka_unit_test(memory_of_a_call_that_wakes_late_is_room),
        BOTH(a_small_lease_does_not_wait_for_room_for_a_large_one),
        cmocka_unit_test(a_slot_that_comes_back_is_room_for_a_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
