/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages whose every byte can be checked. Size and content of message n of a publisher follow
 * from (id, n). So a receiver can say without asking whether it is whole and in order. Later it can
 * say whether memory that it holds has changed.
 *
 *     16 bytes and more: | id 8 | n 8 | pattern of (id, n) ... |     fewer: the pattern alone
 *
 * Threads: any, one checked_reader by one thread at a time. Memory: the caller's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHECKED_SIZE_MAX ((size_t)4 << 20)

/* 0 B to max, mostly small, one in a hundred up to CHECKED_SIZE_MAX. */
size_t checked_size(uint64_t id, uint64_t n, size_t max);
void checked_fill(void *bytes, size_t size, uint64_t id, uint64_t n);

enum checked_result {
    CHECKED_OK,
    CHECKED_UNKNOWN, /* too small to say whose it is, and not the one expected */
    CHECKED_GAP,     /* whole, but not the next one */
    CHECKED_WRONG,   /* bytes that nobody sent */
};

/* The messages received of one topic with one publisher at a time. Zeroed: nothing. */
struct checked_reader {
    uint64_t id, n; /* the last message's */
    size_t max;     /* as its publisher has it */
    bool is_synced; /* id and n are known */
};

/* Is this the next message, `lost` of them after the last? A publisher may be followed by one with
 * another id. */
enum checked_result checked_next(struct checked_reader *reader, const void *bytes, size_t size,
                                 uint64_t lost);
/* A sum over all bytes, to see later whether they are still the same. */
uint64_t checked_sum(const void *bytes, size_t size);
