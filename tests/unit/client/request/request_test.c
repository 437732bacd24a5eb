/* SPDX-License-Identifier: Apache-2.0 */
/* Requests against a fake broker: how each of them ends, once. */
#include "tests/unit/client/session.h"

#include "client/drive/lock.h"
#include "client/request/replies.h"
#include "wire/base/clock.h"
#include "wire/codec/props.h"

struct ends {
    unsigned count;
    enum amb_status last;
};

static void ended(enum amb_status status, struct amb_msg *reply, void *arg)
{
    struct ends *ends = arg;
    assert_null(reply);
    ends->count++;
    ends->last = status;
}

static void settle(struct session *s, uint64_t batch, uint32_t matched)
{
    const struct amb_frame frame = {
        .type = AMB_FRAME_SETTLED, .handle = 0, .seq = batch, .number = 1, .count = matched};
    fake_broker_frame(s->fake, &frame);
}

static void post(struct session *s, int64_t timeout_ns, struct ends *ends)
{
    assert_int_equal(
        amb_request_post(s->conn, "q", AMB_OUT(.data = "x", .len = 1), timeout_ns, ended, ends),
        AMB_OK);
}

static void poll_until(struct session *s, const struct ends *ends, unsigned count)
{
    for (int i = 0; i < 100 && ends->count < count; i++) {
        assert_int_not_equal(amb_poll(s->conn, 100 * AMB_MS), AMB_ELOST);
    }
    assert_int_equal(ends->count, count);
}

static void nobody_is_told_by_what_the_broker_matched(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    fake_broker_hold(s.fake, true);
    struct ends ends = {0};
    post(&s, 60 * AMB_SEC, &ends);
    FAKE_WAIT(s.fake, &s.seen, s.seen.msgs[0] == 1);
    settle(&s, 1, 0);
    poll_until(&s, &ends, 1);
    assert_int_equal(ends.last, AMB_ENORESPONDERS);
    post(&s, 60 * AMB_SEC, &ends);
    FAKE_WAIT(s.fake, &s.seen, s.seen.msgs[0] == 2);
    settle(&s, 2, 1);
    assert_int_equal(amb_poll(s.conn, 20 * AMB_MS), AMB_ETIMEDOUT);
    assert_int_equal(ends.count, 1);
    assert_int_equal(amb_close(s.conn, AMB_SEC), AMB_OK);
    assert_int_equal(ends.count, 2);
    assert_int_equal(ends.last, AMB_ECLOSED);
    fake_broker_stop(s.fake);
}

static void a_time_out_wakes_poll(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct ends ends = {0};
    post(&s, 30 * AMB_MS, &ends);
    assert_int_equal(amb_poll(s.conn, AMB_FOREVER), AMB_OK);
    poll_until(&s, &ends, 1);
    assert_int_equal(ends.last, AMB_ETIMEDOUT);
    struct amb_msg *reply;
    assert_int_equal(amb_request(s.conn, "q", "x", 1, 30 * AMB_MS, &reply), AMB_ETIMEDOUT);
    assert_null(reply);
    session_close(&s);
}

/* This process may have been stopped, or have had no core: the answer is in the link meanwhile. */
static void a_reply_that_has_come_counts_however_late_it_is_looked_at(void **state)
{
    (void)state;
    struct session s;
    struct ends ends = {0};
    session_open(&s, &(struct fake_options){.heartbeat_ns = 20 * AMB_SEC},
                 AMB_OPTIONS(.progress = AMB_PROGRESS_POLL));
    fake_broker_hold(s.fake, true);
    post(&s, 200 * AMB_MS, &ends);
    int64_t late_ns = amb_clock_monotonic_ns() + 200 * AMB_MS;
    FAKE_WAIT(s.fake, &s.seen, s.seen.msgs[0] == 1);
    settle(&s, 1, 0);
    while (amb_clock_monotonic_ns() <= late_ns) {
        fake_broker_nap();
    }
    for (int i = 0; i < 100 && ends.count == 0; i++) {
        (void)amb_poll(s.conn, AMB_NOWAIT);
    }
    assert_int_equal(ends.count, 1);
    assert_int_equal(ends.last, AMB_ENORESPONDERS);
    session_close(&s);
}

static void *poll_for_ever(void *arg)
{
    struct session *s = arg;
    assert_int_equal(amb_poll(s->conn, AMB_FOREVER), AMB_OK);
    return NULL;
}

static bool is_driver_asleep(struct session *s)
{
    amb_conn_lock(s->conn);
    bool is_asleep = s->conn->driver.is_asleep;
    amb_conn_unlock(s->conn);
    return is_asleep;
}

/* The same while another thread sleeps in amb_poll: behind a stop the timers may come first. */
static void a_reply_that_has_come_counts_beside_a_driver_that_sleeps(void **state)
{
    (void)state;
    struct session s;
    struct ends ends = {0};
    pthread_t thread;
    session_open(&s, &(struct fake_options){.heartbeat_ns = 60 * AMB_SEC}, NULL);
    fake_broker_hold(s.fake, true);
    int64_t late_ns = amb_clock_monotonic_ns() + 2 * AMB_SEC;
    post(&s, 2 * AMB_SEC, &ends);
    FAKE_WAIT(s.fake, &s.seen, s.seen.msgs[0] == 1);
    assert_int_equal(pthread_create(&thread, NULL, poll_for_ever, &s), 0);
    while (!is_driver_asleep(&s)) {
        fake_broker_nap();
    }
    amb_conn_lock(s.conn);
    settle(&s, 1, 0);
    late_ns = late_ns > s.conn->notify.reply_ns ? late_ns : s.conn->notify.reply_ns;
    while (amb_clock_monotonic_ns() <= late_ns) {
        fake_broker_nap();
    }
    assert_true(s.conn->driver.is_asleep);
    amb_replies_timer(s.conn, amb_clock_monotonic_ns());
    amb_conn_unlock(s.conn);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(ends.count, 1);
    assert_int_equal(ends.last, AMB_ENORESPONDERS);
    session_close(&s);
}

/* Without a thread of the library, one that sleeps in amb_poll is all that looks at the clock. */
static void a_time_out_wakes_a_poll_that_began_before(void **state)
{
    (void)state;
    struct session s;
    struct ends first = {0}, ends = {0};
    pthread_t thread;
    session_open(&s, &(struct fake_options){.heartbeat_ns = 20 * AMB_SEC},
                 AMB_OPTIONS(.progress = AMB_PROGRESS_POLL));
    post(&s, 40 * AMB_SEC, &first); /* opens inbox and publisher */
    fake_broker_hold(s.fake, true); /* Nothing that comes wakes it. */
    assert_int_equal(pthread_create(&thread, NULL, poll_for_ever, &s), 0);
    for (bool sleeps = false; !sleeps;) {
        amb_conn_lock(s.conn);
        sleeps = s.conn->driver.is_asleep;
        amb_conn_unlock(s.conn);
        fake_broker_nap();
    }
    int64_t begin = amb_clock_monotonic_ns();
    post(&s, 50 * AMB_MS, &ends);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(amb_clock_monotonic_ns() - begin < 10 * AMB_SEC);
    assert_int_equal(ends.last, AMB_ETIMEDOUT);
    session_close(&s);
}

static void what_answers_nothing_is_dropped(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct ends ends = {0};
    post(&s, 60 * AMB_SEC, &ends);
    FAKE_WAIT(s.fake, &s.seen, s.seen.msgs[0] == 1);
    fake_broker_deliver(s.fake, 0, 1, "m", 3, 1, 0); /* the inbox is subscription 0 */
    for (int i = 0; i < 100 && s.seen.release[0] == 0; i++) {
        assert_int_equal(amb_poll(s.conn, 20 * AMB_MS), AMB_ETIMEDOUT);
        fake_broker_look(s.fake, &s.seen);
    }
    assert_int_equal(s.seen.release[0], 1);
    assert_int_equal(ends.count, 0);
    session_close(&s);
    assert_int_equal(ends.count, 1);
}

static void answered(enum amb_status status, struct amb_msg *reply, void *arg)
{
    struct ends *ends = arg;
    assert_int_equal(status, AMB_OK);
    assert_payload(reply, "42");
    ends->count++;
}

/* The request's number as the broker saw it, in the newest batch, which has that one message. */
static uint64_t number_of(struct session *s)
{
    struct amb_record record;
    struct amb_prop_view view;
    uint64_t number;
    const uint8_t *meta = s->seen.last + amb_payload_padded(1);
    memcpy(&record, meta, sizeof(record));
    assert_true(amb_props_find(meta + sizeof(record), record.props_len, AMB_PROP_REQUEST, &view));
    memcpy(&number, view.value, sizeof(number));
    return number;
}

static void answer(struct session *s, uint64_t count, uint64_t number)
{
    _Alignas(8) uint8_t body[256] = "42", blob[64] = {0};
    struct amb_props_writer writer;
    amb_props_writer_init(&writer, blob, sizeof(blob));
    assert_int_equal(amb_props_add(&writer, AMB_PROP_REQUEST, &number, sizeof(number)), AMB_OK);
    const struct amb_record record = {.len = 2, .props_len = (uint16_t)writer.len};
    uint64_t data_len = amb_payload_padded(2);
    uint32_t props_len = amb_props_padded((uint32_t)writer.len);
    memcpy(body + data_len, &record, sizeof(record));
    memcpy(body + data_len + sizeof(record), blob, props_len);
    const struct amb_frame frame = {.type = AMB_FRAME_DELIVER,
                                    .topic = 1,
                                    .seq = count,
                                    .count = 1,
                                    .number = count,
                                    .data_len = data_len,
                                    .meta_len = (uint32_t)sizeof(record) + props_len};
    fake_broker_frame_with(s->fake, &frame, body);
}

/* A program that was asked one thing knows the inbox, and that there was a request before and one
 * after. */
static void what_others_were_asked_cannot_be_answered(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct ends ends = {0}, other = {0};
    assert_int_equal(amb_request_post(s.conn, "q", AMB_OUT(.data = "x", .len = 1), 60 * AMB_SEC,
                                      answered, &ends),
                     AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.msgs[0] == 1);
    uint64_t known = number_of(&s);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0); /* names the topic */
    post(&s, 60 * AMB_SEC, &other);
    FAKE_WAIT(s.fake, &s.seen, s.seen.msgs[0] == 2);
    uint64_t sent = 1;
    for (uint64_t near = 1; near <= 8; near++) {
        answer(&s, ++sent, near);
        answer(&s, ++sent, known + near);
    }
    answer(&s, ++sent, known);
    for (int i = 0; i < 100 && s.seen.release[0] < sent; i++) {
        (void)amb_poll(s.conn, 20 * AMB_MS);
        fake_broker_look(s.fake, &s.seen);
    }
    assert_int_equal(ends.count, 1);
    assert_int_equal(other.count, 0);
    session_close(&s);
    assert_int_equal(other.last, AMB_ECLOSED);
}

static void a_message_is_no_request(void **state)
{
    struct session s;
    session_open(&s, *state, NULL);
    struct amb_sub *sub;
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "m", 1, 1, 0);
    struct amb_msg *msg;
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    assert_false(amb_msg_wants_reply(msg));
    assert_int_equal(amb_reply(msg, "x", 1, AMB_SEC), AMB_ESTATE);
    amb_msg_release(msg);
    struct amb_msg *reply;
    assert_int_equal(amb_request(s.conn, "q", "x", 1, AMB_NOWAIT, &reply), AMB_EINVAL);
    assert_int_equal(amb_request(s.conn, "q.*", "x", 1, AMB_SEC, &reply), AMB_ETOPIC);
    assert_int_equal(amb_request_post(s.conn, "q", NULL, AMB_SEC, ended, NULL), AMB_EINVAL);
    session_close(&s);
}

int main(void)
{
    static struct fake_options ring = {.link = AMB_LINK_RING}, stream = {.link = AMB_LINK_STREAM};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(nobody_is_told_by_what_the_broker_matched, &ring),
        cmocka_unit_test_prestate(nobody_is_told_by_what_the_broker_matched, &stream),
        cmocka_unit_test_prestate(what_others_were_asked_cannot_be_answered, &ring),
        cmocka_unit_test_prestate(what_others_were_asked_cannot_be_answered, &stream),
        cmocka_unit_test(a_reply_that_has_come_counts_however_late_it_is_looked_at),
        cmocka_unit_test(a_reply_that_has_come_counts_beside_a_driver_that_sleeps),
        cmocka_unit_test(a_time_out_wakes_a_poll_that_began_before),
        cmocka_unit_test_prestate(a_time_out_wakes_poll, &ring),
        cmocka_unit_test_prestate(what_answers_nothing_is_dropped, &ring),
        cmocka_unit_test_prestate(a_message_is_no_request, &ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
