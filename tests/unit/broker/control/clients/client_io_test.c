/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker/client_io: a control connection as bytes. Bytes that are no message, messages in pieces
 * and in heaps, clients that do not read.
 */
#include "tests/support/door/door_harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static const uint8_t ping_frame[] = {'A', 'M', 'B', 1, 3, 0, 0, 0, 0x82, 0x01, 0};

static void test_what_is_not_our_protocol_is_closed_without_a_word(void **state)
{
    (void)state;
    static const char *const greetings[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02",
                                            "SSH-2.0-OpenSSH_9.2\r\n", "AMQP", "\x10\x20\x30\x40"};
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    for (size_t i = 0; i < sizeof(greetings) / sizeof(greetings[0]); i++) {
        door_connect_tcp(&door, &client);
        door_send_bytes(&client, greetings[i], strlen(greetings[i]));
        door_expect_closed(&client);
        door_disconnect(&client);
    }
    door_close(&door);
}

static void refuse_prefix(const struct door *door, const uint8_t prefix[8], enum amb_status status,
                          const char *text)
{
    struct door_client client;
    door_connect_unix(door, &client);
    door_send_bytes(&client, prefix, 8);
    door_expect_error(&client, 0, status, text);
    door_expect_closed(&client);
    door_disconnect(&client);
}

static void test_impossible_lengths_are_refused_before_anything_is_allocated(void **state)
{
    (void)state;
    static const uint8_t lengths[][4] = {
        {0, 0, 0, 0}, {1, 0, 1, 0}, {0, 0, 0, 0x80}, {0xff, 0xff, 0xff, 0xff}};
    struct door door;
    door_open(&door, NULL);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint8_t prefix[8] = {'A', 'M', 'B', 1};
        memcpy(prefix + 4, lengths[i], 4);
        refuse_prefix(&door, prefix, AMB_EPROTO, "frame_length");
    }
    door_close(&door);
}

static void test_another_framing_version_is_told_ours(void **state)
{
    (void)state;
    static const uint8_t prefix[8] = {'A', 'M', 'B', 2, 1, 0, 0, 0};
    struct door door;
    door_open(&door, NULL);
    refuse_prefix(&door, prefix, AMB_EVERSION, "this broker speaks 1 to 1");
    door_close(&door);
}

static void test_malformed_messages_are_refused(void **state)
{
    (void)state;
    static const uint8_t bad[][8] = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
                                     {0x12, 0x7f, 0, 0, 0, 0, 0, 0},
                                     {0x08, 1, 0x08, 2, 0x08, 3, 0x08, 4}}; /* no body */
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        static const uint8_t prefix[8] = {'A', 'M', 'B', 1, 8, 0, 0, 0};
        door_connect_unix(&door, &client);
        door_send_bytes(&client, prefix, 8);
        door_send_bytes(&client, bad[i], 8);
        door_expect_error(&client, 0, AMB_EPROTO, "bad_message");
        door_expect_closed(&client);
        door_disconnect(&client);
    }
    door_close(&door);
}

static void test_unknown_fields_are_ignored(void **state)
{
    (void)state;
    /* Ping with a field 1000 (varint) behind it. */
    static const uint8_t frame[] = {'A', 'M', 'B', 1, 6, 0, 0, 0, 0x82, 0x01, 0, 0xc0, 0x3e, 7};
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    door_login_unix(&door, &client);
    door_send_bytes(&client, frame, sizeof(frame));
    amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_PONG));
    door_disconnect(&client);
    door_close(&door);
}

static void test_messages_may_come_byte_by_byte_and_many_at_once(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    door_login_unix(&door, &client);
    for (size_t i = 0; i < sizeof(ping_frame); i++) {
        door_send_bytes(&client, ping_frame + i, 1);
    }
    amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_PONG));
    uint8_t heap[100 * sizeof(ping_frame)];
    for (size_t i = 0; i < 100; i++) {
        memcpy(heap + i * sizeof(ping_frame), ping_frame, sizeof(ping_frame));
    }
    door_send_bytes(&client, heap, sizeof(heap));
    for (size_t i = 0; i < 100; i++) {
        amb_control_free(door_expect(&client, AMB__CONTROL__CONTROL__BODY_PONG));
    }
    door_disconnect(&client);
    door_close(&door);
}

static void test_half_a_message_and_then_the_end_is_forgotten(void **state)
{
    (void)state;
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    for (size_t len = 1; len < sizeof(ping_frame); len++) {
        door_connect_tcp(&door, &client);
        door_send_bytes(&client, ping_frame, len);
        assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
        door_expect_closed(&client);
        door_disconnect(&client);
    }
    door_login_unix(&door, &client);
    door_disconnect(&client);
    door_close(&door);
}

static void test_a_slow_reader_gets_everything_in_order(void **state)
{
    (void)state;
    enum {
        QUERIES = 1000
    };
    struct door door;
    struct door_client client;
    door_open(&door, NULL);
    door_login_unix(&door, &client);
    uint64_t ids[QUERIES];
    for (int i = 0; i < QUERIES; i++) {
        ids[i] = door_ask_admin(&client, "status"); /* About 1 KiB: more than a socket holds. */
    }
    for (int i = 0; i < QUERIES; i++) {
        Amb__Control__Control *message =
            door_expect(&client, AMB__CONTROL__CONTROL__BODY_ADMIN_REPLY);
        assert_int_equal(message->id, ids[i]);
        amb_control_free(message);
    }
    door_disconnect(&client);
    door_close(&door);
}

static void test_a_client_that_never_reads_is_ended(void **state)
{
    (void)state;
    struct door door;
    struct door_client client, other;
    door_open(&door, NULL);
    door_login_unix(&door, &client);
    door_login_unix(&door, &other);
    for (uint32_t i = 0; i < 200; i++) { /* So that an answer has some 40 KiB. */
        char topic[32];
        (void)snprintf(topic, sizeof(topic), "topic.%u", i);
        door_pub_open(&other, i, topic);
    }
    static const uint8_t ask[] = {'A',  'M', 'B', 1, 13,  0,   0,   0,   0x08, 1,  0x9a,
                                  0x01, 8,   0xa, 6, 't', 'o', 'p', 'i', 'c',  's'};
    for (int i = 0; i < 100000; i++) {
        if (send(client.fd, ask, sizeof(ask), MSG_NOSIGNAL) < 0) {
            assert_true(errno == EPIPE || errno == ECONNRESET);
            break;
        }
        assert_int_not_equal(i, 99999);
    }
    door_pub_open(&other, 200, "a");
    door_disconnect(&other);
    door_disconnect(&client);
    door_close(&door);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_not_our_protocol_is_closed_without_a_word),
        cmocka_unit_test(test_impossible_lengths_are_refused_before_anything_is_allocated),
        cmocka_unit_test(test_another_framing_version_is_told_ours),
        cmocka_unit_test(test_malformed_messages_are_refused),
        cmocka_unit_test(test_unknown_fields_are_ignored),
        cmocka_unit_test(test_messages_may_come_byte_by_byte_and_many_at_once),
        cmocka_unit_test(test_half_a_message_and_then_the_end_is_forgotten),
        cmocka_unit_test(test_a_slow_reader_gets_everything_in_order),
        cmocka_unit_test(test_a_client_that_never_reads_is_ended),
    };
    return cmocka_run_group_tests_name("broker/client_io", tests, NULL, NULL);
}
