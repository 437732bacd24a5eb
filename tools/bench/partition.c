/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/partition.h"

#include "tools/bench/payload.h"

#include <string.h>

#define PAIR_BITS 8u /* of a word: sender and receiver. The others are the round's */
_Static_assert(AMB_PARTITION_WORKERS_MAX *AMB_PARTITION_WORKERS_MAX <= 1u << PAIR_BITS,
               "each pair of workers has a number");

uint64_t amb_partition_word(const struct amb_partition *part)
{
    uint64_t pair = (uint64_t)part->from * AMB_PARTITION_WORKERS_MAX + part->to;
    return amb_payload_word(part->from, part->round << PAIR_BITS | pair);
}

void amb_partition_fill(struct amb_partition *part, void *to, size_t size)
{
    amb_payload_write(to, size, amb_partition_word(part), true);
    part->sum = amb_payload_sum(to, size);
}

bool amb_partition_read(const void *value, size_t len, struct amb_partition *out)
{
    struct amb_partition part;
    if (value == NULL || len != sizeof(part)) {
        return false;
    }
    memcpy(&part, value, sizeof(part));
    if (part.from >= AMB_PARTITION_WORKERS_MAX || part.to >= AMB_PARTITION_WORKERS_MAX) {
        return false;
    }
    *out = part;
    return true;
}

bool amb_partition_is_whole(const struct amb_partition *part, const void *data, size_t size)
{
    uint64_t word = 0;
    if (data == NULL || size < AMB_PAYLOAD_MIN) {
        return false;
    }
    memcpy(&word, data, sizeof(word)); /* Else two partitions with their sums might be swapped. */
    return word == amb_partition_word(part) && amb_payload_sum(data, size) == part->sum;
}
