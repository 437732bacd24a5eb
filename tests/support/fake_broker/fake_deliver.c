/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake broker's deliveries when a test asks for them: by copy, in place, leased and lazy; and
 * the segments that they lie in.
 *
 * Threads: any; under the fake broker's lock.
 */
#include "tests/support/fake_broker/fake_broker_internal.h"

#include "wire/base/assert.h"
#include "wire/codec/props.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Writes a body of `count` messages; returns its size. */
static uint64_t write_body(const struct fake_broker *fake, uint8_t *to, const char *text,
                           uint32_t count, uint64_t *data_len)
{
    uint8_t blob[64];
    struct amb_props_writer writer;
    amb_props_writer_init(&writer, blob, sizeof(blob));
    amb_assert(amb_props_add(&writer, AMB_PROP_KEY, "k", 1) == AMB_OK);
    amb_assert(amb_props_add(&writer, "color", "red", 3) == AMB_OK);
    uint64_t len = 0;
    struct amb_record records[AMB_BATCH_MSGS_MAX] = {0};
    for (uint32_t i = 0; i < count; i++) {
        char payload[64];
        int size = snprintf(payload, sizeof(payload), "%s%u", text, i);
        uint64_t padded = amb_payload_padded((uint64_t)size);
        memset(to + len, 0, padded);
        memcpy(to + len, payload, (size_t)size);
        records[i] = (struct amb_record){.len = (uint32_t)size,
                                         .flags = amb_record_mem_flags(fake->kind),
                                         .props_len = (uint16_t)writer.len,
                                         .key_hash = 1};
        len += padded;
    }
    *data_len = len;
    memcpy(to + len, records, count * sizeof(records[0]));
    len += count * sizeof(records[0]);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t padded = amb_props_padded((uint32_t)writer.len);
        memset(to + len, 0, padded);
        memcpy(to + len, blob, writer.len);
        len += padded;
    }
    return len;
}

static void tell_topic(struct fake_broker *fake, uint32_t sub, uint32_t topic)
{
    amb_assert(topic < 8 && sub < FAKE_HANDLES);
    if (fake->topic_told[sub][topic]) {
        return;
    }
    fake->topic_told[sub][topic] = true;
    uint8_t *name = malloc(16);
    amb_assert(name != NULL);
    bool is_ranked = topic >= FAKE_TOPIC_HIGH;
    int len = snprintf((char *)name, 16, "t%u", is_ranked ? 1 : topic);
    const struct amb_frame frame = {
        .type = AMB_FRAME_TOPIC,
        .handle = sub,
        .topic = topic,
        .count = topic == FAKE_TOPIC_HIGH  ? AMB_PRIORITY_HIGH
                 : topic == FAKE_TOPIC_LOW ? AMB_PRIORITY_LOW
                                           : AMB_PRIORITY_NORMAL,
        .data_len = (uint64_t)len,
    };
    fake_send_frame(fake, &frame, name);
}

static void deliver(struct fake_broker *fake, struct amb_frame *frame, const char *text,
                    uint32_t count, uint64_t id)
{
    tell_topic(fake, frame->handle, frame->topic);
    frame->count = count;
    frame->number = ++fake->delivered[frame->handle];
    frame->time_ns = 1234;
    frame->status = frame->lost != 0 ? AMB_LOSS_SLOW : AMB_LOSS_NONE;
    if (frame->type == AMB_FRAME_DELIVER) {
        uint8_t *body = malloc(count * 128 + 16);
        amb_assert(body != NULL);
        uint64_t whole = write_body(fake, body, text, count, &frame->data_len);
        frame->meta_len = (uint32_t)(whole - frame->data_len);
        fake_send_frame(fake, frame, body);
        return;
    }
    for (unsigned i = 0; i < SEGMENTS; i++) {
        if (fake->segments[i].id == id && fake->segments[i].base != NULL) {
            uint8_t *body = fake->segments[i].base + fake->segments[i].used;
            uint64_t whole = write_body(fake, body, text, count, &frame->data_len);
            frame->meta_len = (uint32_t)(whole - frame->data_len);
            frame->segment = id;
            frame->offset = fake->segments[i].used;
            fake->segments[i].used += (whole + 63) & ~UINT64_C(63);
            fake_send_frame(fake, frame, NULL);
        }
    }
}

void fake_broker_deliver(struct fake_broker *fake, uint32_t sub, uint32_t topic, const char *text,
                         uint32_t count, uint64_t seq, uint64_t lost)
{
    struct amb_frame frame = {
        .type = AMB_FRAME_DELIVER, .handle = sub, .topic = topic, .seq = seq, .lost = lost};
    (void)pthread_mutex_lock(&fake->lock);
    deliver(fake, &frame, text, count, 0);
    amb_link_flush(fake->link);
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_lazy(struct fake_broker *fake, uint32_t sub, uint32_t topic, uint32_t size,
                      uint32_t count, uint64_t seq)
{
    (void)pthread_mutex_lock(&fake->lock);
    tell_topic(fake, sub, topic);
    struct amb_record *records = calloc(count, sizeof(*records));
    amb_assert(records != NULL);
    for (uint32_t i = 0; i < count; i++) {
        records[i].len = size;
    }
    const struct amb_frame frame = {.type = AMB_FRAME_LAZY,
                                    .handle = sub,
                                    .topic = topic,
                                    .seq = seq,
                                    .count = count,
                                    .number = ++fake->delivered[sub],
                                    .meta_len = count * (uint32_t)sizeof(*records),
                                    .data_len = amb_payload_padded(size) * count};
    fake_send_frame(fake, &frame, (uint8_t *)records);
    amb_link_flush(fake->link);
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_map(struct fake_broker *fake, uint32_t sub, uint32_t topic, const char *text,
                     uint32_t count, uint64_t seq, uint64_t id)
{
    struct amb_frame frame = {.type = AMB_FRAME_MAP, .handle = sub, .topic = topic, .seq = seq};
    (void)pthread_mutex_lock(&fake->lock);
    deliver(fake, &frame, text, count, id);
    amb_link_flush(fake->link);
    (void)pthread_mutex_unlock(&fake->lock);
}

/* Lays `count` payloads out in a segment from behind, and writes the meta that says so. */
static void lay_out(struct fake_broker *fake, unsigned segment, const char *text, uint32_t count,
                    uint8_t *meta, struct amb_frame *frame)
{
    uint8_t *base = fake->segments[segment].base;
    uint64_t *used = &fake->segments[segment].used;
    uint64_t *offsets = (void *)(meta + count * sizeof(struct amb_record));
    frame->data_len = 0;
    frame->meta_len = count * (uint32_t)(sizeof(struct amb_record) + sizeof(*offsets));
    for (uint32_t i = 0; i < count; i++) {
        offsets[i] = *used + (uint64_t)(count - 1 - i) * 64;
        int len = snprintf((char *)base + offsets[i], 64, "%s%u", text, i);
        const struct amb_record record = {.len = (uint32_t)len,
                                          .flags = amb_record_mem_flags(fake->kind)};
        memcpy(meta + i * sizeof(record), &record, sizeof(record));
        frame->data_len += amb_payload_padded((uint64_t)len);
    }
    *used += count * 64;
}

void fake_broker_kind(struct fake_broker *fake, enum amb_mem mem)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->kind = mem;
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_map_leased(struct fake_broker *fake, uint32_t sub, uint32_t topic,
                            const char *text, uint32_t count, uint64_t seq, uint64_t id)
{
    struct amb_frame frame = {.type = AMB_FRAME_MAP_LEASED,
                              .handle = sub,
                              .topic = topic,
                              .seq = seq,
                              .count = count,
                              .segment = id,
                              .time_ns = 1234};
    (void)pthread_mutex_lock(&fake->lock);
    tell_topic(fake, sub, topic);
    frame.number = ++fake->delivered[sub];
    for (unsigned i = 0; i < SEGMENTS; i++) {
        if (fake->segments[i].id == id && fake->segments[i].base != NULL) {
            uint8_t *meta = aligned_alloc(16, (count * 24 + 15) & ~15u);
            amb_assert(meta != NULL);
            lay_out(fake, i, text, count, meta, &frame);
            fake_send_frame(fake, &frame, meta);
        }
    }
    amb_link_flush(fake->link);
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_segment(struct fake_broker *fake, uint64_t id, bool is_sealed)
{
    (void)pthread_mutex_lock(&fake->lock);
    unsigned i = 0;
    while (fake->segments[i].base != NULL) {
        i++;
        amb_assert(i < SEGMENTS);
    }
    int fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    amb_assert(fd >= 0 && ftruncate(fd, (off_t)SEGMENT_SIZE) == 0);
    void *base = mmap(NULL, SEGMENT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    amb_assert(base != MAP_FAILED);
    if (is_sealed) {
        amb_assert(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) == 0);
    }
    fake->segments[i].id = id;
    fake->segments[i].base = base;
    Amb__Control__Control message;
    amb__control__control__init(&message);
    Amb__Control__SegAdd add;
    amb__control__seg_add__init(&add);
    add.segment = id;
    add.size = SEGMENT_SIZE;
    message.seg_add = &add;
    message.body_case = AMB__CONTROL__CONTROL__BODY_SEG_ADD;
    fake_say(fake->control, &message, &fd, 1);
    (void)close(fd);
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_drop_segment(struct fake_broker *fake, uint64_t id)
{
    const struct amb_frame frame = {.type = AMB_FRAME_SEG_DROP, .segment = id};
    fake_broker_frame(fake, &frame);
}

void fake_broker_scribble(struct fake_broker *fake, uint64_t id)
{
    (void)pthread_mutex_lock(&fake->lock);
    for (unsigned i = 0; i < SEGMENTS; i++) {
        if (fake->segments[i].id == id && fake->segments[i].base != NULL) {
            memset(fake->segments[i].base, 0xa5, SEGMENT_SIZE);
        }
    }
    (void)pthread_mutex_unlock(&fake->lock);
}

void fake_broker_frame(struct fake_broker *fake, const struct amb_frame *frame)
{
    fake_broker_frame_with(fake, frame, NULL);
}

void fake_broker_frame_with(struct fake_broker *fake, const struct amb_frame *frame,
                            const void *body)
{
    uint8_t *copy = NULL;
    if (body != NULL) {
        copy = malloc(amb_frame_body_len(frame));
        amb_assert(copy != NULL);
        memcpy(copy, body, amb_frame_body_len(frame));
    }
    (void)pthread_mutex_lock(&fake->lock);
    fake_send_frame(fake, frame, copy);
    amb_link_flush(fake->link);
    (void)pthread_mutex_unlock(&fake->lock);
}
