/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that are a batch of their own. */
#include "client/batch/pub.h"
#include "client/drive/lock.h"
#include "client/publish/room.h"
#include "tests/unit/client/session.h"

#include "wire/base/clock.h"
#include "wire/codec/props.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static void large_messages_are_batches_of_their_own_and_keep_their_place(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    static uint8_t large[1500001];
    memset(large, 'x', sizeof(large));
    assert_int_equal(amb_pub_send(pub, "small", 5, AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_send(pub, large, sizeof(large), 5 * AMB_SEC), AMB_OK);
    uint64_t seq = 0;
    assert_int_equal(
        amb_pub_post(pub, AMB_OUT(.data = large, .len = 1500000, .key = "k"), 5 * AMB_SEC, &seq),
        AMB_OK);
    assert_int_equal(seq, 3);
    assert_int_equal(amb_pub_flush(pub, seq, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 3);
    assert_int_equal(s.seen.last_count, 1);
    assert_int_equal(s.seen.last_len, 1500000);
    assert_int_equal(s.seen.last[0], 'x');
    assert_int_equal(amb_pub_send(pub, large, (size_t)3 << 20, AMB_SEC), AMB_ETOOLARGE);
    session_close(&s);
}

static void pieces_are_one_message_and_the_callers_again_at_once(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    static uint8_t bytes[600001];
    memset(bytes, 'y', sizeof(bytes));
    struct amb_iov iov[] = {
        {bytes, sizeof(bytes)}, {NULL, 0}, {bytes, 300000}, {"pieces are one", 15}};
    assert_int_equal(amb_pub_post(pub, AMB_OUT(.iov = iov, .iov_count = 4), 5 * AMB_SEC, NULL),
                     AMB_OK);
    memset(bytes, 'n', sizeof(bytes));
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 1);
    assert_int_equal(s.seen.last_len, 900016);
    assert_int_equal(s.seen.last[0], 'y');
    session_close(&s);
}

#define LARGE 1500000u
#define FIRST (UINT64_C(2) << 20)

/* The broker reads nothing, and more is on its way to it than any socket or ring holds. */
static struct amb_pub *open_stalled(struct session *s, const uint8_t *first)
{
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s->conn, "a", NULL, &pub), AMB_OK);
    fake_broker_stall(s->fake, true);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(amb_pub_post(pub, AMB_OUT(.data = first, .len = FIRST), 5 * AMB_SEC, NULL),
                         AMB_OK);
    }
    return pub;
}

static uint8_t *bytes_of(uint8_t value, size_t len)
{
    uint8_t *bytes = malloc(len);
    assert_non_null(bytes);
    memset(bytes, value, len);
    return bytes;
}

/* Of the last message. */
static void assert_seen(struct session *s, uint64_t msgs, uint64_t len, uint8_t value)
{
    fake_broker_look(s->fake, &s->seen);
    assert_int_equal(s->seen.msgs[0], msgs);
    assert_int_equal(s->seen.last_len, len);
    for (size_t i = 0; i < sizeof(s->seen.last); i++) {
        assert_int_equal(s->seen.last[i], value);
    }
}

static void a_copy_that_may_not_wait_is_of_bytes_that_are_gone_at_once(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    uint8_t *first = bytes_of('f', FIRST), *bytes = bytes_of('y', LARGE);
    struct amb_pub *pub = open_stalled(&s, first);
    uint64_t seq = 0;
    assert_int_equal(
        amb_pub_copy(pub, AMB_OUT(.data = bytes, .len = LARGE, .key = "k"), AMB_NOWAIT, &seq),
        AMB_OK);
    assert_int_equal(seq, 5);
    memset(bytes, 'n', LARGE);
    free(bytes);
    fake_broker_stall(s.fake, false);
    assert_int_equal(amb_pub_flush(pub, seq, 10 * AMB_SEC), AMB_OK);
    assert_seen(&s, 5, LARGE, 'y');
    session_close(&s);
    free(first);
}

static void a_copy_that_may_not_wait_is_within_send_memory_max(void **state)
{
    struct session s;
    session_open(&s, *state, AMB_OPTIONS(.send_memory_max = 2 * LARGE));
    uint8_t *first = bytes_of('f', FIRST), *bytes = bytes_of('y', LARGE);
    struct amb_pub *pub = open_stalled(&s, first);
    const struct amb_out *out = AMB_OUT(.data = bytes, .len = LARGE);
    assert_int_equal(amb_pub_copy(pub, out, AMB_NOWAIT, NULL), AMB_OK);
    uint64_t seq = 77;
    assert_int_equal(amb_pub_copy(pub, out, AMB_NOWAIT, &seq), AMB_EAGAIN);
    assert_int_equal(seq, 77);
    fake_broker_stall(s.fake, false);
    assert_int_equal(amb_pub_flush(pub, 0, 10 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_copy(pub, out, AMB_NOWAIT, &seq), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 10 * AMB_SEC), AMB_OK);
    assert_int_equal(seq, 6); /* The refused ones have no number. */
    assert_seen(&s, 6, LARGE, 'y');
    session_close(&s);
    free(first);
    free(bytes);
}

static void a_wait_for_what_a_post_has_borrowed_has_an_end(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    uint8_t *first = bytes_of('f', FIRST);
    struct amb_pub *pub = open_stalled(&s, first);
    assert_int_equal(amb_pub_wait_borrowed(pub, AMB_NOWAIT), AMB_EAGAIN);
    assert_int_equal(amb_pub_wait_borrowed(pub, 20 * AMB_MS), AMB_ETIMEDOUT);
    fake_broker_stall(s.fake, false);
    assert_int_equal(amb_pub_wait_borrowed(pub, 10 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_close(pub, AMB_NOWAIT), AMB_OK);
    assert_int_equal(amb_pub_wait_borrowed(NULL, AMB_NOWAIT), AMB_EINVAL);
    session_close(&s);
    free(first);
}

static int is_called_off(void *arg)
{
    return *(const bool *)arg;
}

/* The link stands still: a close that waited for it would not end. */
static void a_close_that_is_called_off_leaves_no_payload_to_the_link(void **state)
{
    bool is_over = false;
    struct session s;
    session_open(&s, *state,
                 AMB_OPTIONS(.is_interrupted = is_called_off, .interrupted_arg = &is_over));
    uint8_t *first = bytes_of('f', FIRST);
    (void)open_stalled(&s, first);
    is_over = true;
    assert_int_equal(amb_close(s.conn, AMB_NOWAIT), AMB_OK);
    free(first);
    fake_broker_stop(s.fake);
}

static int count_and_call_off(void *arg)
{
    ++*(uint32_t *)arg;
    return 1;
}

/* A link that moves ends each publisher's wait, so nobody would be asked in one. */
static void a_close_asks_before_it_waits_for_the_link(void **state)
{
    uint32_t asked = 0;
    struct session s;
    session_open(&s, *state,
                 AMB_OPTIONS(.progress = AMB_PROGRESS_POLL, .is_interrupted = count_and_call_off,
                             .interrupted_arg = &asked));
    uint8_t *first = bytes_of('f', FIRST);
    (void)open_stalled(&s, first);
    asked = 0;
    fake_broker_stall(s.fake, false);
    assert_int_equal(amb_close(s.conn, AMB_NOWAIT), AMB_OK);
    assert_int_equal(asked, 1);
    free(first);
    fake_broker_stop(s.fake);
}

/* The link stands still: a call that waited for it would not end. */
static void a_copy_that_is_called_off_goes_on_without_its_caller(void **state)
{
    bool is_over = false;
    struct session s;
    session_open(&s, *state,
                 AMB_OPTIONS(.is_interrupted = is_called_off, .interrupted_arg = &is_over));
    uint8_t *first = bytes_of('f', FIRST), *bytes = bytes_of('y', LARGE);
    struct amb_pub *pub = open_stalled(&s, first);
    is_over = true;
    uint64_t seq = 0;
    assert_int_equal(amb_pub_copy(pub, AMB_OUT(.data = bytes, .len = LARGE), AMB_FOREVER, &seq),
                     AMB_OK);
    assert_int_equal(seq, 5);
    memset(bytes, 'n', LARGE);
    assert_int_equal(amb_pub_send(pub, bytes, LARGE, AMB_FOREVER), AMB_OK);
    free(bytes);
    assert_true(s.conn->batches.bytes >= 2 * LARGE); /* They are counted. */
    is_over = false;
    fake_broker_stall(s.fake, false);
    assert_int_equal(amb_pub_flush(pub, 0, 10 * AMB_SEC), AMB_OK);
    assert_seen(&s, 6, LARGE, 'n');
    assert_true(s.conn->batches.bytes < LARGE);
    session_close(&s);
    free(first);
}

/* As of ucx, whose transports may read the memory whenever they like. */
static void make_rigid(struct amb_conn *conn)
{
    static struct amb_link_ops rigid;
    amb_conn_lock(conn);
    rigid = *conn->link->ops;
    rigid.rereads = false;
    conn->link->ops = &rigid;
    amb_conn_unlock(conn);
}

static void a_copy_that_is_called_off_ends_a_link_that_reads_one_place_alone(void **state)
{
    bool is_over = false;
    struct session s;
    session_open(&s, *state,
                 AMB_OPTIONS(.is_interrupted = is_called_off, .interrupted_arg = &is_over));
    make_rigid(s.conn);
    uint8_t *first = bytes_of('f', FIRST), *bytes = bytes_of('y', LARGE);
    struct amb_pub *pub = open_stalled(&s, first);
    is_over = true;
    assert_int_equal(amb_pub_send(pub, bytes, LARGE, AMB_FOREVER), AMB_OK);
    free(bytes);
    assert_int_equal(amb_pub_flush(pub, 0, AMB_SEC), AMB_ELOST);
    assert_non_null(strstr(amb_last_error(s.conn).text, "called off"));
    assert_int_equal(amb_pub_send(pub, "x", 1, AMB_SEC), AMB_ELOST);
    session_close(&s);
    free(first);
}

struct copying {
    struct amb_pub *pub;
    _Atomic bool has_returned;
};

static void *copy_and_scribble(void *arg)
{
    struct copying *copying = arg;
    uint8_t *bytes = bytes_of('y', LARGE);
    enum amb_status status =
        amb_pub_copy(copying->pub, AMB_OUT(.data = bytes, .len = LARGE), AMB_FOREVER, NULL);
    atomic_store(&copying->has_returned, true);
    memset(bytes, 'n', LARGE);
    free(bytes);
    return status == AMB_OK ? NULL : copying;
}

static void a_copy_that_may_wait_returns_when_the_link_has_read_it(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    uint8_t *first = bytes_of('f', FIRST);
    struct copying copying = {.pub = open_stalled(&s, first)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, copy_and_scribble, &copying), 0);
    session_wait_inside(&s, 1);
    assert_int_equal(amb_poll(s.conn, 20 * AMB_MS), AMB_ETIMEDOUT);
    assert_false(atomic_load(&copying.has_returned));
    fake_broker_stall(s.fake, false);
    void *failed = NULL;
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    assert_int_equal(amb_pub_flush(copying.pub, 0, 10 * AMB_SEC), AMB_OK);
    assert_seen(&s, 5, LARGE, 'y');
    session_close(&s);
    free(first);
}

static void a_copy_says_all_that_a_post_says(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    const struct amb_prop props[] = {AMB_PROP("name", "value")};
    const struct amb_tensor tensor = {
        .code = 2, .bits = 32, .lanes = 1, .ndim = 2, .shape = {2, 2}, .strides = {1, 2}};
    uint64_t seq = 0;
    assert_int_equal(amb_pub_copy(pub,
                                  AMB_OUT(.data = "sixteen bytes...", .len = 16, .props = props,
                                          .prop_count = 1, .tensor = &tensor, .key = "k"),
                                  AMB_NOWAIT, &seq),
                     AMB_OK);
    assert_int_equal(seq, 1);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    struct amb_record record;
    memcpy(&record, s.seen.last + 16, sizeof(record));
    struct amb_prop_view view;
    const uint8_t *blob = s.seen.last + 16 + sizeof(record);
    assert_int_equal(record.len, 16);
    assert_true(amb_props_find(blob, record.props_len, AMB_PROP_KEY, &view));
    assert_true(amb_props_find(blob, record.props_len, AMB_PROP_TENSOR, &view));
    assert_true(amb_props_find(blob, record.props_len, "name", &view));
    assert_int_equal(amb_pub_copy(NULL, AMB_OUT(), AMB_SEC, NULL), AMB_EINVAL);
    assert_int_equal(amb_pub_copy(pub, NULL, AMB_SEC, NULL), AMB_EINVAL);
    assert_int_equal(amb_pub_copy(pub, AMB_OUT(), -1, NULL), AMB_EINVAL);
    const struct amb_prop reserved[] = {AMB_PROP("$key", "mine")};
    assert_int_equal(amb_pub_copy(pub, AMB_OUT(.props = reserved, .prop_count = 1), AMB_SEC, NULL),
                     AMB_EINVAL);
    session_close(&s);
}

/* ---- a call that begins while a close waits ---- */

static _Thread_local bool is_closer;
static _Thread_local bool is_late; /* it has begun its call, and is held up before its lock */
static atomic_bool is_held_up, has_looked;
static _Atomic(void *) freed_early; /* a call was inside; it is left to the test */

void __real_amb_conn_lock(struct amb_conn *conn);
void __wrap_amb_conn_lock(struct amb_conn *conn);
void __real_amb_conn_wake_all(struct amb_conn *conn);
void __wrap_amb_conn_wake_all(struct amb_conn *conn);
void __real_amb_conn_unref(struct amb_conn *conn);
void __wrap_amb_conn_unref(struct amb_conn *conn);
void __real_amb_pub_free(struct amb_pub *pub);
void __wrap_amb_pub_free(struct amb_pub *pub);

void __wrap_amb_conn_lock(struct amb_conn *conn)
{
    if (is_late) {
        is_late = false;
        atomic_store(&is_held_up, true);
        while (!atomic_load(&has_looked) && atomic_load(&freed_early) == NULL) {
            fake_broker_nap();
        }
    }
    __real_amb_conn_lock(conn);
}

/* A close wakes all as long as calls are inside. */
void __wrap_amb_conn_wake_all(struct amb_conn *conn)
{
    if (is_closer) {
        atomic_store(&has_looked, true);
    }
    __real_amb_conn_wake_all(conn);
}

void __wrap_amb_conn_unref(struct amb_conn *conn)
{
    if (is_closer && atomic_load(&conn->inside) != 0) {
        atomic_store(&freed_early, conn);
    } else {
        __real_amb_conn_unref(conn);
    }
}

void __wrap_amb_pub_free(struct amb_pub *pub)
{
    if (atomic_load(&pub->inside) != 0) {
        atomic_store(&freed_early, pub);
    } else {
        __real_amb_pub_free(pub);
    }
}

static void *close_pub(void *pub)
{
    is_closer = true;
    return (void *)(intptr_t)amb_pub_close(pub, AMB_NOWAIT);
}

static void *close_conn(void *conn)
{
    is_closer = true;
    return (void *)(intptr_t)amb_close(conn, AMB_NOWAIT);
}

static void *wait_late(void *pub)
{
    is_late = true;
    return (void *)(intptr_t)amb_pub_wait_borrowed(pub, 10 * AMB_SEC);
}

static void *drain_late(void *conn)
{
    is_late = true;
    return (void *)(intptr_t)amb_drain(conn, 10 * AMB_SEC);
}

/* The close waits for memory that the link has borrowed. The call begins meanwhile, and is inside
 * when the memory is back. */
static enum amb_status call_during(struct session *s, void *(*call)(void *arg),
                                   void *(*closes)(void *arg), void *handle)
{
    pthread_t closer, caller;
    assert_int_equal(pthread_create(&closer, NULL, closes, handle), 0);
    for (bool is_waiting = false; !is_waiting;) {
        fake_broker_nap();
        amb_conn_lock(s->conn);
        is_waiting = s->conn->driver.flow_waits == 1;
        amb_conn_unlock(s->conn);
    }
    atomic_store(&is_held_up, false);
    atomic_store(&has_looked, false);
    atomic_store(&freed_early, NULL);
    assert_int_equal(pthread_create(&caller, NULL, call, handle), 0);
    while (!atomic_load(&is_held_up)) {
        fake_broker_nap();
    }
    fake_broker_stall(s->fake, false);
    void *status = NULL, *closed = NULL;
    assert_int_equal(pthread_join(caller, &status), 0);
    assert_int_equal(pthread_join(closer, &closed), 0);
    assert_int_equal((intptr_t)closed, AMB_OK);
    return (enum amb_status)(intptr_t)status;
}

static void a_close_waits_for_a_call_that_begins_while_it_waits(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    uint8_t *first = bytes_of('f', FIRST);
    struct amb_pub *pub = open_stalled(&s, first);
    assert_int_equal(call_during(&s, wait_late, close_pub, pub), AMB_OK);
    void *early = atomic_load(&freed_early);
    if (early != NULL) {
        __real_amb_pub_free(pub);
    }
    session_close(&s);
    free(first);
    assert_null(early);
}

static void the_close_of_a_connection_waits_for_it_too(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    uint8_t *first = bytes_of('f', FIRST);
    (void)open_stalled(&s, first);
    assert_int_equal(call_during(&s, drain_late, close_conn, s.conn), AMB_ECLOSED);
    void *early = atomic_load(&freed_early);
    if (early != NULL) {
        __real_amb_conn_unref(early);
    }
    fake_broker_stop(s.fake);
    free(first);
    assert_null(early);
}

static int64_t cpu_ns(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return now.tv_sec * AMB_SEC + now.tv_nsec;
}

/* A copy is too much for the memory there is, and a slot needs none. */
static void a_slot_is_room_though_a_copy_has_none(void **state)
{
    (void)state;
    static const struct fake_options options = {.lease_bytes = UINT64_C(8) << 20};
    static uint8_t bytes[LARGE];
    struct session s;
    struct amb_pub *pub;
    struct amb_lease *lease;
    session_open(&s, &options, NULL);
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    assert_int_equal(amb_lease(pub, LARGE, 5 * AMB_SEC, &lease), AMB_OK);
    amb_lease_abandon(lease);
    uint64_t max = s.conn->batches.bytes_max;
    const struct {
        uint64_t held;
        bool is_room;
    } rows[] = {{0, true}, {max - 1000, true}, {max, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        amb_conn_lock(s.conn);
        atomic_store(&s.conn->batches.bytes, rows[i].held);
        assert_int_equal(amb_room_is_there(pub, LARGE, LARGE), rows[i].is_room);
        amb_conn_unlock(s.conn);
        enum amb_status status = amb_pub_copy(pub, AMB_OUT(.data = bytes, .len = LARGE), 0, NULL);
        assert_int_equal(status, rows[i].is_room ? AMB_OK : AMB_EAGAIN);
        amb_conn_lock(s.conn);
        atomic_store(&s.conn->batches.bytes, UINT64_C(0));
        amb_conn_unlock(s.conn);
        assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    }
    session_close(&s);
}

/* Its copy fills the memory, there is no window, and a slot is free. */
static void a_message_that_waits_with_its_copy_sleeps(void **state)
{
    (void)state;
    static const struct fake_options options = {.lease_bytes = UINT64_C(8) << 20, .window = 4096};
    static uint8_t bytes[LARGE];
    struct session s;
    struct amb_pub *pub;
    session_open(&s, &options, AMB_OPTIONS(.send_memory_max = UINT64_C(1) << 20));
    fake_broker_hold_window(s.fake, true);
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    const struct amb_iov iov = {.data = bytes, .len = sizeof(bytes)};
    int64_t begin = cpu_ns();
    assert_int_equal(amb_pub_post(pub, AMB_OUT(.iov = &iov, .iov_count = 1), 500 * AMB_MS, NULL),
                     AMB_ETIMEDOUT);
    assert_true(cpu_ns() - begin < 50 * AMB_MS);
    fake_broker_hold_window(s.fake, false);
    assert_int_equal(amb_pub_post(pub, AMB_OUT(.iov = &iov, .iov_count = 1), 5 * AMB_SEC, NULL),
                     AMB_OK);
    session_close(&s);
}

int main(void)
{
    static struct fake_options ring = {.link = AMB_LINK_RING};
    static struct fake_options stream = {.link = AMB_LINK_STREAM};
    static struct fake_options wide_ring = {.link = AMB_LINK_RING, .window = 16 << 20};
    static struct fake_options wide_stream = {.link = AMB_LINK_STREAM, .window = 16 << 20};
#define WIDE(test)                                                                                 \
    cmocka_unit_test_prestate(test, &wide_ring), cmocka_unit_test_prestate(test, &wide_stream)
#define BOTH(test) cmocka_unit_test_prestate(test, &ring), cmocka_unit_test_prestate(test, &stream)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_is_room_though_a_copy_has_none),
        cmocka_unit_test(a_message_that_waits_with_its_copy_sleeps),
        BOTH(large_messages_are_batches_of_their_own_and_keep_their_place),
        BOTH(pieces_are_one_message_and_the_callers_again_at_once),
        BOTH(a_copy_says_all_that_a_post_says),
        WIDE(a_close_waits_for_a_call_that_begins_while_it_waits),
        WIDE(the_close_of_a_connection_waits_for_it_too),
        WIDE(a_wait_for_what_a_post_has_borrowed_has_an_end),
        WIDE(a_close_that_is_called_off_leaves_no_payload_to_the_link),
        WIDE(a_close_asks_before_it_waits_for_the_link),
        WIDE(a_copy_that_is_called_off_goes_on_without_its_caller),
        WIDE(a_copy_that_is_called_off_ends_a_link_that_reads_one_place_alone),
        WIDE(a_copy_that_may_not_wait_is_of_bytes_that_are_gone_at_once),
        WIDE(a_copy_that_may_not_wait_is_within_send_memory_max),
        WIDE(a_copy_that_may_wait_returns_when_the_link_has_read_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
