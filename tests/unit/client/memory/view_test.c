/* SPDX-License-Identifier: Apache-2.0 */
/* Messages read in place: segments come, are used, go, and outlive a close. */
#include "client/drive/lock.h"
#include "tests/unit/client/session.h"

#include "wire/base/clock.h"

#include <stdio.h>

static void open_mapped(struct session *s, const struct amb_options *client, struct amb_sub **sub)
{
    session_open(s, NULL, client);
    assert_int_equal(amb_subscribe(s->conn, "t.>", NULL, sub), AMB_OK);
    fake_broker_segment(s->fake, 5, true);
    if (client != NULL) {
        (void)amb_poll(s->conn, 100 * AMB_MS); /* POLL mode: nobody else reads the socket. */
    }
    FAKE_WAIT(s->fake, &s->seen, s->seen.segments_ready == 1);
}

static void a_mapped_message_is_read_where_it_lies(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg;
    open_mapped(&s, NULL, &sub);
    fake_broker_map(s.fake, 0, 1, "m", 2, 1, 5);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    assert_payload(msg, "m0");
    assert_string_equal(amb_msg_path(msg), "mapped");
    amb_msg_release(msg);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    assert_payload(msg, "m1");
    amb_msg_release(msg);
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1);
    session_close(&s);
}

static void a_dropped_segment_stays_mapped_while_it_is_held(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg;
    open_mapped(&s, NULL, &sub);
    fake_broker_map(s.fake, 0, 1, "m", 1, 1, 5);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    fake_broker_drop_segment(s.fake, 5);
    assert_int_equal(amb_poll(s.conn, AMB_NOWAIT), AMB_OK);
    assert_payload(msg, "m0");
    fake_broker_look(s.fake, &s.seen);
    assert_int_equal(s.seen.segments_gone, 0);
    amb_msg_release(msg);
    FAKE_WAIT(s.fake, &s.seen, s.seen.segments_gone == 1);
    session_close(&s);
}

static void a_segment_that_could_shrink_is_refused(void **state)
{
    (void)state;
    struct session s;
    session_open(&s, NULL, NULL);
    fake_broker_segment(s.fake, 6, false);
    FAKE_WAIT(s.fake, &s.seen, s.seen.segments_refused == 1);
    assert_int_equal(s.seen.segments_ready, 0);
    session_close(&s);
}

static void a_range_outside_the_segment_ends_the_session(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg;
    open_mapped(&s, NULL, &sub);
    fake_broker_map(s.fake, 0, 1, "m", 1, 1, 5);
    const struct amb_frame frame = {.type = AMB_FRAME_MAP,
                                    .topic = 1,
                                    .count = 1,
                                    .meta_len = 16,
                                    .data_len = 4096,
                                    .number = 2,
                                    .segment = 5,
                                    .offset = (1 << 20) - 16};
    fake_broker_frame(s.fake, &frame);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    struct amb_msg *none;
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &none), AMB_EPROTO);
    assert_payload(msg, "m0"); /* Messages that are held stay readable. */
    amb_msg_release(msg);
    session_close(&s);
}

static void *take_one(void *arg)
{
    struct amb_msg *msg = NULL;
    return amb_next(arg, 5 * AMB_SEC, &msg) == AMB_OK ? msg : NULL;
}

static void a_segment_is_welcomed_although_a_caller_sleeps(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    session_open(&s, NULL, NULL);
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_one, sub), 0);
    bool sleeps = false;
    while (!sleeps) {
        fake_broker_nap();
        amb_conn_lock(s.conn);
        sleeps = s.conn->driver.is_asleep;
        amb_conn_unlock(s.conn);
    }
    fake_broker_segment(s.fake, 5, true);
    FAKE_WAIT(s.fake, &s.seen, s.seen.segments_ready == 1);
    fake_broker_map(s.fake, 0, 1, "m", 1, 1, 5);
    void *msg;
    assert_int_equal(pthread_join(thread, &msg), 0);
    assert_payload(msg, "m0");
    amb_msg_release(msg);
    session_close(&s);
}

static void a_leased_batch_is_read_where_its_publisher_wrote_it(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msgs[3];
    open_mapped(&s, NULL, &sub);
    fake_broker_map_leased(s.fake, 0, 1, "leased", 3, 1, 5);
    for (unsigned i = 0; i < 3; i++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "leased%u", i);
        assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msgs[i]), AMB_OK);
        assert_payload(msgs[i], text);
        assert_string_equal(amb_msg_path(msgs[i]), "mapped");
        assert_int_equal(amb_msg_seq(msgs[i]), 1 + i);
    }
    /* They follow each other backwards in memory. */
    assert_ptr_equal((const uint8_t *)amb_msg_data(msgs[2]) + 128, amb_msg_data(msgs[0]));
    fake_broker_drop_segment(s.fake, 5);
    for (unsigned i = 0; i < 3; i++) {
        fake_broker_look(s.fake, &s.seen);
        assert_int_equal(s.seen.segments_gone, 0);
        assert_int_equal(s.seen.release[0], 0);
        amb_msg_release(msgs[i]);
    }
    FAKE_WAIT(s.fake, &s.seen, s.seen.release[0] == 1 && s.seen.segments_gone == 1);
    session_close(&s);
}

static void a_leased_payload_outside_the_segment_ends_the_session(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg;
    open_mapped(&s, NULL, &sub);
    fake_broker_map_leased(s.fake, 0, 1, "leased", 1, 1, 5);
    const struct {
        struct amb_record record;
        uint64_t offset;
    } meta = {.record = {.len = 4096}, .offset = (1 << 20) - 16};
    const struct amb_frame frame = {.type = AMB_FRAME_MAP_LEASED,
                                    .topic = 1,
                                    .count = 1,
                                    .meta_len = sizeof(meta),
                                    .data_len = 4096,
                                    .number = 2,
                                    .segment = 5};
    fake_broker_frame_with(s.fake, &frame, &meta);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    amb_msg_release(msg);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_EPROTO);
    session_close(&s);
}

static void a_leased_message_outlives_the_connection(void **state)
{
    (void)state;
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *msg;
    open_mapped(&s, NULL, &sub);
    fake_broker_map_leased(s.fake, 0, 1, "leased", 1, 1, 5);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &msg), AMB_OK);
    assert_int_equal(amb_close(s.conn, AMB_SEC), AMB_OK);
    assert_payload(msg, "leased0");
    amb_msg_release(msg);
    FAKE_WAIT(s.fake, &s.seen, s.seen.said_bye && s.seen.release[0] == 1);
    fake_broker_stop(s.fake);
}

static void held_messages_outlive_the_connection(const struct amb_options *options)
{
    const struct fake_options beats = {.heartbeat_ns = 20 * AMB_NS_PER_MS,
                                       .peer_timeout_ns = 5 * AMB_NS_PER_SEC};
    struct session s;
    struct amb_sub *sub;
    struct amb_msg *mapped, *copied;
    session_open(&s, &beats, options);
    assert_int_equal(amb_subscribe(s.conn, "t.>", NULL, &sub), AMB_OK);
    fake_broker_segment(s.fake, 5, true);
    if (options != NULL) {
        (void)amb_poll(s.conn, 100 * AMB_MS);
    }
    FAKE_WAIT(s.fake, &s.seen, s.seen.segments_ready == 1);
    fake_broker_map(s.fake, 0, 1, "m", 1, 1, 5);
    fake_broker_deliver(s.fake, 0, 1, "c", 1, 2, 0);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &mapped), AMB_OK);
    assert_int_equal(amb_next(sub, 5 * AMB_SEC, &copied), AMB_OK);
    assert_int_equal(amb_close(s.conn, AMB_SEC), AMB_OK);
    assert_payload(mapped, "m0");
    assert_payload(copied, "c0");
    assert_string_equal(amb_msg_topic(mapped), "t1");
    /* The session lives on: it still speaks. */
    fake_broker_look(s.fake, &s.seen);
    uint64_t pings = s.seen.pings;
    assert_false(s.seen.said_bye);
    FAKE_WAIT(s.fake, &s.seen, s.seen.pings > pings + 1);
    amb_msg_release(mapped);
    FAKE_WAIT(s.fake, &s.seen, s.seen.said_bye && s.seen.release[0] == 1);
    assert_payload(copied, "c0");
    assert_string_equal(amb_msg_topic(copied), "t1");
    amb_msg_release(copied);
    fake_broker_stop(s.fake);
}

static void held_messages_outlive_the_connection_with_a_thread(void **state)
{
    (void)state;
    held_messages_outlive_the_connection(NULL);
}

static void held_messages_outlive_the_connection_without_one(void **state)
{
    (void)state;
    held_messages_outlive_the_connection(AMB_OPTIONS(.progress = AMB_PROGRESS_POLL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mapped_message_is_read_where_it_lies),
        cmocka_unit_test(a_dropped_segment_stays_mapped_while_it_is_held),
        cmocka_unit_test(a_segment_that_could_shrink_is_refused),
        cmocka_unit_test(a_range_outside_the_segment_ends_the_session),
        cmocka_unit_test(a_segment_is_welcomed_although_a_caller_sleeps),
        cmocka_unit_test(a_leased_batch_is_read_where_its_publisher_wrote_it),
        cmocka_unit_test(a_leased_message_outlives_the_connection),
        cmocka_unit_test(a_leased_payload_outside_the_segment_ends_the_session),
        cmocka_unit_test(held_messages_outlive_the_connection_with_a_thread),
        cmocka_unit_test(held_messages_outlive_the_connection_without_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
