/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input of a shard's client: frames, bodies and flow values, checked and written down.
 *
 * Threads: one. Memory: a body is held until it is whole.
 */
#include "tests/support/shard/shard_client_private.h"
#include "tests/support/shard/shard_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

struct client_body {
    struct amb_frame frame;
    _Alignas(16) uint8_t bytes[];
};

static struct client_delivery *delivery_add(struct client_sub *sub, const struct amb_frame *frame)
{
    assert_true(sub->is_named[frame->topic]);
    assert_int_equal(frame->number, sub->last + 1);
    sub->last = frame->number;
    if (sub->last > sub->deliveries_cap) {
        sub->deliveries_cap = sub->deliveries_cap == 0 ? 64 : sub->deliveries_cap * 2;
        sub->deliveries =
            realloc(sub->deliveries, sub->deliveries_cap * sizeof(struct client_delivery));
        assert_non_null(sub->deliveries);
    }
    struct client_delivery *delivery = &sub->deliveries[sub->last - 1];
    *delivery = (struct client_delivery){.frame = *frame};
    sub->msgs += frame->count - frame->first - frame->rest;
    sub->lost += frame->lost;
    sub->bytes += frame->data_len + frame->meta_len;
    return delivery;
}

static void note_messages(struct shard_client *client, struct client_delivery *delivery,
                          struct amb_body_iter *iter)
{
    const struct amb_frame frame = delivery->frame; /* on_message may make the table move */
    struct amb_message_view view;
    uint32_t end = frame.count - frame.first - frame.rest;
    for (uint32_t i = 0; i < frame.first; i++) {
        assert_true(amb_body_iter_next(iter, &view));
    }
    for (uint32_t i = 0; i < end && amb_body_iter_next(iter, &view); i++) {
        struct client_stamp stamp = {0};
        if (view.len >= sizeof(stamp)) {
            memcpy(&stamp, view.payload, sizeof(stamp));
        }
        if ((stamp.handle & CLIENT_STAMP_KIND) != 0) { /* The broker passes them on. */
            assert_int_equal(view.flags, client_stamp_flags(&stamp));
            stamp.handle -= CLIENT_STAMP_KIND;
        }
        if (i == 0) {
            delivery->stamp = stamp;
            delivery->payload = view.len >= sizeof(stamp) ? view.payload : NULL;
        }
        if (client->on_message != NULL) {
            client->on_message(client, &frame, i, &stamp);
        }
    }
}

static void note_delivery(struct shard_client *client, const struct amb_frame *frame,
                          const uint8_t *body)
{
    struct amb_frame check = *frame;
    check.type = AMB_FRAME_BATCH;
    assert_int_equal(amb_body_check(&check, body), AMB_OK);
    struct amb_body_iter iter;
    amb_body_iter_init(&iter, body, frame->data_len, frame->count);
    note_messages(client, delivery_add(&client->subs[frame->handle], frame), &iter);
}

const struct client_segment *shard_client_segment(const struct shard_client *client, uint64_t id)
{
    for (unsigned i = 0; i < client->segment_count; i++) {
        if (client->segments[i].id == id) {
            return &client->segments[i];
        }
    }
    return NULL;
}

static void note_map(struct shard_client *client, const struct amb_frame *frame)
{
    const struct client_segment *segment = shard_client_segment(client, frame->segment);
    assert_non_null(segment);       /* offered */
    assert_non_null(segment->base); /* and mapped */
    assert_true(frame->offset + frame->data_len + frame->meta_len <= segment->size);
    note_delivery(client, frame, segment->base + frame->offset);
}

static void note_leased(struct shard_client *client, const struct amb_frame *frame,
                        const uint8_t *meta)
{
    const struct client_segment *segment = shard_client_segment(client, frame->segment);
    assert_non_null(segment);
    assert_non_null(segment->base);
    assert_int_equal(amb_leased_check(frame, meta, segment->size), AMB_OK);
    struct client_delivery *delivery = delivery_add(&client->subs[frame->handle], frame);
    struct amb_body_iter iter;
    amb_body_iter_init_leased(&iter, segment->base, meta, frame->count);
    note_messages(client, delivery, &iter);
}

static void note_lazy(struct shard_client *client, const struct amb_frame *frame,
                      const uint8_t *meta)
{
    assert_int_equal(amb_lazy_check(frame, meta), AMB_OK);
    (void)delivery_add(&client->subs[frame->handle], frame);
}

static void note_fetched(struct shard_client *client, const struct amb_frame *frame,
                         const uint8_t *bytes)
{
    client->answers++;
    client->answer = *frame;
    uint64_t len =
        frame->data_len < sizeof(client->answered) ? frame->data_len : sizeof(client->answered);
    memcpy(client->answered, bytes, len);
}

static void note_freed(struct shard_client *client, const struct amb_frame *frame)
{
    client->freed_frames++;
    assert_true(frame->number + frame->count - 1 <= client->commits);
    for (uint64_t i = frame->number; i < frame->number + frame->count; i++) {
        uint8_t bit = (uint8_t)(1u << (i % 8));
        if (i >= CLIENT_COMMITS_MAX) {
            fail();
            return;
        }
        client->freed_early[i / 8] |= bit;
    }
}

static void note_settled(struct shard_client *client, const struct amb_frame *frame)
{
    if (client->settle_count < CLIENT_SETTLES_MAX) {
        client->settles[client->settle_count] = (struct client_settle){
            .handle = frame->handle,
            .batch = frame->seq,
            .first_seq = frame->number,
            .above = frame->above,
            .dropped = frame->lost,
            .matched = frame->count,
            .status = (enum amb_status)frame->status,
        };
    }
    client->settle_count++;
}

void shard_client_unmap(struct client_segment *segment)
{
    if (segment->base != NULL) {
        (void)munmap((void *)(uintptr_t)segment->base, segment->size);
    }
    (void)close(segment->fd);
}

static void note_drop(struct shard_client *client, uint64_t segment)
{
    for (unsigned i = 0; i < client->segment_count; i++) {
        if (client->segments[i].id == segment) {
            shard_client_unmap(&client->segments[i]);
            client->segments[i] = client->segments[--client->segment_count];
            client->drops++;
            return;
        }
    }
    fail_msg("an unknown segment is dropped");
}

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct shard_client *client = arg;
    assert_true(frame->handle < CLIENT_HANDLES);
    (void)mem;
    switch (frame->type) {
    case AMB_FRAME_TOPIC:
    case AMB_FRAME_MAP_LEASED:
    case AMB_FRAME_LAZY:
    case AMB_FRAME_DELIVER: {
        uint64_t len = amb_frame_body_len(frame);
        struct client_body *body = aligned_alloc(16, (sizeof(*body) + len + 15) & ~(size_t)15);
        assert_non_null(body);
        body->frame = *frame;
        *dst = body->bytes;
        *cookie = body;
        return AMB_OK;
    }
    case AMB_FRAME_FETCHED: {
        uint64_t len = frame->data_len;
        struct client_body *body = aligned_alloc(16, (sizeof(*body) + len + 15) & ~(size_t)15);
        assert_non_null(body);
        body->frame = *frame;
        if (len == 0) {
            note_fetched(client, frame, body->bytes);
            free(body);
            return AMB_OK;
        }
        *dst = body->bytes;
        *cookie = body;
        return AMB_OK;
    }
    case AMB_FRAME_MAP:
        note_map(client, frame);
        return AMB_OK;
    case AMB_FRAME_FETCHED_MAP: {
        const struct client_segment *segment = shard_client_segment(client, frame->segment);
        assert_non_null(segment);
        assert_non_null(segment->base);
        assert_true(frame->offset + frame->data_len <= segment->size);
        note_fetched(client, frame, segment->base + frame->offset);
        return AMB_OK;
    }
    case AMB_FRAME_FREED:
        note_freed(client, frame);
        return AMB_OK;
    case AMB_FRAME_SETTLED:
        note_settled(client, frame);
        return AMB_OK;
    case AMB_FRAME_SEG_DROP:
        note_drop(client, frame->segment);
        return AMB_OK;
    default:
        fail_msg("a frame of type %u for a client", frame->type);
    }
    return AMB_EPROTO;
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    struct shard_client *client = arg;
    struct client_body *body = cookie;
    const struct amb_frame *frame = &body->frame;
    if (status == AMB_OK && frame->type == AMB_FRAME_TOPIC) {
        const char *name = client->harness->names[frame->topic];
        assert_int_equal(frame->data_len, strlen(name));
        assert_memory_equal(body->bytes, name, frame->data_len);
        assert_int_equal(frame->count, client->harness->topic_priority[frame->topic]);
        client->subs[frame->handle].is_named[frame->topic] = true;
    } else if (status == AMB_OK && frame->type == AMB_FRAME_MAP_LEASED) {
        note_leased(client, frame, body->bytes);
    } else if (status == AMB_OK && frame->type == AMB_FRAME_LAZY) {
        note_lazy(client, frame, body->bytes);
    } else if (status == AMB_OK && frame->type == AMB_FRAME_FETCHED) {
        note_fetched(client, frame, body->bytes);
    } else if (status == AMB_OK) {
        note_delivery(client, frame, body->bytes);
    }
    free(body);
    return AMB_OK;
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    struct shard_client *client = arg;
    struct client_pub *pub = &client->pubs[handle];
    if (kind == AMB_FLOW_ACCEPTED) {
        assert_true(!pub->is_open || value <= pub->batches);
        pub->accepted = value;
    } else if (kind == AMB_FLOW_WINDOW) {
        assert_true(!pub->is_open || value >= pub->window);
        pub->window = value;
    } else if (kind == AMB_FLOW_FREED) {
        assert_int_equal(handle, 0);
        assert_true(value > client->freed && value <= client->commits);
        client->freed = value;
    }
    return AMB_OK;
}

static void on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    struct shard_client *client = arg;
    (void)status;
    client->txs--;
    free(AMB_CONTAINER_OF(tx, struct client_tx, tx));
}

static void on_down(void *arg, enum amb_status why, const char *text)
{
    struct shard_client *client = arg;
    (void)why;
    assert_non_null(text);
    client->downs++;
}

static void on_closed(void *arg)
{
    (void)arg;
    fail_msg("a sim link closes at once");
}

const struct amb_link_events shard_client_events = {
    .on_frame = on_frame,
    .on_body = on_body,
    .on_flow = on_flow,
    .on_sent = on_sent,
    .on_down = on_down,
    .on_closed = on_closed,
};

void shard_client_offered(struct shard_client *client, uint64_t segment, uint64_t size, int fd)
{
    assert_true(client->segment_count < CLIENT_SEGMENTS_MAX);
    client->segments[client->segment_count++] =
        (struct client_segment){.id = segment, .size = size, .fd = fd};
}
