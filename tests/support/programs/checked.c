/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/programs/checked.h"

#include <string.h>

#define HEADER ((size_t)16)

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

size_t checked_size(uint64_t id, uint64_t n, size_t max)
{
    static const size_t limits[16] = {
        1,    64,   64,   128,  128,   128,   256,   256,
        4096, 4096, 4096, 4096, 65536, 65536, 65536, (size_t)1 << 20,
    };
    uint64_t random = mix(id ^ mix(n));
    size_t limit = random % 100 == 0 ? CHECKED_SIZE_MAX + 1 : limits[(random >> 8) % 16];
    size_t size = (size_t)((random >> 16) % limit);
    return size > max ? size % (max + 1) : size;
}

static uint64_t word_of(uint64_t seed, size_t i)
{
    uint64_t x = (seed + i) * UINT64_C(0x9e3779b97f4a7c15);
    return x ^ (x >> 29);
}

void checked_fill(void *bytes, size_t size, uint64_t id, uint64_t n)
{
    uint8_t *to = bytes;
    uint64_t seed = mix(id ^ mix(n));
    size_t at = 0;
    if (size >= HEADER) {
        memcpy(to, &id, 8);
        memcpy(to + 8, &n, 8);
        at = HEADER;
    }
    for (; at + 8 <= size; at += 8) {
        uint64_t word = word_of(seed, at);
        memcpy(to + at, &word, 8);
    }
    uint64_t word = word_of(seed, at);
    memcpy(to + at, &word, size - at);
}

static bool is_filled(const uint8_t *from, size_t size, uint64_t id, uint64_t n)
{
    uint64_t seed = mix(id ^ mix(n));
    size_t at = size >= HEADER ? HEADER : 0;
    uint64_t wrong = 0;
    for (; at + 8 <= size; at += 8) {
        uint64_t word;
        memcpy(&word, from + at, 8);
        wrong |= word ^ word_of(seed, at);
    }
    uint64_t word = word_of(seed, at);
    return wrong == 0 && memcmp(from + at, &word, size - at) == 0;
}

static enum checked_result next_small(struct checked_reader *reader, const void *bytes, size_t size,
                                      uint64_t lost)
{
    if (!reader->is_synced) {
        return CHECKED_UNKNOWN;
    }
    reader->n += lost + 1;
    return size == checked_size(reader->id, reader->n, reader->max) &&
                   is_filled(bytes, size, reader->id, reader->n)
               ? CHECKED_OK
               : CHECKED_UNKNOWN;
}

enum checked_result checked_next(struct checked_reader *reader, const void *bytes, size_t size,
                                 uint64_t lost)
{
    if (size < HEADER) {
        return next_small(reader, bytes, size, lost);
    }
    uint64_t id, n;
    memcpy(&id, bytes, 8);
    memcpy(&n, (const uint8_t *)bytes + 8, 8);
    if (size != checked_size(id, n, reader->max) || !is_filled(bytes, size, id, n)) {
        return CHECKED_WRONG;
    }
    bool is_next = !reader->is_synced || id != reader->id || n == reader->n + lost + 1;
    reader->is_synced = true;
    reader->id = id;
    reader->n = n;
    return is_next ? CHECKED_OK : CHECKED_GAP;
}

uint64_t checked_sum(const void *bytes, size_t size)
{
    const uint8_t *from = bytes;
    uint64_t sum = size;
    size_t at = 0;
    for (; at + 8 <= size; at += 8) {
        uint64_t word;
        memcpy(&word, from + at, 8);
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 32;
    }
    for (; at < size; at++) {
        sum = (sum ^ from[at]) * UINT64_C(0x100000001b3);
    }
    return sum;
}
