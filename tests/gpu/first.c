/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The questions of first.sh that a driver is asked directly. It answers with lines "name: figure",
 * and with exit 1 where the driver is not as libamb takes it to be. On a real driver and the fake.
 *
 *   gpu-first machine         driver, mode, MIG; times of cuInit and of the first context
 *   gpu-first ipc BYTES       an allocation in two processes: each way to open it, and its code
 *   gpu-first death BYTES     its exporter is killed under copies, or frees it before the close
 *   gpu-first waits           without a context, on the streams 0, 1 and 2
 *   gpu-first capture COUNT   one thread captures graphs, another posts and releases ($AMB_URL)
 *   gpu-first links COUNT     publishes GPU memory on two connections ($AMB_URL), closes one
 *   gpu-first faults          frees of memory that others have open; the fake driver counts them
 *   gpu-first used            bytes of GPU 0 that are in use
 *   gpu-first costs BYTES     a question about a pointer, one about an event, pinned memory
 */
#include "wire/base/clock.h"
#include "wire/mem/cuda.h"
#include "wire/mem/cuda_api.h"

#include <amb/amb.h>
#include <cuda.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKIPPED 77
#define NOBODY 65534
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static struct amb_cuda *device;
static struct amb_cuda_scope scope;

static double us_since(int64_t begin)
{
    return (double)(amb_clock_monotonic_ns() - begin) / 1e3;
}

static void start(void)
{
    CHECK(amb_cuda_start() == AMB_OK && amb_cuda_at(0, &device) == AMB_OK);
    CHECK(amb_cuda_enter(device, &scope) == AMB_OK);
}

/* A function of the driver's that libamb does not use. */
static void *driver_function(const char *name)
{
    const char *library = getenv(AMB_CUDA_LIBRARY_ENV);
    void *driver = dlopen(library != NULL ? library : "libcuda.so.1", RTLD_LAZY);
    return driver != NULL ? dlsym(driver, name) : NULL;
}

static void fill(uint64_t to, uint8_t value, size_t len)
{
    void *bytes = malloc(len);
    CHECK(bytes != NULL);
    memset(bytes, value, len);
    CHECK(amb_cuda_copy(device, to, (uintptr_t)bytes, len, NULL) == AMB_OK);
    CHECK(amb_cuda_stream_sync(device, NULL) == AMB_OK);
    free(bytes);
}

static bool holds(uint64_t from, uint8_t value, size_t len)
{
    uint8_t *bytes = calloc(1, len);
    CHECK(bytes != NULL);
    bool is_read = amb_cuda_copy(device, (uintptr_t)bytes, from, len, NULL) == AMB_OK &&
                   amb_cuda_stream_sync(device, NULL) == AMB_OK;
    size_t at = 0;
    while (is_read && at < len && bytes[at] == value) {
        at++;
    }
    free(bytes);
    return is_read && at == len;
}

/* ---- 1: the machine ---- */

static void machine(void)
{
    int64_t begin = amb_clock_monotonic_ns();
    int version = 0, mode = 0;
    CHECK(amb_cuda_start() == AMB_OK);
    (void)printf("cuInit: %.0f us\n", us_since(begin));
    begin = amb_clock_monotonic_ns();
    CHECK(amb_cuda_at(0, &device) == AMB_OK);
    (void)printf("first context: %.0f us\n", us_since(begin));
    CUresult (*get_version)(int *) = NULL;
    CUresult (*get_attribute)(int *, CUdevice_attribute, CUdevice) = NULL;
    *(void **)&get_version = driver_function("cuDriverGetVersion");
    *(void **)&get_attribute = driver_function("cuDeviceGetAttribute");
    CHECK(get_version != NULL && get_version(&version) == CUDA_SUCCESS);
    CHECK(get_attribute != NULL &&
          get_attribute(&mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0) == CUDA_SUCCESS);
    const struct amb_cuda_info *info = amb_cuda_info(device);
    (void)printf("GPUs: %u\nfirst: %s, %s, %s, %" PRIu64 " MiB\n", amb_cuda_count(), info->name,
                 info->uuid, info->pci, info->memory >> 20);
    (void)printf(
        "CUDA of the driver: %d\ncompute mode: %d (0 default, 2 prohibited, 3 exclusive)\n",
        version, mode);
    CHECK(mode == 0);
}

/* ---- 2, 3: two processes ---- */

struct pair {
    int to_parent[2], to_child[2];
    pid_t exporter;
    uint8_t handle[AMB_CUDA_IPC_BYTES];
};

/* The exporter: its first 4096 bytes are 0x5a. It tries its own handle, and goes on at a word: 'f'
 * frees the memory and stays, 'e' ends. */
static void exporter_main(const struct pair *pair, uint64_t bytes)
{
    uint64_t memory = 0;
    struct {
        uint8_t handle[AMB_CUDA_IPC_BYTES];
        int own_code;
    } note;
    start();
    CHECK(amb_cuda_alloc(device, bytes, &memory) == AMB_OK);
    fill(memory, 0x5a, 4096);
    CHECK(amb_cuda_export(device, memory, note.handle) == AMB_OK);
    CUipcMemHandle own;
    CUdeviceptr again = 0;
    memcpy(&own, note.handle, sizeof(own));
    note.own_code =
        (int)amb_cuda_api.cuIpcOpenMemHandle(&again, own, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    CHECK(write(pair->to_parent[1], &note, sizeof(note)) == (ssize_t)sizeof(note));
    char word;
    while (read(pair->to_child[0], &word, 1) == 1 && word != 'e') {
        amb_cuda_free(device, memory);
        CHECK(write(pair->to_parent[1], "f", 1) == 1);
    }
    _exit(0);
}

/* Before this process has started the driver. */
static void begin_pair(struct pair *pair, uint64_t bytes)
{
    struct {
        uint8_t handle[AMB_CUDA_IPC_BYTES];
        int own_code;
    } note;
    CHECK(pipe(pair->to_parent) == 0 && pipe(pair->to_child) == 0);
    pair->exporter = fork();
    if (pair->exporter == 0) {
        (void)close(pair->to_child[1]);
        exporter_main(pair, bytes);
    }
    (void)close(pair->to_parent[1]); /* So that an exporter that fails is not waited for. */
    CHECK(read(pair->to_parent[0], &note, sizeof(note)) == (ssize_t)sizeof(note));
    memcpy(pair->handle, note.handle, sizeof(note.handle));
    (void)printf("open in the exporter: %d\n", note.own_code);
}

static int open_code(const struct pair *pair, CUdeviceptr *out)
{
    CUipcMemHandle handle;
    memcpy(&handle, pair->handle, sizeof(handle));
    return (int)amb_cuda_api.cuIpcOpenMemHandle(out, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

/* Opens it in another process, after `become` there. Says the code; -1: that cannot be tried. */
static void open_as(const struct pair *pair, const char *what, bool (*become)(void))
{
    int answer[2], code = -1;
    CHECK(pipe(answer) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        CUdeviceptr memory = 0;
        if (become()) {
            pid_t inner = fork(); /* Into the namespace, if it is one. */
            if (inner == 0) {
                bool can = amb_cuda_start() == AMB_OK && amb_cuda_at(0, &device) == AMB_OK &&
                           amb_cuda_enter(device, &scope) == AMB_OK;
                code = can ? open_code(pair, &memory) : -2;
                CHECK(write(answer[1], &code, sizeof(code)) == (ssize_t)sizeof(code));
                _exit(0);
            }
            (void)waitpid(inner, NULL, 0);
        }
        _exit(0);
    }
    (void)waitpid(pid, NULL, 0);
    (void)close(answer[1]);
    bool is_tried = read(answer[0], &code, sizeof(code)) == (ssize_t)sizeof(code);
    (void)close(answer[0]);
    if (is_tried) {
        (void)printf("open %s: %d\n", what, code);
    } else {
        (void)printf("open %s: skipped: this process may not\n", what);
    }
}

static bool become_nobody(void)
{
    (void)unsetenv("FAKECUDA_MACHINE"); /* A file of this user's, on the fake driver. */
    return geteuid() == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0;
}

static bool enter_namespace(void)
{
    return unshare(CLONE_NEWPID) == 0;
}

static void ipc(uint64_t bytes)
{
    struct pair pair;
    begin_pair(&pair, bytes);
    (void)fflush(stdout);
    open_as(&pair, "under another uid", become_nobody);
    (void)fflush(stdout);
    open_as(&pair, "in another PID namespace", enter_namespace);
    (void)fflush(stdout);
    start();
    CUdeviceptr memory = 0, again = 0;
    int64_t begin = amb_clock_monotonic_ns();
    int code = open_code(&pair, &memory);
    (void)printf("open: %d, %.0f us\n", code, us_since(begin));
    CHECK(code == 0 && holds(memory, 0x5a, 4096));
    code = open_code(&pair, &again);
    (void)printf("open again: %d, at %s\n", code,
                 code != 0         ? "none"
                 : again == memory ? "the same address"
                                   : "another address");
    struct amb_mem_place place;
    amb_cuda_classify((const void *)(uintptr_t)(memory + 4096), &place);
    (void)printf("range: base %+" PRId64 " bytes, %" PRIu64 " MiB\n",
                 (int64_t)(place.base - memory), place.size >> 20);
    CHECK(place.base == memory && place.size >= bytes);
    CHECK(code != 0 || amb_cuda_api.cuIpcCloseMemHandle(again) == CUDA_SUCCESS);
    amb_cuda_unimport(device, memory);
    CHECK(write(pair.to_child[1], "e", 1) == 1 && waitpid(pair.exporter, NULL, 0) > 0);
}

/* Copies from it run one behind the other when its exporter is killed, or frees it. */
static void death(uint64_t bytes)
{
    struct pair pairs[2];
    uint64_t own = 0;
    size_t len = bytes < ((size_t)64 << 20) ? bytes : (size_t)64 << 20;
    begin_pair(&pairs[0], bytes);
    begin_pair(&pairs[1], bytes);
    start();
    CHECK(amb_cuda_alloc(device, len, &own) == AMB_OK);
    for (int i = 0; i < 2; i++) {
        CUdeviceptr memory = 0;
        char byte;
        CHECK(open_code(&pairs[i], &memory) == 0);
        for (int n = 0; n < 100; n++) {
            CHECK(amb_cuda_copy(device, own, memory, len, NULL) == AMB_OK);
            if (n == 50 && i == 0) {
                CHECK(kill(pairs[i].exporter, SIGKILL) == 0);
                CHECK(waitpid(pairs[i].exporter, NULL, 0) > 0);
            }
        }
        CHECK(amb_cuda_stream_sync(device, NULL) == AMB_OK);
        if (i ==
            1) { /* A free before the close: undefined, so nothing is asked of it but its code. */
            CHECK(write(pairs[i].to_child[1], "f", 1) == 1);
            CHECK(read(pairs[i].to_parent[0], &byte, 1) == 1);
            (void)printf("read after the exporter's free: %s\n",
                         holds(memory, 0x5a, 4096) ? "the same bytes" : "other bytes, or an error");
        } else {
            CHECK(holds(memory, 0x5a, 4096) && holds(own, 0x5a, 4096));
            CHECK(amb_cuda_is_sound(device));
            (void)printf("read after the exporter's death: the same bytes\n");
        }
        (void)printf("close: %d\n", (int)amb_cuda_api.cuIpcCloseMemHandle(memory));
    }
    (void)printf("the device after it: %s\n", amb_cuda_is_sound(device) ? "well" : "lost");
    amb_cuda_free(device, own);
    CHECK(write(pairs[1].to_child[1], "e", 1) == 1 && waitpid(pairs[1].exporter, NULL, 0) > 0);
}

/* ---- 4: waits ---- */

static void waits(void)
{
    start();
    amb_cuda_leave(&scope);
    CUcontext context = NULL;
    CHECK(amb_cuda_api.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context == NULL);
    for (uintptr_t handle = 0; handle < 3; handle++) {
        int code = (int)amb_cuda_api.cuStreamSynchronize((CUstream)handle);
        (void)printf("cuStreamSynchronize(%d) without a context: %d\n", (int)handle, code);
        CHECK(amb_cuda_program_sync((void *)handle) == AMB_OK);
    }
    CHECK(amb_cuda_is_sound(device));
}

/* ---- 7: captures ---- */

static struct amb_conn *connect_to(void)
{
    struct amb_error error;
    struct amb_conn *conn;
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        (void)fprintf(stderr, "gpu-first: %s\n", error.text);
        exit(1);
    }
    return conn;
}

static _Atomic bool is_over;
static _Atomic unsigned captured;

static void *capture_main(void *arg)
{
    CUresult (*begin)(CUstream, CUstreamCaptureMode) = NULL;
    CUresult (*end)(CUstream, CUgraph *) = NULL;
    CUresult (*destroy)(CUgraph) = NULL;
    struct amb_cuda_scope own;
    void *stream = NULL;
    (void)arg;
    *(void **)&begin = driver_function("cuStreamBeginCapture_v2");
    *(void **)&end = driver_function("cuStreamEndCapture");
    *(void **)&destroy = driver_function("cuGraphDestroy");
    CHECK(begin != NULL && end != NULL);
    CHECK(amb_cuda_enter(device, &own) == AMB_OK);
    CHECK(amb_cuda_stream_create(device, &stream) == AMB_OK);
    /* As a program's thread, whose mode is not relaxed. */
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CHECK(amb_cuda_api.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
    while (!atomic_load(&is_over)) {
        CUgraph graph = NULL;
        CHECK(begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
        (void)usleep(500);
        CHECK(end(stream, &graph) == CUDA_SUCCESS); /* Nobody has broken it. */
        if (graph != NULL && destroy != NULL) {
            (void)destroy(graph);
        }
        atomic_fetch_add(&captured, 1);
        (void)usleep(100);
    }
    CHECK(amb_cuda_api.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
    amb_cuda_stream_destroy(device, stream);
    amb_cuda_leave(&own);
    return NULL;
}

static void post_and_release(struct amb_pub *pub, struct amb_sub *sub, uint64_t memory, size_t len,
                             void *stream)
{
    struct amb_msg *msg;
    CHECK(amb_pub_post(
              pub, AMB_OUT(.data = (const void *)(uintptr_t)memory, .len = len, .stream = stream),
              5 * AMB_SEC, NULL) == AMB_OK);
    CHECK(amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK && amb_msg_size(msg) == len);
    amb_msg_release_on(msg, stream);
}

static void capture(unsigned count)
{
    struct amb_conn *conn = connect_to();
    struct amb_pub *pub;
    struct amb_sub *sub;
    void *stream = NULL;
    uint64_t memory = 0;
    pthread_t thread;
    start();
    CHECK(amb_cuda_stream_create(device, &stream) == AMB_OK);
    CHECK(amb_cuda_alloc(device, 4096, &memory) == AMB_OK);
    CHECK(amb_subscribe(conn, "first.capture", AMB_SUB(.mem = AMB_MEM_CUDA), &sub) == AMB_OK);
    CHECK(amb_pub_open(conn, "first.capture", NULL, &pub) == AMB_OK);
    post_and_release(pub, sub, memory, 4096, stream);
    /* This thread is a program's too: libamb relaxes its mode by itself, around its calls. */
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CHECK(amb_cuda_api.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
    CHECK(pthread_create(&thread, NULL, capture_main, NULL) == 0);
    int64_t begin = amb_clock_monotonic_ns();
    for (unsigned i = 0; i < count; i++) {
        post_and_release(pub, sub, memory, 4096, stream);
    }
    double us = us_since(begin);
    atomic_store(&is_over, true);
    CHECK(pthread_join(thread, NULL) == 0);
    (void)printf("posts and releases: %u, %.1f us each\ncaptures beside them: %u, none broken\n",
                 count, us / count, atomic_load(&captured));
    CHECK(atomic_load(&captured) > 0);
    CHECK(amb_close(conn, 5 * AMB_SEC) == AMB_OK);
    amb_cuda_free(device, memory);
}

/* ---- 9: two connections ---- */

static void links(unsigned count)
{
    size_t len = (size_t)1 << 20;
    struct amb_conn *conns[2] = {connect_to(), connect_to()};
    struct amb_pub *pubs[2];
    struct amb_sub *subs[2];
    uint64_t memory = 0;
    start();
    CHECK(amb_cuda_alloc(device, len, &memory) == AMB_OK);
    for (int i = 0; i < 2; i++) {
        const char *topic = i == 0 ? "first.one" : "first.two";
        CHECK(amb_subscribe(conns[i], topic, AMB_SUB(.mem = AMB_MEM_CUDA), &subs[i]) == AMB_OK);
        CHECK(amb_pub_open(conns[i], topic, NULL, &pubs[i]) == AMB_OK);
    }
    for (unsigned n = 0; n < count; n++) {
        fill(memory, (uint8_t)n, len);
        for (int i = 0; i < 2 && (i == 0 || n < count / 2); i++) {
            struct amb_msg *msg;
            CHECK(amb_pub_post(pubs[i],
                               AMB_OUT(.data = (const void *)(uintptr_t)memory, .len = len),
                               20 * AMB_SEC, NULL) == AMB_OK);
            if (i == 0 && n == count / 2) { /* The other one ends under that message. */
                CHECK(amb_close(conns[1], 5 * AMB_SEC) == AMB_OK);
            }
            CHECK(amb_next(subs[i], 20 * AMB_SEC, &msg) == AMB_OK);
            CHECK(holds((uintptr_t)amb_msg_data_on(msg, NULL), (uint8_t)n, len));
            amb_msg_release(msg);
        }
    }
    CHECK(amb_close(conns[0], 5 * AMB_SEC) == AMB_OK);
    amb_cuda_free(device, memory);
    (void)printf("messages of 1 MiB, compared: %u\n", count + count / 2);
}

/* ---- 10: costs ---- */

static void used(void)
{
    CUresult (*info)(size_t *, size_t *) = NULL;
    size_t free_bytes, total;
    start();
    *(void **)&info = driver_function("cuMemGetInfo_v2");
    CHECK(info != NULL && info(&free_bytes, &total) == CUDA_SUCCESS);
    (void)printf("%zu\n", total - free_bytes);
}

static void faults(void)
{
    unsigned long (*count)(void) = NULL;
    start();
    *(void **)&count = driver_function("fakecuda_faults");
    (void)printf("%lu\n", count != NULL ? count() : 0);
}

static void costs(uint64_t bytes)
{
    enum {
        ROUNDS = 100000
    };
    uint64_t memory = 0, seen = 0;
    void *stream = NULL, *event = NULL;
    start();
    CHECK(amb_cuda_alloc(device, 4096, &memory) == AMB_OK);
    CHECK(amb_cuda_stream_create(device, &stream) == AMB_OK);
    CHECK(amb_cuda_event_create(device, &event) == AMB_OK);
    CHECK(amb_cuda_event_record(device, event, stream) == AMB_OK);
    CHECK(amb_cuda_stream_sync(device, stream) == AMB_OK);
    int64_t begin = amb_clock_monotonic_ns();
    for (int i = 0; i < ROUNDS; i++) {
        struct amb_mem_place place;
        amb_cuda_locate((const void *)(uintptr_t)memory, &place);
        CHECK(place.device == 0);
    }
    (void)printf("cuPointerGetAttributes: %.3f us\n", us_since(begin) / ROUNDS);
    begin = amb_clock_monotonic_ns();
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(amb_cuda_api.cuEventQuery(event) == CUDA_SUCCESS);
    }
    (void)printf("cuEventQuery: %.3f us\n", us_since(begin) / ROUNDS);
    void *host = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(host != MAP_FAILED);
    begin = amb_clock_monotonic_ns();
    CHECK(amb_cuda_register(device, host, bytes, &seen) == AMB_OK);
    (void)printf("cuMemHostRegister of %" PRIu64 " MiB: %.0f us\n", bytes >> 20, us_since(begin));
    begin = amb_clock_monotonic_ns();
    amb_cuda_unregister(device, host);
    (void)printf("cuMemHostUnregister: %.0f us\n", us_since(begin));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    uint64_t number = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    if (strcmp(what, "machine") == 0) {
        machine();
    } else if (strcmp(what, "ipc") == 0 && number != 0) {
        ipc(number);
    } else if (strcmp(what, "death") == 0 && number != 0) {
        death(number);
    } else if (strcmp(what, "waits") == 0) {
        waits();
    } else if (strcmp(what, "capture") == 0 && number != 0) {
        capture((unsigned)number);
    } else if (strcmp(what, "links") == 0 && number != 0) {
        links((unsigned)number);
    } else if (strcmp(what, "faults") == 0) {
        faults();
    } else if (strcmp(what, "used") == 0) {
        used();
    } else if (strcmp(what, "costs") == 0 && number != 0) {
        costs(number);
    } else {
        (void)fprintf(stderr, "usage: gpu-first machine|ipc BYTES|death BYTES|waits|capture COUNT|"
                              "links COUNT|faults|used|costs BYTES\n");
        return 64;
    }
    return 0;
}
