/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/shard/slice.h"

#include "broker/shard/entry.h"
#include "tests/support/shard/shard_harness.h"
#include "wire/codec/frame.h"
#include "wire/codec/props.h"

#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 4u

/* Payloads of 1, 20, 0 and 33 bytes, each filled with its number; the second and last have a
 * property. In a row, or, leased, at multiples of 64 in reverse order. */
struct batch {
    struct amb_entry entry;
    alignas(16) uint8_t data[512], meta[512];
};

static void make(struct batch *b, bool is_leased)
{
    static const uint32_t lens[COUNT] = {1, 20, 0, 33};
    memset(b, 0, sizeof(*b));
    struct amb_record *records = (struct amb_record *)(void *)b->meta;
    uint64_t *offsets = (uint64_t *)(void *)(b->meta + COUNT * sizeof(struct amb_record));
    uint8_t *blobs = (uint8_t *)(offsets + (is_leased ? COUNT : 0));
    uint64_t at = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        struct amb_props_writer writer;
        amb_props_writer_init(&writer, blobs, 64);
        if (i % 2 == 1) {
            assert_int_equal(amb_props_add(&writer, "name", &"abcd"[i], 1), AMB_OK);
        }
        records[i].len = lens[i];
        records[i].props_len = (uint16_t)writer.len;
        blobs += amb_props_padded(records[i].props_len);
        uint64_t to = is_leased ? (COUNT - i) * 64 : at;
        if (is_leased) {
            offsets[i] = to;
        }
        memset(b->data + to, (int)i + 1, lens[i]);
        at += amb_payload_padded(lens[i]);
    }
    b->entry = (struct amb_entry){
        .refs = 1,
        .count = COUNT,
        .meta_len = (uint32_t)(blobs - b->meta),
        .data_len = at,
        .data = b->data,
        .meta = b->meta,
        .is_leased = is_leased,
        .group = &amb_trust_group_main,
        .first_seq = 10,
        .time_ns = 77,
    };
}

/* It is a body of its own, whose messages are those. */
static void expect_slice(const struct amb_entry *slice, uint32_t first, uint32_t count)
{
    struct amb_body_iter iter;
    struct amb_message_view view;
    struct amb_prop_view prop;
    const struct amb_frame frame = {.type = AMB_FRAME_DELIVER,
                                    .count = slice->count,
                                    .meta_len = slice->meta_len,
                                    .data_len = slice->data_len};
    assert_int_equal(slice->count, count);
    assert_int_equal(slice->first_seq, 10 + first);
    assert_int_equal(slice->time_ns, 77);
    assert_true(slice->charge >= slice->data_len + slice->meta_len);
    assert_ptr_equal(slice->meta, slice->data + slice->data_len);
    assert_int_equal(amb_body_check(&frame, slice->data), AMB_OK);
    amb_body_iter_init(&iter, slice->data, slice->data_len, slice->count);
    for (uint32_t i = first; i < first + count; i++) {
        assert_true(amb_body_iter_next(&iter, &view));
        for (uint64_t at = 0; at < view.len; at++) {
            assert_int_equal(view.payload[at], i + 1);
        }
        bool has_name =
            view.props_len > 0 && amb_props_find(view.props, view.props_len, "name", &prop);
        assert_int_equal(has_name, i % 2 == 1);
        assert_true(!has_name || prop.value[0] == "abcd"[i]);
    }
}

static void every_piece_of_a_batch_is_a_batch(void **state)
{
    (void)state;
    struct shard_harness h;
    harness_init(&h, 1, NULL);
    for (unsigned leased = 0; leased < 2; leased++) {
        struct batch b;
        make(&b, leased == 1);
        for (uint32_t first = 0; first < COUNT; first++) {
            for (uint32_t count = 1; first + count <= COUNT; count++) {
                struct amb_entry *slice = amb_slice_copy(h.peers[0], &b.entry, first, count);
                assert_non_null(slice);
                expect_slice(slice, first, count);
                amb_entry_unref(slice, h.peers[0]);
            }
        }
        assert_int_equal(b.entry.refs, 1);
    }
    assert_int_equal(harness_used(&h), 0);
    harness_fini(&h);
}

static void without_memory_there_is_none(void **state)
{
    (void)state;
    struct shard_harness h;
    struct batch b;
    harness_init(&h, 1, NULL);
    make(&b, false);
    struct amb_record *records = (struct amb_record *)(void *)b.meta;
    records[0].len = 64u << 20; /* nothing of it is read */
    assert_null(amb_slice_copy(h.peers[0], &b.entry, 0, 1));
    harness_fini(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_of_a_batch_is_a_batch),
        cmocka_unit_test(without_memory_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
