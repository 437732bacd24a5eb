/* SPDX-License-Identifier: Apache-2.0 */
/* Publishing to a fake broker: the batches that leave, the waits, and the answers. */
#include "client/drive/lock.h"
#include "tests/unit/client/session.h"

#include "wire/base/clock.h"
#include "wire/codec/props.h"

#include <stdlib.h>

static void messages_arrive_whole_and_flush_waits_for_them(void **state)
{
    const struct fake_options *options = *state;
    struct session s;
    session_open(&s, options, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a.b", NULL, &pub), AMB_OK);
    for (uint64_t i = 0; i < 100000; i++) {
        assert_int_equal(amb_pub_send(pub, &i, sizeof(i), AMB_FOREVER), AMB_OK);
    }
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 100000);
    assert_true(s.seen.batches[0] < 50000);
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
    assert_int_equal(info.posted, 100000);
    assert_int_equal(info.settled, 100000);
    assert_int_equal(info.inflight_bytes, 0);
    assert_int_equal(info.blocked, AMB_BLOCKED_NOT);
    assert_int_equal(amb_pub_close(pub, AMB_SEC), AMB_OK);
    assert_int_equal(amb_close(s.conn, AMB_SEC), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.said_bye && s.seen.closes == 1);
    fake_broker_stop(s.fake);
}

static void a_lone_message_leaves_without_a_flush(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    assert_int_equal(amb_publish(s.conn, "a", "hello", 5, AMB_SEC), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.msgs[0] == 1);
    assert_memory_equal(s.seen.last, "hello", 5);
    session_close(&s);
}

static void a_batch_in_flight_holds_the_next_one_back_until_linger(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    fake_broker_hold(s.fake, true);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", AMB_PUB(.linger_ns = 20 * AMB_MS), &pub), AMB_OK);
    assert_int_equal(amb_pub_send(pub, "1", 1, AMB_NOWAIT), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.batches[0] == 1);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(amb_pub_send(pub, "2", 1, AMB_NOWAIT), AMB_OK);
    }
    /* Nobody calls again: the I/O thread sends it. */
    FAKE_WAIT(s.fake, &s.seen, s.seen.msgs[0] == 51);
    assert_int_equal(s.seen.batches[0], 2);
    assert_int_equal(amb_pub_flush(pub, 0, AMB_NOWAIT), AMB_EAGAIN);
    assert_int_equal(amb_pub_flush(pub, 0, 10 * AMB_MS), AMB_ETIMEDOUT);
    assert_int_equal(amb_last_error(s.conn).status, AMB_OK);
    fake_broker_hold(s.fake, false);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    session_close(&s);
}

static void properties_travel_with_their_message(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    const struct amb_prop props[] = {AMB_PROP("name", "value")};
    const struct amb_iov iov[] = {{"ab", 2}, {"cd", 2}};
    assert_int_equal(
        amb_pub_post(pub,
                     AMB_OUT(.iov = iov, .iov_count = 2, .props = props, .prop_count = 1,
                             .key = "k", .content_type = "c", .ttl_ns = 1),
                     AMB_SEC, NULL),
        AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_memory_equal(s.seen.last, "abcd", 4);
    struct amb_record record;
    memcpy(&record, s.seen.last + 16, sizeof(record));
    assert_int_equal(record.ttl_ms, 1);
    assert_int_not_equal(record.key_hash, 0);
    struct amb_prop_view view;
    assert_true(amb_props_find(s.seen.last + 32, record.props_len, AMB_PROP_KEY, &view));
    assert_true(amb_props_find(s.seen.last + 32, record.props_len, AMB_PROP_CONTENT_TYPE, &view));
    assert_true(amb_props_find(s.seen.last + 32, record.props_len, "name", &view));
    assert_memory_equal(view.value, "value", 6);
    const struct amb_prop reserved[] = {AMB_PROP("$key", "mine")};
    assert_int_equal(amb_pub_post(pub, AMB_OUT(.props = reserved, .prop_count = 1), AMB_SEC, NULL),
                     AMB_EINVAL);
    static char huge[AMB_PROPS_MAX + 1];
    const struct amb_prop big[] = {{.name = "n", .value = huge, .len = sizeof(huge)}};
    assert_int_equal(amb_pub_post(pub, AMB_OUT(.props = big, .prop_count = 1), AMB_SEC, NULL),
                     AMB_ETOOLARGE);
    session_close(&s);
}

struct told {
    uint64_t ok, failed, last, calls;
    enum amb_status status;
};

static void on_settled(struct amb_pub *pub, const struct amb_settled *settled, void *arg)
{
    struct told *told = arg;
    assert_non_null(pub);
    assert_int_equal(settled->first, told->last + 1);
    told->last = settled->last;
    told->calls++;
    *(settled->status == AMB_OK ? &told->ok : &told->failed) += settled->last - settled->first + 1;
    if (settled->status != AMB_OK) {
        told->status = settled->status;
    }
}

static void every_message_is_settled_once_and_only_in_poll(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct told told = {0};
    struct amb_pub *pub;
    assert_int_equal(
        amb_pub_open(s.conn, "a", AMB_PUB(.on_settled = on_settled, .arg = &told), &pub), AMB_OK);
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(amb_pub_send(pub, "x", 1, AMB_FOREVER), AMB_OK);
    }
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    assert_int_equal(told.calls, 0);
    assert_int_equal(amb_poll(s.conn, AMB_SEC), AMB_OK);
    assert_int_equal(told.ok, 5000);
    assert_true(told.calls <= 2);
    fake_broker_refuse(s.fake, AMB_EREJECTED);
    assert_int_equal(amb_pub_send(pub, "x", 1, AMB_FOREVER), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_EREJECTED);
    assert_int_equal(amb_last_error(s.conn).status, AMB_EREJECTED);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK); /* told once */
    assert_int_equal(amb_poll(s.conn, AMB_SEC), AMB_OK);
    assert_int_equal(told.failed, 1);
    assert_int_equal(told.status, AMB_EREJECTED);
    assert_int_equal(amb_flush(s.conn, AMB_SEC), AMB_EREJECTED); /* not told by amb_flush yet */
    assert_int_equal(amb_flush(s.conn, AMB_SEC), AMB_OK);
    session_close(&s);
}

static void what_is_delivered_out_of_order_is_settled_with_the_first_of_it(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    fake_broker_hold(s.fake, true);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", AMB_PUB(.confirm = AMB_CONFIRM_DELIVERED), &pub),
                     AMB_OK);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(amb_pub_send(pub, "x", 1, AMB_NOWAIT), AMB_OK);
        FAKE_WAIT(s.fake, &s.seen, s.seen.batches[0] == i);
    }
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    const uint64_t order[] = {3, 2, 1}, settled[] = {0, 0, 3};
    for (unsigned i = 0; i < 3; i++) {
        const struct amb_frame frame = {
            .type = AMB_FRAME_SETTLED, .handle = 0, .seq = order[i], .count = 1};
        fake_broker_frame(s.fake, &frame);
        enum amb_status status = amb_pub_flush(pub, 0, i < 2 ? 20 * AMB_MS : 5 * AMB_SEC);
        assert_int_equal(status, i < 2 ? AMB_ETIMEDOUT : AMB_OK);
        assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
        assert_int_equal(info.settled, settled[i]);
    }
    session_close(&s);
}

static void what_is_unsettled_at_close_is_told_there(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    fake_broker_hold(s.fake, true);
    struct told told = {0};
    struct amb_pub *pub;
    assert_int_equal(
        amb_pub_open(s.conn, "a", AMB_PUB(.on_settled = on_settled, .arg = &told), &pub), AMB_OK);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(amb_pub_send(pub, "x", 1, AMB_NOWAIT), AMB_OK);
    }
    assert_int_equal(amb_pub_close(pub, AMB_NOWAIT), AMB_OK);
    assert_int_equal(told.failed, 10);
    assert_int_equal(told.status, AMB_ECANCELED);
    memset(&told, 0, sizeof(told));
    assert_int_equal(
        amb_pub_open(s.conn, "b", AMB_PUB(.on_settled = on_settled, .arg = &told), &pub), AMB_OK);
    assert_int_equal(amb_pub_send(pub, "x", 1, AMB_NOWAIT), AMB_OK);
    assert_int_equal(amb_close(s.conn, AMB_NOWAIT), AMB_OK);
    assert_int_equal(told.failed, 1);
    assert_int_equal(told.status, AMB_ECLOSED);
    fake_broker_stop(s.fake);
}

static void a_handle_used_again_counts_its_batches_on(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(amb_pub_send(pub, "x", 1, AMB_FOREVER), AMB_OK);
        assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    }
    assert_int_equal(amb_pub_close(pub, AMB_SEC), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.closes == 1);
    assert_int_equal(s.seen.closed_at[0], 3); /* the batch after which it closes */
    amb_conn_lock(s.conn);
    while (s.conn->handles.pub_taken[0]) { /* The broker's answer is on its way. */
        amb_conn_unlock(s.conn);
        (void)amb_poll(s.conn, AMB_MS);
        amb_conn_lock(s.conn);
    }
    s.conn->handles.pub_next = 0; /* else all others come first */
    amb_conn_unlock(s.conn);
    struct told told = {0};
    assert_int_equal(
        amb_pub_open(s.conn, "b", AMB_PUB(.on_settled = on_settled, .arg = &told), &pub), AMB_OK);
    /* The broker's word on the former, late: no failure of this one's. */
    const struct amb_frame late = {
        .type = AMB_FRAME_SETTLED, .handle = 0, .seq = 2, .status = AMB_EREJECTED};
    fake_broker_frame(s.fake, &late);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(amb_pub_send(pub, "x", 1, AMB_FOREVER), AMB_OK);
    }
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 13); /* the fake asserts that no number is missing */
    struct amb_pub_info info = {.size = sizeof(info)};
    assert_int_equal(amb_pub_stat(pub, &info), AMB_OK);
    assert_int_equal(info.posted, 10);
    assert_int_equal(info.failed, 0);
    assert_int_equal(info.inflight_bytes, 0);
    session_close(&s);
}

static void topics_and_rights_are_checked_at_open(void **state)
{
    struct session s;
    session_open(&s, *state, AMB_OPTIONS(.timeout_ns = 50 * AMB_MS));
    struct amb_pub *pub = (void *)1;
    assert_int_equal(amb_pub_open(s.conn, "a..b", NULL, &pub), AMB_ETOPIC);
    assert_null(pub);
    assert_int_equal(amb_pub_open(s.conn, "forbidden", NULL, &pub), AMB_EFORBIDDEN);
    assert_non_null(strstr(amb_last_error(s.conn).text, "not for you"));
    assert_int_equal(amb_publish(s.conn, "forbidden", "", 0, AMB_SEC), AMB_EFORBIDDEN);
    assert_int_equal(amb_pub_open(s.conn, "slow", NULL, &pub), AMB_ETIMEDOUT);
    assert_int_equal(amb_pub_open(s.conn, "a", AMB_PUB(.name = ""), &pub), AMB_EINVAL);
    assert_non_null(strstr(amb_last_error(s.conn).text, "name"));
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    session_close(&s);
}

static void *open_slow(void *arg)
{
    struct session *s = arg;
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s->conn, "slow", NULL, &pub), AMB_ETIMEDOUT);
    return NULL;
}

static void count_named(struct amb_conn *conn, const struct amb_event *event, void *arg)
{
    unsigned *named = arg;
    (void)conn;
    *named += event->pub != NULL;
}

/* The program could not know which one it is, and it may go at any time. */
static void no_event_names_a_publisher_that_is_not_open(void **state)
{
    struct session s;
    unsigned named = 0;
    session_open(
        &s, *state,
        AMB_OPTIONS(.timeout_ns = 500 * AMB_MS, .on_event = count_named, .event_arg = &named));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, open_slow, &s), 0);
    FAKE_WAIT(s.fake, &s.seen, s.seen.opens == 1);
    fake_broker_subscribers(s.fake, 0, 3);
    assert_int_equal(pthread_join(thread, NULL), 0);
    while (amb_poll(s.conn, 20 * AMB_MS) == AMB_OK) {
    }
    assert_int_equal(named, 0);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    fake_broker_subscribers(s.fake, 1, 2);
    assert_int_equal(amb_pub_wait_subscribers(pub, 2, 5 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_poll(s.conn, 5 * AMB_SEC), AMB_OK);
    assert_int_equal(named, 1);
    session_close(&s);
}

static void *publish_many(void *arg)
{
    struct amb_pub *pub = arg;
    for (int i = 0; i < 20000; i++) {
        if (amb_pub_send(pub, "x", 1, AMB_FOREVER) != AMB_OK) {
            return NULL;
        }
    }
    return pub;
}

static void threads_may_share_a_publisher(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, publish_many, pub), 0);
    }
    for (int i = 0; i < 3; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, pub);
    }
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.msgs[0], 60000);
    session_close(&s);
}

/* Where the broker gives what was wished for and no more, a way to it and back later, it would
 * never be enough. */
static void a_batch_that_grows_while_it_waits_wishes_for_more_than_it_has(void **state)
{
    struct fake_options options = *(const struct fake_options *)*state;
    struct session s;
    static const uint8_t bytes[1000];
    options.window = 1;
    session_open(&s, &options, NULL);
    fake_broker_hold_window(s.fake, true);
    struct amb_pub *pub;
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    assert_int_equal(amb_pub_send(pub, bytes, sizeof(bytes), AMB_NOWAIT), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.want[0] >= sizeof(bytes));
    assert_in_range(s.seen.want[0], sizeof(bytes), 2 * sizeof(bytes) - 1);
    assert_int_equal(amb_pub_send(pub, bytes, sizeof(bytes), AMB_NOWAIT), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.want[0] >= 2 * sizeof(bytes));
    uint64_t wish = s.seen.want[0];
    assert_in_range(wish, 4 * sizeof(bytes), 5 * sizeof(bytes));
    fake_broker_window(s.fake, 0, 3 * sizeof(bytes));
    FAKE_WAIT(s.fake, &s.seen, s.seen.msgs[0] == 2);
    FAKE_WAIT(s.fake, &s.seen, s.seen.want[0] < wish); /* The rest of it is taken back. */
    fake_broker_hold_window(s.fake, false);
    session_close(&s);
}

int main(void)
{
    static struct fake_options ring = {.link = AMB_LINK_RING};
    static struct fake_options stream = {.link = AMB_LINK_STREAM};
#define BOTH(test) cmocka_unit_test_prestate(test, &ring), cmocka_unit_test_prestate(test, &stream)
    const struct CMUnitTest tests[] = {
        BOTH(messages_arrive_whole_and_flush_waits_for_them),
        BOTH(a_lone_message_leaves_without_a_flush),
        BOTH(a_batch_in_flight_holds_the_next_one_back_until_linger),
        BOTH(properties_travel_with_their_message),
        BOTH(every_message_is_settled_once_and_only_in_poll),
        BOTH(what_is_delivered_out_of_order_is_settled_with_the_first_of_it),
        BOTH(what_is_unsettled_at_close_is_told_there),
        BOTH(a_handle_used_again_counts_its_batches_on),
        BOTH(topics_and_rights_are_checked_at_open),
        BOTH(no_event_names_a_publisher_that_is_not_open),
        BOTH(threads_may_share_a_publisher),
        BOTH(a_batch_that_grows_while_it_waits_wishes_for_more_than_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
