/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A subscription with an allocator for each kind of memory (amb_sub_options.allocators), on the
 * strict fake driver. The broker ($AMB_URL) is a real one, with a pool on GPU 0. A message sent
 * from host, pinned, device or managed memory comes to memory of that kind, whatever link it takes.
 * Every byte is compared, 4 B to 64 MiB.
 *
 *   gpu-allocators all DEVICE MIB [local]  four kinds into allocators on that GPU, messages of at
 *                                      most so much; local: leases, too
 *   gpu-allocators fallback            kinds without an allocator
 *   gpu-allocators ends                closed while an allocator's memory is being filled
 *   gpu-allocators lost                the broker ends meanwhile, and there is another one: the
 *                                      script that runs this kills it at the word "filling"
 */
#include "tests/fakecuda/fakecuda.h"
#include "tests/gpu/program.h"

#include <amb/amb.h>
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define TOPIC "gpu.allocators"
#define KINDS 4
#define MIB ((size_t)1 << 20)
#define MOST (64 * MIB)
#define WAIT (30 * AMB_SEC)

static const char *const names[KINDS] = {"host", "pinned", "cuda", "managed"};
static CUcontext contexts[2];
static CUstream stream; /* of GPU 0 */
static struct amb_conn *conn;
static struct amb_pub *pub;
static uint8_t *pattern, *seen;

static enum amb_mem mem_of(int kind)
{
    return (enum amb_mem)(AMB_MEM_HOST + kind);
}

/* ---- memory of each kind ---- */

static void on_device(int device)
{
    CHECK(cuCtxSetCurrent(contexts[device]) == CUDA_SUCCESS);
}

static CUdeviceptr get(int kind, int device)
{
    CUdeviceptr at = 0;
    void *host = NULL;
    on_device(device);
    if (kind == 0) {
        CHECK((host = aligned_alloc(4096, MOST)) != NULL);
    } else if (kind == 1) {
        CHECK(cuMemHostAlloc(&host, MOST, 0) == CUDA_SUCCESS);
    } else if (kind == 2) {
        CHECK(cuMemAlloc(&at, MOST) == CUDA_SUCCESS);
    } else {
        CHECK(cuMemAllocManaged(&at, MOST, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
    }
    on_device(0);
    return host != NULL ? (uintptr_t)host : at;
}

static void put(int kind, CUdeviceptr at)
{
    if (kind == 0) {
        free((void *)(uintptr_t)at);
    } else {
        CHECK((kind == 1 ? cuMemFreeHost((void *)(uintptr_t)at) : cuMemFree(at)) == CUDA_SUCCESS);
    }
}

static void renew_pattern(size_t len)
{
    static uint32_t round;
    round++;
    for (size_t i = 0; i < len; i++) {
        pattern[i] = (uint8_t)(round * 31 + i * 7 + (i >> 8) + (i >> 16) * 3);
    }
}

static void write_to(int kind, CUdeviceptr at, size_t len)
{
    renew_pattern(len);
    if (kind == 2) {
        CHECK(fakecuda_poke(at, pattern, len));
    } else {
        memcpy((void *)(uintptr_t)at, pattern, len);
    }
}

static bool holds(int kind, CUdeviceptr at, size_t len)
{
    const void *bytes = (const void *)(uintptr_t)at;
    if (kind == 2) {
        CHECK(fakecuda_peek(at, seen, len));
        bytes = seen;
    }
    return memcmp(bytes, pattern, len) == 0;
}

/* ---- allocators: each has one piece of memory ---- */

static struct own {
    int kind, device;
    CUdeviceptr at;
    atomic_bool is_out;
    atomic_uint gave, took;
} owns[KINDS];
static int target; /* the GPU that they are on */

static void *own_alloc(void *ctx, size_t len, size_t align, int device)
{
    struct own *own = ctx;
    bool is_in = false;
    CHECK(device == (own->kind < 2 ? -1 : target) && own->at % align == 0);
    if (len > MOST || !atomic_compare_exchange_strong(&own->is_out, &is_in, true)) {
        return NULL;
    }
    own->gave++;
    return (void *)(uintptr_t)own->at;
}

static void own_free(void *ctx, void *memory, size_t len, int device)
{
    struct own *own = ctx;
    (void)len;
    CHECK(device == (own->kind < 2 ? -1 : target) && (uintptr_t)memory == own->at && own->is_out);
    own->took++;
    own->is_out = false;
}

/* With allocators of the kinds whose bit is set. */
static struct amb_sub *subscribe(unsigned kinds, enum amb_fallback fallback)
{
    struct amb_allocator allocators[KINDS];
    struct amb_sub *sub;
    uint32_t count = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        if ((kinds >> kind & 1) != 0) {
            allocators[count] = (struct amb_allocator)AMB_INIT(amb_allocator);
            allocators[count].mem = mem_of(kind);
            allocators[count].alloc = own_alloc;
            allocators[count].free = own_free;
            allocators[count++].ctx = &owns[kind];
        }
    }
    CHECK(amb_subscribe(conn, TOPIC,
                        AMB_SUB(.mem = AMB_MEM_AS_SENT, .device = target, .fallback = fallback,
                                .allocators = allocators, .allocator_count = count),
                        &sub) == AMB_OK);
    return sub;
}

static void begin(int device)
{
    CHECK(cuInit(0) == CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK(cuDevicePrimaryCtxRetain(&contexts[i], i) == CUDA_SUCCESS);
    }
    on_device(0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK((pattern = malloc(MOST)) != NULL && (seen = malloc(MOST)) != NULL);
    target = device;
    for (int kind = 0; kind < KINDS; kind++) {
        owns[kind] = (struct own){.kind = kind, .at = get(kind, device)};
    }
    conn = connect_to();
    CHECK(amb_pub_open(conn, TOPIC, NULL, &pub) == AMB_OK);
}

/* Behind the close: all that was given was taken back, and nothing of the driver is left. */
static void end(void)
{
    on_device(0);
    for (int kind = 0; kind < KINDS; kind++) {
        CHECK(owns[kind].gave == owns[kind].took && !owns[kind].is_out);
        put(kind, owns[kind].at);
    }
    CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
    CHECK(fakecuda_left() == 0);
    free(pattern);
    free(seen);
}

static struct amb_msg *next(struct amb_sub *sub)
{
    struct amb_msg *msg;
    CHECK(amb_next(sub, WAIT, &msg) == AMB_OK);
    CHECK(amb_msg_lost(msg, NULL) == 0);
    return msg;
}

/* The next message lies in that kind's memory. */
static struct amb_msg *expect(struct amb_sub *sub, int kind, size_t len)
{
    struct amb_msg *msg = next(sub);
    const void *at = kind == 0 ? amb_msg_data(msg) : amb_msg_data_on(msg, stream);
    CHECK(amb_msg_size(msg) == len && amb_msg_mem(msg) == mem_of(kind));
    CHECK((uintptr_t)at == owns[kind].at && owns[kind].is_out);
    CHECK(amb_msg_device(msg) == (kind < 2 ? -1 : target));
    CHECK(holds(kind, owns[kind].at, len));
    return msg;
}

/* And goes from there. */
static void expect_one(struct amb_sub *sub, int kind, size_t len)
{
    amb_msg_release(expect(sub, kind, len));
    CHECK(!owns[kind].is_out && owns[kind].gave == owns[kind].took);
}

static enum amb_status post(CUdeviceptr at, size_t len, enum amb_mem mem)
{
    const void *data = (const void *)(uintptr_t)at;
    uint64_t seq = 0;
    enum amb_status status =
        amb_pub_post(pub, AMB_OUT(.data = data, .len = len, .mem = mem), WAIT, &seq);
    return status == AMB_OK ? amb_pub_flush(pub, seq, WAIT) : status;
}

/* ---- four kinds ---- */

static void send_in_each_way(struct amb_sub *sub, int kind, CUdeviceptr from, size_t len)
{
    const void *data = (const void *)(uintptr_t)from;
    write_to(kind, from, len);
    CHECK(post(from, len, AMB_MEM_DEFAULT) == AMB_OK);
    expect_one(sub, kind, len);
    CHECK(post(from, len, mem_of(kind)) == AMB_OK);
    expect_one(sub, kind, len);
    CHECK(amb_pub_send(pub, data, len, WAIT) == AMB_OK);
    /* A message that is sent on was where its receiver had it. */
    struct amb_msg *msg = expect(sub, kind, len);
    uint64_t seq;
    CHECK(amb_pub_post(pub, AMB_OUT(.forward = msg), WAIT, &seq) == AMB_OK);
    CHECK(amb_pub_flush(pub, seq, WAIT) == AMB_OK);
    amb_msg_release(msg);
    expect_one(sub, kind, len);
}

static void send_leased(struct amb_sub *sub, int kind, size_t len)
{
    struct amb_pub *leasing;
    struct amb_lease *lease;
    CHECK(amb_pub_open(conn, TOPIC,
                       AMB_PUB(.lease_mem = kind == 0 ? AMB_MEM_DEFAULT : mem_of(kind)),
                       &leasing) == AMB_OK);
    CHECK(amb_lease(leasing, len, WAIT, &lease) == AMB_OK);
    write_to(kind,
             kind == 2 ? (uintptr_t)amb_lease_data_on(lease, stream)
                       : (uintptr_t)amb_lease_data(lease),
             len);
    CHECK(amb_lease_commit(lease, NULL, NULL) == AMB_OK);
    expect_one(sub, kind, len);
    CHECK(amb_pub_close(leasing, WAIT) == AMB_OK);
}

static void try_all(int device, size_t most, bool is_local)
{
    static const size_t sizes[] = {4, 1000, 4096, 65536, 192 * 1024, MIB, 16 * MIB + 12, MOST};
    begin(device);
    struct amb_sub *sub = subscribe(15, AMB_FALLBACK_IN_PLACE);
    CHECK(amb_pub_wait_subscribers(pub, 1, WAIT) == AMB_OK);
    for (int kind = 0; kind < KINDS; kind++) {
        CUdeviceptr from = get(kind, 0);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= most; i++) {
            send_in_each_way(sub, kind, from, sizes[i]);
            if (is_local && kind < 3) {
                send_leased(sub, kind, sizes[i]);
            }
        }
        CHECK(post(from, 0, AMB_MEM_DEFAULT) == AMB_OK); /* Nothing needs no memory. */
        struct amb_msg *msg = next(sub);
        CHECK(amb_msg_size(msg) == 0 && !owns[kind].is_out);
        amb_msg_release(msg);
        (void)printf("%s: %u pieces\n", names[kind], owns[kind].gave);
        put(kind, from);
    }
    CHECK(amb_close(conn, WAIT) == AMB_OK);
    end();
}

/* ---- kinds without an allocator ---- */

static void expect_elsewhere(struct amb_sub *sub, int kind, size_t len, bool is_on_gpu)
{
    struct amb_msg *msg = next(sub);
    CHECK(amb_msg_size(msg) == len && !owns[kind].is_out);
    if (is_on_gpu) {
        CHECK(amb_msg_mem(msg) == AMB_MEM_CUDA && strcmp(amb_msg_path(msg), "cuda_ipc") == 0);
        CHECK(holds(2, (uintptr_t)amb_msg_data_on(msg, stream), len));
    } else {
        CHECK(amb_msg_mem(msg) == AMB_MEM_HOST && amb_msg_device(msg) == -1);
        CHECK(holds(0, (uintptr_t)amb_msg_data(msg), len));
        CHECK(amb_msg_release_on(msg, stream) == AMB_OK); /* Also behind a stream. */
        return;
    }
    amb_msg_release(msg);
}

static void try_fallback(void)
{
    static const size_t sizes[] = {4, 70000, 3 * MIB + 5};
    static const struct {
        unsigned kinds; /* that have an allocator */
        enum amb_fallback fallback;
    } wishes[] = {
        {4, AMB_FALLBACK_HOST}, /* Managed memory lies on the GPU as well, and is copied here. */
        {8, AMB_FALLBACK_HOST}, {3, AMB_FALLBACK_IN_PLACE},
        {2, AMB_FALLBACK_HOST}, /* Nothing for a GPU: the broker copies. */
        {5, AMB_FALLBACK_HOST}, /* To the host's. */
    };
    begin(0);
    for (size_t turn = 0; turn < sizeof(wishes) / sizeof(wishes[0]); turn++) {
        struct amb_sub *sub = subscribe(wishes[turn].kinds, wishes[turn].fallback);
        CHECK(amb_pub_wait_subscribers(pub, 1, WAIT) == AMB_OK);
        for (int kind = 0; kind < KINDS; kind++) {
            CUdeviceptr from = get(kind, 0);
            for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                write_to(kind, from, sizes[i]);
                CHECK(post(from, sizes[i], AMB_MEM_DEFAULT) == AMB_OK);
                unsigned served = wishes[turn].kinds;
                if ((served >> kind & 1) != 0) {
                    expect_one(sub, kind, sizes[i]);
                } else if (wishes[turn].fallback == AMB_FALLBACK_HOST && (served & 1) != 0) {
                    expect_one(sub, 0, sizes[i]);
                } else {
                    bool stays = wishes[turn].fallback == AMB_FALLBACK_IN_PLACE;
                    expect_elsewhere(sub, kind, sizes[i], stays && kind >= 2);
                }
            }
            put(kind, from);
        }
        CHECK(amb_sub_close(sub, WAIT) == AMB_OK);
    }
    CHECK(amb_close(conn, WAIT) == AMB_OK);
    end();
}

/* ---- the end comes while memory is being filled ---- */

static void *take(void *arg)
{
    struct amb_msg *msg;
    if (amb_next(arg, WAIT, &msg) == AMB_OK) {
        amb_msg_release(msg);
    }
    return NULL;
}

/* A thread is inside a copy into an allocator's memory when this returns. */
static pthread_t begin_to_fill(struct amb_sub *sub, int kind, CUdeviceptr from, const char *plan)
{
    pthread_t thread;
    write_to(kind, from, 5 * MIB);
    CHECK(post(from, 5 * MIB, AMB_MEM_DEFAULT) == AMB_OK); /* Its own copy is over. */
    fakecuda_slow(plan);
    CHECK(pthread_create(&thread, NULL, take, sub) == 0);
    while (fakecuda_slowed() == 0) {
        CHECK(sched_yield() == 0);
    }
    CHECK(owns[kind].is_out);
    return thread;
}

static void try_ends(void)
{
    begin(0);
    for (int turn = 0; turn < 4; turn++) {
        int kind = 2 + turn % 2;
        CUdeviceptr from = get(kind, 0);
        struct amb_sub *sub = subscribe(15, AMB_FALLBACK_IN_PLACE);
        CHECK(amb_pub_wait_subscribers(pub, 1, WAIT) == AMB_OK);
        pthread_t thread =
            begin_to_fill(sub, kind, from, "cuMemcpyAsync=100,cuMemcpyDtoDAsync=100");
        CHECK(amb_sub_close(sub, WAIT) == AMB_OK);
        if (turn >= 2) {
            CHECK(amb_close(conn, WAIT) == AMB_OK);
        }
        CHECK(pthread_join(thread, NULL) == 0);
        fakecuda_slow(NULL);
        put(kind, from);
        if (turn == 2) {
            conn = connect_to();
            CHECK(amb_pub_open(conn, TOPIC, NULL, &pub) == AMB_OK);
        }
    }
    end();
}

static void try_lost(void)
{
    begin(0);
    CUdeviceptr from[KINDS];
    for (int kind = 0; kind < KINDS; kind++) {
        from[kind] = get(kind, 0);
    }
    struct amb_sub *sub = subscribe(15, AMB_FALLBACK_IN_PLACE);
    CHECK(amb_pub_wait_subscribers(pub, 1, WAIT) == AMB_OK);
    pthread_t thread = begin_to_fill(sub, 2, from[2], "cuMemcpyAsync=1500,cuMemcpyDtoDAsync=1500");
    (void)printf("filling\n");
    (void)fflush(stdout);
    CHECK(pthread_join(thread, NULL) == 0);
    fakecuda_slow(NULL);
    for (int kind = 0; kind < KINDS; kind++) {
        CHECK(!owns[kind].is_out);
    }
    /* Some may be of the broker that is gone, and unknown, until the first comes that is not. */
    struct amb_msg *msg;
    enum amb_status status = AMB_ETIMEDOUT;
    for (int i = 0; i < 100 && status != AMB_OK; i++) {
        (void)post(from[0], 100, AMB_MEM_DEFAULT);
        status = amb_next(sub, 300 * AMB_MS, &msg);
    }
    CHECK(status == AMB_OK);
    while (status == AMB_OK) {
        amb_msg_release(msg);
        status = amb_next(sub, 500 * AMB_MS, &msg);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        write_to(kind, from[kind], 5 * MIB);
        CHECK(post(from[kind], 5 * MIB, AMB_MEM_DEFAULT) == AMB_OK);
        expect_one(sub, kind, 5 * MIB);
        put(kind, from[kind]);
    }
    (void)amb_close(conn, WAIT); /* It may tell of messages that were lost with the broker. */
    end();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "all") == 0 && argc > 3) {
        bool is_local = argc > 4 && strcmp(argv[4], "local") == 0;
        try_all(atoi(argv[2]) != 0, (size_t)atoi(argv[3]) * MIB, is_local);
    } else if (strcmp(what, "fallback") == 0) {
        try_fallback();
    } else if (strcmp(what, "ends") == 0) {
        try_ends();
    } else if (strcmp(what, "lost") == 0) {
        try_lost();
    } else {
        (void)fprintf(stderr,
                      "usage: gpu-allocators all DEVICE MIB [local] | fallback | ends | lost\n");
        return 64;
    }
    return 0;
}
