/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One partition of a shuffle: its content, and how its receiver knows that it is that one and
 * whole. This struct goes along as a property, in the host's order.
 *
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include "tools/cli/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_PARTITION_PROP "part"

struct amb_partition {
    uint32_t from, to;
    uint64_t round;
    uint64_t sum; /* of the bytes, in host memory */
};

/* The number that its content begins with. No other partition of the last 2^24 rounds has it; nor
 * the lower half, which is all that a GPU's words have. */
uint64_t amb_partition_word(const struct amb_partition *part);
/* Fills host memory, and sets sum to the checksum of what is there then. size: 64 and up. */
void amb_partition_fill(struct amb_partition *part, void *to, size_t size);
/* Reads the property; false: it is none of ours. value may be NULL. */
bool amb_partition_read(const void *value, size_t len, struct amb_partition *out);
/* Are these bytes of host memory those that were filled in for this partition? */
bool amb_partition_is_whole(const struct amb_partition *part, const void *data, size_t size);
