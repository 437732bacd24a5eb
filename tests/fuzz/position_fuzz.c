/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A position that somebody has kept and gives back. One that is taken is the same bytes when it is
 * written again, and each of its topics is found by its name.
 */
#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/codec/position.h"
#include "wire/codec/topic.h"

/* All topics, by their order and by their names, and the bytes that they make. */
static void walk(const uint8_t *bytes, size_t len, const struct amb_position *position)
{
    static uint8_t again[AMB_POSITION_MAX];
    struct amb_position_writer writer;
    struct amb_position_topic topic, found;
    uint32_t count = 0;
    amb_position_begin(&writer, again, sizeof(again));
    for (size_t at = 0; amb_position_next(bytes, len, &at, &topic);) {
        amb_assert(at <= len && topic.name_len >= 1 && topic.name_len <= AMB_TOPIC_MAX);
        amb_assert((unsigned)topic.priority <= AMB_PRIORITY_LOW);
        amb_assert(
            amb_position_find(bytes, len, topic.name, topic.name_len, topic.priority, &found));
        amb_position_add(&writer, &topic);
        count++;
    }
    amb_assert(count == position->count);
    amb_assert(amb_position_end(&writer, position->epoch, position->since_ns) == AMB_OK);
    amb_assert(writer.len == len && memcmp(again, bytes, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint8_t *bytes = fuzz_copy(data, len);
    struct amb_position position;
    if (amb_position_read(bytes, len, &position) == AMB_OK) {
        walk(bytes, len, &position);
    }
    free(bytes);
    return 0;
}
