/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory of a process that measures: buffers, a stream, and kernels that write and check every
 * word. A payload is 32-bit words base + index, and nothing else of it is looked at. Without
 * --touch nothing is: then the way of a descriptor is measured.
 * Threads: one, whose current context is the device's from open to close; amb_bench_gpu_alloc and
 * _free: any.
 */
#pragma once

#include "tools/bench/bench.h"

#include <jansson.h>

struct amb_bench_gpu;

/* ENOTSUP, ENOTFOUND, ECUDA, ENOMEM; the reason has been said. */
enum amb_status amb_bench_gpu_open(int device, struct amb_bench_gpu **out);
void amb_bench_gpu_close(struct amb_bench_gpu **gpu);
/* NULL where gpu is NULL. */
void *amb_bench_gpu_stream(struct amb_bench_gpu *gpu);
/* NULL: no memory. Filled with zeros. */
void *amb_bench_gpu_alloc(struct amb_bench_gpu *gpu, uint64_t size);
void amb_bench_gpu_free(struct amb_bench_gpu *gpu, void *memory);
/* The same, but of host memory where gpu is NULL. Its pages are there before the clock runs: page
 * faults are not what is measured. */
void *amb_bench_buffer_make(struct amb_bench_gpu *gpu, uint64_t size);
void amb_bench_buffer_free(struct amb_bench_gpu *gpu, void *buffer, uint64_t size);
/* On the stream. */
enum amb_status amb_bench_gpu_fill(struct amb_bench_gpu *gpu, void *to, uint64_t size,
                                   uint32_t base);
enum amb_status amb_bench_gpu_check(struct amb_bench_gpu *gpu, const void *at, uint64_t size,
                                    uint32_t base);
/* Waits for the stream: a plain send knows of none. */
enum amb_status amb_bench_gpu_sync(struct amb_bench_gpu *gpu);
/* Waits for all checks; how many words were wrong, of all. */
enum amb_status amb_bench_gpu_wrong(struct amb_bench_gpu *gpu, uint32_t *out);

/* broker-bench copies: plain copies of bench->size on the device and, with two, between them. */
enum amb_exit amb_bench_copies(const struct amb_bench *bench, json_t **out);
