/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of a measured message, by which a lost, repeated, torn or stale one is seen:
 *
 *   | word: publisher (16 bits), sequence (48 bits) | 0 | ... | ~word |      8-byte words
 *
 * With `touch` the words in between are word + index, all written and all checked. Without it only
 * the first and the last word are, so both ends leave the payload itself untouched.
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include "tools/cli/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_PAYLOAD_MIN 64u
#define AMB_PAYLOAD_SEQ_MASK AMB_BENCH_COUNT_MAX

static inline uint64_t amb_payload_word(unsigned publisher, uint64_t seq)
{
    return ((uint64_t)publisher << 48) | (seq & AMB_PAYLOAD_SEQ_MASK);
}

/* size >= AMB_PAYLOAD_MIN. */
void amb_payload_write(void *data, size_t size, uint64_t word, bool is_touch);
/* False: these are not the bytes that were written. *word is set if true. */
bool amb_payload_check(const void *data, size_t size, size_t expected_size, bool is_touch,
                       uint64_t *word);
/* A checksum of the bytes. It depends on the place of each, and of how many there are. */
uint64_t amb_payload_sum(const void *data, size_t size);
