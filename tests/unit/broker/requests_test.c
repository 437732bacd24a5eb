/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/requests: what a client may ask for once it is known, every limit, and every way to ask
 * wrongly. Wrong requests are answered and the session goes on.
 */
#include "tests/support/door_harness.h"

#include <string.h>

struct fixture {
    struct door door;
    struct door_client client;
};

static void set_up(struct fixture *f, const char *const *options)
{
    door_open(&f->door, options);
    door_login_unix(&f->door, &f->client);
}

static void tear_down(struct fixture *f)
{
    door_disconnect(&f->client);
    door_close(&f->door);
}

static void refuse_pub(struct fixture *f, uint32_t handle, const char *topic,
                       enum amb_status status, const char *text)
{
    uint64_t id = door_ask_pub_open(&f->client, handle, topic);
    door_expect_error(&f->client, id, status, text);
}

static void refuse_sub(struct fixture *f, uint32_t handle, const char *pattern,
                       enum amb_status status, const char *text)
{
    uint64_t id = door_ask_subscribe(&f->client, handle, pattern);
    door_expect_error(&f->client, id, status, text);
}

static Amb__Control__Control *pub_opened(struct fixture *f, uint32_t handle, const char *topic)
{
    uint64_t id = door_ask_pub_open(&f->client, handle, topic);
    Amb__Control__Control *message =
        door_expect(&f->client, AMB__CONTROL__CONTROL__BODY_PUB_OPENED);
    assert_int_equal(message->id, id);
    return message;
}

static void test_publisher_gets_topic_window_and_subscribers(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    door_subscribe(&f.client, 0, "a.*");
    door_subscribe(&f.client, 1, "a.b");
    door_subscribe(&f.client, 2, "a.c");
    Amb__Control__Control *first = pub_opened(&f, 0, "a.b");
    assert_int_equal(first->pub_opened->window, 64 << 10);
    assert_int_equal(first->pub_opened->subscribers, 2);
    door_subscribe(&f.client, 3, ">");
    Amb__Control__Control *second = pub_opened(&f, 1, "a.b");
    assert_int_equal(second->pub_opened->topic, first->pub_opened->topic);
    assert_int_equal(second->pub_opened->subscribers, 3);
    Amb__Control__Control *other = pub_opened(&f, 2, "other");
    assert_int_not_equal(other->pub_opened->topic, first->pub_opened->topic);
    assert_int_equal(other->pub_opened->subscribers, 1);
    amb_control_free(first);
    amb_control_free(second);
    amb_control_free(other);
    tear_down(&f);
}

static void test_bad_topics_are_refused_and_the_session_goes_on(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    ".",    "a..b", ".a",       "a.",          "a b",
                                      "a.*", "a.>",  "*",    "a\tb",     "a\x01",       "\xff\xfe",
                                      ">",   "a.\n", " a",   "\xc0\x80", "\xed\xa0\x80"};
    struct fixture f;
    set_up(&f, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        refuse_pub(&f, 0, bad[i], AMB_ETOPIC, "topic: ");
    }
    char text[300];
    memset(text, 'x', sizeof(text));
    text[256] = '\0';
    refuse_pub(&f, 0, text, AMB_ETOPIC, "topic: ");
    text[255] = '\0';
    door_pub_open(&f.client, 0, text);
    refuse_pub(&f, 1, "$SYS.health", AMB_EFORBIDDEN, "begin with '$'");
    refuse_pub(&f, 1, "$DLQ.a", AMB_EFORBIDDEN, "begin with '$'");
    door_pub_open(&f.client, 1, "_INBOX.1");
    tear_down(&f);
}

static void test_bad_patterns_are_refused_and_the_session_goes_on(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "a.>.b", "a*", "*a", "a.>b", "a..b", "\xff", "a b"};
    struct fixture f;
    set_up(&f, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        refuse_sub(&f, 0, bad[i], AMB_ETOPIC, "pattern: ");
    }
    door_subscribe(&f.client, 0, "$SYS.>");
    door_subscribe(&f.client, 1, "*.b.>");
    tear_down(&f);
}

static void test_a_name_ends_at_its_first_nul(void **state)
{
    (void)state;
    static const uint8_t raw[] = {'A', 'M',  'B', 1,    9, 0,   0, 0,  0x08,
                                  9,   0x4a, 5,   0x12, 3, 'a', 0, 'b'};
    struct fixture f;
    set_up(&f, NULL);
    Amb__Control__Control *a = pub_opened(&f, 1, "a");
    door_send_bytes(&f.client, raw, sizeof(raw)); /* PubOpen{topic = "a\0b"} with id 9 */
    Amb__Control__Control *cut = door_expect(&f.client, AMB__CONTROL__CONTROL__BODY_PUB_OPENED);
    assert_int_equal(cut->id, 9);
    assert_int_equal(cut->pub_opened->topic, a->pub_opened->topic);
    amb_control_free(a);
    amb_control_free(cut);
    tear_down(&f);
}

static void test_limits_are_named_and_leave_the_rest_alone(void **state)
{
    (void)state;
    static const char *const options[] = {"limits.max_topics=2", "limits.max_subscriptions=2",
                                          "limits.max_publishers=3", NULL};
    struct fixture f;
    set_up(&f, options);
    door_pub_open(&f.client, 0, "one");
    door_pub_open(&f.client, 1, "two");
    refuse_pub(&f, 2, "three", AMB_ELIMIT, "limit: 2 topics (limits.max_topics)");
    door_pub_open(&f.client, 2, "one");
    refuse_pub(&f, 3, "two", AMB_ELIMIT, "limit: 3 publishers of one client");
    door_expect_ok(&f.client, door_ask_pub_close(&f.client, 0));
    door_pub_open(&f.client, 3, "two");

    door_subscribe(&f.client, 0, "one");
    door_subscribe(&f.client, 1, ">");
    refuse_sub(&f, 2, "two", AMB_ELIMIT, "limit: 2 subscriptions (limits.max_subscriptions)");
    door_expect_ok(&f.client, door_ask_unsubscribe(&f.client, 0));
    door_subscribe(&f.client, 2, "two");
    tear_down(&f);
}

static void test_limit_of_subscriptions_is_everybody_s(void **state)
{
    (void)state;
    static const char *const options[] = {"limits.max_subscriptions=1", NULL};
    struct fixture f;
    struct door_client other;
    set_up(&f, options);
    door_login_unix(&f.door, &other);
    door_subscribe(&other, 0, "a");
    refuse_sub(&f, 0, "b", AMB_ELIMIT, "max_subscriptions");
    door_disconnect(&other); /* Its subscriptions go with it. */
    for (;;) {
        uint64_t id = door_ask_subscribe(&f.client, 0, "b");
        Amb__Control__Control *message = door_receive(&f.client);
        assert_non_null(message);
        assert_int_equal(message->id, id);
        bool is_ok = message->body_case == AMB__CONTROL__CONTROL__BODY_OK;
        amb_control_free(message);
        if (is_ok) {
            break;
        }
    }
    tear_down(&f);
}

static void test_handles_are_checked(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    refuse_pub(&f, 1024, "a", AMB_EINVAL, "handle");
    refuse_pub(&f, UINT32_MAX, "a", AMB_EINVAL, "handle");
    door_pub_open(&f.client, 1023, "a");
    refuse_pub(&f, 1023, "b", AMB_EINVAL, "in use");
    refuse_sub(&f, 1024, "a", AMB_EINVAL, "handle");
    door_subscribe(&f.client, 1023, "a"); /* A space of its own. */
    refuse_sub(&f, 1023, "b", AMB_EINVAL, "in use");
    door_expect_error(&f.client, door_ask_pub_close(&f.client, 0), AMB_ENOTFOUND, "no such");
    door_expect_error(&f.client, door_ask_pub_close(&f.client, 9999), AMB_ENOTFOUND, "no such");
    door_expect_error(&f.client, door_ask_unsubscribe(&f.client, 5), AMB_ENOTFOUND, "no such");
    door_expect_error(&f.client, door_ask_unsubscribe(&f.client, 4096), AMB_ENOTFOUND, "no such");
    tear_down(&f);
}

static void test_handles_can_be_used_again(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    for (int i = 0; i < 20; i++) {
        door_pub_open(&f.client, 7, i % 2 == 0 ? "even" : "odd");
        door_subscribe(&f.client, 7, i % 2 == 0 ? ">" : "odd");
        door_expect_ok(&f.client, door_ask_pub_close(&f.client, 7));
        door_expect_ok(&f.client, door_ask_unsubscribe(&f.client, 7));
    }
    door_expect_error(&f.client, door_ask_pub_close(&f.client, 7), AMB_ENOTFOUND, "no such");
    tear_down(&f);
}

/* The next message answers one of these requests, each once, with a message of its kind. */
static void expect_one_of(struct fixture *f, uint64_t *ids, const int *body_cases, size_t count)
{
    Amb__Control__Control *message = door_receive(&f->client);
    assert_non_null(message);
    size_t i = 0;
    while (i < count && (ids[i] == 0 || ids[i] != message->id)) {
        i++;
    }
    assert_true(i < count);
    assert_int_equal(message->body_case, body_cases[i]);
    ids[i] = 0;
    amb_control_free(message);
}

static void test_requests_sent_together_are_all_answered(void **state)
{
    (void)state;
    static const int kinds[] = {
        AMB__CONTROL__CONTROL__BODY_PUB_OPENED, AMB__CONTROL__CONTROL__BODY_OK,
        AMB__CONTROL__CONTROL__BODY_ERROR,      AMB__CONTROL__CONTROL__BODY_OK,
        AMB__CONTROL__CONTROL__BODY_OK,         AMB__CONTROL__CONTROL__BODY_ERROR};
    struct fixture f;
    set_up(&f, NULL);
    uint64_t ids[6];
    ids[0] = door_ask_pub_open(&f.client, 3, "a");
    ids[1] = door_ask_pub_close(&f.client, 3);
    ids[2] = door_ask_pub_close(&f.client, 3); /* Closing, or closed by now. */
    ids[3] = door_ask_subscribe(&f.client, 3, ">");
    ids[4] = door_ask_unsubscribe(&f.client, 3);
    ids[5] = door_ask_unsubscribe(&f.client, 3);
    for (size_t i = 0; i < 6; i++) {
        expect_one_of(&f, ids, kinds, 6);
    }
    door_subscribe(&f.client, 3, "b");
    door_pub_open(&f.client, 3, "b");
    tear_down(&f);
}

static void test_later_features_are_refused_as_such(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    Amb__Control__PubOpen open;
    amb__control__pub_open__init(&open);
    open.topic = (char *)(uintptr_t) "a";
    open.confirm = AMB_CONFIRM_DURABLE;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.id = 50;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPEN;
    message.pub_open = &open;
    door_send(&f.client, &message);
    door_expect_error(&f.client, 50, AMB_ENOTSUP, "not yet supported");

    Amb__Control__Subscribe subscribe;
    amb__control__subscribe__init(&subscribe);
    subscribe.pattern = (char *)(uintptr_t) "a";
    static const uint32_t later[] = {
        AMB_SLOW_DROP_NEWEST, AMB_SLOW_LATEST, AMB_SLOW_SPILL, AMB_SLOW_DISCONNECT, 99, UINT32_MAX};
    for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
        subscribe.slow = later[i];
        message.id = 51 + i;
        message.body_case = AMB__CONTROL__CONTROL__BODY_SUBSCRIBE;
        message.subscribe = &subscribe;
        door_send(&f.client, &message);
        door_expect_error(&f.client, 51 + i, AMB_ENOTSUP, "drop-oldest");
    }
    tear_down(&f);
}

static void test_a_request_without_id_ends_the_session(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    f.client.next_id = UINT64_MAX;
    assert_int_equal(door_ask_pub_open(&f.client, 0, "a"), 0);
    door_expect_error(&f.client, 0, AMB_EPROTO, "without an id");
    door_expect_closed(&f.client);
    tear_down(&f);
}

static void test_what_only_a_broker_sends_ends_the_session(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    Amb__Control__Pong pong;
    amb__control__pong__init(&pong);
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_PONG;
    message.pong = &pong;
    door_send(&f.client, &message);
    door_expect_error(&f.client, 0, AMB_EPROTO, "only a broker sends");
    door_expect_closed(&f.client);
    tear_down(&f);
}

static void test_a_second_hello_ends_the_session(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    door_send_hello(&f.client, "");
    door_expect_error(&f.client, 0, AMB_EPROTO, "");
    door_expect_closed(&f.client);
    tear_down(&f);
}

static void test_ping_is_answered_with_its_time(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    door_send_ping(&f.client, -123456789);
    Amb__Control__Control *message = door_expect(&f.client, AMB__CONTROL__CONTROL__BODY_PONG);
    assert_int_equal(message->pong->time_ns, -123456789);
    amb_control_free(message);
    tear_down(&f);
}

static void test_bye_ends_without_a_word(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    Amb__Control__Bye bye;
    amb__control__bye__init(&bye);
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_BYE;
    message.bye = &bye;
    door_send(&f.client, &message);
    door_expect_closed(&f.client);
    tear_down(&f);
}

static void test_refusing_a_segment_nobody_offered_is_harmless(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    Amb__Control__SegRefused refused;
    amb__control__seg_refused__init(&refused);
    refused.segment = 77;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    message.body_case = AMB__CONTROL__CONTROL__BODY_SEG_REFUSED;
    message.seg_refused = &refused;
    door_send(&f.client, &message);
    door_pub_open(&f.client, 0, "a");
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_publisher_gets_topic_window_and_subscribers),
        cmocka_unit_test(test_bad_topics_are_refused_and_the_session_goes_on),
        cmocka_unit_test(test_bad_patterns_are_refused_and_the_session_goes_on),
        cmocka_unit_test(test_a_name_ends_at_its_first_nul),
        cmocka_unit_test(test_limits_are_named_and_leave_the_rest_alone),
        cmocka_unit_test(test_limit_of_subscriptions_is_everybody_s),
        cmocka_unit_test(test_handles_are_checked),
        cmocka_unit_test(test_handles_can_be_used_again),
        cmocka_unit_test(test_requests_sent_together_are_all_answered),
        cmocka_unit_test(test_later_features_are_refused_as_such),
        cmocka_unit_test(test_a_request_without_id_ends_the_session),
        cmocka_unit_test(test_what_only_a_broker_sends_ends_the_session),
        cmocka_unit_test(test_a_second_hello_ends_the_session),
        cmocka_unit_test(test_ping_is_answered_with_its_time),
        cmocka_unit_test(test_bye_ends_without_a_word),
        cmocka_unit_test(test_refusing_a_segment_nobody_offered_is_harmless),
    };
    return cmocka_run_group_tests_name("broker/requests", tests, NULL, NULL);
}
