/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/codec/frame.h"
#include "wire/codec/props.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Every field different from every other and from zero, and within its range. */
static struct amb_frame full_frame(void)
{
    return (struct amb_frame){
        .type = AMB_FRAME_DELIVER,
        .session = 0x11121314,
        .generation = 0x21222324,
        .secret = UINT64_C(0x3132333435363738),
        .handle = 0x3ff,
        .topic = 0x41424344,
        .count = 0x400,
        .first = 0x3fe,
        .meta_len = 0x5150,
        .status = -69,
        .data_len = UINT64_C(0x61626360),
        .seq = UINT64_C(0x7172737475767778),
        .number = UINT64_C(0x8182838485868788),
        .lost = UINT64_C(0x9192939495969798),
        .time_ns = INT64_C(-2),
        .segment = UINT64_C(0xa1a2a3a4a5a6a7a8),
        .offset = UINT64_C(0xb1b2b3b4b5b6b7b8),
        .rest = 1,
        .attempt = 0xc1c2c3c4,
        .above = UINT64_C(0xd1d2d3d4d5d6d7d8),
    };
}

static void the_layout_of_wire_version_1_is_frozen(void **state)
{
    (void)state;
    static const uint8_t expected[AMB_FRAME_HEAD_SIZE] = {
        'A',  'M',  1,    33,                           /* magic, version, type */
        0,    0,    0,    0,    0x14, 0x13, 0x12, 0x11, /* flags, session */
        0x24, 0x23, 0x22, 0x21,                         /* generation */
        0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31, /* secret */
        0xff, 0x03, 0,    0,    0x44, 0x43, 0x42, 0x41, /* handle, topic */
        0x00, 0x04, 0,    0,    0xfe, 0x03, 0,    0,    /* count, first */
        0x50, 0x51, 0,    0,    0xbb, 0xff, 0xff, 0xff, /* meta_len, status */
        0x60, 0x63, 0x62, 0x61, 0,    0,    0,    0,    /* data_len */
        0x78, 0x77, 0x76, 0x75, 0x74, 0x73, 0x72, 0x71, /* seq */
        0x88, 0x87, 0x86, 0x85, 0x84, 0x83, 0x82, 0x81, /* number */
        0x98, 0x97, 0x96, 0x95, 0x94, 0x93, 0x92, 0x91, /* lost */
        0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* time_ns */
        0xa8, 0xa7, 0xa6, 0xa5, 0xa4, 0xa3, 0xa2, 0xa1, /* segment */
        0xb8, 0xb7, 0xb6, 0xb5, 0xb4, 0xb3, 0xb2, 0xb1, /* offset */
        1,    0,    0,    0,    0xc4, 0xc3, 0xc2, 0xc1, /* rest, attempt */
        0xd8, 0xd7, 0xd6, 0xd5, 0xd4, 0xd3, 0xd2, 0xd1, /* above, then zeros */
    };
    struct amb_frame frame = full_frame();
    uint8_t head[AMB_FRAME_HEAD_SIZE];
    memset(head, 0xee, sizeof(head));
    amb_frame_encode(&frame, head);
    assert_memory_equal(head, expected, sizeof(head));
}

static void a_head_decodes_to_what_was_encoded(void **state)
{
    (void)state;
    struct amb_frame frame = full_frame();
    uint8_t head[AMB_FRAME_HEAD_SIZE], again[AMB_FRAME_HEAD_SIZE];
    amb_frame_encode(&frame, head);
    struct amb_frame out;
    assert_int_equal(amb_frame_decode(head, &out), AMB_OK);
    amb_frame_encode(&out, again);
    assert_memory_equal(head, again, sizeof(head));
    assert_int_equal(out.status, -69);
    assert_true(out.time_ns == -2);
    assert_true(out.offset == frame.offset);
}

static void any_reserved_byte_or_wrong_constant_is_refused(void **state)
{
    (void)state;
    struct amb_frame frame = full_frame();
    struct amb_frame out = {.topic = 77};
    static const unsigned fixed[] = {0, 1, 2, 4, 5, 6, 7}; /* 0x80: no flag either */
    uint8_t head[AMB_FRAME_HEAD_SIZE];
    for (size_t i = 0; i < COUNT(fixed); i++) {
        amb_frame_encode(&frame, head);
        head[fixed[i]] ^= 0x80;
        assert_int_equal(amb_frame_decode(head, &out), AMB_EPROTO);
    }
    for (unsigned i = 120; i < AMB_FRAME_HEAD_SIZE; i++) {
        amb_frame_encode(&frame, head);
        head[i] = 1;
        assert_int_equal(amb_frame_decode(head, &out), AMB_EPROTO);
    }
    assert_int_equal(out.topic, 77); /* untouched */
}

static enum amb_status decode_of(const struct amb_frame *frame)
{
    uint8_t head[AMB_FRAME_HEAD_SIZE];
    struct amb_frame out;
    amb_frame_encode(frame, head);
    return amb_frame_decode(head, &out);
}

static void only_known_types_are_taken(void **state)
{
    (void)state;
    int known = 0;
    for (unsigned type = 0; type < 256; type++) {
        struct amb_frame frame = {.type = (uint8_t)type, .count = 1, .number = 1};
        frame.data_len = 16;
        frame.meta_len = type == AMB_FRAME_TOPIC ? 0 : 24;
        known += decode_of(&frame) == AMB_OK;
    }
    assert_int_equal(known, 14);
}

static void ranges_that_hold_for_every_type_are_checked(void **state)
{
    (void)state;
    const struct amb_frame good = {.type = AMB_FRAME_SETTLED};
    assert_int_equal(decode_of(&good), AMB_OK);
    struct amb_frame frame = good;
    frame.handle = AMB_HANDLES_MAX;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame = good;
    frame.first = AMB_BATCH_MSGS_MAX;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame = good;
    frame.meta_len = AMB_META_MAX;
    frame.data_len = AMB_DATA_MAX;
    assert_int_equal(decode_of(&frame), AMB_OK);
    frame.meta_len = AMB_META_MAX + 1;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame = good;
    frame.data_len = AMB_DATA_MAX + 1;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.data_len = UINT64_MAX;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame = good;
    frame.count = UINT32_MAX; /* matched subscriptions: no batch's limit */
    assert_int_equal(decode_of(&frame), AMB_OK);
}

static void a_batch_has_1_to_1024_messages_and_a_table_for_them(void **state)
{
    (void)state;
    static const uint8_t types[] = {AMB_FRAME_BATCH, AMB_FRAME_DELIVER, AMB_FRAME_MAP};
    for (size_t i = 0; i < COUNT(types); i++) {
        struct amb_frame frame = {.type = types[i], .count = 1, .meta_len = 16};
        assert_int_equal(decode_of(&frame), AMB_OK);
        frame.meta_len = 15;
        assert_int_equal(decode_of(&frame), AMB_EPROTO);
        frame.count = 0;
        assert_int_equal(decode_of(&frame), AMB_EPROTO);
        frame.count = AMB_BATCH_MSGS_MAX;
        frame.meta_len = AMB_BATCH_MSGS_MAX * 16;
        assert_int_equal(decode_of(&frame), AMB_OK);
        frame.count++;
        frame.meta_len += 16;
        assert_int_equal(decode_of(&frame), AMB_EPROTO);
        frame.count = UINT32_MAX / 16 + 2; /* count * 16 wraps to 16 */
        assert_int_equal(decode_of(&frame), AMB_EPROTO);
    }
}

static void the_first_message_delivered_is_one_of_the_batch(void **state)
{
    (void)state;
    struct amb_frame frame = {.type = AMB_FRAME_MAP, .count = 2, .first = 1, .meta_len = 32};
    assert_int_equal(decode_of(&frame), AMB_OK);
    frame.first = 2;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.first = 1;
    frame.rest = 1; /* nothing is left */
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.first = 0;
    assert_int_equal(decode_of(&frame), AMB_OK);
}

static void a_batch_says_that_a_message_may_expire_or_that_it_lies_on_a_gpu(void **state)
{
    (void)state;
    struct amb_frame frame = {
        .type = AMB_FRAME_BATCH, .flags = AMB_FRAME_FLAG_TTL, .count = 1, .meta_len = 16};
    assert_int_equal(decode_of(&frame), AMB_OK);
    frame.flags = 2;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.flags = AMB_FRAME_FLAG_TTL | AMB_FRAME_FLAG_DEVICE;
    assert_int_equal(decode_of(&frame), AMB_OK);
    frame.count = 2; /* A copy of each message, and there is one place. */
    frame.meta_len = 32;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.flags = AMB_FRAME_FLAG_TTL;
    assert_int_equal(decode_of(&frame), AMB_OK);
    frame = (struct amb_frame){.type = AMB_FRAME_COMMIT,
                               .flags = AMB_FRAME_FLAG_DEVICE,
                               .count = 1,
                               .number = 1,
                               .meta_len = 24};
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.flags = 0;
    assert_int_equal(decode_of(&frame), AMB_OK);
    frame = (struct amb_frame){
        .type = AMB_FRAME_DELIVER, .flags = AMB_FRAME_FLAG_DEVICE, .count = 1, .meta_len = 32};
    assert_int_equal(decode_of(&frame), AMB_OK);
    frame.count = 2;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.type = AMB_FRAME_MAP;
    frame.count = 1;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
}

static void a_topic_frame_carries_a_name_and_nothing_else(void **state)
{
    (void)state;
    struct amb_frame frame = {.type = AMB_FRAME_TOPIC, .data_len = 255};
    assert_int_equal(decode_of(&frame), AMB_OK);
    frame.data_len = 256;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.data_len = 0;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.data_len = 1;
    frame.meta_len = 8;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
}

static void a_release_range_names_deliveries_and_cannot_wrap(void **state)
{
    (void)state;
    struct amb_frame frame = {.type = AMB_FRAME_RELEASE_RANGE, .number = 1, .count = 1};
    assert_int_equal(decode_of(&frame), AMB_OK);
    frame.count = 0;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.count = 2;
    frame.number = 0;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.number = UINT64_MAX - 2;
    assert_int_equal(decode_of(&frame), AMB_OK);
    frame.number = UINT64_MAX - 1;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
}

static void an_acknowledgement_names_messages_of_one_delivery(void **state)
{
    (void)state;
    struct amb_frame frame = {
        .type = AMB_FRAME_ACK, .number = 1, .first = 1000, .count = 24, .status = AMB_ACK_KIND_ACK};
    assert_int_equal(decode_of(&frame), AMB_OK);
    frame.count = 25;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.count = 0;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.count = 1;
    frame.number = 0;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.number = UINT64_MAX;
    frame.status = 0;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.status = AMB_ACK_KIND_TERM + 1;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.status = AMB_ACK_KIND_NAK;
    frame.time_ns = -1;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.time_ns = INT64_MAX;
    assert_int_equal(decode_of(&frame), AMB_OK);
}

static void a_reason_is_short_and_of_a_term(void **state)
{
    (void)state;
    struct amb_frame frame = {.type = AMB_FRAME_TERM,
                              .number = 1,
                              .count = 1,
                              .status = AMB_ACK_KIND_TERM,
                              .data_len = AMB_ACK_REASON_MAX};
    assert_int_equal(decode_of(&frame), AMB_OK);
    frame.data_len++;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.data_len = 0;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.data_len = 1;
    frame.status = AMB_ACK_KIND_ACK;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
}

static void eight_types_have_a_body_on_the_link(void **state)
{
    (void)state;
    int with = 0;
    for (unsigned type = 0; type < 256; type++) {
        with += amb_frame_has_body((uint8_t)type);
    }
    assert_int_equal(with, 8);
    assert_true(amb_frame_has_body(AMB_FRAME_LAZY));
    assert_true(amb_frame_has_body(AMB_FRAME_FETCHED));
    assert_true(amb_frame_has_body(AMB_FRAME_TERM));
    assert_true(amb_frame_has_body(AMB_FRAME_COMMIT));
    assert_true(amb_frame_has_body(AMB_FRAME_MAP_LEASED));
    assert_true(amb_frame_has_body(AMB_FRAME_BATCH));
    assert_true(amb_frame_has_body(AMB_FRAME_DELIVER));
    assert_true(amb_frame_has_body(AMB_FRAME_TOPIC));
}

static void a_lazy_body_is_meta_with_or_without_offsets(void **state)
{
    (void)state;
    uint64_t words[8] = {5}; /* One record, of 5 bytes. */
    struct amb_frame frame = {.type = AMB_FRAME_LAZY, .count = 1, .data_len = 16, .meta_len = 16};
    assert_int_equal(amb_frame_body_len(&frame), 16);
    assert_int_equal(amb_frame_body_data(&frame), 0);
    assert_int_equal(decode_of(&frame), AMB_OK);
    assert_int_equal(amb_lazy_check(&frame, (const uint8_t *)words), AMB_OK);
    assert_int_equal(amb_body_check(&frame, (const uint8_t *)words), AMB_EPROTO);
    frame.flags = AMB_FRAME_FLAG_OFFSETS;
    assert_int_equal(decode_of(&frame), AMB_EPROTO); /* No room for them. */
    frame.meta_len = 24;
    words[2] = UINT64_MAX; /* Nobody looks at it. */
    assert_int_equal(decode_of(&frame), AMB_OK);
    assert_int_equal(amb_lazy_check(&frame, (const uint8_t *)words), AMB_OK);
    struct amb_body_iter iter;
    amb_body_iter_init_lazy(&iter, &frame, (const uint8_t *)words);
    assert_ptr_equal(iter.props, words + 3);
    frame.data_len = 32;
    assert_int_equal(amb_lazy_check(&frame, (const uint8_t *)words), AMB_EPROTO);
    frame.flags = AMB_FRAME_FLAG_TTL;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.flags = AMB_FRAME_FLAG_OFFSETS;
    frame.type = AMB_FRAME_MAP_LEASED;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
}

static void a_fetch_is_of_some_bytes_and_not_too_many(void **state)
{
    (void)state;
    struct amb_frame frame = {.type = AMB_FRAME_FETCH, .number = 1, .data_len = AMB_FETCH_MAX};
    assert_int_equal(decode_of(&frame), AMB_OK);
    assert_int_equal(amb_frame_body_len(&frame), 0);
    frame.offset = UINT32_MAX - AMB_FETCH_MAX;
    assert_int_equal(decode_of(&frame), AMB_OK);
    frame.offset++;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.offset = UINT64_MAX;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.offset = 0;
    frame.data_len++;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.data_len = 0; /* All of it, in place. */
    assert_int_equal(decode_of(&frame), AMB_OK);
    frame.offset = 1;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.offset = 0;
    frame.data_len = 1;
    frame.number = 0;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.type = AMB_FRAME_FETCHED;
    assert_int_equal(decode_of(&frame), AMB_OK);
    assert_int_equal(amb_frame_body_len(&frame), 1);
    frame.status = AMB_ESTALE;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.data_len = 0;
    assert_int_equal(decode_of(&frame), AMB_OK);
    frame.type = AMB_FRAME_FETCHED_MAP; /* A place has no status. */
    frame.data_len = 1;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.status = AMB_OK;
    assert_int_equal(decode_of(&frame), AMB_OK);
}

static void a_leased_body_is_all_meta(void **state)
{
    (void)state;
    struct amb_frame frame = {.type = AMB_FRAME_BATCH, .count = 1, .data_len = 64, .meta_len = 24};
    assert_int_equal(amb_frame_body_len(&frame), 88);
    assert_int_equal(amb_frame_body_data(&frame), 64);
    frame.type = AMB_FRAME_COMMIT;
    assert_int_equal(amb_frame_body_len(&frame), 24);
    assert_int_equal(amb_frame_body_data(&frame), 0);
    frame.type = AMB_FRAME_MAP;
    assert_int_equal(amb_frame_body_len(&frame), 0);
}

static void a_commit_needs_its_number_and_room_for_offsets(void **state)
{
    (void)state;
    struct amb_frame frame = {.type = AMB_FRAME_COMMIT, .count = 2, .meta_len = 48, .number = 1};
    assert_int_equal(decode_of(&frame), AMB_OK);
    frame.meta_len = 47;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
    frame.meta_len = 48;
    frame.number = 0;
    assert_int_equal(decode_of(&frame), AMB_EPROTO);
}

/* Two messages of 5 and 32 bytes, the second in front of the first; 64 bytes of segment. */
struct leased {
    struct amb_frame frame;
    alignas(16) uint8_t meta[48];
};

static struct leased make_leased(void)
{
    struct leased leased = {
        .frame = {
            .type = AMB_FRAME_COMMIT, .number = 1, .count = 2, .meta_len = 48, .data_len = 48}};
    const struct amb_record records[2] = {{.len = 5}, {.len = 32}};
    const uint64_t offsets[2] = {32, 0};
    memcpy(leased.meta, records, sizeof(records));
    memcpy(leased.meta + sizeof(records), offsets, sizeof(offsets));
    return leased;
}

static void a_leased_batch_is_walked_by_its_offsets(void **state)
{
    (void)state;
    struct leased leased = make_leased();
    static const uint8_t segment[64];
    assert_int_equal(amb_leased_check(&leased.frame, leased.meta, sizeof(segment)), AMB_OK);
    assert_int_equal(amb_body_check(&leased.frame, leased.meta), AMB_EPROTO);
    struct amb_body_iter iter;
    struct amb_message_view view;
    amb_body_iter_init_leased(&iter, segment, leased.meta, 2);
    assert_true(amb_body_iter_next(&iter, &view));
    assert_ptr_equal(view.payload, segment + 32);
    assert_int_equal(view.len, 5);
    assert_true(amb_body_iter_next(&iter, &view));
    assert_ptr_equal(view.payload, segment);
    assert_int_equal(view.len, 32);
    assert_false(amb_body_iter_next(&iter, &view));
}

static void a_leased_payload_outside_its_segment_is_refused(void **state)
{
    (void)state;
    struct leased leased = make_leased();
    static const uint64_t bad[] = {8, 56, 64, 80, UINT64_MAX - 15, UINT64_MAX};
    for (size_t i = 0; i < COUNT(bad); i++) {
        memcpy(leased.meta + 32, &bad[i], sizeof(bad[i]));
        assert_int_equal(amb_leased_check(&leased.frame, leased.meta, 64), AMB_EPROTO);
    }
    const uint64_t good = 48;
    memcpy(leased.meta + 32, &good, sizeof(good));
    assert_int_equal(amb_leased_check(&leased.frame, leased.meta, 64), AMB_OK);
    assert_int_equal(amb_leased_check(&leased.frame, leased.meta, 63), AMB_EPROTO);
    leased.frame.type = AMB_FRAME_BATCH;
    assert_int_equal(amb_leased_check(&leased.frame, leased.meta, 64), AMB_EPROTO);
}

/* A body under construction; exact-size, so that a sanitizer sees every step outside. */
struct body {
    struct amb_frame frame;
    uint8_t *bytes;
    struct amb_record *records;
};

/* Three messages: 5 bytes with two properties, empty, and 16 bytes with one property. */
static int setup_body(void **state)
{
    static struct body body;
    uint8_t blobs[256] = {0};
    struct amb_props_writer writer;
    amb_props_writer_init(&writer, blobs, 128);
    assert_int_equal(amb_props_add(&writer, "a", "1", 1), AMB_OK);
    assert_int_equal(amb_props_add(&writer, AMB_PROP_KEY, "key", 3), AMB_OK);
    uint32_t first_len = (uint32_t)writer.len, first_padded = amb_props_padded(first_len);
    amb_props_writer_init(&writer, blobs + first_padded, 128);
    assert_int_equal(amb_props_add(&writer, "b", NULL, 0), AMB_OK);
    uint32_t last_len = (uint32_t)writer.len;
    uint32_t meta_len = 3 * 16 + first_padded + amb_props_padded(last_len);
    body.frame = (struct amb_frame){
        .type = AMB_FRAME_BATCH, .count = 3, .data_len = 32, .meta_len = meta_len};
    body.bytes = calloc(1, 32 + meta_len);
    assert_non_null(body.bytes);
    memcpy(body.bytes, "hello", 5);
    memcpy(body.bytes + 16, "sixteen bytes ..", 16);
    body.records = (struct amb_record *)(void *)(body.bytes + 32);
    body.records[0] = (struct amb_record){
        .len = 5, .props_len = (uint16_t)first_len, .key_hash = 9, .ttl_ms = 100};
    body.records[2] = (struct amb_record){.len = 16, .props_len = (uint16_t)last_len};
    memcpy(body.bytes + 32 + 48, blobs, meta_len - 48);
    *state = &body;
    return 0;
}

static int teardown_body(void **state)
{
    struct body *body = *state;
    free(body->bytes);
    return 0;
}

static void a_good_body_is_walked_message_by_message(void **state)
{
    struct body *body = *state;
    assert_int_equal(amb_body_check(&body->frame, body->bytes), AMB_OK);
    struct amb_body_iter iter;
    struct amb_message_view view;
    struct amb_prop_view prop;
    amb_body_iter_init(&iter, body->bytes, body->frame.data_len, body->frame.count);
    assert_true(amb_body_iter_next(&iter, &view));
    assert_int_equal(view.len, 5);
    assert_memory_equal(view.payload, "hello", 5);
    assert_int_equal(view.key_hash, 9);
    assert_int_equal(view.ttl_ms, 100);
    assert_true(amb_props_find(view.props, view.props_len, "$key", &prop));
    assert_string_equal((const char *)prop.value, "key");
    assert_true(amb_body_iter_next(&iter, &view));
    assert_int_equal(view.len, 0);
    assert_int_equal(view.props_len, 0);
    assert_true(amb_body_iter_next(&iter, &view));
    assert_int_equal(view.len, 16);
    assert_memory_equal(view.payload, "sixteen bytes ..", 16);
    assert_ptr_equal(view.payload, body->bytes + 16);
    assert_true(amb_props_find(view.props, view.props_len, "b", &prop));
    assert_false(amb_body_iter_next(&iter, &view));
    assert_false(amb_body_iter_next(&iter, &view));
}

static void lengths_that_do_not_add_up_are_refused(void **state)
{
    struct body *body = *state;
    static const uint32_t lens[] = {0, 17, 33, UINT32_MAX, UINT32_MAX - 15};
    for (size_t i = 0; i < COUNT(lens); i++) {
        body->records[0].len = lens[i];
        assert_int_equal(amb_body_check(&body->frame, body->bytes), AMB_EPROTO);
    }
    body->records[0].len = 5;
    body->records[1].len = 1; /* all of data_len is taken already */
    assert_int_equal(amb_body_check(&body->frame, body->bytes), AMB_EPROTO);
    /* Three lengths whose padded sum is data_len modulo 2^32. */
    body->records[0].len = UINT32_MAX - 15;
    body->records[1].len = 48;
    body->records[2].len = 0;
    assert_int_equal(amb_body_check(&body->frame, body->bytes), AMB_EPROTO);
}

static void property_lengths_that_do_not_add_up_are_refused(void **state)
{
    struct body *body = *state;
    uint16_t good = body->records[0].props_len;
    static const uint16_t lens[] = {0, 1, 4, 200, AMB_PROPS_MAX + 1, UINT16_MAX};
    for (size_t i = 0; i < COUNT(lens); i++) {
        body->records[0].props_len = lens[i];
        assert_int_equal(amb_body_check(&body->frame, body->bytes), AMB_EPROTO);
    }
    body->records[0].props_len = good;
    assert_int_equal(amb_body_check(&body->frame, body->bytes), AMB_OK);
    body->frame.meta_len -= 8;
    assert_int_equal(amb_body_check(&body->frame, body->bytes), AMB_EPROTO);
}

static void a_malformed_blob_is_refused(void **state)
{
    struct body *body = *state;
    body->bytes[32 + 48] = 0; /* a name without length */
    assert_int_equal(amb_body_check(&body->frame, body->bytes), AMB_EPROTO);
}

static void a_blob_longer_than_its_limit_is_refused_even_if_well_formed(void **state)
{
    (void)state;
    static const size_t sizes[] = {AMB_PROPS_MAX, AMB_PROPS_MAX + 1};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct amb_frame frame = {.type = AMB_FRAME_BATCH, .count = 1};
        frame.meta_len = 16 + amb_props_padded((uint32_t)sizes[i]);
        uint8_t *bytes = calloc(1, frame.meta_len);
        assert_non_null(bytes);
        struct amb_record record = {.props_len = (uint16_t)sizes[i]};
        memcpy(bytes, &record, sizeof(record));
        struct amb_props_writer writer;
        amb_props_writer_init(&writer, bytes + 16, sizes[i]);
        assert_int_equal(amb_props_add(&writer, "x", bytes, 0), AMB_OK);
        uint8_t *value = calloc(1, sizes[i]);
        assert_non_null(value);
        assert_int_equal(amb_props_add(&writer, "y", value, sizes[i] - 14), AMB_OK);
        assert_int_equal(writer.len, sizes[i]);
        assert_int_equal(amb_body_check(&frame, bytes), i == 0 ? AMB_OK : AMB_EPROTO);
        free(value);
        free(bytes);
    }
}

static void a_body_of_unpadded_data_or_at_an_odd_address_is_refused(void **state)
{
    struct body *body = *state;
    assert_int_equal(amb_body_check(&body->frame, body->bytes + 1), AMB_EPROTO);
    body->frame.data_len = 31;
    assert_int_equal(amb_body_check(&body->frame, body->bytes), AMB_EPROTO);
}

static void a_body_is_checked_against_a_head_that_never_was_decoded(void **state)
{
    struct body *body = *state;
    body->frame.count = 0;
    assert_int_equal(amb_body_check(&body->frame, body->bytes), AMB_EPROTO);
    body->frame.count = UINT32_MAX;
    assert_int_equal(amb_body_check(&body->frame, body->bytes), AMB_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_of_wire_version_1_is_frozen),
        cmocka_unit_test(a_head_decodes_to_what_was_encoded),
        cmocka_unit_test(any_reserved_byte_or_wrong_constant_is_refused),
        cmocka_unit_test(only_known_types_are_taken),
        cmocka_unit_test(ranges_that_hold_for_every_type_are_checked),
        cmocka_unit_test(a_batch_has_1_to_1024_messages_and_a_table_for_them),
        cmocka_unit_test(the_first_message_delivered_is_one_of_the_batch),
        cmocka_unit_test(a_batch_says_that_a_message_may_expire_or_that_it_lies_on_a_gpu),
        cmocka_unit_test(a_topic_frame_carries_a_name_and_nothing_else),
        cmocka_unit_test(a_release_range_names_deliveries_and_cannot_wrap),
        cmocka_unit_test(an_acknowledgement_names_messages_of_one_delivery),
        cmocka_unit_test(a_reason_is_short_and_of_a_term),
        cmocka_unit_test(eight_types_have_a_body_on_the_link),
        cmocka_unit_test(a_leased_body_is_all_meta),
        cmocka_unit_test(a_lazy_body_is_meta_with_or_without_offsets),
        cmocka_unit_test(a_fetch_is_of_some_bytes_and_not_too_many),
        cmocka_unit_test(a_commit_needs_its_number_and_room_for_offsets),
        cmocka_unit_test(a_leased_batch_is_walked_by_its_offsets),
        cmocka_unit_test(a_leased_payload_outside_its_segment_is_refused),
        cmocka_unit_test_setup_teardown(a_good_body_is_walked_message_by_message, setup_body,
                                        teardown_body),
        cmocka_unit_test_setup_teardown(lengths_that_do_not_add_up_are_refused, setup_body,
                                        teardown_body),
        cmocka_unit_test_setup_teardown(property_lengths_that_do_not_add_up_are_refused, setup_body,
                                        teardown_body),
        cmocka_unit_test_setup_teardown(a_malformed_blob_is_refused, setup_body, teardown_body),
        cmocka_unit_test(a_blob_longer_than_its_limit_is_refused_even_if_well_formed),
        cmocka_unit_test_setup_teardown(a_body_of_unpadded_data_or_at_an_odd_address_is_refused,
                                        setup_body, teardown_body),
        cmocka_unit_test_setup_teardown(a_body_is_checked_against_a_head_that_never_was_decoded,
                                        setup_body, teardown_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
