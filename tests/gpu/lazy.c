/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lazy subscribers of GPU memory, on the fake driver, with a real broker ($AMB_URL), one role a
 * process:
 *
 *   gpu-lazy publish COUNT SUBSCRIBERS   leases on the GPU, of many sizes
 *   gpu-lazy on|pin COUNT                takes each message, and asks for it: pieces into host,
 *                                        pinned, managed memory and two GPUs', then all of it
 *   gpu-lazy host COUNT                  the same with host memory alone; needs no driver
 *   gpu-lazy late COUNT                  ON; takes all first, then asks: a fresh one is whole
 *   gpu-lazy eager COUNT                 reads in place, and copies pieces out, also across GPUs
 *
 * Prints "got N stale N failed N". With $EXPECT_FAILURES calls of the driver may fail, and so may
 * messages. Bytes that are said to have come are looked at in any case, and so are those around
 * them.
 */
#include "tests/fakecuda/fakecuda.h"
#include "tests/gpu/program.h"

#include <amb/amb.h>
#include <cuda.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPIC "gpu.lazy"
#define LARGEST ((size_t)2500001) /* three answers of the broker's */
#define MARGIN ((size_t)64)       /* around what is read; keeps what it was */
#define PLACES 5u

static const size_t sizes[] = {100, 200000, 1, 16384, LARGEST, 0, 70000};

static struct amb_conn *conn;
static uint8_t expected[LARGEST], seen[LARGEST + 2 * MARGIN];
static uint64_t base, got, stale, failed, lost;
static bool may_fail;

/* Where a piece may be read to: [0] host, then as they are named. */
static struct place {
    const char *name;
    uint64_t address;
    bool is_device;
} places[PLACES];
static unsigned place_count = 1;

static void cuda_ok(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        (void)fprintf(stderr, "gpu-lazy: %s: %d\n", what, (int)result);
        exit(1);
    }
}

/* Memory of both GPUs, pinned and managed memory. */
static void make_places(void)
{
    CUcontext context;
    CUdeviceptr address;
    void *pinned;
    (void)start_cuda();
    cuda_ok(cuMemAllocManaged(&address, sizeof(seen), CU_MEM_ATTACH_GLOBAL), "managed");
    places[1] = (struct place){.name = "managed", .address = address};
    cuda_ok(cuMemHostAlloc(&pinned, sizeof(seen), 0), "pinned");
    places[2] = (struct place){.name = "pinned", .address = (uintptr_t)pinned};
    for (int device = 1; device >= 0; device--) {
        cuda_ok(cuDevicePrimaryCtxRetain(&context, device), "context");
        cuda_ok(cuCtxSetCurrent(context), "context");
        cuda_ok(cuMemAlloc(&address, sizeof(seen)), "device");
        places[3 + device] = (struct place){"a GPU", address, true};
    }
    place_count = PLACES;
}

static uint8_t byte_of(uint64_t n, size_t at)
{
    return (uint8_t)(n * 31 + at + (at >> 8) * 7 + (at >> 16) * 13);
}

static void fill(uint64_t n, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        expected[i] = byte_of(n, i);
    }
}

static size_t size_of(uint64_t n)
{
    return sizes[n % (sizeof(sizes) / sizeof(sizes[0]))];
}

static void publish(uint64_t count, uint32_t subscribers)
{
    struct amb_pub *pub;
    CHECK(amb_pub_open(conn, TOPIC, AMB_PUB(.lease_mem = AMB_MEM_CUDA), &pub) == AMB_OK);
    CHECK(amb_pub_wait_subscribers(pub, subscribers, 20 * AMB_SEC) == AMB_OK);
    for (uint64_t n = 1; n <= count; n++) {
        struct amb_lease *lease;
        CHECK(amb_lease(pub, size_of(n), 20 * AMB_SEC, &lease) == AMB_OK);
        fill(n, size_of(n));
        CHECK(fakecuda_poke((uintptr_t)amb_lease_data_on(lease, NULL), expected, size_of(n)));
        /* A property now and then: batches with and without blobs are cut otherwise. */
        const struct amb_prop prop = {.name = "n", .value = "x", .len = 1};
        const struct amb_out *out = AMB_OUT(.props = &prop, .prop_count = n % 3 == 0);
        CHECK(amb_lease_commit(lease, out, NULL) == AMB_OK);
    }
    CHECK(amb_pub_flush(pub, 0, 20 * AMB_SEC) == AMB_OK);
}

/* May a call have failed so? */
static bool is_excused(enum amb_status status)
{
    return may_fail && (status == AMB_ECUDA || status == AMB_ENOMEM || status == AMB_ENOTSUP ||
                        status == AMB_EINVAL);
}

static void wrong(uint64_t n, const char *what, const char *where)
{
    (void)fprintf(stderr, "gpu-lazy: message %" PRIu64 ": %s (%s)\n", n, what, where);
    exit(2);
}

static void put(const struct place *place, const void *bytes, size_t len)
{
    if (place->is_device) {
        CHECK(fakecuda_poke(place->address, bytes, len));
    } else {
        memcpy((void *)(uintptr_t)place->address, bytes, len);
    }
}

static void get(const struct place *place, void *bytes, size_t len)
{
    if (place->is_device) {
        CHECK(fakecuda_peek(place->address, bytes, len));
    } else {
        memcpy(bytes, (const void *)(uintptr_t)place->address, len);
    }
}

/* Reads a piece there, and looks at it and at what is around it. */
static enum amb_status read_piece(struct amb_msg *msg, uint64_t n, const struct place *place,
                                  size_t offset, size_t len)
{
    static uint8_t untouched[MARGIN];
    memset(untouched, 0xa5, sizeof(untouched));
    memset(seen, 0xa5, len + 2 * MARGIN);
    put(place, seen, len + 2 * MARGIN);
    enum amb_status status =
        amb_msg_read(msg, offset, (void *)(uintptr_t)(place->address + MARGIN), len, 20 * AMB_SEC);
    memset(seen, 0, len + 2 * MARGIN);
    get(place, seen, len + 2 * MARGIN);
    if (memcmp(seen, untouched, MARGIN) != 0 ||
        memcmp(seen + MARGIN + len, untouched, MARGIN) != 0) {
        wrong(n, "more was written than was asked for", place->name);
    }
    if (status == AMB_OK && memcmp(seen + MARGIN, expected + offset, len) != 0) {
        wrong(n, "a piece has other bytes", place->name);
    }
    return status;
}

/* All of it, in place from here on; not for GPU memory that is read where it lies. */
static enum amb_status fetch(struct amb_msg *msg, uint64_t n, size_t size)
{
    enum amb_status status = amb_msg_fetch(msg, 20 * AMB_SEC);
    if (status == AMB_OK &&
        (amb_msg_data(msg) == NULL || memcmp(amb_msg_data(msg), expected, size) != 0 ||
         strcmp(amb_msg_path(msg), "lazy") == 0)) {
        wrong(n, "was fetched with other bytes", amb_msg_path(msg));
    }
    return status;
}

static enum amb_status look(struct amb_msg *msg, uint64_t n, bool is_lazy)
{
    size_t size = size_of(n);
    fill(n, size);
    CHECK(amb_msg_size(msg) == size);
    if (is_lazy &&
        ((amb_msg_data(msg) == NULL) != (size != 0) || amb_msg_mem(msg) > AMB_MEM_HOST)) {
        wrong(n, "came with its payload", amb_msg_path(msg));
    }
    enum amb_status status = AMB_OK;
    for (unsigned i = 0; i < place_count && status == AMB_OK; i++) {
        const struct place *place = &places[(n + i) % place_count];
        size_t offset = i == 0 ? 0 : size / (i + 1), len = i == 0 ? size : size / 2;
        status = read_piece(msg, n, place, offset, offset + len > size ? size - offset : len);
    }
    if (status == AMB_OK && is_lazy) {
        status = fetch(msg, n, size);
    }
    if (status == AMB_OK && is_lazy) { /* The bytes here are read there. */
        status = read_piece(msg, n, &places[place_count - 1], size / 3, size / 3);
    }
    return status;
}

/* Returns false where all have come, or been lost. */
static bool take(struct amb_sub *sub, uint64_t *next, uint64_t count, struct amb_msg **msg)
{
    if (*next > count || (got + lost != 0 && may_fail && *next == count + 1)) {
        return false;
    }
    enum amb_status status = amb_next(sub, 20 * AMB_SEC, msg);
    if (status == AMB_ETIMEDOUT && may_fail) {
        lost += count + 1 - *next;
        return false;
    }
    CHECK(status == AMB_OK);
    uint64_t gap = amb_msg_lost(*msg, NULL);
    CHECK(may_fail ? gap < count : gap == 0);
    if (base == UINT64_MAX) {
        base = amb_msg_seq(*msg) - 1 - gap;
    }
    lost += gap;
    *next += gap;
    CHECK(amb_msg_seq(*msg) == base + *next);
    return true;
}

static void judge(enum amb_status status, uint64_t n, bool may_be_stale)
{
    got += status == AMB_OK;
    if (status == AMB_ESTALE && may_be_stale) {
        stale++;
    } else if (is_excused(status)) {
        failed++;
    } else if (status != AMB_OK) {
        wrong(n, amb_strerror(status), amb_last_error(conn).text);
    }
}

static void subscribe_and_look(const char *role, uint64_t count)
{
    bool is_late = strcmp(role, "late") == 0, is_eager = strcmp(role, "eager") == 0;
    struct amb_sub *sub;
    struct amb_msg *msg, **held = calloc(count, sizeof(*held));
    CHECK(held != NULL);
    CHECK(amb_subscribe(conn, TOPIC,
                        AMB_SUB(.mem = is_eager ? AMB_MEM_CUDA : AMB_MEM_DEFAULT,
                                .lazy = is_eager                   ? AMB_LAZY_OFF
                                        : strcmp(role, "pin") == 0 ? AMB_LAZY_PIN
                                                                   : AMB_LAZY_ON),
                        &sub) == AMB_OK);
    uint64_t next = 1;
    for (; take(sub, &next, count, &msg); next++) {
        if (is_late) {
            held[next - 1] = msg;
            continue;
        }
        /* Pieces of what is not pinned may go while others publish. */
        judge(look(msg, next, !is_eager), next, strcmp(role, "pin") != 0 && !is_eager);
        amb_msg_release(msg);
    }
    for (uint64_t n = 1; n <= count; n++) {
        if (held[n - 1] != NULL) {
            judge(look(held[n - 1], n, true), n, true);
            amb_msg_release(held[n - 1]);
        }
    }
    free(held);
    (void)printf("got %" PRIu64 " stale %" PRIu64 " failed %" PRIu64 "\n", got, stale,
                 failed + lost);
}

int main(int argc, char **argv)
{
    const char *role = argc > 1 ? argv[1] : "";
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    if (count == 0) {
        (void)fprintf(stderr, "usage: gpu-lazy publish COUNT SUBSCRIBERS|ROLE COUNT\n");
        return 64;
    }
    may_fail = getenv("EXPECT_FAILURES") != NULL;
    base = UINT64_MAX;
    static uint8_t host[sizeof(seen)];
    places[0] = (struct place){.name = "host", .address = (uintptr_t)host};
    conn = connect_to();
    if (strcmp(role, "publish") == 0 && argc > 3) {
        (void)start_cuda();
        publish(count, (uint32_t)strtoul(argv[3], NULL, 10));
    } else {
        if (strcmp(role, "host") != 0) {
            make_places();
        }
        subscribe_and_look(role, count);
    }
    CHECK(amb_close(conn, 20 * AMB_SEC) == AMB_OK);
    return 0;
}
