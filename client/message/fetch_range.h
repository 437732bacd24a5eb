/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A range of a lazy message's payload, for one call: asked for in pieces, a few ahead, each carried
 * to where it is wanted.
 *
 * Threads: the connection's lock, given up meanwhile. Memory: the caller's; pieces are fetch.c's.
 */
#pragma once

#include "client/message/fetch.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_arrival;
struct amb_gpu;
struct amb_msg;

struct amb_fetch_range {
    struct amb_msg *msg;
    uint64_t offset, len;
    uint8_t *to;
    struct amb_gpu *gpu; /* `to` is in its memory; NULL: host */
    int64_t deadline_ns;
    uint64_t asked, done; /* of len */
    unsigned starved;     /* answers that the broker had no memory for a copy */
    struct amb_fetch *out[AMB_FETCH_AHEAD];
    unsigned first, count; /* of them, oldest first */
};

/* May anything of a delivery be asked for? ESTALE: its session is over. */
enum amb_status amb_fetch_standing(const struct amb_arrival *arrival);
/* Is a piece (arg) answered, or its session over? For amb_fetch_range_wait. */
bool amb_fetch_is_answered(void *arg);
/* The result of a piece. */
enum amb_status amb_fetch_outcome(const struct amb_fetch *fetch, const struct amb_arrival *arrival);
/* Waits until is_ready(arg), most_ns and the range's deadline at most. AMB_OK also where most_ns
 * were over first. */
enum amb_status amb_fetch_range_wait(struct amb_fetch_range *range, bool (*is_ready)(void *arg),
                                     void *arg, int64_t most_ns);
/* All of it, to where it is wanted. */
enum amb_status amb_fetch_range_bring(struct amb_fetch_range *range);
