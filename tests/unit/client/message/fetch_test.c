/* SPDX-License-Identifier: Apache-2.0 */
/* Lazy messages from a fake broker: the requests, and the answers to them. */
#include "client/message/fetch.h"
#include "tests/unit/client/session.h"

#include <pthread.h>

static struct amb_msg *open_lazy(struct session *s, const struct amb_options *client,
                                 struct amb_sub **sub, enum amb_lazy lazy, uint32_t size,
                                 uint32_t count)
{
    struct amb_msg *msg;
    session_open(s, NULL, client);
    assert_int_equal(amb_subscribe(s->conn, "t.>", AMB_SUB(.lazy = lazy), sub), AMB_OK);
    fake_broker_look(s->fake, &s->seen);
    assert_int_equal(s->seen.lazy, lazy);
    fake_broker_lazy(s->fake, 0, 1, size, count, 1);
    assert_int_equal(amb_next(*sub, 5 * AMB_SEC, &msg), AMB_OK);
    return msg;
}

static void assert_digits(const uint8_t *bytes, uint64_t from, uint64_t len)
{
    for (uint64_t i = 0; i < len; i++) {
        if (bytes[i] != '0' + (from + i) % 10) {
            fail_msg("byte %zu is %u", (size_t)(from + i), bytes[i]);
        }
    }
}

static void a_lazy_message_has_a_size_and_no_payload(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg = open_lazy(&s, NULL, &sub, AMB_LAZY_ON, 1000, 2);
    assert_null(amb_msg_data(msg));
    assert_int_equal(amb_msg_size(msg), 1000);
    assert_string_equal(amb_msg_path(msg), "lazy");
    assert_string_equal(amb_msg_topic(msg), "t1");
    assert_int_equal(amb_msg_mem(msg), AMB_MEM_HOST);
    amb_msg_release(msg);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    amb_msg_release(msg);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1);
    assert_int_equal(s.seen.fetches, 0);
    session_close(&s);
}

static void nothing_is_here_from_the_beginning(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg = open_lazy(&s, NULL, &sub, AMB_LAZY_ON, 0, 1);
    assert_non_null(amb_msg_data(msg));
    assert_int_equal((uintptr_t)amb_msg_data(msg) % 16, 0);
    assert_int_equal(amb_msg_fetch(msg, AMB_NOWAIT), AMB_OK);
    assert_int_equal(amb_msg_read(msg, 0, NULL, 0, AMB_NOWAIT), AMB_OK);
    amb_msg_release(msg);
    session_close(&s);
}

static void a_fetch_brings_all_of_it_in_pieces(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    const uint32_t size = 5 * AMB_FETCH_MAX + 77;
    struct amb_msg *msg = open_lazy(&s, NULL, &sub, AMB_LAZY_ON, size, 1);
    assert_int_equal(amb_msg_fetch(msg, AMB_NOWAIT), AMB_EAGAIN);
    assert_int_equal(amb_msg_fetch(msg, 10 * AMB_SEC), AMB_OK);
    assert_digits(amb_msg_data(msg), 0, size);
    assert_string_not_equal(amb_msg_path(msg), "lazy");
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.fetches, 6);
    assert_int_equal(s.seen.fetch.number, 1);
    assert_int_equal(s.seen.fetch.data_len, 77);
    /* From here on nobody is asked. */
    uint8_t bytes[100];
    assert_int_equal(amb_msg_fetch(msg, AMB_NOWAIT), AMB_OK);
    assert_int_equal(amb_msg_read(msg, size - 100, bytes, 100, AMB_NOWAIT), AMB_OK);
    assert_digits(bytes, size - 100, 100);
    amb_msg_release(msg);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1);
    assert_int_equal(s.seen.fetches, 6);
    session_close(&s);
}

static void a_read_brings_a_range_of_one_message(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    uint8_t bytes[64];
    struct amb_msg *first = open_lazy(&s, NULL, &sub, AMB_LAZY_PIN, 1000, 3), *second;
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &second), AMB_OK);
    assert_int_equal(amb_msg_read(second, 937, bytes, 63, 5 * AMB_SEC), AMB_OK);
    assert_digits(bytes, 937, 63);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.fetch.first, 1);
    assert_int_equal(s.seen.fetch.offset, 937);
    assert_int_equal(s.seen.fetch.data_len, 63);
    assert_null(amb_msg_data(second));
    assert_int_equal(amb_msg_read(first, 937, bytes, 64, AMB_SEC), AMB_EINVAL);
    assert_int_equal(amb_msg_read(first, UINT64_MAX, bytes, 2, AMB_SEC), AMB_EINVAL);
    assert_int_equal(amb_msg_read(first, 1000, NULL, 0, AMB_SEC), AMB_OK);
    assert_int_equal(amb_msg_read(first, 0, NULL, 1, AMB_SEC), AMB_EINVAL);
    assert_int_equal(amb_msg_read(first, 0, bytes, 1, -1), AMB_EINVAL);
    assert_int_equal(amb_msg_read(first, 0, bytes, 1, AMB_NOWAIT), AMB_EAGAIN);
    amb_msg_release(first);
    amb_msg_release(second);
    session_close(&s);
}

static void other_messages_can_be_read_too(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg;
    char byte = 0;
    session_open(&s, NULL, NULL);
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_deliver(s.fake, 0, 1, "ab", 1, 1, 0);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    assert_int_equal(amb_msg_fetch(msg, AMB_NOWAIT), AMB_OK);
    assert_int_equal(amb_msg_read(msg, 1, &byte, 1, AMB_NOWAIT), AMB_OK);
    assert_int_equal(byte, 'b');
    amb_msg_release(msg);
    session_close(&s);
}

static void what_the_broker_has_no_more_is_stale(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    uint8_t byte;
    struct amb_msg *msg = open_lazy(&s, NULL, &sub, AMB_LAZY_ON, 3 * AMB_FETCH_MAX, 1);
    fake_broker_fetches(s.fake, AMB_ESTALE);
    assert_int_equal(amb_msg_read(msg, 0, &byte, 1, 5 * AMB_SEC), AMB_ESTALE);
    assert_int_equal(amb_msg_fetch(msg, 5 * AMB_SEC), AMB_ESTALE);
    assert_null(amb_msg_data(msg));
    amb_msg_release(msg);
    session_close(&s);
}

static void what_is_still_coming_is_asked_for_again(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    uint8_t bytes[10];
    struct amb_msg *msg = open_lazy(&s, NULL, &sub, AMB_LAZY_ON, 10, 1);
    fake_broker_fetches(s.fake, AMB_EAGAIN);
    assert_int_equal(amb_msg_read(msg, 0, bytes, 10, 5 * AMB_SEC), AMB_OK);
    assert_digits(bytes, 0, 10);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.fetches, 2);
    fake_broker_fetches(s.fake, AMB_ENOMEM);
    assert_int_equal(amb_msg_read(msg, 3, bytes, 7, AMB_FOREVER), AMB_OK);
    assert_digits(bytes, 3, 7);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.fetches, 4);
    amb_msg_release(msg);
    session_close(&s);
}

static void what_is_given_back_behind_a_held_one_is_told(enum amb_lazy lazy, uint64_t ranges)
{
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msgs[4];
    session_open(&s, NULL, NULL);
    const struct amb_sub_options *options =
        AMB_SUB(.lazy = lazy, .credit_bytes = 16000, .credit_msgs = 1000);
    assert_int_equal(amb_subscribe(s.conn, "t.>", options, &sub), AMB_OK);
    for (uint32_t i = 0; i < 4; i++) {
        fake_broker_lazy(s.fake, 0, 1, 1008, 1, i + 1);
        assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msgs[i]), AMB_OK);
    }
    for (uint32_t i = 1; i < 4; i++) {
        amb_msg_release(msgs[i]);
    }
    assert_int_equal(amb_poll(s.conn, AMB_NOWAIT), AMB_OK);
    FAKE_WAIT(s.fake, &s.seen, s.seen.ranges >= ranges);
    assert_int_equal(s.seen.ranges != 0, ranges != 0);
    amb_msg_release(msgs[0]);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 4);
    session_close(&s);
}

static void payloads_that_are_kept_count_in_what_is_given_back(void **state)
{
    (void)state;
    what_is_given_back_behind_a_held_one_is_told(AMB_LAZY_PIN, 1);
    what_is_given_back_behind_a_held_one_is_told(AMB_LAZY_ON, 1);
    what_is_given_back_behind_a_held_one_is_told(AMB_LAZY_HEADERS, 0);
}

static void a_deadline_holds_and_a_late_answer_is_nobodys(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    uint8_t bytes[10] = {0};
    struct amb_msg *msg = open_lazy(&s, NULL, &sub, AMB_LAZY_ON, 10, 1);
    fake_broker_stall(s.fake, true);
    assert_int_equal(amb_msg_read(msg, 0, bytes, 10, 20 * AMB_MS), AMB_ETIMEDOUT);
    assert_int_equal(amb_msg_fetch(msg, 20 * AMB_MS), AMB_ETIMEDOUT);
    fake_broker_stall(s.fake, false);
    FAKE_WAIT(s.fake, &s.seen, s.seen.fetches == 1 && s.seen.fetch_places == 1);
    assert_int_equal(bytes[0], 0);
    assert_int_equal(amb_msg_read(msg, 5, bytes, 5, 5 * AMB_SEC), AMB_OK);
    assert_digits(bytes, 5, 5);
    amb_msg_release(msg);
    session_close(&s);
}

static void no_more_is_asked_for_than_the_broker_allows(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    uint8_t byte;
    struct amb_msg *msg = open_lazy(&s, NULL, &sub, AMB_LAZY_ON, 10, 1);
    fake_broker_fetches(s.fake, AMB_EINTERNAL); /* No answer. */
    for (unsigned i = 0; i < AMB_FETCHES_MAX + 3; i++) {
        assert_int_equal(amb_msg_read(msg, 0, &byte, 1, AMB_MS), AMB_ETIMEDOUT);
    }
    FAKE_WAIT(s.fake, &s.seen, s.seen.fetches == AMB_FETCHES_MAX);
    amb_msg_release(msg);
    session_close(&s);
}

static void headers_stay_headers(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    uint8_t byte;
    struct amb_msg *msg = open_lazy(&s, NULL, &sub, AMB_LAZY_HEADERS, 10, 1);
    assert_int_equal(amb_msg_fetch(msg, AMB_SEC), AMB_ESTATE);
    assert_int_equal(amb_msg_read(msg, 0, &byte, 1, AMB_SEC), AMB_ESTATE);
    assert_non_null(strstr(amb_last_error(s.conn).text, "headers"));
    amb_msg_release(msg);
    session_close(&s);
}

static void with_its_session_a_payload_is_gone(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    uint8_t byte;
    struct amb_msg *msg = open_lazy(&s, NULL, &sub, AMB_LAZY_PIN, 10, 1);
    fake_broker_hang_up(s.fake);
    enum amb_status status = amb_msg_read(msg, 0, &byte, 1, 10 * AMB_SEC);
    assert_true(status == AMB_OK || status == AMB_ELOST); /* It may have been in time. */
    struct amb_msg *none;
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &none), AMB_ELOST);
    assert_int_equal(amb_msg_fetch(msg, 5 * AMB_SEC), AMB_ELOST);
    (void)amb_close(s.conn, AMB_NOWAIT);
    assert_true(amb_msg_fetch(msg, 5 * AMB_SEC) < 0);
    amb_msg_release(msg);
    fake_broker_stop(s.fake);
}

static void *fetch_it(void *arg)
{
    return (void *)(intptr_t)amb_msg_fetch(arg, AMB_FOREVER);
}

static void a_close_ends_who_waits(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    pthread_t thread;
    void *status;
    struct amb_msg *msg = open_lazy(&s, NULL, &sub, AMB_LAZY_PIN, 10, 1);
    fake_broker_fetches(s.fake, AMB_EINTERNAL);
    assert_int_equal(pthread_create(&thread, NULL, fetch_it, msg), 0);
    session_wait_inside(&s, 1);
    (void)amb_close(s.conn, AMB_NOWAIT);
    assert_int_equal(pthread_join(thread, &status), 0);
    assert_true((intptr_t)status < 0);
    amb_msg_release(msg);
    fake_broker_stop(s.fake);
}

static void two_threads_may_fetch_one_message(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    pthread_t threads[4];
    struct amb_msg *msg = open_lazy(&s, NULL, &sub, AMB_LAZY_PIN, 2 * AMB_FETCH_MAX, 1);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, fetch_it, msg), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        void *status;
        assert_int_equal(pthread_join(threads[i], &status), 0);
        assert_int_equal((intptr_t)status, AMB_OK);
    }
    assert_digits(amb_msg_data(msg), 0, amb_msg_size(msg));
    amb_msg_release(msg);
    session_close(&s);
}

static void what_is_not_here_cannot_be_passed_on(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_pub *pub;
    struct DLManagedTensorVersioned *array;
    struct amb_msg *msg = open_lazy(&s, NULL, &sub, AMB_LAZY_PIN, 10, 1);
    assert_int_equal(amb_pub_open(s.conn, "a", NULL, &pub), AMB_OK);
    assert_int_equal(amb_pub_post(pub, AMB_OUT(.forward = msg), AMB_SEC, NULL), AMB_ESTATE);
    assert_int_equal(amb_msg_dlpack(msg, NULL, &array), AMB_ESTATE);
    assert_int_equal(amb_msg_fetch(msg, 5 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_pub_post(pub, AMB_OUT(.forward = msg), AMB_SEC, NULL), AMB_OK);
    assert_int_equal(amb_pub_flush(pub, 0, 5 * AMB_SEC), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_digits(s.seen.last, 0, 10);
    amb_msg_release(msg);
    session_close(&s);
}

static void in_place_is_where_it_can_be(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg = open_lazy(&s, NULL, &sub, AMB_LAZY_ON, 1000, 2), *other;
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &other), AMB_OK);
    fake_broker_segment(s.fake, 5, true);
    FAKE_WAIT(s.fake, &s.seen, s.seen.segments_ready == 1);
    fake_broker_fetch_places(s.fake, 5, 1000);
    assert_int_equal(amb_msg_fetch(msg, 5 * AMB_SEC), AMB_OK);
    assert_int_equal(amb_msg_fetch(msg, AMB_NOWAIT), AMB_OK);
    assert_string_equal(amb_msg_path(msg), "mapped");
    fake_broker_scribble(s.fake, 5);
    assert_int_equal(((const uint8_t *)amb_msg_data(msg))[999], 0xa5);
    fake_broker_drop_segment(s.fake, 5);
    amb_msg_release(msg);
    assert_int_equal(amb_poll(s.conn, AMB_NOWAIT), AMB_OK);
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.segments_gone, 0); /* Until all of its delivery is back. */
    amb_msg_release(other);
    FAKE_WAIT(s.fake, &s.seen, s.seen.segments_gone == 1);
    assert_int_equal(s.seen.fetches, 0);
    session_close(&s);
}

static void a_place_that_is_none_ends_the_session(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg = open_lazy(&s, NULL, &sub, AMB_LAZY_ON, 1000, 1);
    fake_broker_fetch_places(s.fake, 77, 1000);
    assert_int_equal(amb_msg_fetch(msg, 5 * AMB_SEC), AMB_EPROTO);
    amb_msg_release(msg);
    session_close(&s);
}

static void more_than_memory_max_is_refused(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    uint8_t byte;
    const struct amb_options *small = AMB_OPTIONS(.memory_max = 1 << 20);
    struct amb_msg *msg = open_lazy(&s, small, &sub, AMB_LAZY_ON, 4 << 20, 1);
    assert_int_equal(amb_msg_fetch(msg, AMB_SEC), AMB_ENOMEM);
    assert_int_equal(amb_msg_read(msg, (4 << 20) - 1, &byte, 1, 5 * AMB_SEC), AMB_OK);
    amb_msg_release(msg);
    session_close(&s);
}

static void expect_lost(struct session *s, struct amb_sub *sub)
{
    struct amb_msg *msg;
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_EPROTO);
    session_close(s);
}

static void an_answer_that_nobody_waits_for_ends_the_session(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg = open_lazy(&s, NULL, &sub, AMB_LAZY_ON, 10, 1);
    amb_msg_release(msg);
    const struct amb_frame frame = {.type = AMB_FRAME_FETCHED, .seq = 1, .data_len = 16};
    static const uint8_t bytes[16];
    fake_broker_frame_with(s.fake, &frame, bytes);
    expect_lost(&s, sub);
}

static void an_answer_of_another_range_ends_the_session(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    uint8_t byte;
    struct amb_msg *msg = open_lazy(&s, NULL, &sub, AMB_LAZY_ON, 10, 1);
    fake_broker_fetches(s.fake, AMB_EINTERNAL);
    assert_int_equal(amb_msg_read(msg, 0, &byte, 1, AMB_MS), AMB_ETIMEDOUT);
    FAKE_WAIT(s.fake, &s.seen, s.seen.fetches == 1);
    const struct amb_frame frame = {
        .type = AMB_FRAME_FETCHED, .seq = s.seen.fetch.seq, .data_len = 2};
    fake_broker_frame_with(s.fake, &frame, "xx");
    amb_msg_release(msg);
    expect_lost(&s, sub);
}

static void a_lazy_delivery_that_nobody_wanted_ends_the_session(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    session_open(&s, NULL, NULL);
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_lazy(s.fake, 0, 1, 10, 1, 1);
    expect_lost(&s, sub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lazy_message_has_a_size_and_no_payload),
        cmocka_unit_test(nothing_is_here_from_the_beginning),
        cmocka_unit_test(a_fetch_brings_all_of_it_in_pieces),
        cmocka_unit_test(a_read_brings_a_range_of_one_message),
        cmocka_unit_test(other_messages_can_be_read_too),
        cmocka_unit_test(what_the_broker_has_no_more_is_stale),
        cmocka_unit_test(what_is_still_coming_is_asked_for_again),
        cmocka_unit_test(payloads_that_are_kept_count_in_what_is_given_back),
        cmocka_unit_test(a_deadline_holds_and_a_late_answer_is_nobodys),
        cmocka_unit_test(no_more_is_asked_for_than_the_broker_allows),
        cmocka_unit_test(headers_stay_headers),
        cmocka_unit_test(with_its_session_a_payload_is_gone),
        cmocka_unit_test(a_close_ends_who_waits),
        cmocka_unit_test(two_threads_may_fetch_one_message),
        cmocka_unit_test(what_is_not_here_cannot_be_passed_on),
        cmocka_unit_test(in_place_is_where_it_can_be),
        cmocka_unit_test(a_place_that_is_none_ends_the_session),
        cmocka_unit_test(more_than_memory_max_is_refused),
        cmocka_unit_test(an_answer_that_nobody_waits_for_ends_the_session),
        cmocka_unit_test(an_answer_of_another_range_ends_the_session),
        cmocka_unit_test(a_lazy_delivery_that_nobody_wanted_ends_the_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
