/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/requests: answers that cross other requests on their way. The control thread and the
 * workers have their turns as the test says.
 */
#include "broker/config/config.h"
#include "broker/control/clients/client_io.h"
#include "broker/ingest/publisher.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "tests/support/door/stepped_control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/epoll.h>
#include <sys/socket.h>

/* PubOpen{handle 0, topic} and Subscribe{handle 0, pattern} with id 1; Bye below. */
static const uint8_t pub_open[] = {0x08, 1, 0x4a, 5, 0x12, 3, 'a', '.', 'b'};
static const uint8_t subscribe[] = {0x08, 1, 0x62, 3, 0x12, 1, '>'};
static const uint8_t unsubscribe[] = {0x08, 2, 0x6a, 0};
static const uint8_t ping[] = {0x82, 0x01, 0};
static const uint8_t bye[] = {0x92, 0x01, 0};
static const uint8_t pub_close[] = {0x08, 3, 0x5a, 0};

static struct amb_client *known_client(int *fd)
{
    struct amb_client *client = stepped_connect(true, fd);
    stepped_log_in(client, *fd);
    return client;
}

/* The ring is closed behind bye, and its worker hears of that first. */
static void test_bye_that_is_not_read_yet_is_heard_when_the_link_is_lost(void **state)
{
    (void)state;
    int fds[2];
    for (unsigned says_bye = 0; says_bye < 2; says_bye++) {
        struct amb_client *client = known_client(&fds[says_bye]);
        for (unsigned i = 0; i < 40; i++) {
            stepped_say_body(fds[says_bye], ping, sizeof(ping));
        }
        if (says_bye != 0) {
            stepped_say_body(fds[says_bye], bye, sizeof(bye));
        }
        amb_client_lose_link(client, "the peer closed the ring");
        assert_int_equal(client->state, AMB_CLIENT_ENDING);
        assert_int_equal(client->said_bye, says_bye);
        stepped_leave(client, fds[says_bye]);
    }
}

static uint32_t subscribers_told(int fd)
{
    Amb__Control__Control *message = stepped_hear(fd);
    assert_int_equal(message->body_case, AMB__CONTROL__CONTROL__BODY_PUB_OPENED);
    uint32_t subscribers = message->pub_opened->subscribers;
    amb_control_free(message);
    return subscribers;
}

static void test_who_subscribes_before_the_answer_is_not_counted_in_it(void **state)
{
    (void)state;
    int writer_fd, reader_fd;
    struct amb_client *writer = known_client(&writer_fd), *reader = known_client(&reader_fd);
    stepped_say_body(writer_fd, pub_open, sizeof(pub_open));
    stepped_control_turn(writer); /* The order is under way. */
    (void)stepped_workers_turn(); /* Carried out; the answer is under way. */
    stepped_say_body(reader_fd, subscribe, sizeof(subscribe));
    reader->watch.fn(&reader->watch, EPOLLIN); /* The cursor is under way, behind the answer. */
    stepped_control_turn(writer);
    assert_int_equal(subscribers_told(writer_fd), 0); /* He is told by a flow value. */
    stepped_settle(reader);
    stepped_leave(writer, writer_fd);
    stepped_leave(reader, reader_fd);
}

static void test_who_has_subscribed_is_counted(void **state)
{
    (void)state;
    int writer_fd, reader_fd;
    struct amb_client *writer = known_client(&writer_fd), *reader = known_client(&reader_fd);
    stepped_say_body(reader_fd, subscribe, sizeof(subscribe));
    stepped_control_turn(reader); /* Not carried out yet, but posted before. */
    stepped_say_body(writer_fd, pub_open, sizeof(pub_open));
    stepped_settle(writer);
    assert_int_equal(subscribers_told(writer_fd), 1);
    stepped_leave(reader, reader_fd);
    stepped_leave(writer, writer_fd);
}

static void test_who_leaves_with_everything_under_way_leaves_nothing(void **state)
{
    (void)state;
    static const struct {
        const uint8_t *body;
        uint8_t len;
    } requests[] = {{pub_open, sizeof(pub_open)},
                    {subscribe, sizeof(subscribe)},
                    {unsubscribe, sizeof(unsubscribe)},
                    {pub_close, sizeof(pub_close)}};
    for (size_t count = 1; count <= 4; count++) {
        for (unsigned turns = 0; turns < 3; turns++) {
            int fd;
            struct amb_client *client = known_client(&fd);
            for (size_t i = 0; i < count; i++) {
                stepped_say_body(fd, requests[i].body, requests[i].len);
            }
            client->watch.fn(&client->watch, EPOLLIN);
            for (unsigned i = 0; i < turns; i++) {
                (void)stepped_workers_turn();
            }
            stepped_leave(client, fd);
        }
    }
}

static uint64_t answer_of(int fd, int body_case)
{
    Amb__Control__Control *message = stepped_hear(fd);
    uint64_t id = message->id;
    assert_int_equal(message->body_case, body_case);
    amb_control_free(message);
    return id;
}

/* The publishers that workers have. */
static unsigned publishers_open(void)
{
    const struct amb_control *control = stepped_control();
    unsigned count = 0;
    for (unsigned i = 0; i < control->shard_count; i++) {
        const struct amb_shard *shard = control->shards[i];
        for (uint32_t at = 0; at < shard->sessions.cells; at++) {
            const struct amb_session *session = shard->sessions.at[at];
            count += session != NULL && amb_session_publisher(session, 0) != NULL;
        }
    }
    return count;
}

/* A name's former worker is asked first. So the opening may be behind an order to close that came
 * later. Nobody would ever close what it then opens, and somebody else would have its name. */
static void test_a_publisher_is_closed_behind_its_opening(void **state)
{
    (void)state;
    /* As pub_open, with name "n". */
    static const uint8_t named[] = {0x08, 7, 0x4a, 9, 0x12, 3, 'a', '.', 'b', 0xa2, 0x01, 1, 'n'};
    int fd;
    struct amb_client *client = known_client(&fd);
    for (unsigned i = 0; i < 3; i++) { /* From the second time on the name has a worker. */
        stepped_say_body(fd, named, sizeof(named));
        stepped_say_body(fd, pub_close, sizeof(pub_close));
        stepped_settle(client);
        assert_int_equal(answer_of(fd, AMB__CONTROL__CONTROL__BODY_PUB_OPENED), 7);
        assert_int_equal(answer_of(fd, AMB__CONTROL__CONTROL__BODY_OK), 3);
        assert_int_equal(publishers_open(), 0);
    }
    stepped_leave(client, fd);
    for (unsigned turns = 0; turns < 4; turns++) {
        client = known_client(&fd);
        stepped_say_body(fd, named, sizeof(named));
        stepped_say_body(fd, pub_close, sizeof(pub_close));
        client->watch.fn(&client->watch, EPOLLIN);
        for (unsigned i = 0; i < turns; i++) {
            (void)stepped_workers_turn();
            stepped_control_turn(client);
        }
        stepped_leave(client, fd);
    }
}

static void test_a_publisher_that_could_not_be_opened_is_closed(void **state)
{
    (void)state;
    int fd;
    struct amb_client *client = known_client(&fd);
    struct amb_shard *shard = stepped_control()->shards[client->session.shard];
    struct amb_session *session = shard->sessions.at[client->session.index];
    struct amb_publisher *in_the_way;
    assert_int_equal(
        amb_publisher_create(session, 0, 0, 0, false, &amb_trust_group_main, &in_the_way), AMB_OK);
    stepped_say_body(fd, pub_open, sizeof(pub_open));
    stepped_say_body(fd, pub_close, sizeof(pub_close));
    stepped_settle(client);
    assert_int_equal(answer_of(fd, AMB__CONTROL__CONTROL__BODY_ERROR), 1);
    assert_int_equal(answer_of(fd, AMB__CONTROL__CONTROL__BODY_OK), 3);
    assert_int_equal(client->publisher_count, 0);
    amb_publisher_destroy(&in_the_way);
    stepped_say_body(fd, pub_open, sizeof(pub_open));
    stepped_settle(client);
    assert_int_equal(answer_of(fd, AMB__CONTROL__CONTROL__BODY_PUB_OPENED), 1);
    stepped_leave(client, fd);
}

static void test_many_requests_at_once_are_read_bit_by_bit(void **state)
{
    (void)state;
    enum {
        REQUESTS = 100
    };
    int fd;
    struct amb_client *client = known_client(&fd);
    uint8_t pipelined[] = {0x08, 1, 0x9a, 0x01, 8, 0x0a, 6, 'm', 'e', 'm', 'o', 'r', 'y'};
    for (unsigned i = 0; i < REQUESTS; i++) {
        pipelined[1] = (uint8_t)(1 + i % 100);
        stepped_say_body(fd, pipelined, sizeof(pipelined));
    }
    for (int i = 0; i < 5; i++) {
        client->watch.fn(&client->watch, EPOLLIN);
    }
    assert_int_equal(client->work, 64);
    assert_int_equal(client->paused, AMB_PAUSE_WORK);
    unsigned answers = 0;
    for (unsigned round = 0; round < 10; round++) {
        stepped_settle(client);
    }
    assert_int_equal(client->paused, 0);
    assert_int_equal(client->work, 0);
    for (; answers < REQUESTS; answers++) {
        client->watch.fn(&client->watch, EPOLLOUT); /* More than a socket holds. */
        Amb__Control__Control *message = stepped_hear(fd);
        assert_int_equal(message->id, 1 + answers % 100);
        amb_control_free(message);
    }
    stepped_leave(client, fd);
}

/* Nothing answers these, but a worker has to do them all the same. */
static void test_refusals_of_segments_are_read_bit_by_bit(void **state)
{
    (void)state;
    static const uint8_t refused[] = {0x7a, 2, 0x08, 77};
    int fd;
    struct amb_client *client = known_client(&fd);
    for (unsigned i = 0; i < 100; i++) {
        stepped_say_body(fd, refused, sizeof(refused));
    }
    stepped_control_turn(client);
    stepped_control_turn(client);
    assert_int_equal(client->work, 64);
    assert_int_equal(client->paused, AMB_PAUSE_WORK);
    while (stepped_workers_turn() > 0 || client->work > 0) {
        stepped_control_turn(client);
    }
    assert_int_equal(client->paused, 0);
    stepped_settle(client);
    stepped_leave(client, fd);
}

/* The control thread may have stood still between reading and looking at deadlines. */
static void test_nobody_is_expired_whose_word_has_come(void **state)
{
    (void)state;
    int fd;
    struct amb_client *client = known_client(&fd);
    int64_t late_ns = client->seen_ns + client->control->config->limits.peer_timeout_ns + 1;
    stepped_say_body(fd, ping, sizeof(ping));
    amb_client_tick(client, late_ns);
    assert_int_equal(client->state, AMB_CLIENT_LIVE);
    stepped_control_turn(client);
    amb_control_free(stepped_hear(fd)); /* Pong */
    amb_client_tick(client, late_ns);
    assert_int_equal(client->state, AMB_CLIENT_ENDING);
    stepped_settle(client);
    stepped_leave(client, fd);
}

/* Pings, and never reads a Pong: the waiting answers stay as small as they are. */
static void test_pings_are_answered_by_one_pong_while_one_waits(void **state)
{
    (void)state;
    int fd;
    struct amb_client *client = known_client(&fd);
    uint64_t before = client->heap.bytes;
    for (unsigned i = 0; i < 20000; i++) {
        stepped_say_body(fd, ping, sizeof(ping));
        stepped_control_turn(client);
    }
    assert_int_equal(client->state, AMB_CLIENT_LIVE);
    assert_in_range(client->heap.bytes - before, 1, 1000);
    uint8_t bytes[4096];
    while (client->out_bytes > 0) {
        assert_true(recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0);
        amb_client_send_pong(client, 1);
    }
    assert_int_equal(client->heap.bytes, before);
    stepped_leave(client, fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bye_that_is_not_read_yet_is_heard_when_the_link_is_lost),
        cmocka_unit_test(test_who_subscribes_before_the_answer_is_not_counted_in_it),
        cmocka_unit_test(test_who_has_subscribed_is_counted),
        cmocka_unit_test(test_who_leaves_with_everything_under_way_leaves_nothing),
        cmocka_unit_test(test_a_publisher_is_closed_behind_its_opening),
        cmocka_unit_test(test_a_publisher_that_could_not_be_opened_is_closed),
        cmocka_unit_test(test_many_requests_at_once_are_read_bit_by_bit),
        cmocka_unit_test(test_refusals_of_segments_are_read_bit_by_bit),
        cmocka_unit_test(test_nobody_is_expired_whose_word_has_come),
        cmocka_unit_test(test_pings_are_answered_by_one_pong_while_one_waits),
    };
    return cmocka_run_group_tests_name("broker/requests, races", tests, NULL, NULL);
}
