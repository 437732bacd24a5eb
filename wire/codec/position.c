/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/codec/position.h"

#include "wire/codec/bytes.h"
#include "wire/codec/topic.h"

#include <string.h>

#define HEAD_SIZE 24u
#define TOPIC_SIZE 16u
#define PRIORITY_SHIFT 24u
#define NAME_LEN_MASK ((1u << PRIORITY_SHIFT) - 1)

static const uint8_t magic[4] = {'A', 'M', 'P', 1};

void amb_position_begin(struct amb_position_writer *writer, uint8_t *out, size_t cap)
{
    *writer = (struct amb_position_writer){
        .out = out, .cap = cap < AMB_POSITION_MAX ? cap : AMB_POSITION_MAX, .len = HEAD_SIZE};
}

void amb_position_add(struct amb_position_writer *writer, const struct amb_position_topic *topic)
{
    size_t end = writer->len + TOPIC_SIZE + topic->name_len;
    if (writer->out != NULL && end <= writer->cap) {
        uint8_t *at = writer->out + writer->len;
        amb_put32(at, topic->id);
        amb_put32(at + 4, topic->name_len | (uint32_t)topic->priority << PRIORITY_SHIFT);
        amb_put64(at + 8, topic->next);
        memcpy(at + TOPIC_SIZE, topic->name, topic->name_len);
    }
    writer->len = end;
    writer->count++;
}

enum amb_status amb_position_end(struct amb_position_writer *writer, uint64_t epoch,
                                 int64_t since_ns)
{
    if (writer->out == NULL || writer->len > writer->cap) {
        return AMB_ETOOLARGE;
    }
    memcpy(writer->out, magic, sizeof(magic));
    amb_put32(writer->out + 4, writer->count);
    amb_put64(writer->out + 8, epoch);
    amb_put64(writer->out + 16, (uint64_t)since_ns);
    return AMB_OK;
}

enum amb_status amb_position_read(const uint8_t *bytes, size_t len, struct amb_position *out)
{
    if (len < HEAD_SIZE || len > AMB_POSITION_MAX || memcmp(bytes, magic, sizeof(magic)) != 0) {
        return AMB_EINVAL;
    }
    struct amb_position position = {
        .epoch = amb_get64(bytes + 8),
        .since_ns = (int64_t)amb_get64(bytes + 16),
        .count = amb_get32(bytes + 4),
    };
    size_t at = HEAD_SIZE;
    for (uint32_t i = 0; i < position.count; i++) {
        if (len - at < TOPIC_SIZE) {
            return AMB_EINVAL;
        }
        uint32_t word = amb_get32(bytes + at + 4), name_len = word & NAME_LEN_MASK;
        if (word >> PRIORITY_SHIFT > AMB_PRIORITY_LOW || name_len == 0 ||
            name_len > AMB_TOPIC_MAX || name_len > len - at - TOPIC_SIZE) {
            return AMB_EINVAL;
        }
        at += TOPIC_SIZE + name_len;
    }
    if (at != len || position.since_ns < 0) {
        return AMB_EINVAL;
    }
    *out = position;
    return AMB_OK;
}

bool amb_position_next(const uint8_t *bytes, size_t len, size_t *at, struct amb_position_topic *out)
{
    if (*at == 0) {
        *at = HEAD_SIZE;
    }
    if (*at >= len) {
        return false;
    }
    const uint8_t *topic = bytes + *at;
    *out = (struct amb_position_topic){
        .id = amb_get32(topic),
        .name_len = amb_get32(topic + 4) & NAME_LEN_MASK,
        .priority = (enum amb_priority)(amb_get32(topic + 4) >> PRIORITY_SHIFT),
        .next = amb_get64(topic + 8),
        .name = (const char *)topic + TOPIC_SIZE,
    };
    *at += TOPIC_SIZE + out->name_len;
    return true;
}

bool amb_position_find(const uint8_t *bytes, size_t len, const char *name, size_t name_len,
                       enum amb_priority priority, struct amb_position_topic *out)
{
    size_t at = 0;
    while (amb_position_next(bytes, len, &at, out)) {
        if (out->priority == priority && out->name_len == name_len &&
            memcmp(out->name, name, name_len) == 0) {
            return true;
        }
    }
    return false;
}
