/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/gpu.h"

#include "tools/bench/kernels.h"
#include "wire/base/clock.h"
#include "wire/mem/cuda.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define THREADS 256u
#define BLOCKS_MAX 2048u

/* Types that libamb has no use for; the driver's own types are pointers and ints. */
typedef int (*module_load_fn)(void **module, const void *image);
typedef int (*module_get_fn)(void **function, void *module, const char *name);
typedef int (*launch_fn)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                         unsigned by, unsigned bz, unsigned shared, void *stream, void **params,
                         void **extra);

struct amb_bench_gpu {
    struct amb_cuda *cuda;
    struct amb_cuda_scope scope;
    void *stream;
    launch_fn launch;
    void *fill, *check; /* kernels */
    uint64_t wrong;     /* device memory: words that were */
    uint32_t *seen;     /* pinned */
};

static bool find_kernels(struct amb_bench_gpu *gpu)
{
    const char *name = getenv(AMB_CUDA_LIBRARY_ENV);
    void *library = dlopen(name != NULL ? name : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    module_load_fn load = NULL;
    module_get_fn get = NULL;
    void *module = NULL;
    if (library == NULL) {
        return false;
    }
    *(void **)&load = dlsym(library, "cuModuleLoadData");
    *(void **)&get = dlsym(library, "cuModuleGetFunction");
    *(void **)&gpu->launch = dlsym(library, "cuLaunchKernel");
    return load != NULL && get != NULL && gpu->launch != NULL &&
           load(&module, amb_bench_kernels) == 0 && get(&gpu->fill, module, "amb_fill") == 0 &&
           get(&gpu->check, module, "amb_check") == 0;
}

static enum amb_status make(struct amb_bench_gpu *gpu)
{
    void *pinned = NULL;
    enum amb_status status = amb_cuda_stream_create(gpu->cuda, &gpu->stream);
    if (status == AMB_OK) {
        status = amb_cuda_alloc(gpu->cuda, sizeof(*gpu->seen), &gpu->wrong);
    }
    if (status == AMB_OK) {
        status = amb_cuda_pin(gpu->cuda, sizeof(*gpu->seen), &pinned);
    }
    if (status == AMB_OK) {
        gpu->seen = pinned;
        *gpu->seen = 0;
        status = amb_cuda_copy(gpu->cuda, gpu->wrong, (uintptr_t)pinned, sizeof(*gpu->seen),
                               gpu->stream);
    }
    return status == AMB_OK ? amb_cuda_stream_sync(gpu->cuda, gpu->stream) : status;
}

/* *why: a sentence, static. */
static enum amb_status open_device(int device, struct amb_bench_gpu **out, const char **why)
{
    struct amb_bench_gpu *gpu = calloc(1, sizeof(*gpu));
    *why = "no memory";
    if (gpu == NULL) {
        return AMB_ENOMEM;
    }
    enum amb_status status = amb_cuda_start();
    *why = status == AMB_OK ? "the device cannot be used" : amb_cuda_why_not();
    if (status == AMB_OK) {
        status = amb_cuda_at(device, &gpu->cuda);
    }
    if (status == AMB_OK) {
        status = amb_cuda_enter(gpu->cuda, &gpu->scope);
    }
    if (status != AMB_OK) {
        free(gpu);
        return status;
    }
    status = make(gpu);
    if (status == AMB_OK && !find_kernels(gpu)) {
        *why = "the driver does not take the kernels";
        status = AMB_ENOTSUP;
    }
    if (status != AMB_OK) {
        amb_bench_gpu_close(&gpu);
        return status;
    }
    *out = gpu;
    return AMB_OK;
}

enum amb_status amb_bench_gpu_open(int device, struct amb_bench_gpu **out)
{
    const char *why;
    enum amb_status status = open_device(device, out, &why);
    if (status != AMB_OK) {
        amb_tool_error("GPU %d: %s", device, why);
    }
    return status;
}

void amb_bench_gpu_close(struct amb_bench_gpu **gpu)
{
    struct amb_bench_gpu *own = *gpu;
    *gpu = NULL;
    if (own != NULL) {
        amb_cuda_unpin(own->cuda, own->seen);
        amb_cuda_free(own->cuda, own->wrong);
        amb_cuda_stream_destroy(own->cuda, own->stream);
        amb_cuda_leave(&own->scope);
        free(own);
    }
}

void *amb_bench_gpu_stream(struct amb_bench_gpu *gpu)
{
    return gpu != NULL ? gpu->stream : NULL;
}

void *amb_bench_gpu_alloc(struct amb_bench_gpu *gpu, uint64_t size)
{
    struct amb_cuda_scope scope;
    uint64_t address = 0;
    if (amb_cuda_enter(gpu->cuda, &scope) != AMB_OK) {
        return NULL;
    }
    enum amb_status status = amb_cuda_alloc(gpu->cuda, size, &address);
    amb_cuda_leave(&scope);
    return status == AMB_OK ? (void *)(uintptr_t)address : NULL;
}

void amb_bench_gpu_free(struct amb_bench_gpu *gpu, void *memory)
{
    struct amb_cuda_scope scope;
    if (amb_cuda_enter(gpu->cuda, &scope) == AMB_OK) {
        amb_cuda_free(gpu->cuda, (uintptr_t)memory);
        amb_cuda_leave(&scope);
    }
}

void *amb_bench_buffer_make(struct amb_bench_gpu *gpu, uint64_t size)
{
    if (gpu != NULL) {
        return amb_bench_gpu_alloc(gpu, size);
    }
    void *buffer = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return buffer != MAP_FAILED ? buffer : NULL;
}

void amb_bench_buffer_free(struct amb_bench_gpu *gpu, void *buffer, uint64_t size)
{
    if (gpu != NULL) {
        amb_bench_gpu_free(gpu, buffer);
    } else {
        (void)munmap(buffer, (size_t)size);
    }
}

static enum amb_status run(struct amb_bench_gpu *gpu, void *kernel, uint64_t words, void **params)
{
    uint64_t blocks = (words + THREADS - 1) / THREADS;
    int result = gpu->launch(kernel, blocks < BLOCKS_MAX ? (unsigned)blocks : BLOCKS_MAX, 1, 1,
                             THREADS, 1, 1, 0, gpu->stream, params, NULL);
    return result == 0 ? AMB_OK : AMB_ECUDA;
}

enum amb_status amb_bench_gpu_fill(struct amb_bench_gpu *gpu, void *to, uint64_t size,
                                   uint32_t base)
{
    uint64_t address = (uintptr_t)to, words = size / sizeof(uint32_t);
    void *params[] = {&address, &words, &base};
    return run(gpu, gpu->fill, words, params);
}

enum amb_status amb_bench_gpu_check(struct amb_bench_gpu *gpu, const void *at, uint64_t size,
                                    uint32_t base)
{
    uint64_t address = (uintptr_t)at, words = size / sizeof(uint32_t);
    void *params[] = {&address, &words, &base, &gpu->wrong};
    return run(gpu, gpu->check, words, params);
}

enum amb_status amb_bench_gpu_sync(struct amb_bench_gpu *gpu)
{
    return amb_cuda_stream_sync(gpu->cuda, gpu->stream);
}

enum amb_status amb_bench_gpu_wrong(struct amb_bench_gpu *gpu, uint32_t *out)
{
    enum amb_status status =
        amb_cuda_copy(gpu->cuda, (uintptr_t)gpu->seen, gpu->wrong, sizeof(*gpu->seen), gpu->stream);
    if (status == AMB_OK) {
        status = amb_cuda_stream_sync(gpu->cuda, gpu->stream);
    }
    if (status == AMB_OK) {
        *out = *gpu->seen;
    }
    return status;
}

/* ---- plain copies ---- */

/* Bytes a second of copies one behind the other for the bench's time; 0: it failed. */
static double copy_rate(struct amb_bench_gpu *gpu, const struct amb_bench *bench, uint64_t to,
                        struct amb_cuda *source, uint64_t from)
{
    uint64_t batch = (UINT64_C(256) << 20) / bench->size + 1, bytes = 0;
    batch = batch < 1024 ? batch : 1024;
    int64_t start_ns = 0, passed_ns = 0;
    for (unsigned round = 0; passed_ns < bench->duration_ns; round++) {
        enum amb_status status = AMB_OK;
        for (uint64_t i = 0; i < batch && status == AMB_OK; i++) {
            status =
                source == gpu->cuda
                    ? amb_cuda_copy(gpu->cuda, to, from, bench->size, gpu->stream)
                    : amb_cuda_copy_peer(gpu->cuda, to, source, from, bench->size, gpu->stream);
        }
        if (status != AMB_OK || amb_cuda_stream_sync(gpu->cuda, gpu->stream) != AMB_OK) {
            return 0;
        }
        if (round == 0) { /* Warm. */
            start_ns = amb_clock_monotonic_ns();
            continue;
        }
        bytes += batch * bench->size;
        passed_ns = amb_clock_monotonic_ns() - start_ns;
    }
    return (double)bytes / ((double)passed_ns / (double)AMB_SEC);
}

static json_t *copy_row(const struct amb_bench *bench, const char *path, double rate)
{
    return json_pack("{s:s, s:s, s:I, s:f, s:s}", "workload", "copies", "path", path, "size",
                     (json_int_t)bench->size, "mb_per_s", rate / 1e6, "status",
                     rate > 0 ? "ok" : "failed");
}

/* Memory of a second device; 0: there is none. */
static uint64_t far_memory(const struct amb_bench *bench, struct amb_cuda **far)
{
    struct amb_cuda_scope scope;
    uint64_t memory = 0;
    int device = bench->device == 0 ? 1 : 0;
    if (amb_cuda_count() < 2 || amb_cuda_at(device, far) != AMB_OK ||
        amb_cuda_enter(*far, &scope) != AMB_OK) {
        return 0;
    }
    enum amb_status status = amb_cuda_alloc(*far, bench->size, &memory);
    amb_cuda_leave(&scope);
    return status == AMB_OK ? memory : 0;
}

enum amb_exit amb_bench_copies(const struct amb_bench *bench, json_t **out)
{
    struct amb_bench_gpu *gpu;
    if (amb_bench_gpu_open(bench->device, &gpu) != AMB_OK) {
        return AMB_EXIT_UNAVAILABLE;
    }
    void *to = amb_bench_gpu_alloc(gpu, bench->size), *from = amb_bench_gpu_alloc(gpu, bench->size);
    enum amb_exit code = AMB_EXIT_SOFTWARE;
    if (to != NULL && from != NULL) {
        struct amb_cuda *far = NULL;
        double rate = copy_rate(gpu, bench, (uintptr_t)to, gpu->cuda, (uintptr_t)from);
        *out = json_array();
        (void)json_array_append_new(*out, copy_row(bench, "device", rate));
        uint64_t memory = far_memory(bench, &far);
        if (memory != 0) {
            bool can = amb_cuda_can_reach(gpu->cuda, far);
            amb_cuda_let_reach(gpu->cuda, far);
            double peer = copy_rate(gpu, bench, (uintptr_t)to, far, memory);
            (void)json_array_append_new(*out, copy_row(bench, can ? "peer" : "peer by host", peer));
        }
        code = rate > 0 ? AMB_EXIT_OK : AMB_EXIT_SOFTWARE;
    } else {
        amb_tool_error("GPU %d: no memory for two buffers of this size", bench->device);
    }
    amb_bench_gpu_free(gpu, to);
    amb_bench_gpu_free(gpu, from);
    amb_bench_gpu_close(&gpu);
    return code;
}
