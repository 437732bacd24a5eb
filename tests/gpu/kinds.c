/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages from and into every kind of memory that a CUDA program has, on the strict fake driver.
 * The broker ($AMB_URL) is a real one, with a pool on GPU 0 and none on GPU 1. So messages from
 * device memory of GPU 0 stay there, and those of GPU 1 are staged. Every byte is compared, in host
 * memory, in device memory and as the message was sent.
 *
 *   gpu-kinds publish     from each kind: whole, in the middle, to the very end, and past it
 *   gpu-kinds link        the same by UCX
 *   gpu-kinds pageable    plain memory where devices reach it (HMM, Grace)
 *   gpu-kinds receive     an allocator's memory of each kind, amb_msg_read into each, DLPack
 *   gpu-kinds access      memory that no device may reach, or only read
 *   gpu-kinds freed       freed, and unmapped, while the message is on its way
 */
#include "tests/fakecuda/fakecuda.h"
#include "tests/gpu/program.h"

#include <amb/amb.h>
#include <amb/compat/dlpack/dlpack.h>
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define TOPIC "gpu.kinds"
#define MIB ((size_t)1 << 20)
#define GRANULE (2 * MIB)
#define SIZE (3 * GRANULE)

static CUcontext contexts[2];
static CUstream streams[2];
static struct amb_conn *conn;
static struct amb_pub *pub;

static const void *as_pointer(CUdeviceptr address)
{
    return (const void *)(uintptr_t)address;
}

/* ---- the kinds ---- */

enum kind {
    PLAIN_DEVICE, /* cuMemAlloc */
    POOL,         /* cuMemAllocAsync */
    EXPORTABLE,   /* a pool that may be exported */
    VIRTUAL,      /* one handle behind the addresses */
    SEGMENTS,     /* three handles, and addresses behind them where nothing is: as PyTorch's */
    MANAGED,
    PINNED,   /* cuMemHostAlloc */
    SEEN,     /* the same, by its address on the device */
    ADOPTED,  /* cuMemHostRegister */
    PAGEABLE, /* malloc */
    KINDS,
};
static const char *const kind_names[KINDS] = {"device",   "pool",    "exportable pool", "virtual",
                                              "segments", "managed", "pinned",          "seen",
                                              "adopted",  "pageable"};

struct memory {
    enum kind kind;
    int device;
    CUdeviceptr at; /* SIZE bytes, but for what is said of SEGMENTS */
    void *host;     /* where the CPU writes them; NULL: it cannot */
    CUmemoryPool pool;
};

static bool is_on_device(enum kind kind)
{
    return kind <= MANAGED;
}

static void give_access(CUdeviceptr at, size_t size, int device, CUmemAccess_flags flags)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                                    .flags = flags};
    CHECK(cuMemSetAccess(at, size, &access, 1) == CUDA_SUCCESS);
}

static void map(CUdeviceptr at, size_t size, int device)
{
    const CUmemAllocationProp props = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemGenericAllocationHandle handle;
    CHECK(cuMemCreate(&handle, size, &props, 0) == CUDA_SUCCESS);
    CHECK(cuMemMap(at, size, 0, handle, 0) == CUDA_SUCCESS);
    CHECK(cuMemRelease(handle) == CUDA_SUCCESS);
}

/* Addresses for twice the size, mapped from the first on in so many pieces. */
static CUdeviceptr map_pieces(int device, unsigned pieces)
{
    CUdeviceptr at;
    CHECK(cuMemAddressReserve(&at, 2 * SIZE, 0, 0, 0) == CUDA_SUCCESS);
    for (unsigned i = 0; i < pieces; i++) {
        map(at + i * (SIZE / pieces), SIZE / pieces, device);
        give_access(at + i * (SIZE / pieces), SIZE / pieces, device,
                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
    return at;
}

static CUdeviceptr from_pool(int device, CUmemAllocationHandleType handles, CUmemoryPool *pool)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .handleTypes = handles,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUdeviceptr at;
    CHECK(cuMemPoolCreate(pool, &props) == CUDA_SUCCESS);
    CHECK(cuMemAllocFromPoolAsync(&at, SIZE, *pool, streams[device]) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(streams[device]) == CUDA_SUCCESS);
    return at;
}

static struct memory get(enum kind kind, int device)
{
    struct memory memory = {.kind = kind, .device = device};
    CHECK(cuCtxSetCurrent(contexts[device]) == CUDA_SUCCESS);
    switch (kind) {
    case PLAIN_DEVICE:
        CHECK(cuMemAlloc(&memory.at, SIZE) == CUDA_SUCCESS);
        break;
    case POOL:
        CHECK(cuMemAllocAsync(&memory.at, SIZE, streams[device]) == CUDA_SUCCESS);
        CHECK(cuStreamSynchronize(streams[device]) == CUDA_SUCCESS);
        break;
    case EXPORTABLE:
        memory.at = from_pool(device, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, &memory.pool);
        break;
    case VIRTUAL:
        memory.at = map_pieces(device, 1);
        break;
    case SEGMENTS:
        memory.at = map_pieces(device, 3);
        break;
    case MANAGED:
        CHECK(cuMemAllocManaged(&memory.at, SIZE, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
        memory.host = (void *)(uintptr_t)memory.at;
        break;
    case PINNED:
    case SEEN:
        CHECK(cuMemHostAlloc(&memory.host, SIZE, CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS);
        memory.at = (uintptr_t)memory.host;
        CHECK(kind == PINNED ||
              cuMemHostGetDevicePointer(&memory.at, memory.host, 0) == CUDA_SUCCESS);
        break;
    case ADOPTED:
    case PAGEABLE:
        CHECK((memory.host = aligned_alloc(4096, SIZE)) != NULL);
        CHECK(kind == PAGEABLE ||
              cuMemHostRegister(memory.host, SIZE, CU_MEMHOSTREGISTER_DEVICEMAP) == CUDA_SUCCESS);
        memory.at = (uintptr_t)memory.host;
        break;
    case KINDS:
        abort();
    }
    return memory;
}

static void put(struct memory memory)
{
    CHECK(cuCtxSetCurrent(contexts[memory.device]) == CUDA_SUCCESS);
    switch (memory.kind) {
    case POOL:
    case EXPORTABLE:
        CHECK(cuMemFreeAsync(memory.at, streams[memory.device]) == CUDA_SUCCESS);
        CHECK(memory.pool == NULL || cuMemPoolDestroy(memory.pool) == CUDA_SUCCESS);
        break;
    case VIRTUAL:
    case SEGMENTS:
        CHECK(cuMemUnmap(memory.at, SIZE) == CUDA_SUCCESS);
        CHECK(cuMemAddressFree(memory.at, 2 * SIZE) == CUDA_SUCCESS);
        break;
    case PLAIN_DEVICE:
    case MANAGED:
        CHECK(cuMemFree(memory.at) == CUDA_SUCCESS);
        break;
    case PINNED:
    case SEEN:
        CHECK(cuMemFreeHost(memory.host) == CUDA_SUCCESS);
        break;
    case ADOPTED:
        CHECK(cuMemHostUnregister(memory.host) == CUDA_SUCCESS);
        free(memory.host);
        break;
    case PAGEABLE:
        free(memory.host);
        break;
    case KINDS:
        abort();
    }
}

/* ---- bytes ---- */

static uint8_t pattern[SIZE], seen[SIZE];

static void renew_pattern(void)
{
    static uint32_t round;
    round++;
    for (size_t i = 0; i < SIZE; i++) {
        pattern[i] = (uint8_t)(round * 31 + i * 7 + (i >> 8) + (i >> 16) * 3);
    }
}

static void write_to(const struct memory *memory)
{
    renew_pattern();
    if (memory->host != NULL) {
        memcpy(memory->host, pattern, SIZE);
    } else {
        CHECK(fakecuda_poke(memory->at, pattern, SIZE));
    }
}

/* Does it end with those bytes of the pattern, wherever it lies? */
static void compare(struct amb_msg *msg, size_t offset, size_t len)
{
    CHECK(amb_msg_size(msg) == len);
    const void *data = amb_msg_data(msg);
    if (data == NULL) {
        CHECK(amb_msg_mem(msg) == AMB_MEM_CUDA);
        CHECK(fakecuda_peek((uintptr_t)amb_msg_data_on(msg, NULL), seen, len));
        data = seen;
    }
    CHECK(memcmp(data, pattern + offset, len) == 0);
}

/* ---- publishing ---- */

static struct amb_sub *subs[3]; /* on GPU 0, in host memory, as it was sent */

static void begin(void)
{
    CHECK(cuInit(0) == CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK(cuDevicePrimaryCtxRetain(&contexts[i], i) == CUDA_SUCCESS);
        CHECK(cuCtxSetCurrent(contexts[i]) == CUDA_SUCCESS);
        CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    }
    CHECK(cuCtxSetCurrent(contexts[0]) == CUDA_SUCCESS);
    conn = connect_to();
    static const enum amb_mem wishes[] = {AMB_MEM_CUDA, AMB_MEM_DEFAULT, AMB_MEM_AS_SENT};
    for (int i = 0; i < 3; i++) {
        CHECK(amb_subscribe(conn, TOPIC, AMB_SUB(.mem = wishes[i]), &subs[i]) == AMB_OK);
    }
    CHECK(amb_pub_open(conn, TOPIC, NULL, &pub) == AMB_OK);
    CHECK(amb_pub_wait_subscribers(pub, 3, 5 * AMB_SEC) == AMB_OK);
}

static void end(void)
{
    CHECK(amb_close(conn, 5 * AMB_SEC) == AMB_OK);
    for (int i = 0; i < 2; i++) {
        CHECK(cuCtxSetCurrent(contexts[i]) == CUDA_SUCCESS);
        CHECK(cuCtxSynchronize() == CUDA_SUCCESS && cuStreamDestroy(streams[i]) == CUDA_SUCCESS);
    }
    CHECK(fakecuda_left() == 0);
}

static enum amb_status post(CUdeviceptr at, size_t len, CUstream stream)
{
    uint64_t seq = 0;
    enum amb_status status = amb_pub_post(
        pub, AMB_OUT(.data = as_pointer(at), .len = len, .stream = stream), 5 * AMB_SEC, &seq);
    return status == AMB_OK ? amb_pub_flush(pub, seq, 5 * AMB_SEC) : status;
}

/* Each subscriber has it, and lacks none; path: of the one on the GPU. */
static void expect(size_t offset, size_t len, const char *path)
{
    for (int i = 0; i < 3; i++) {
        struct amb_msg *msg;
        CHECK(amb_next(subs[i], 5 * AMB_SEC, &msg) == AMB_OK);
        CHECK(amb_msg_lost(msg, NULL) == 0);
        compare(msg, offset, len);
        CHECK(i != 0 || path == NULL || strcmp(amb_msg_path(msg), path) == 0);
        amb_msg_release(msg);
    }
}

static bool says(const char *words)
{
    bool does = strstr(amb_last_error(conn).text, words) != NULL;
    if (!does) {
        (void)fprintf(stderr, "not '%s': %s\n", words, amb_last_error(conn).text);
    }
    return does;
}

static uint64_t staged(void)
{
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    CHECK(amb_pub_stat(pub, &info) == AMB_OK);
    return info.staged_bytes;
}

/* A plain message passes, so nothing is lost and no device is. */
static void expect_all_is_well(const struct memory *memory)
{
    write_to(memory);
    CHECK(post(memory->at, 1000, streams[memory->device]) == AMB_OK);
    expect(0, 1000, NULL);
}

/* Parts of it: whole, odd addresses in the middle and over pieces, the last bytes. */
static void publish_parts(const struct memory *memory)
{
    static const struct {
        size_t offset, len;
    } parts[] = {
        {0, 100},        {0, SIZE},     {1001, 4099},          {GRANULE - 33333, 70001},
        {77, SIZE - 77}, {SIZE - 1, 1}, {SIZE - 50001, 50001},
    };
    bool stays = is_on_device(memory->kind) && memory->device == 0;
    write_to(memory);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        uint64_t before = staged();
        size_t offset = parts[i].offset, len = parts[i].len;
        CHECK(post(memory->at + offset, len, streams[memory->device]) == AMB_OK);
        expect(offset, len, stays ? "cuda_ipc" : "staged");
        CHECK(amb_pub_send(pub, as_pointer(memory->at + offset), len, 5 * AMB_SEC) == AMB_OK);
        expect(offset, len, stays ? "cuda_ipc" : "staged");
        CHECK(staged() - before ==
              (is_on_device(memory->kind) && memory->device == 1 ? 2 * len : 0));
    }
}

/* Past the end: refused with a sentence, before anything is copied where that is known. */
static void publish_past(const struct memory *memory)
{
    bool is_mapped = memory->kind == VIRTUAL || memory->kind == SEGMENTS;
    enum amb_status status = post(memory->at + 1, SIZE, streams[memory->device]);
    if (is_mapped) { /* The addresses go on: the driver refuses the copy. */
        CHECK(status == AMB_ECUDA && says("cuMemcpyAsync"));
        CHECK(post(memory->at + 1, 2 * SIZE, NULL) == AMB_EINVAL);
    } else {
        CHECK(status == AMB_EINVAL);
    }
    CHECK(is_mapped || says("past the end"));
    CHECK(amb_pub_send(pub, as_pointer(memory->at + SIZE - 10), 2 * SIZE, 5 * AMB_SEC) ==
              AMB_EINVAL &&
          says("past the end"));
    struct amb_region *region;
    CHECK(amb_register(conn, (void *)(uintptr_t)(memory->at + 8), 2 * SIZE, &region) ==
              AMB_EINVAL &&
          says("past the end"));
    CHECK(amb_register(conn, (void *)(uintptr_t)memory->at, SIZE, &region) == AMB_OK);
    CHECK(amb_unregister(region, 5 * AMB_SEC) == AMB_OK);
    expect_all_is_well(memory);
}

static void try_publish(void)
{
    begin();
    for (enum kind kind = 0; kind < KINDS; kind++) {
        for (int device = 0; device < 2; device++) {
            struct memory memory = get(kind, device);
            (void)printf("%s, GPU %d\n", kind_names[kind], device);
            publish_parts(&memory);
            if (is_on_device(kind)) {
                publish_past(&memory);
            }
            put(memory);
        }
    }
    end();
}

/* By a UCX link whose ends have CUDA memory: plain device memory leaves from where it lies, and all
 * other device memory is staged. */
static void try_link(void)
{
    begin();
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct memory memory = get(kind, 0);
        uint64_t before = staged();
        size_t offset = 12345, len = SIZE - offset;
        write_to(&memory);
        CHECK(post(memory.at + offset, len, streams[0]) == AMB_OK);
        expect(offset, len, NULL);
        CHECK(staged() - before == (is_on_device(kind) && kind != PLAIN_DEVICE ? len : 0));
        put(memory);
    }
    end();
}

/* In a process of its own, whose driver is told so. */
static void try_pageable(void)
{
    begin();
    struct memory memory = get(PAGEABLE, 0);
    publish_parts(&memory);
    struct amb_msg *msg;
    CHECK(post(memory.at, SIZE, NULL) == AMB_OK && amb_next(subs[0], 5 * AMB_SEC, &msg) == AMB_OK);
    void *copy = aligned_alloc(4096, SIZE);
    CHECK(copy != NULL && amb_msg_read(msg, 5, copy, SIZE - 5, 5 * AMB_SEC) == AMB_OK);
    CHECK(memcmp(copy, pattern + 5, SIZE - 5) == 0);
    free(copy);
    amb_msg_release(msg);
    put(memory);
    end();
}

/* ---- receiving ---- */

static enum amb_mem mem_of(enum kind kind)
{
    return kind == MANAGED    ? AMB_MEM_CUDA_MANAGED
           : kind < MANAGED   ? AMB_MEM_CUDA
           : kind == PAGEABLE ? AMB_MEM_HOST
                              : AMB_MEM_PINNED;
}

/* An allocator of one piece: the middle of a memory, so that it lies in two segments. */
#define PIECE_AT (GRANULE - 512)
#define PIECE_MAX GRANULE

static struct memory given;
static bool is_given;

static void *give(void *ctx, size_t len, size_t align, int device)
{
    (void)ctx;
    (void)align;
    CHECK(device == (mem_of(given.kind) == AMB_MEM_HOST || mem_of(given.kind) == AMB_MEM_PINNED
                         ? -1
                         : given.device));
    if (is_given || len > PIECE_MAX) {
        return NULL;
    }
    is_given = true;
    return (void *)(uintptr_t)(given.at + PIECE_AT);
}

static void take_back(void *ctx, void *memory, size_t len, int device)
{
    (void)ctx;
    (void)len;
    (void)device;
    CHECK(is_given && (uintptr_t)memory == given.at + PIECE_AT);
    is_given = false;
}

static struct amb_sub *subscribe_to(const struct memory *memory)
{
    struct amb_allocator allocator = AMB_INIT(amb_allocator);
    struct amb_sub *sub;
    allocator.mem = mem_of(memory->kind);
    allocator.alloc = give;
    allocator.free = take_back;
    given = *memory;
    CHECK(amb_subscribe(
              conn, TOPIC,
              AMB_SUB(.mem = allocator.mem, .device = memory->device, .allocator = &allocator),
              &sub) == AMB_OK);
    return sub;
}

/* As an array for other libraries: its place and its kind. */
static void expect_array(struct amb_msg *msg, enum amb_mem mem)
{
    static const DLDeviceType types[] = {[AMB_MEM_HOST] = kDLCPU,
                                         [AMB_MEM_PINNED] = kDLCUDAHost,
                                         [AMB_MEM_CUDA] = kDLCUDA,
                                         [AMB_MEM_CUDA_MANAGED] = kDLCUDAManaged};
    struct DLManagedTensorVersioned *array;
    CHECK(amb_msg_dlpack(msg, NULL, &array) == AMB_OK);
    CHECK((uintptr_t)array->dl_tensor.data == given.at + PIECE_AT);
    CHECK(array->dl_tensor.device.device_type == types[mem]);
    array->deleter(array);
}

/* The bytes of a piece of memory of any kind. */
static bool holds(const struct memory *memory, size_t at, size_t offset, size_t len)
{
    if (memory->host != NULL) {
        memcpy(seen, (uint8_t *)memory->host + at, len);
    } else {
        CHECK(fakecuda_peek(memory->at + at, seen, len));
    }
    return memcmp(seen, pattern + offset, len) == 0;
}

/* From a GPU and from the host, by an allocator; read into it; out of it again. */
static void receive_into(enum kind kind, int device)
{
    const struct memory sources[] = {get(PLAIN_DEVICE, 0), get(PAGEABLE, 0)};
    struct memory memory = get(kind, device);
    struct amb_sub *sub = subscribe_to(&memory);
    CHECK(amb_pub_wait_subscribers(pub, 4, 5 * AMB_SEC) == AMB_OK);
    for (int i = 0; i < 2; i++) {
        struct amb_msg *msg;
        size_t len = PIECE_MAX - 777;
        write_to(&sources[i]);
        CHECK(post(sources[i].at, len, NULL) == AMB_OK);
        CHECK(amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK && amb_msg_lost(msg, NULL) == 0);
        CHECK(amb_msg_mem(msg) == mem_of(kind) && amb_msg_size(msg) == len);
        CHECK(holds(&memory, PIECE_AT, 0, len));
        expect_array(msg, mem_of(kind));
        amb_msg_release(msg);
        /* The same message of others is read into it, to the last byte and no further. */
        for (int from = 0; from < 3; from++) {
            CHECK(amb_next(subs[from], 5 * AMB_SEC, &msg) == AMB_OK);
            CHECK(amb_msg_read(msg, 3, (void *)(uintptr_t)(memory.at + SIZE - len + 3), len - 3,
                               5 * AMB_SEC) == AMB_OK);
            CHECK(holds(&memory, SIZE - len + 3, 3, len - 3));
            CHECK(!is_on_device(kind) || kind == VIRTUAL || kind == SEGMENTS ||
                  (amb_msg_read(msg, 0, (void *)(uintptr_t)(memory.at + SIZE - len + 1), len,
                                5 * AMB_SEC) == AMB_EINVAL &&
                   says("past the end")));
            amb_msg_release(msg);
        }
    }
    CHECK(amb_sub_close(sub, 5 * AMB_SEC) == AMB_OK);
    CHECK(!is_given);
    put(memory);
    put(sources[0]);
    put(sources[1]);
}

/* Another library's array of memory of a kind is published: a view that begins in its middle. */
static void publish_array(enum kind kind)
{
    static const DLDeviceType types[] = {[AMB_MEM_HOST] = kDLCPU,
                                         [AMB_MEM_PINNED] = kDLCUDAHost,
                                         [AMB_MEM_CUDA] = kDLCUDA,
                                         [AMB_MEM_CUDA_MANAGED] = kDLCUDAManaged};
    struct memory memory = get(kind, 0);
    int64_t shape[] = {(int64_t)GRANULE / 2};
    const DLTensor array = {.data = (void *)(uintptr_t)memory.at,
                            .device = {types[mem_of(kind)], 0},
                            .ndim = 1,
                            .dtype = {kDLUInt, 16, 1},
                            .shape = shape,
                            .byte_offset = GRANULE - 1000};
    struct amb_out out = AMB_INIT(amb_out);
    struct amb_tensor tensor;
    uint64_t seq;
    write_to(&memory);
    CHECK(amb_out_dlpack(&out, &tensor, &array) == AMB_OK);
    CHECK(amb_pub_post(pub, &out, 5 * AMB_SEC, &seq) == AMB_OK);
    CHECK(amb_pub_flush(pub, seq, 5 * AMB_SEC) == AMB_OK);
    expect(GRANULE - 1000, GRANULE, is_on_device(kind) ? "cuda_ipc" : "staged");
    put(memory);
}

static void try_receive(void)
{
    begin();
    for (enum kind kind = 0; kind < KINDS; kind++) {
        (void)printf("into %s\n", kind_names[kind]);
        receive_into(kind, 0);
        receive_into(kind, 1);
        publish_array(kind);
    }
    end();
}

/* ---- memory that a device may not reach ---- */

static void try_access(void)
{
    begin();
    struct memory memory = get(SEGMENTS, 0), plain = get(PLAIN_DEVICE, 0);
    struct amb_sub *sub = subscribe_to(&memory);
    struct amb_msg *msg;
    /* One of three segments has no access: a copy of it fails, and nothing else does. */
    give_access(memory.at + GRANULE, GRANULE, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CHECK(post(memory.at + 100, SIZE - 100, streams[0]) == AMB_ECUDA && says("cuMemcpyAsync"));
    expect_all_is_well(&plain);
    CHECK(amb_next(sub, 100 * AMB_MS, &msg) == AMB_ETIMEDOUT); /* It could not be brought. */
    /* It may be read, and is published; and is no place to receive into. */
    give_access(memory.at + GRANULE, GRANULE, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
    CHECK(fakecuda_poke(memory.at, pattern, SIZE));
    CHECK(post(memory.at, GRANULE, streams[0]) == AMB_OK);
    expect(0, GRANULE, "cuda_ipc");
    CHECK(amb_next(sub, 100 * AMB_MS, &msg) == AMB_ETIMEDOUT);
    CHECK(post(plain.at, 1000, NULL) == AMB_OK);
    for (int i = 0; i < 3; i++) {
        CHECK(amb_next(subs[i], 5 * AMB_SEC, &msg) == AMB_OK);
        CHECK(amb_msg_read(msg, 0, (void *)(uintptr_t)(memory.at + GRANULE), 1000, 5 * AMB_SEC) ==
                  AMB_ECUDA &&
              says("cuMemcpyAsync"));
        amb_msg_release(msg);
    }
    CHECK(amb_next(sub, 100 * AMB_MS, &msg) == AMB_ETIMEDOUT);
    /* With it the next one comes, and says that others are lost. */
    give_access(memory.at + GRANULE, GRANULE, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    write_to(&plain);
    CHECK(post(plain.at, 1000, NULL) == AMB_OK);
    expect(0, 1000, "cuda_ipc");
    CHECK(amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK);
    CHECK(amb_msg_lost(msg, NULL) == 3);
    compare(msg, 0, 1000);
    amb_msg_release(msg);
    put(memory);
    put(plain);
    end();
}

/* ---- freed too early ---- */

static void *let_run(void *arg)
{
    (void)arg;
    (void)usleep(200000);
    fakecuda_hold(false);
    return NULL;
}

/* Posted behind work that takes its time, and not settled. */
static uint64_t post_unsettled(const struct memory *memory)
{
    uint64_t seq = 0;
    pthread_t thread;
    write_to(memory);
    fakecuda_hold(true);
    CHECK(amb_pub_post(pub,
                       AMB_OUT(.data = as_pointer(memory->at), .len = SIZE, .stream = streams[0]),
                       5 * AMB_SEC, &seq) == AMB_OK);
    CHECK(pthread_create(&thread, NULL, let_run, NULL) == 0 && pthread_detach(thread) == 0);
    return seq;
}

static void try_freed(void)
{
    begin();
    /* A free that waits for the device comes behind the copy; so does one on its stream. */
    static const enum kind kinds[] = {PLAIN_DEVICE, POOL, EXPORTABLE, MANAGED};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct memory memory = get(kinds[i], 0);
        uint64_t seq = post_unsettled(&memory);
        put(memory);
        CHECK(amb_pub_flush(pub, seq, 5 * AMB_SEC) == AMB_OK);
        expect(0, SIZE, "cuda_ipc");
    }
    /* Unmapping waits for nothing: an illegal address, and this process has lost its device. */
    struct memory memory = get(SEGMENTS, 0), host = get(PAGEABLE, 0);
    uint64_t seq = post_unsettled(&memory);
    put(memory);
    CHECK(amb_pub_flush(pub, seq, 5 * AMB_SEC) == AMB_ECUDA);
    CHECK(post(memory.at, 100, NULL) == AMB_ECUDA);
    write_to(&host);
    CHECK(amb_pub_send(pub, host.host, SIZE, 5 * AMB_SEC) == AMB_OK);
    CHECK(amb_pub_flush(pub, 0, 5 * AMB_SEC) == AMB_OK);
    for (int i = 1; i < 3; i++) {
        struct amb_msg *msg;
        CHECK(amb_next(subs[i], 5 * AMB_SEC, &msg) == AMB_OK);
        compare(msg, 0, SIZE);
        amb_msg_release(msg);
    }
    free(host.host);
    CHECK(amb_close(conn, 5 * AMB_SEC) == AMB_ECUDA); /* Of the one that failed. */
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    static const struct {
        const char *name;
        void (*run)(void);
    } tries[] = {{"publish", try_publish}, {"pageable", try_pageable}, {"receive", try_receive},
                 {"access", try_access},   {"freed", try_freed},       {"link", try_link}};
    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        if (strcmp(what, tries[i].name) == 0) {
            tries[i].run();
            return 0;
        }
    }
    (void)fprintf(stderr, "usage: gpu-kinds publish|pageable|receive|access|freed|link\n");
    return 64;
}
