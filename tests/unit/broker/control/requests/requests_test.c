/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/requests: the requests of a client once it is known, every limit, and every way to ask
 * wrongly. Wrong requests are answered and the session goes on.
 */
#include "tests/support/door/door_harness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

static void test_a_nul_in_a_name_is_refused_and_does_not_cut_it(void **state)
{
    (void)state;
    static const uint8_t raw[] = {'A', 'M',  'B', 1,    9, 0,   0, 0,  0x08,
                                  9,   0x4a, 5,   0x12, 3, 'a', 0, 'b'};
    struct fixture f;
    set_up(&f, NULL);
    door_send_bytes(&f.client, raw, sizeof(raw)); /* PubOpen{topic = "a\0b"} with id 9 */
    door_expect_error(&f.client, 9, AMB_ETOPIC, "topic: ");
    door_pub_open(&f.client, 1, "a"); /* The session goes on. */
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

/* The tables grow to where a handle lies. They keep their cells. */
static void test_handles_may_lie_anywhere(void **state)
{
    (void)state;
    static const uint32_t handles[] = {0, 8, 7, 500, 9, 1023};
    const size_t count = sizeof(handles) / sizeof(handles[0]);
    struct fixture f;
    set_up(&f, NULL);
    for (size_t i = 0; i < count; i++) {
        door_pub_open(&f.client, handles[i], "a");
        door_subscribe(&f.client, handles[i], "a");
    }
    for (size_t i = 0; i < count; i++) {
        refuse_pub(&f, handles[i], "b", AMB_EINVAL, "in use");
        refuse_sub(&f, handles[i], "b", AMB_EINVAL, "in use");
    }
    for (size_t i = 0; i < count; i++) {
        door_expect_ok(&f.client, door_ask_pub_close(&f.client, handles[i]));
        door_expect_ok(&f.client, door_ask_unsubscribe(&f.client, handles[i]));
    }
    door_expect_error(&f.client, door_ask_unsubscribe(&f.client, 500), AMB_ENOTFOUND, "no such");
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
    static const uint32_t later[] = {AMB_SLOW_DISCONNECT + 1, 99, UINT32_MAX};
    for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
        subscribe.slow = later[i];
        message.id = 51 + i;
        message.body_case = AMB__CONTROL__CONTROL__BODY_SUBSCRIBE;
        message.subscribe = &subscribe;
        door_send(&f.client, &message);
        door_expect_error(&f.client, 51 + i, AMB_ENOTSUP, "slow");
    }
    tear_down(&f);
}

/* Leases */

static uint64_t ask_lease(struct door_client *client, uint64_t slot, uint32_t slots)
{
    Amb__Control__LeaseOpen open = AMB__CONTROL__LEASE_OPEN__INIT;
    open.slot = slot;
    open.slots = slots;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    message.body_case = AMB__CONTROL__CONTROL__BODY_LEASE_OPEN;
    message.lease_open = &open;
    return door_ask(client, &message);
}

static uint64_t say_mapped(struct door_client *client, uint64_t segment)
{
    Amb__Control__LeaseMapped mapped = AMB__CONTROL__LEASE_MAPPED__INIT;
    mapped.segment = segment;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    message.body_case = AMB__CONTROL__CONTROL__BODY_LEASE_MAPPED;
    message.lease_mapped = &mapped;
    return door_ask(client, &message);
}

static void say_closed(struct door_client *client, uint64_t segment)
{
    Amb__Control__LeaseClose close = AMB__CONTROL__LEASE_CLOSE__INIT;
    close.segment = segment;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    message.body_case = AMB__CONTROL__CONTROL__BODY_LEASE_CLOSE;
    message.lease_close = &close;
    door_send(client, &message);
}

/* Asks for 2 MiB; returns the segment, its descriptor being the last that came. */
static uint64_t lease(struct door_client *client)
{
    uint64_t id = ask_lease(client, 1 << 16, 32);
    Amb__Control__Control *message = door_expect(client, AMB__CONTROL__CONTROL__BODY_LEASE_OPENED);
    assert_int_equal(message->id, id);
    assert_int_equal(message->lease_opened->size, 2 << 20);
    uint64_t segment = message->lease_opened->segment;
    amb_control_free(message);
    return segment;
}

static void test_a_lease_brings_its_descriptor_and_is_sealed_when_mapped(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    unsigned before = f.client.fd_count;
    uint64_t segment = lease(&f.client);
    assert_int_equal(f.client.fd_count, before + 1);
    int fd = f.client.fds[before];
    void *base = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(base != MAP_FAILED);
    door_expect_ok(&f.client, say_mapped(&f.client, segment));
    assert_int_equal(fcntl(fd, F_GET_SEALS),
                     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
    door_expect_error(&f.client, say_mapped(&f.client, segment), AMB_ESTATE, "lease: ");
    door_expect_error(&f.client, say_mapped(&f.client, segment + 1), AMB_ENOTFOUND, "lease: ");
    (void)munmap(base, 2 << 20);
    tear_down(&f);
}

static void test_leases_are_shown(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    uint64_t segment = lease(&f.client);
    char *text = door_admin(&f.client, "memory");
    assert_non_null(strstr(text, "\"leased_segments\":1,\"leased_bytes\":2097152"));
    free(text);
    text = door_admin(&f.client, "clients");
    assert_non_null(strstr(text, "\"leased_bytes\":2097152,\"commits\":0"));
    free(text);
    text = door_admin(&f.client, "status");
    assert_non_null(strstr(text, "\"leased_bytes\":2097152"));
    free(text);
    say_closed(&f.client, segment);
    say_closed(&f.client, segment); /* harmless twice, and for what there never was */
    say_closed(&f.client, 999999);
    text = door_admin(&f.client, "memory");
    assert_non_null(strstr(text, "\"leased_segments\":0,\"leased_bytes\":0"));
    free(text);
    tear_down(&f);
}

static void test_lease_limits_are_named(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    door_expect_error(&f.client, ask_lease(&f.client, 1 << 20, 5), AMB_ELIMIT,
                      "limits.max_leased_per_session");
    door_expect_error(&f.client, ask_lease(&f.client, 4096, 65537), AMB_ELIMIT, "65536 slots");
    door_expect_error(&f.client, ask_lease(&f.client, 100, 1), AMB_EINVAL, "4096");
    (void)lease(&f.client);
    tear_down(&f);
}

static void test_only_local_clients_lease_and_only_where_it_is_on(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    struct door_client remote;
    struct door_session session;
    door_connect_tcp(&f.door, &remote);
    door_login(&remote, "stream", &session);
    assert_int_equal(session.lease_bytes, 0);
    door_expect_error(&remote, ask_lease(&remote, 4096, 1), AMB_ENOTSUP, "over the ring");
    door_disconnect(&remote);
    struct door_client local;
    door_connect_unix(&f.door, &local);
    door_login(&local, "ring", &session);
    assert_int_equal(session.lease_bytes, 4 << 20);
    door_disconnect(&local);
    tear_down(&f);
    set_up(&f, (const char *const[]){"limits.max_leased_per_session=0", NULL});
    door_expect_error(&f.client, ask_lease(&f.client, 4096, 1), AMB_ENOTSUP, "switched off");
    tear_down(&f);
}

static void await_memory(struct door_client *client, const char *wanted)
{
    bool is_there = false;
    for (unsigned i = 0; i < 100000 && !is_there; i++) {
        char *text = door_admin(client, "memory");
        is_there = strstr(text, wanted) != NULL;
        free(text);
    }
    assert_true(is_there);
}

static void test_the_end_with_a_lease_waits_for_the_process(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    struct door_client other;
    door_login_unix(&f.door, &other);
    (void)lease(&other);
    door_disconnect(&other);
    /* This process lives, and might still write there. */
    await_memory(&f.client, "\"leased_bytes\":2097152,\"quarantined_bytes\":2097152");
    tear_down(&f);
}

/* It says that it has nothing mapped any more, and then that it is a process that nobody knows. */
static void test_a_process_that_gives_its_session_up_is_the_same_process(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    struct door_client one, two, three;
    struct door_session session;
    door_connect_unix(&f.door, &one);
    door_login(&one, "ring", &session);
    (void)lease(&one);
    int kept = fcntl(one.fds[one.fd_count - 1], F_DUPFD_CLOEXEC, 0);
    assert_true(kept >= 0);
    door_disconnect(&one);
    await_memory(&f.client, "\"quarantined_bytes\":2097152");
    door_connect_unix(&f.door, &two);
    door_send_auth_after(&two, &session, 1);
    amb_control_free(door_expect(&two, AMB__CONTROL__CONTROL__BODY_WELCOME));
    await_memory(&f.client, "\"leased_bytes\":0,\"quarantined_bytes\":0");
    door_login_unix(&f.door, &three);
    (void)lease(&three);
    door_expect_error(&three, ask_lease(&three, 1 << 16, 32), AMB_ELIMIT,
                      "still has segments mapped that were closed");
    (void)close(kept);
    door_disconnect(&two);
    door_disconnect(&three);
    tear_down(&f);
}

/* Until its worker has counted, the session that it lost is taken for one that holds all it may. */
static void test_a_client_that_comes_back_with_nothing_held_reads_in_place(void **state)
{
    (void)state;
    struct fixture f;
    set_up(&f, NULL);
    struct door_client one, two;
    struct door_session session;
    door_connect_unix(&f.door, &one);
    door_login(&one, "ring", &session);
    door_connect_unix(&f.door, &two);
    door_send_auth_after(&two, &session, 0);
    Amb__Control__Control *welcome = door_expect(&two, AMB__CONTROL__CONTROL__BODY_WELCOME);
    assert_string_equal(welcome->welcome->link_reason, "");
    amb_control_free(welcome);
    door_disconnect(&one);
    door_disconnect(&two);
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
        cmocka_unit_test(test_a_nul_in_a_name_is_refused_and_does_not_cut_it),
        cmocka_unit_test(test_limits_are_named_and_leave_the_rest_alone),
        cmocka_unit_test(test_limit_of_subscriptions_is_everybody_s),
        cmocka_unit_test(test_handles_are_checked),
        cmocka_unit_test(test_handles_can_be_used_again),
        cmocka_unit_test(test_handles_may_lie_anywhere),
        cmocka_unit_test(test_requests_sent_together_are_all_answered),
        cmocka_unit_test(test_later_features_are_refused_as_such),
        cmocka_unit_test(test_a_client_that_comes_back_with_nothing_held_reads_in_place),
        cmocka_unit_test(test_a_lease_brings_its_descriptor_and_is_sealed_when_mapped),
        cmocka_unit_test(test_leases_are_shown),
        cmocka_unit_test(test_lease_limits_are_named),
        cmocka_unit_test(test_only_local_clients_lease_and_only_where_it_is_on),
        cmocka_unit_test(test_the_end_with_a_lease_waits_for_the_process),
        cmocka_unit_test(test_a_process_that_gives_its_session_up_is_the_same_process),
        cmocka_unit_test(test_a_request_without_id_ends_the_session),
        cmocka_unit_test(test_what_only_a_broker_sends_ends_the_session),
        cmocka_unit_test(test_a_second_hello_ends_the_session),
        cmocka_unit_test(test_ping_is_answered_with_its_time),
        cmocka_unit_test(test_bye_ends_without_a_word),
        cmocka_unit_test(test_refusing_a_segment_nobody_offered_is_harmless),
    };
    return cmocka_run_group_tests_name("broker/requests", tests, NULL, NULL);
}
