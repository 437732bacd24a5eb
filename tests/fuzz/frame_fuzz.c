/* SPDX-License-Identifier: Apache-2.0 */
/* A head, and behind it a body if the lengths fit the rest of the input. */
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/codec/frame.h"
#include "wire/codec/props.h"

#define SEGMENT_SIZE (UINT64_C(1) << 20)

/* Reads every byte, so that a sanitizer sees where it lies. */
static void touch(const uint8_t *bytes, uint64_t len)
{
    volatile uint8_t sink = 0;
    for (uint64_t i = 0; i < len; i++) {
        sink = bytes[i];
    }
    (void)sink;
}

static void walk_props(const struct amb_message_view *message)
{
    size_t pos = 0;
    struct amb_prop_view prop;
    while (amb_props_next(message->props, message->props_len, &pos, &prop)) {
        amb_assert(strlen(prop.name) == prop.name_len);
        amb_assert(prop.value[prop.value_len] == 0);
        touch(prop.value, prop.value_len);
        struct amb_prop_view found;
        amb_assert(amb_props_find(message->props, message->props_len, prop.name, &found));
    }
    amb_assert(pos == message->props_len);
}

static void walk_body(const struct amb_frame *frame, const uint8_t *body)
{
    const uint8_t *table = body + frame->data_len;
    const uint8_t *end = table + frame->meta_len;
    struct amb_body_iter iter;
    struct amb_message_view message;
    uint32_t messages = 0;
    amb_body_iter_init(&iter, body, frame->data_len, frame->count);
    while (amb_body_iter_next(&iter, &message)) {
        amb_assert(message.payload >= body && message.payload + message.len <= table);
        amb_assert((size_t)(message.payload - body) % AMB_PAYLOAD_PAD == 0);
        amb_assert(message.props >= table && message.props + message.props_len <= end);
        touch(message.payload, message.len);
        walk_props(&message);
        messages++;
    }
    amb_assert(messages == frame->count);
}

static void walk_leased(const struct amb_frame *frame, const uint8_t *meta)
{
    static const uint8_t segment[SEGMENT_SIZE];
    const uint8_t *end = meta + frame->meta_len;
    struct amb_body_iter iter;
    struct amb_message_view message;
    uint32_t messages = 0;
    amb_body_iter_init_leased(&iter, segment, meta, frame->count);
    while (amb_body_iter_next(&iter, &message)) {
        amb_assert(message.payload >= segment &&
                   message.payload + message.len <= segment + SEGMENT_SIZE);
        amb_assert(message.props >= meta && message.props + message.props_len <= end);
        walk_props(&message);
        messages++;
    }
    amb_assert(messages == frame->count);
}

static void walk_lazy(const struct amb_frame *frame, const uint8_t *meta)
{
    const uint8_t *end = meta + frame->meta_len;
    struct amb_body_iter iter;
    struct amb_message_view message;
    uint32_t messages = 0;
    amb_body_iter_init_lazy(&iter, frame, meta);
    while (amb_body_iter_next(&iter, &message)) {
        amb_assert(message.props >= meta && message.props + message.props_len <= end);
        walk_props(&message);
        messages++;
    }
    amb_assert(messages == frame->count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < AMB_FRAME_HEAD_SIZE) {
        return 0;
    }
    struct amb_frame frame;
    if (amb_frame_decode(data, &frame) != AMB_OK) {
        return 0;
    }
    uint8_t head[AMB_FRAME_HEAD_SIZE];
    amb_frame_encode(&frame, head);
    amb_assert(memcmp(head, data, sizeof(head)) == 0);

    size_t left = len - AMB_FRAME_HEAD_SIZE;
    if (amb_frame_is_leased(frame.type) && frame.meta_len <= left) {
        uint8_t *meta = fuzz_copy(data + AMB_FRAME_HEAD_SIZE, frame.meta_len);
        if (amb_leased_check(&frame, meta, SEGMENT_SIZE) == AMB_OK) {
            walk_leased(&frame, meta);
        }
        free(meta);
        return 0;
    }
    if (frame.type == AMB_FRAME_LAZY && frame.meta_len <= left) {
        uint8_t *meta = fuzz_copy(data + AMB_FRAME_HEAD_SIZE, frame.meta_len);
        if (amb_lazy_check(&frame, meta) == AMB_OK) {
            walk_lazy(&frame, meta);
        }
        free(meta);
        return 0;
    }
    bool is_batch = frame.type == AMB_FRAME_BATCH || frame.type == AMB_FRAME_DELIVER ||
                    frame.type == AMB_FRAME_MAP;
    if (!is_batch || frame.data_len > left || frame.meta_len > left - frame.data_len) {
        return 0;
    }
    uint8_t *body = fuzz_copy(data + AMB_FRAME_HEAD_SIZE, frame.data_len + frame.meta_len);
    if (amb_body_check(&frame, body) == AMB_OK) {
        walk_body(&frame, body);
    }
    free(body);
    return 0;
}
