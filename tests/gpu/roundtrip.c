/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory through a broker, one role a process:
 *
 *   gpu-roundtrip publish DEVICE SUBSCRIBERS     from device memory, each message behind its stream
 *   gpu-roundtrip lease DEVICE SUBSCRIBERS       written in place, in the broker's memory there
 *   gpu-roundtrip gpu DEVICE                     into device memory, read back on a stream
 *   gpu-roundtrip pinned DEVICE                  into pinned memory, and managed, for both sides
 *   gpu-roundtrip managed DEVICE
 *   gpu-roundtrip lazy DEVICE                    asks for each: into device memory, a half into
 *                                                host memory, all of it
 *   gpu-roundtrip sent                           wherever it is sent
 *   gpu-roundtrip host                           into host memory, the default
 *   gpu-roundtrip pool                           into memory of an allocator's
 *
 * SOURCE=pinned, SOURCE=managed: `publish` has its bytes in such memory instead, and `lease` leases
 * it (pinned).
 * $AMB_URL is the broker. EXPECT_PATH: what amb_msg_path must say; EXPECT_STAGED: 0, the publisher
 * stages nothing; EXPECT_REJECTED: its messages are refused; HOLD: it stays until standard input
 * ends. Every byte is compared with its pattern. Without a driver: exit 77. The
 * driver is the one that libamb takes, so the same program runs on a fake GPU and on a real one.
 */
#include "wire/base/clock.h"
#include "wire/mem/cuda.h"

#include <amb/amb.h>
#include <amb/compat/dlpack/dlpack.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPIC "gpu.roundtrip"
#define ROUNDS 2u
#define SIZE_MAX_BYTES ((size_t)16 << 20)
#define SKIPPED 77

static const size_t sizes[] = {4, 100, 4096, 16384, 65539, (size_t)1 << 20, SIZE_MAX_BYTES};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define MESSAGES (SIZES * ROUNDS)

static int fail(struct amb_conn *conn, const char *what, enum amb_status status)
{
    struct amb_error error = conn != NULL ? amb_last_error(conn) : (struct amb_error){0};
    (void)fprintf(stderr, "gpu-roundtrip: %s: %s: %s\n", what, amb_strerror(status), error.text);
    return 1;
}

static void write_pattern(uint8_t *bytes, size_t len, uint64_t seq)
{
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)(seq * 31 + i * 7 + (i >> 8));
    }
}

static bool has_pattern(const uint8_t *bytes, size_t len, uint64_t seq)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != (uint8_t)(seq * 31 + i * 7 + (i >> 8))) {
            return false;
        }
    }
    return true;
}

/* ---- publish ---- */

struct source {
    struct amb_cuda *device;
    void *stream;
    uint64_t memory;
    void *pinned;
    enum amb_mem mem; /* a publisher's: of memory; a subscriber's: that it wants */
};

static enum amb_status source_memory(struct source *source)
{
    const char *kind = getenv("SOURCE");
    void *memory = NULL;
    source->mem = AMB_MEM_CUDA;
    if (kind != NULL && strcmp(kind, "pinned") == 0) {
        source->mem = AMB_MEM_PINNED;
        enum amb_status status = amb_cuda_pin(source->device, SIZE_MAX_BYTES, &memory);
        source->memory = (uintptr_t)memory;
        return status;
    }
    if (kind != NULL && strcmp(kind, "managed") == 0) {
        source->mem = AMB_MEM_CUDA_MANAGED;
        return amb_cuda_alloc_managed(source->device, SIZE_MAX_BYTES, &source->memory);
    }
    return amb_cuda_alloc(source->device, SIZE_MAX_BYTES, &source->memory);
}

static enum amb_status source_open(struct source *source, int device)
{
    enum amb_status status = amb_cuda_at(device, &source->device);
    struct amb_cuda_scope scope;
    if (status != AMB_OK) {
        return status;
    }
    status = amb_cuda_enter(source->device, &scope);
    if (status == AMB_OK) {
        status = amb_cuda_stream_create(source->device, &source->stream);
    }
    if (status == AMB_OK) {
        status = source_memory(source);
    }
    if (status == AMB_OK) {
        status = amb_cuda_pin(source->device, SIZE_MAX_BYTES, &source->pinned);
    }
    return status; /* The context stays entered: this is the program's thread. */
}

/* The bytes written there on the stream are the message. */
static enum amb_status post(struct amb_pub *pub, struct source *source, size_t len)
{
    uint64_t seq = 0;
    const struct amb_tensor tensor = {
        .code = 1, .bits = 8, .lanes = 1, .ndim = 2, .shape = {1, (int64_t)len}};
    enum amb_status status = amb_cuda_copy(source->device, source->memory,
                                           (uintptr_t)source->pinned, len, source->stream);
    if (status == AMB_OK) {
        status = amb_pub_post(pub,
                              AMB_OUT(.mem = source->mem,
                                      .data = (const void *)(uintptr_t)source->memory, .len = len,
                                      .stream = source->stream, .tensor = &tensor),
                              20 * AMB_SEC, &seq);
    }
    return status == AMB_OK ? amb_pub_flush(pub, seq, 20 * AMB_SEC) : status;
}

static enum amb_status lease(struct amb_pub *pub, struct source *source, size_t len)
{
    struct amb_lease *lease;
    uint64_t seq = 0;
    const struct amb_tensor tensor = {
        .code = 1, .bits = 8, .lanes = 1, .ndim = 2, .shape = {1, (int64_t)len}};
    enum amb_status status = amb_lease(pub, len, 20 * AMB_SEC, &lease);
    if (status != AMB_OK) {
        return status;
    }
    void *to = amb_lease_data_on(lease, source->stream);
    if ((amb_lease_data(lease) != NULL) != (source->mem == AMB_MEM_PINNED) || to == NULL) {
        return AMB_EKIND;
    }
    status = amb_cuda_copy(source->device, (uintptr_t)to, (uintptr_t)source->pinned, len,
                           source->stream);
    if (status != AMB_OK) {
        amb_lease_abandon(lease);
        return status;
    }
    status = amb_lease_commit(lease, AMB_OUT(.stream = source->stream, .tensor = &tensor), &seq);
    return status == AMB_OK ? amb_pub_flush(pub, seq, 20 * AMB_SEC) : status;
}

static int publish(struct amb_conn *conn, const char *role, int device, uint32_t subscribers)
{
    struct source source = {.stream = NULL};
    bool is_leased = strcmp(role, "lease") == 0;
    const char *expected = getenv("EXPECT_STAGED");
    struct amb_pub *pub;
    enum amb_status status = source_open(&source, device);
    if (status != AMB_OK) {
        return fail(conn, "GPU", status);
    }
    status = amb_pub_open(conn, TOPIC,
                          AMB_PUB(.lease_mem = is_leased ? source.mem : AMB_MEM_DEFAULT,
                                  .device = is_leased ? device : 0),
                          &pub);
    if (status == AMB_OK) {
        status = amb_pub_wait_subscribers(pub, subscribers, 20 * AMB_SEC);
    }
    int64_t begin = amb_clock_monotonic_ns();
    uint64_t bytes = 0;
    for (size_t i = 0; i < MESSAGES && status == AMB_OK; i++) {
        size_t len = sizes[i % SIZES];
        write_pattern(source.pinned, len, i + 1);
        status = is_leased ? lease(pub, &source, len) : post(pub, &source, len);
        bytes += len;
    }
    if (status == AMB_OK) {
        status = amb_pub_flush(pub, 0, 20 * AMB_SEC);
    }
    if (getenv("EXPECT_REJECTED") != NULL) {
        (void)fail(conn, "publish", status);
        return status != AMB_EKIND;
    }
    if (getenv("HOLD") != NULL) { /* Until standard input ends. */
        while (getchar() != EOF) {
        }
    }
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    if (status != AMB_OK || amb_pub_stat(pub, &info) != AMB_OK) {
        return fail(conn, "publish", status);
    }
    (void)printf("{\"role\": \"%s\", \"gpu\": \"%s\", \"messages\": %zu, \"bytes\": %" PRIu64
                 ", \"staged\": %" PRIu64 ", \"seconds\": %.6f}\n",
                 role, amb_cuda_info(source.device)->name, MESSAGES, bytes, info.staged_bytes,
                 (double)(amb_clock_monotonic_ns() - begin) / 1e9);
    if (expected != NULL && strcmp(expected, "any") == 0) {
        return 0;
    }
    return expected != NULL ? info.staged_bytes != (uint64_t)atoi(expected)
                            : info.staged_bytes != bytes;
}

/* ---- subscribe ---- */

static void *pool_alloc(void *ctx, size_t len, size_t align, int device)
{
    (void)ctx;
    return device == -1 ? aligned_alloc(align, (len + align - 1) / align * align) : NULL;
}

static void pool_free(void *ctx, void *ptr, size_t len, int device)
{
    (void)ctx;
    (void)len;
    (void)device;
    free(ptr);
}

/* The bytes of a message as the host can read them; device memory by way of `back`. */
static const void *readable(struct amb_msg *msg, struct source *sink, enum amb_status *status)
{
    const void *data = amb_msg_data(msg);
    bool is_right = sink->mem == AMB_MEM_DEFAULT || amb_msg_mem(msg) == sink->mem;
    if (data != NULL || !is_right) {
        return is_right ? data : NULL;
    }
    const void *device = amb_msg_data_on(msg, sink->stream);
    if (amb_msg_device(msg) < 0 || device == NULL || amb_msg_mem(msg) != AMB_MEM_CUDA) {
        return NULL;
    }
    *status = amb_cuda_copy(sink->device, (uintptr_t)sink->pinned, (uintptr_t)device,
                            amb_msg_size(msg), sink->stream);
    if (*status == AMB_OK) {
        *status = amb_cuda_stream_sync(sink->device, sink->stream);
    }
    return sink->pinned;
}

/* The same message as an array of another library's: where it lies, and as it was described. */
static bool is_array(struct amb_msg *msg, const struct source *sink)
{
    struct DLManagedTensorVersioned *array;
    if (amb_msg_dlpack(msg, sink->stream, &array) != AMB_OK) {
        return false;
    }
    const DLTensor *dl = &array->dl_tensor;
    const void *data =
        amb_msg_device(msg) >= 0 ? amb_msg_data_on(msg, sink->stream) : amb_msg_data(msg);
    static const DLDeviceType types[] = {[AMB_MEM_HOST] = kDLCPU,
                                         [AMB_MEM_PINNED] = kDLCUDAHost,
                                         [AMB_MEM_CUDA] = kDLCUDA,
                                         [AMB_MEM_CUDA_MANAGED] = kDLCUDAManaged};
    bool is_right = dl->data == data && dl->ndim == 2 &&
                    dl->device.device_type == types[amb_msg_mem(msg)] &&
                    dl->shape[1] == (int64_t)amb_msg_size(msg);
    array->deleter(array);
    return is_right;
}

static int receive(struct amb_conn *conn, struct amb_sub *sub, struct source *sink,
                   const char *role)
{
    uint64_t bytes = 0;
    char path[16] = "";
    for (size_t i = 0; i < MESSAGES; i++) {
        struct amb_msg *msg;
        enum amb_status status = amb_next(sub, 20 * AMB_SEC, &msg);
        if (status != AMB_OK) {
            return fail(conn, "receive", status);
        }
        const void *data = readable(msg, sink, &status);
        size_t len = amb_msg_size(msg);
        if (data == NULL || status != AMB_OK || len != sizes[i % SIZES] ||
            !has_pattern(data, len, i + 1) || !is_array(msg, sink)) {
            (void)fprintf(stderr,
                          "gpu-roundtrip: %s: message %zu of %zu bytes is not what was "
                          "published\n",
                          role, i + 1, len);
            return 1;
        }
        bytes += len;
        (void)snprintf(path, sizeof(path), "%s", amb_msg_path(msg));
        amb_msg_release_on(msg, sink->stream);
    }
    struct amb_sub_info info = AMB_INIT(amb_sub_info);
    if (amb_sub_stat(sub, &info) != AMB_OK || info.lost != 0) {
        return fail(conn, "messages were lost", AMB_OK);
    }
    (void)printf("{\"role\": \"%s\", \"messages\": %zu, \"bytes\": %" PRIu64
                 ", \"staged\": %" PRIu64 ", \"path\": \"%s\"}\n",
                 role, MESSAGES, bytes, info.staged_bytes, path);
    const char *expected = getenv("EXPECT_PATH");
    if (expected != NULL && strcmp(expected, path) != 0) {
        return fail(conn, "not the path that was expected", AMB_EKIND);
    }
    return 0;
}

/* The payload of one message, asked for in pieces and as a whole. */
static enum amb_status ask(struct amb_msg *msg, const struct source *sink, uint64_t seq)
{
    size_t len = amb_msg_size(msg), half = len / 2;
    enum amb_status status =
        amb_msg_read(msg, 0, (void *)(uintptr_t)sink->memory, len, 20 * AMB_SEC);
    if (status == AMB_OK) {
        status =
            amb_cuda_copy(sink->device, (uintptr_t)sink->pinned, sink->memory, len, sink->stream);
    }
    if (status == AMB_OK) {
        status = amb_cuda_stream_sync(sink->device, sink->stream);
    }
    if (status != AMB_OK || !has_pattern(sink->pinned, len, seq)) {
        return status != AMB_OK ? status : AMB_EKIND;
    }
    uint8_t *whole = malloc(2 * len);
    if (whole == NULL) {
        return AMB_ENOMEM;
    }
    status = amb_msg_read(msg, half, whole + len, len - half, 20 * AMB_SEC);
    if (status == AMB_OK) {
        status = amb_msg_fetch(msg, 20 * AMB_SEC);
    }
    if (status == AMB_OK) {
        memcpy(whole, amb_msg_data(msg), len);
        bool is_right =
            has_pattern(whole, len, seq) && memcmp(whole + len, whole + half, len - half) == 0;
        status = is_right ? AMB_OK : AMB_EKIND;
    }
    free(whole);
    return status;
}

static int receive_lazy(struct amb_conn *conn, struct amb_sub *sub, struct source *sink)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < MESSAGES; i++) {
        struct amb_msg *msg;
        enum amb_status status = amb_next(sub, 20 * AMB_SEC, &msg);
        if (status == AMB_OK && (amb_msg_size(msg) != sizes[i % SIZES] ||
                                 amb_msg_data(msg) != NULL || amb_msg_lost(msg, NULL) != 0)) {
            status = AMB_EKIND;
        }
        if (status == AMB_OK) {
            status = ask(msg, sink, i + 1);
        }
        if (status != AMB_OK) {
            return fail(conn, "lazy", status);
        }
        bytes += amb_msg_size(msg);
        amb_msg_release(msg);
    }
    (void)printf("{\"role\": \"lazy\", \"messages\": %zu, \"bytes\": %" PRIu64 "}\n", MESSAGES,
                 bytes);
    return 0;
}

static enum amb_mem wish_of(const char *role)
{
    return strcmp(role, "gpu") == 0       ? AMB_MEM_CUDA
           : strcmp(role, "pinned") == 0  ? AMB_MEM_PINNED
           : strcmp(role, "managed") == 0 ? AMB_MEM_CUDA_MANAGED
                                          : AMB_MEM_DEFAULT;
}

static int subscribe(struct amb_conn *conn, const char *role, int device)
{
    struct source sink = {.device = NULL};
    struct amb_sub *sub;
    struct amb_allocator allocator = AMB_INIT(amb_allocator);
    struct amb_sub_options *options =
        AMB_SUB(.slow = AMB_SLOW_BLOCK, .slow_block_ns = 20 * AMB_SEC);
    enum amb_mem mem = wish_of(role);
    bool is_lazy = strcmp(role, "lazy") == 0;
    if (mem != AMB_MEM_DEFAULT) {
        enum amb_status status = source_open(&sink, device);
        if (status != AMB_OK) {
            return fail(conn, "GPU", status);
        }
        options->mem = sink.mem = mem;
        options->device = device;
    } else if (strcmp(role, "sent") == 0 || is_lazy) {
        enum amb_status status = source_open(&sink, device);
        if (status != AMB_OK) {
            return fail(conn, "GPU", status);
        }
        options->mem = is_lazy ? AMB_MEM_DEFAULT : AMB_MEM_AS_SENT;
        options->lazy = is_lazy ? AMB_LAZY_PIN : AMB_LAZY_OFF;
        sink.mem = AMB_MEM_DEFAULT;
    } else if (strcmp(role, "pool") == 0) {
        allocator.alloc = pool_alloc;
        allocator.free = pool_free;
        options->allocator = &allocator;
    }
    enum amb_status status = amb_subscribe(conn, TOPIC, options, &sub);
    if (status != AMB_OK) {
        return fail(conn, "subscribe", status);
    }
    return is_lazy ? receive_lazy(conn, sub, &sink) : receive(conn, sub, &sink, role);
}

int main(int argc, char **argv)
{
    const char *role = argc > 1 ? argv[1] : "";
    int device = argc > 2 ? atoi(argv[2]) : 0;
    bool is_publisher = strcmp(role, "publish") == 0 || strcmp(role, "lease") == 0;
    bool needs_gpu = is_publisher || wish_of(role) != AMB_MEM_DEFAULT ||
                     strcmp(role, "sent") == 0 || strcmp(role, "lazy") == 0;
    if (!needs_gpu && strcmp(role, "host") != 0 && strcmp(role, "pool") != 0) {
        (void)fprintf(stderr,
                      "usage: gpu-roundtrip publish|lease|gpu|pinned|managed|lazy|sent|host|pool "
                      "[DEVICE] [SUBSCRIBERS]\n");
        return 64;
    }
    if (needs_gpu && amb_cuda_start() != AMB_OK) {
        (void)fprintf(stderr, "gpu-roundtrip: skipped: %s\n", amb_cuda_why_not());
        return SKIPPED;
    }
    struct amb_error error;
    struct amb_conn *conn;
    enum amb_status status = amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn);
    if (status != AMB_OK) {
        (void)fprintf(stderr, "gpu-roundtrip: %s\n", error.text);
        return 1;
    }
    int result = is_publisher ? publish(conn, role, device, argc > 3 ? (uint32_t)atoi(argv[3]) : 1)
                              : subscribe(conn, role, device);
    status = amb_close(conn, 5 * AMB_SEC);
    return result != 0 ? result : status != AMB_OK;
}
