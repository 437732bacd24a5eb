/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/own.h"

#include "tools/bench/gpu.h"

#include <stdlib.h>
#include <string.h>

static void *make(struct amb_bench_own *own, size_t len, size_t align)
{
    if (own->gpu != NULL) {
        return amb_bench_gpu_alloc(own->gpu, len);
    }
    void *memory = NULL;
    size_t step = align > sizeof(void *) ? align : sizeof(void *);
    return posix_memalign(&memory, step, len > 0 ? len : 1) == 0 ? memory : NULL;
}

static void drop(struct amb_bench_own *own, void *memory)
{
    if (own->gpu != NULL) {
        amb_bench_gpu_free(own->gpu, memory);
    } else {
        free(memory);
    }
}

static void *own_alloc(void *ctx, size_t len, size_t align, int device)
{
    struct amb_bench_own *own = ctx;
    (void)device;
    if (own->kept == NULL) {
        return make(own, len, align);
    }
    if (len > own->size || atomic_exchange(&own->is_out, true)) {
        return NULL; /* Not now: a message lies there. */
    }
    return own->kept;
}

static void own_free(void *ctx, void *ptr, size_t len, int device)
{
    struct amb_bench_own *own = ctx;
    (void)len, (void)device;
    if (ptr == own->kept) {
        atomic_store(&own->is_out, false);
    } else {
        drop(own, ptr);
    }
}

enum amb_status amb_bench_own_init(struct amb_bench_own *own, const struct amb_bench *bench,
                                   struct amb_bench_gpu *gpu)
{
    *own = (struct amb_bench_own){
        .allocator = {.size = sizeof(own->allocator), .alloc = own_alloc, .free = own_free},
        .gpu = gpu,
        .size = bench->size,
    };
    own->allocator.ctx = own;
    if (bench->own != AMB_BENCH_OWN_REUSED) {
        return AMB_OK;
    }
    own->kept = make(own, (size_t)bench->size, 64);
    if (own->kept != NULL && gpu == NULL) {
        memset(own->kept, 0, (size_t)bench->size); /* Its pages are there before the clock runs. */
    }
    return own->kept != NULL ? AMB_OK : AMB_ENOMEM;
}

void amb_bench_own_fini(struct amb_bench_own *own)
{
    if (own->kept != NULL) {
        drop(own, own->kept);
        own->kept = NULL;
    }
}
