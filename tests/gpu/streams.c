/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's streams as a real driver has them, on the strict fake one. The broker ($AMB_URL) is
 * a real one, with a pool on GPU 0. A message that is sent or given back behind a stream stays
 * until then: beside captures, without a context, and on another GPU.
 *
 *   gpu-streams capture    a thread captures in GLOBAL mode while others post, read and release
 *   gpu-streams refused    streams that capture themselves
 *   gpu-streams contexts   threads without a context, and the handles 0, 1 and 2
 *   gpu-streams devices    a stream of the other GPU
 */
#include "tests/fakecuda/fakecuda.h"
#include "tests/gpu/program.h"

#include <amb/amb.h>
#include <amb/compat/dlpack/dlpack.h>
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define TOPIC "gpu.streams"
#define BYTES ((size_t)200000)
#define ROUNDS 200u

static CUstream stream;
static CUdeviceptr memory;
static struct amb_conn *conn;
static struct amb_pub *pub;
static struct amb_sub *sub;

static void begin(void)
{
    stream = start_cuda();
    CHECK(cuMemAlloc(&memory, BYTES) == CUDA_SUCCESS);
    conn = connect_to();
    CHECK(amb_subscribe(conn, TOPIC, AMB_SUB(.mem = AMB_MEM_AS_SENT), &sub) == AMB_OK);
    CHECK(amb_pub_open(conn, TOPIC, AMB_PUB(.lease_mem = AMB_MEM_CUDA), &pub) == AMB_OK);
}

static void end(void)
{
    CHECK(amb_close(conn, 5 * AMB_SEC) == AMB_OK);
    CHECK(cuMemFree(memory) == CUDA_SUCCESS && cuStreamDestroy(stream) == CUDA_SUCCESS);
    CHECK(fakecuda_left() == 0);
}

static enum amb_status post(void *on)
{
    return amb_pub_post(
        pub, AMB_OUT(.data = (const void *)(uintptr_t)memory, .len = BYTES, .stream = on),
        5 * AMB_SEC, NULL);
}

static struct amb_msg *next(void)
{
    struct amb_msg *msg;
    CHECK(amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK);
    return msg;
}

static uint64_t held(void)
{
    struct amb_sub_info info = AMB_INIT(amb_sub_info);
    CHECK(amb_sub_stat(sub, &info) == AMB_OK);
    return info.held_msgs;
}

/* The I/O thread looks at once when it is kicked; and a little later again. */
static void expect_held(uint64_t count)
{
    for (int i = 0; i < 50; i++) {
        CHECK(held() == count);
        (void)usleep(1000);
    }
}

static void await_given_back(void)
{
    for (int i = 0; held() != 0; i++) {
        CHECK(i < 5000);
        (void)usleep(1000);
    }
}

static bool says(const char *words)
{
    return strstr(amb_last_error(conn).text, words) != NULL;
}

/* ---- a capture elsewhere ---- */

static _Atomic int capturing; /* 1: it has begun; 2: it shall end */

static void *capture_main(void *arg)
{
    CUcontext *context = arg;
    CUstream own;
    CUgraph graph;
    CHECK(cuCtxSetCurrent(*context) == CUDA_SUCCESS);
    CHECK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(cuStreamBeginCapture(own, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    atomic_store(&capturing, 1);
    while (atomic_load(&capturing) == 1) {
        (void)usleep(100);
    }
    CHECK(cuStreamEndCapture(own, &graph) == CUDA_SUCCESS); /* Nobody has broken it. */
    CHECK(cuStreamDestroy(own) == CUDA_SUCCESS);
    return NULL;
}

/* The thread's capture mode is the program's. */
static void expect_own_mode(CUstreamCaptureMode expected)
{
    CUstreamCaptureMode mode = expected;
    CHECK(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS && mode == expected);
}

/* A message, a lease, a release and a payload by way of the host, all behind held work. */
static void use_all(CUstreamCaptureMode mode)
{
    struct amb_msg *msg;
    struct amb_lease *lease;
    char byte;
    fakecuda_hold(true);
    CHECK(cuMemsetD32Async(memory, 1, BYTES / 4, stream) == CUDA_SUCCESS);
    CHECK(post(stream) == AMB_OK);
    expect_own_mode(mode);
    CHECK(amb_next(sub, 20 * AMB_MS, &msg) == AMB_ETIMEDOUT); /* It has not left. */
    fakecuda_hold(false);
    msg = next();
    CHECK(amb_msg_read(msg, 0, &byte, 1, 5 * AMB_SEC) == AMB_OK && byte == 1);
    expect_own_mode(mode);
    fakecuda_hold(true);
    CHECK(cuMemsetD32Async(memory, 2, BYTES / 4, stream) == CUDA_SUCCESS);
    CHECK(amb_msg_release_on(msg, stream) == AMB_OK);
    expect_own_mode(mode);
    expect_held(1);
    fakecuda_hold(false);
    await_given_back();
    CHECK(amb_lease(pub, BYTES, 5 * AMB_SEC, &lease) == AMB_OK);
    expect_own_mode(mode);
    fakecuda_hold(true);
    CHECK(cuMemsetD32Async((uintptr_t)amb_lease_data_on(lease, stream), 3, BYTES / 4, stream) ==
          CUDA_SUCCESS);
    CHECK(amb_lease_commit(lease, AMB_OUT(.stream = stream), NULL) == AMB_OK);
    expect_own_mode(mode);
    CHECK(amb_next(sub, 20 * AMB_MS, &msg) == AMB_ETIMEDOUT);
    fakecuda_hold(false);
    msg = next();
    CHECK(amb_msg_read(msg, 0, &byte, 1, 5 * AMB_SEC) == AMB_OK && byte == 3);
    amb_msg_release(msg);
}

/* This thread captures itself, in each of the strict modes, and uses another stream. */
static void capture_here(CUstreamCaptureMode mode)
{
    CUstream own;
    CUgraph graph;
    CUstreamCaptureMode before = mode;
    CHECK(cuThreadExchangeStreamCaptureMode(&before) == CUDA_SUCCESS);
    CHECK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(cuStreamBeginCapture(own, mode) == CUDA_SUCCESS);
    use_all(mode);
    CHECK(cuStreamEndCapture(own, &graph) == CUDA_SUCCESS);
    CHECK(cuStreamDestroy(own) == CUDA_SUCCESS);
    CHECK(cuThreadExchangeStreamCaptureMode(&before) == CUDA_SUCCESS);
}

static void capture(void)
{
    begin();
    CUcontext context;
    pthread_t thread;
    CHECK(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    capture_here(CU_STREAM_CAPTURE_MODE_GLOBAL);
    capture_here(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    CHECK(pthread_create(&thread, NULL, capture_main, &context) == 0);
    while (atomic_load(&capturing) == 0) {
        (void)usleep(100);
    }
    use_all(CU_STREAM_CAPTURE_MODE_GLOBAL);
    for (unsigned i = 0; i < ROUNDS; i++) {
        CHECK(post(stream) == AMB_OK);
        CHECK(amb_msg_release_on(next(), stream) == AMB_OK);
    }
    await_given_back();
    /* A host message into GPU memory: allocated and staged meanwhile. */
    struct amb_sub *staged;
    struct amb_msg *msg;
    char text[4];
    CHECK(amb_subscribe(conn, "host", AMB_SUB(.mem = AMB_MEM_CUDA), &staged) == AMB_OK);
    CHECK(amb_publish(conn, "host", "some", 4, 5 * AMB_SEC) == AMB_OK);
    CHECK(amb_next(staged, 5 * AMB_SEC, &msg) == AMB_OK);
    CHECK(fakecuda_peek((uintptr_t)amb_msg_data_on(msg, stream), text, 4));
    CHECK(memcmp(text, "some", 4) == 0);
    CHECK(amb_msg_release_on(msg, stream) == AMB_OK);
    CHECK(amb_sub_close(staged, 5 * AMB_SEC) == AMB_OK);
    CHECK(amb_close(conn, 5 * AMB_SEC) == AMB_OK);
    expect_own_mode(CU_STREAM_CAPTURE_MODE_GLOBAL);
    atomic_store(&capturing, 2);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(cuMemFree(memory) == CUDA_SUCCESS && cuStreamDestroy(stream) == CUDA_SUCCESS);
    CHECK(fakecuda_left() == 0);
}

/* ---- a stream that captures ---- */

/* An array of another library's is given back while its stream captures. */
static void refused_array(CUstream own)
{
    struct DLManagedTensorVersioned *array;
    CUgraph graph;
    struct amb_msg *msg;
    CHECK(post(stream) == AMB_OK);
    msg = next();
    CHECK(amb_msg_dlpack(msg, own, &array) == AMB_OK);
    amb_msg_release(msg);
    fakecuda_hold(true);
    CHECK(cuMemsetD32Async(memory, 1, BYTES / 4, own) == CUDA_SUCCESS);
    CHECK(cuStreamBeginCapture(own, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    array->deleter(array);
    expect_held(1);
    CHECK(cuStreamEndCapture(own, &graph) == CUDA_SUCCESS);
    expect_held(1); /* The work before the capture still runs. */
    fakecuda_hold(false);
    await_given_back();
}

static void *pin(void *ctx, size_t len, size_t align, int device)
{
    (void)ctx;
    (void)align;
    (void)device;
    void *pinned;
    return cuMemHostAlloc(&pinned, len, 0) == CUDA_SUCCESS ? pinned : NULL;
}

static void unpin(void *ctx, void *pinned, size_t len, int device)
{
    (void)ctx;
    (void)len;
    (void)device;
    CUcontext context;
    CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    CHECK(cuCtxPushCurrent(context) == CUDA_SUCCESS && cuMemFreeHost(pinned) == CUDA_SUCCESS);
    CHECK(cuCtxPopCurrent(&context) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
}

/* The same of host memory that is the program's own. */
static void refused_host_array(CUstream own)
{
    struct amb_sub *before = sub, *pinned;
    const struct amb_allocator allocator = {
        .size = sizeof(allocator), .mem = AMB_MEM_PINNED, .alloc = pin, .free = unpin};
    CHECK(amb_subscribe(conn, TOPIC, AMB_SUB(.allocator = &allocator), &pinned) == AMB_OK);
    sub = pinned;
    refused_array(own);
    sub = before;
    amb_msg_release(next());
    CHECK(amb_sub_close(pinned, 5 * AMB_SEC) == AMB_OK);
}

static void refused(void)
{
    begin();
    CUstream own;
    CUgraph graph;
    struct amb_lease *lease;
    char byte;
    CHECK(cuStreamCreate(&own, CU_STREAM_DEFAULT) == CUDA_SUCCESS);
    CHECK(post(stream) == AMB_OK);
    struct amb_msg *msg = next();
    CHECK(amb_lease(pub, BYTES, 5 * AMB_SEC, &lease) == AMB_OK);
    CHECK(cuStreamBeginCapture(own, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    CHECK(post(own) == AMB_ESTATE && says("captures a graph"));
    CHECK(amb_lease_commit(lease, AMB_OUT(.stream = own), NULL) == AMB_ESTATE);
    CHECK(says("captures a graph"));
    /* The default stream would wait for `own`, which blocks. */
    CHECK(post(NULL) == AMB_ESTATE && says("captures a graph"));
    CHECK(amb_lease_commit(lease, NULL, NULL) == AMB_ESTATE);
    CHECK(amb_pub_post(pub, AMB_OUT(.data = "host", .len = 4, .stream = own), 5 * AMB_SEC, NULL) ==
              AMB_ESTATE &&
          says("captures a graph"));
    CHECK(amb_msg_release_on(msg, own) == AMB_ESTATE && says("amb_msg_release_on"));
    expect_held(1);
    CHECK(amb_msg_read(msg, 0, &byte, 1, 5 * AMB_SEC) == AMB_OK); /* Behind no stream. */
    CHECK(cuStreamEndCapture(own, &graph) == CUDA_SUCCESS);
    CHECK(amb_msg_release_on(msg, own) == AMB_OK);
    await_given_back();
    /* The lease has stayed: it is published now. */
    CHECK(amb_lease_commit(lease, AMB_OUT(.stream = own), NULL) == AMB_OK);
    amb_msg_release(next());
    refused_array(own);
    refused_host_array(own);
    CHECK(cuStreamDestroy(own) == CUDA_SUCCESS);
    end();
}

/* ---- contexts ---- */

struct giving {
    struct amb_msg *msg;
    void *on;
};

static void *give_main(void *arg)
{
    const struct giving *giving = arg;
    CHECK(amb_msg_release_on(giving->msg, giving->on) == AMB_OK);
    return NULL;
}

/* Work on `at` is held on the stream `on`; a thread without a context gives msg back on it. */
static void give_elsewhere(struct amb_msg *msg, void *on, CUdeviceptr at)
{
    struct giving giving = {.msg = msg, .on = on};
    pthread_t thread;
    fakecuda_hold(true);
    CHECK(cuMemsetD32Async(at, 1, BYTES / 4, on) == CUDA_SUCCESS);
    CHECK(pthread_create(&thread, NULL, give_main, &giving) == 0);
    expect_held(1);
    fakecuda_hold(false);
    CHECK(pthread_join(thread, NULL) == 0);
    await_given_back();
}

/* Of the per-thread handle each thread has another stream: this one's is held, and the message of
 * this one waits for it. */
static CUcontext own_context;

static void *give_own_main(void *msg)
{
    CHECK(cuCtxSetCurrent(own_context) == CUDA_SUCCESS);
    CHECK(amb_msg_release_on(msg, CU_STREAM_PER_THREAD) == AMB_OK);
    return NULL;
}

static void per_thread(void)
{
    pthread_t thread;
    CHECK(cuCtxGetCurrent(&own_context) == CUDA_SUCCESS);
    CHECK(post(stream) == AMB_OK && post(stream) == AMB_OK);
    struct amb_msg *msg = next(), *other = next(); /* Before all streams are held. */
    fakecuda_hold(true);
    CHECK(cuMemsetD32Async(memory, 1, BYTES / 4, CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
    CHECK(amb_msg_release_on(msg, CU_STREAM_PER_THREAD) == AMB_OK);
    expect_held(2);
    /* The other thread's stream has nothing before the release, but all streams are held. */
    CHECK(pthread_create(&thread, NULL, give_own_main, other) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    expect_held(2);
    fakecuda_hold(false);
    await_given_back();
}

static void contexts(void)
{
    begin();
    /* A message in GPU memory, then in the host's, of which nobody knows where the stream is. */
    CHECK(post(stream) == AMB_OK);
    give_elsewhere(next(), stream, memory);
    void *const streams[] = {NULL, CU_STREAM_LEGACY, stream};
    for (unsigned i = 0; i < 3; i++) {
        CHECK(amb_publish(conn, TOPIC, "host", 4, 5 * AMB_SEC) == AMB_OK);
        give_elsewhere(next(), streams[i], memory);
    }
    /* Calls on the way to a wait that the driver refuses: nothing is released before. */
    static const char *const plans[] = {"cuCtxPushCurrent:1=2", "cuStreamGetCtx:1=2",
                                        "cuStreamSynchronize:1=304", "cuEventRecord:1=2",
                                        "cuEventQuery:1=1"};
    for (unsigned i = 0; i < 2 * sizeof(plans) / sizeof(plans[0]); i++) {
        CHECK((i % 2 == 0 ? post(stream) : amb_publish(conn, TOPIC, "host", 4, 5 * AMB_SEC)) ==
              AMB_OK);
        struct amb_msg *msg = next();
        fakecuda_fail(plans[i / 2]);
        give_elsewhere(msg, stream, memory);
        fakecuda_fail(NULL);
    }
    per_thread();
    end();
}

/* ---- devices ---- */

static void *post_main(void *arg)
{
    CHECK(post(arg) == AMB_OK);
    return NULL;
}

static void *commit_main(void *arg)
{
    struct amb_lease *lease;
    CHECK(amb_lease(pub, BYTES, 5 * AMB_SEC, &lease) == AMB_OK);
    CHECK(amb_lease_commit(lease, AMB_OUT(.stream = arg), NULL) == AMB_OK);
    return NULL;
}

/* A message is sent behind held work of the other GPU. */
static void send_behind(void *(*send)(void *), CUstream far, CUdeviceptr at)
{
    pthread_t thread;
    struct amb_msg *msg;
    fakecuda_hold(true);
    CHECK(cuMemsetD32Async(at, 1, BYTES / 4, far) == CUDA_SUCCESS);
    CHECK(pthread_create(&thread, NULL, send, far) == 0);
    CHECK(amb_next(sub, 50 * AMB_MS, &msg) == AMB_ETIMEDOUT);
    fakecuda_hold(false);
    CHECK(pthread_join(thread, NULL) == 0);
    amb_msg_release(next());
}

static void devices(void)
{
    begin();
    CUcontext context, other;
    CUstream far;
    CUdeviceptr far_memory;
    CHECK(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxRetain(&other, 1) == CUDA_SUCCESS);
    CHECK(cuCtxSetCurrent(other) == CUDA_SUCCESS);
    CHECK(cuStreamCreate(&far, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(cuMemAlloc(&far_memory, BYTES) == CUDA_SUCCESS);
    send_behind(post_main, far, far_memory);
    send_behind(commit_main, far, far_memory);
    CHECK(post(stream) == AMB_OK);
    give_elsewhere(next(), far, far_memory);
    CHECK(cuMemFree(far_memory) == CUDA_SUCCESS && cuStreamDestroy(far) == CUDA_SUCCESS);
    CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    end();
}

int main(int argc, char **argv)
{
    const char *what = argc == 2 ? argv[1] : "";
    if (strcmp(what, "capture") == 0) {
        capture();
    } else if (strcmp(what, "refused") == 0) {
        refused();
    } else if (strcmp(what, "contexts") == 0) {
        contexts();
    } else if (strcmp(what, "devices") == 0) {
        devices();
    } else {
        (void)fprintf(stderr, "usage: gpu-streams capture|refused|contexts|devices\n");
        return 64;
    }
    (void)printf("%s: ok\n", what);
    return 0;
}
