/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/codec/control.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char topic_name[] = "camera.front";

/* A PubOpen, packed; the caller frees it. */
static uint8_t *pack_pub_open(uint64_t id, size_t *size_out)
{
    Amb__Control__PubOpen open;
    amb__control__pub_open__init(&open);
    open.handle = 7;
    open.topic = topic_name;
    Amb__Control__Control control = AMB__CONTROL__CONTROL__INIT;
    control.id = id;
    control.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPEN;
    control.pub_open = &open;
    size_t size = amb_control_packed_size(&control);
    assert_true(size > AMB_CONTROL_PREFIX_SIZE);
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    amb_control_pack(&control, bytes);
    *size_out = size;
    return bytes;
}

static void check_pub_open(const Amb__Control__Control *message, uint64_t id)
{
    assert_non_null(message);
    assert_true(message->id == id);
    assert_int_equal(message->body_case, AMB__CONTROL__CONTROL__BODY_PUB_OPEN);
    assert_int_equal(message->pub_open->handle, 7);
    assert_string_equal(message->pub_open->topic, topic_name);
}

static void the_prefix_is_magic_version_and_length(void **state)
{
    (void)state;
    size_t size = 0;
    uint8_t *bytes = pack_pub_open(1, &size);
    assert_memory_equal(bytes, "AMB\1", 4);
    assert_int_equal(bytes[4], size - AMB_CONTROL_PREFIX_SIZE);
    assert_memory_equal(bytes + 5, "\0\0\0", 3);
    free(bytes);
}

static void messages_come_whole_however_the_bytes_come(void **state)
{
    (void)state;
    size_t one = 0, two = 0;
    uint8_t *first = pack_pub_open(1, &one);
    uint8_t *second = pack_pub_open(UINT64_MAX, &two);
    uint8_t *both = malloc(one + two);
    assert_non_null(both);
    memcpy(both, first, one);
    memcpy(both + one, second, two);
    struct amb_control_reader reader;
    amb_control_reader_init(&reader);
    for (size_t step = 1; step <= one + two; step++) {
        uint64_t ids[2] = {1, UINT64_MAX};
        size_t messages = 0;
        for (size_t at = 0; at < one + two;) {
            size_t len = one + two - at < step ? one + two - at : step;
            size_t used = 0;
            Amb__Control__Control *message = NULL;
            assert_int_equal(amb_control_read(&reader, both + at, len, &used, &message, NULL),
                             AMB_OK);
            assert_true(used <= len && used > 0);
            at += used;
            if (message != NULL) {
                assert_true(messages < 2);
                check_pub_open(message, ids[messages++]);
                amb_control_free(message);
            } else {
                assert_int_equal(used, len);
            }
        }
        assert_int_equal(messages, 2);
    }
    amb_control_reader_fini(&reader);
    amb_control_reader_fini(&reader);
    free(both);
    free(second);
    free(first);
}

static void a_reader_that_asks_for_what_is_wanted_never_takes_of_the_next_message(void **state)
{
    (void)state;
    size_t size = 0, used = 0;
    uint8_t *bytes = pack_pub_open(3, &size);
    struct amb_control_reader reader;
    amb_control_reader_init(&reader);
    Amb__Control__Control *message = NULL;
    assert_int_equal(amb_control_wanted(&reader), AMB_CONTROL_PREFIX_SIZE);
    assert_int_equal(amb_control_read(&reader, bytes, 3, &used, &message, NULL), AMB_OK);
    assert_int_equal(amb_control_wanted(&reader), AMB_CONTROL_PREFIX_SIZE - 3);
    assert_int_equal(amb_control_read(&reader, bytes + 3, 5, &used, &message, NULL), AMB_OK);
    assert_int_equal(amb_control_wanted(&reader), size - AMB_CONTROL_PREFIX_SIZE);
    assert_null(message);
    assert_int_equal(
        amb_control_read(&reader, bytes + 8, amb_control_wanted(&reader), &used, &message, NULL),
        AMB_OK);
    check_pub_open(message, 3);
    assert_int_equal(amb_control_wanted(&reader), AMB_CONTROL_PREFIX_SIZE);
    amb_control_free(message);
    amb_control_reader_fini(&reader);
    free(bytes);
}

/* Feeds one fresh reader; the message is freed. */
static enum amb_status read_once(const void *bytes, size_t len, const char **reason)
{
    struct amb_control_reader reader;
    amb_control_reader_init(&reader);
    size_t used = 0;
    Amb__Control__Control *message = NULL;
    enum amb_status status = amb_control_read(&reader, bytes, len, &used, &message, reason);
    if (status == AMB_OK) {
        amb_control_free(message);
    }
    amb_control_reader_fini(&reader);
    return status;
}

static void strangers_are_refused_at_their_first_wrong_byte(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        const char *reason;
    } bad[] = {
        {"G", 1, "bad_magic"},
        {"GET / HTTP/1.1\r\n", 16, "bad_magic"},
        {"AMX", 3, "bad_magic"},
        {"\x16\x03\x01", 3, "bad_magic"},
        {"AMB\0", 4, "bad_version"},
        {"AMB\2", 4, "bad_version"},
        {"AMB\1\0\0\0\0", 8, "frame_length"},
        {"AMB\1\1\0\1\0", 8, "frame_length"},
        {"AMB\1\xff\xff\xff\xff", 8, "frame_length"},
        {"AMB\1\1\0\0\0\xff", 9, "bad_message"},
        {"AMB\1\2\0\0\0\x08\x05", 10, "bad_message"},     /* an id, but no body */
        {"AMB\1\2\0\0\0\x12\x05", 10, "bad_message"},     /* a hello cut off */
        {"AMB\1\3\0\0\0\xf8\x07\x01", 11, "bad_message"}, /* an unknown body */
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        const char *reason = NULL;
        assert_int_equal(read_once(bad[i].bytes, bad[i].len, &reason), AMB_EPROTO);
        assert_non_null(reason);
        assert_string_equal(reason, bad[i].reason);
    }
    assert_int_equal(read_once("X", 1, NULL), AMB_EPROTO);
    assert_int_equal(read_once("AMB\1\2\0\0\0\x3a\x00", 10, NULL), AMB_OK); /* Ok {} */
}

static void nothing_is_allocated_before_the_length_is_checked(void **state)
{
    (void)state;
    struct amb_control_reader reader;
    amb_control_reader_init(&reader);
    size_t used = 0;
    Amb__Control__Control *message = NULL;
    assert_int_equal(
        amb_control_read(&reader, (const uint8_t *)"AMB\1\1\0\1", 7, &used, &message, NULL),
        AMB_OK);
    assert_null(reader.body);
    assert_int_equal(amb_control_read(&reader, (const uint8_t *)"\0", 1, &used, &message, NULL),
                     AMB_EPROTO);
    assert_null(reader.body);
    amb_control_reader_fini(&reader);
}

/* Hello { peer { n empty `trusted` } } or, with field 31, n unknown fields: 2 or 3 bytes each. */
static size_t put_varint(uint8_t *at, size_t value)
{
    size_t len = 0;
    for (; value >= 0x80; value >>= 7) {
        at[len++] = (uint8_t)(value | 0x80);
    }
    at[len++] = (uint8_t)value;
    return len;
}

static enum amb_status read_many(const uint8_t *field, size_t field_len, size_t n)
{
    static uint8_t bytes[AMB_CONTROL_PREFIX_SIZE + AMB_CONTROL_MAX];
    uint8_t peer_head[8] = {0x32}, hello_head[8] = {0x12};
    size_t fields = n * field_len;
    size_t peer_len = 1 + put_varint(peer_head + 1, fields);
    size_t hello_len = 1 + put_varint(hello_head + 1, peer_len + fields);
    size_t len = hello_len + peer_len + fields;
    assert_true(len <= AMB_CONTROL_MAX);
    memcpy(bytes, "AMB\1", 4);
    for (unsigned i = 0; i < 4; i++) {
        bytes[4 + i] = (uint8_t)(len >> (8 * i));
    }
    uint8_t *at = bytes + AMB_CONTROL_PREFIX_SIZE;
    memcpy(at, hello_head, hello_len);
    memcpy(at + hello_len, peer_head, peer_len);
    at += hello_len + peer_len;
    for (size_t i = 0; i < n; i++, at += field_len) {
        memcpy(at, field, field_len);
    }
    return read_once(bytes, AMB_CONTROL_PREFIX_SIZE + len, NULL);
}

static void many_tiny_fields_cannot_make_the_heap_balloon(void **state)
{
    (void)state;
    static const uint8_t trusted[] = {0x3a, 0x00};
    assert_int_equal(read_many(trusted, sizeof(trusted), 100), AMB_OK);
    assert_int_equal(read_many(trusted, sizeof(trusted), 32000), AMB_EPROTO);
    static const uint8_t unknown[] = {0xf8, 0x01, 0x00};
    assert_int_equal(read_many(unknown, sizeof(unknown), 100), AMB_OK);
    assert_int_equal(read_many(unknown, sizeof(unknown), 20000), AMB_EPROTO);
}

static void a_message_of_the_largest_size_passes_and_one_byte_more_does_not(void **state)
{
    (void)state;
    static uint8_t json[AMB_CONTROL_MAX];
    memset(json, 'j', sizeof(json));
    Amb__Control__AdminReply reply = AMB__CONTROL__ADMIN_REPLY__INIT;
    Amb__Control__Control control = AMB__CONTROL__CONTROL__INIT;
    control.body_case = AMB__CONTROL__CONTROL__BODY_ADMIN_REPLY;
    control.admin_reply = &reply;
    reply.json.data = json;
    reply.json.len = AMB_CONTROL_MAX - 9; /* two tags of 1 and 2 bytes, two lengths of 3 */
    size_t size = amb_control_packed_size(&control);
    assert_int_equal(size, AMB_CONTROL_PREFIX_SIZE + AMB_CONTROL_MAX);
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    amb_control_pack(&control, bytes);
    assert_int_equal(read_once(bytes, size, NULL), AMB_OK);
    free(bytes);
    reply.json.len++;
    assert_int_equal(amb_control_packed_size(&control), 0);
}

static void an_empty_message_is_not_packed(void **state)
{
    (void)state;
    Amb__Control__Control control = AMB__CONTROL__CONTROL__INIT;
    assert_int_equal(amb_control_packed_size(&control), 0);
    amb_control_free(NULL);
}

/* Reads one packed message. */
static Amb__Control__Control *read_body(const uint8_t *body, uint8_t len)
{
    uint8_t bytes[64] = {'A', 'M', 'B', 1, len};
    memcpy(bytes + AMB_CONTROL_PREFIX_SIZE, body, len);
    struct amb_control_reader reader;
    amb_control_reader_init(&reader);
    Amb__Control__Control *message = NULL;
    size_t used;
    assert_int_equal(
        amb_control_read(&reader, bytes, AMB_CONTROL_PREFIX_SIZE + len, &used, &message, NULL),
        AMB_OK);
    amb_control_reader_fini(&reader);
    assert_non_null(message);
    return message;
}

static void a_nul_in_a_string_does_not_cut_it(void **state)
{
    (void)state;
    /* PubOpen{topic "a\0b"}, an unknown field with a NUL beside it. */
    static const uint8_t topic[] = {0x08, 1, 0x4a, 9, 0x12, 3, 'a', 0, 'b', 0x7a, 2, 0, 0};
    Amb__Control__Control *message = read_body(topic, sizeof(topic));
    assert_string_equal(message->pub_open->topic, "a\1b");
    amb_control_free(message);
    /* Hello{peer{trusted "lo\0"}}: repeated, one deeper. */
    static const uint8_t trusted[] = {0x12, 7, 0x32, 5, 0x3a, 3, 'l', 'o', 0};
    message = read_body(trusted, sizeof(trusted));
    assert_int_equal(message->hello->peer->n_trusted, 1);
    assert_string_equal(message->hello->peer->trusted[0], "lo\1");
    amb_control_free(message);
    /* Auth{proof}: bytes are bytes. */
    static const uint8_t proof[] = {0x22, 5, 0x0a, 3, 1, 0, 2};
    message = read_body(proof, sizeof(proof));
    assert_int_equal(message->auth->proof.len, 3);
    assert_memory_equal(message->auth->proof.data, "\1\0\2", 3);
    amb_control_free(message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_nul_in_a_string_does_not_cut_it),
        cmocka_unit_test(the_prefix_is_magic_version_and_length),
        cmocka_unit_test(messages_come_whole_however_the_bytes_come),
        cmocka_unit_test(a_reader_that_asks_for_what_is_wanted_never_takes_of_the_next_message),
        cmocka_unit_test(strangers_are_refused_at_their_first_wrong_byte),
        cmocka_unit_test(nothing_is_allocated_before_the_length_is_checked),
        cmocka_unit_test(many_tiny_fields_cannot_make_the_heap_balloon),
        cmocka_unit_test(a_message_of_the_largest_size_passes_and_one_byte_more_does_not),
        cmocka_unit_test(an_empty_message_is_not_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
