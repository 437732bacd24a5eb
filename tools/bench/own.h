/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a subscriber's own, into which libamb puts what it receives: one buffer that stays, or
 * one for each message. So a message ends where other libraries receive it, in the program's
 * memory.
 *
 * Threads: libamb calls the allocator from any thread. Memory: owns the buffer that stays; those of
 * messages are freed as they are given back.
 */
#pragma once

#include "tools/bench/bench.h"

#include <stdatomic.h>

struct amb_bench_gpu;

struct amb_bench_own {
    struct amb_allocator allocator;
    struct amb_bench_gpu *gpu; /* NULL: host memory */
    uint64_t size;
    void *kept; /* NULL: a new one for each message */
    _Atomic bool is_out;
};

/* Made as bench->own says; its `allocator` is for amb_sub_options. ENOMEM. */
enum amb_status amb_bench_own_init(struct amb_bench_own *own, const struct amb_bench *bench,
                                   struct amb_bench_gpu *gpu);
/* Once no message lies there any more. Zeroed memory is fine. */
void amb_bench_own_fini(struct amb_bench_own *own);
