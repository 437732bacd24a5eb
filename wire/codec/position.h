/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A position: where a subscription was in each topic that it had read, as bytes that a program
 * keeps and gives back to subscribe again. Opaque to programs; the broker checks what it is given.
 *
 *   'A' 'M' 'P' 1 | u32 count | u64 epoch | i64 since_ns | count x topic
 *   topic: u32 id | u24 len of the name | u8 priority | u64 next sequence | name
 *
 * Little endian, unpadded. Topics that are not named are read from since_ns on (ns since 1970, by
 * the broker's clock; 0: from their beginning). Sequences mean something within the broker's epoch;
 * each priority of a topic has an id and sequences of its own.
 *
 * Threads: any. Memory: never allocates.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_POSITION_MAX 32768u /* bytes */

struct amb_position {
    uint64_t epoch;
    int64_t since_ns;
    uint32_t count;
};

struct amb_position_topic {
    uint32_t id;
    uint64_t next;
    const char *name; /* not terminated */
    uint32_t name_len;
    enum amb_priority priority;
};

struct amb_position_writer {
    uint8_t *out; /* NULL: counts only */
    size_t cap, len;
    uint32_t count;
};

/* `cap` bytes at out, which may be NULL. */
void amb_position_begin(struct amb_position_writer *writer, uint8_t *out, size_t cap);
void amb_position_add(struct amb_position_writer *writer, const struct amb_position_topic *topic);
/* writer->len is then what it takes. ETOOLARGE: more than cap, or than AMB_POSITION_MAX. */
AMB_MUST_CHECK enum amb_status amb_position_end(struct amb_position_writer *writer, uint64_t epoch,
                                                int64_t since_ns);

/* Checks all of it. EINVAL: these are no position's bytes. */
AMB_MUST_CHECK enum amb_status amb_position_read(const uint8_t *bytes, size_t len,
                                                 struct amb_position *out);
/* Of a checked one: the topic at *at, which moves on; false at the end. Start with *at = 0. */
bool amb_position_next(const uint8_t *bytes, size_t len, size_t *at,
                       struct amb_position_topic *out);
bool amb_position_find(const uint8_t *bytes, size_t len, const char *name, size_t name_len,
                       enum amb_priority priority, struct amb_position_topic *out);
