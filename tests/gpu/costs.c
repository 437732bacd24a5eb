/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the driver: what a message costs, and that it costs the same however many are
 * outstanding. The broker ($AMB_URL) is a real one, with a pool on GPU 0; its own calls are not
 * counted. The connection has no thread, so that all calls are made, and counted, here.
 *
 *   gpu-costs          a table, and bounds
 *   gpu-costs names    also the functions
 *   gpu-costs late     how late a release is noticed; the connection has its thread
 */
#include "tests/fakecuda/fakecuda.h"
#include "tests/gpu/program.h"

#include <amb/amb.h>
#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define TOPIC "gpu.costs"
#define BYTES ((size_t)4096)
#define MANY 4096u
#define ROUNDS 16u

static CUstream stream;
static CUdeviceptr memory;
static struct amb_conn *conn;
static struct amb_pub *pub;
static struct amb_sub *sub;
static struct amb_msg *msgs[MANY + ROUNDS];
static bool has_names;

/* ---- counting ---- */

static const char *const names[] = {
    "cuCtxGetCurrent",     "cuCtxPushCurrent",      "cuCtxPopCurrent",
    "cuCtxSetCurrent",     "cuPointerGetAttribute", "cuPointerGetAttributes",
    "cuStreamIsCapturing", "cuStreamGetCtx",        "cuStreamSynchronize",
    "cuStreamWaitEvent",   "cuEventCreate",         "cuEventRecord",
    "cuEventQuery",        "cuEventSynchronize",    "cuMemcpyAsync",
    "cuMemAlloc",          "cuIpcOpenMemHandle",    "cuThreadExchangeStreamCaptureMode",
};
#define NAMES (sizeof(names) / sizeof(names[0]))

struct count {
    unsigned long all, of[NAMES];
};

static struct count count_now(void)
{
    struct count count = {.all = fakecuda_calls()};
    for (size_t i = 0; i < NAMES; i++) {
        count.of[i] = fakecuda_calls_of(names[i]);
    }
    return count;
}

/* Calls since `before`, by rounds. */
static double calls_since(const char *what, const struct count *before, unsigned rounds)
{
    struct count now = count_now();
    for (size_t i = 0; has_names && i < NAMES; i++) {
        if (now.of[i] != before->of[i]) {
            (void)printf("    %s: %.2f %s\n", what, (double)(now.of[i] - before->of[i]) / rounds,
                         names[i]);
        }
    }
    return (double)(now.all - before->all) / rounds;
}

/* ---- messages ---- */

static void post(void)
{
    CHECK(amb_pub_post(
              pub, AMB_OUT(.data = (const void *)(uintptr_t)memory, .len = BYTES, .stream = stream),
              5 * AMB_SEC, NULL) == AMB_OK);
}

static void lease(void)
{
    struct amb_lease *own;
    CHECK(amb_lease(pub, BYTES, 5 * AMB_SEC, &own) == AMB_OK);
    CHECK(amb_lease_data_on(own, stream) != NULL);
    CHECK(amb_lease_commit(own, AMB_OUT(.stream = stream), NULL) == AMB_OK);
}

static struct amb_msg *next(void)
{
    struct amb_msg *msg;
    CHECK(amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK);
    CHECK(amb_msg_device(msg) == 0 && amb_msg_data_on(msg, stream) != NULL);
    return msg;
}

static uint64_t held(void)
{
    struct amb_sub_info info = AMB_INIT(amb_sub_info);
    CHECK(amb_sub_stat(sub, &info) == AMB_OK);
    return info.held_msgs;
}

static void look(void)
{
    CHECK(amb_poll(conn, AMB_NOWAIT) == AMB_OK);
}

static void hold(void)
{
    fakecuda_hold(true);
    CHECK(cuMemsetD32Async(memory, 1, BYTES / 4, stream) == CUDA_SUCCESS);
}

static void take_all(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        amb_msg_release(next());
    }
}

/* ---- how late a release is noticed ---- */

#define TRIES 201u

static _Atomic int64_t ended_ns; /* when the work before the release had run */

static int64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void CUDA_CB say_when(void *arg)
{
    (void)arg;
    ended_ns = now_ns();
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Behind work of so long ($FAKECUDA_DELAY_US), that begins when the message is given back. */
static void late(void)
{
    int64_t late_ns[TRIES];
    for (unsigned i = 0; i < TRIES; i++) {
        post();
        struct amb_msg *msg = next();
        CHECK(cuLaunchHostFunc(stream, say_when, NULL) == CUDA_SUCCESS);
        CHECK(amb_msg_release_on(msg, stream) == AMB_OK);
        while (held() != 0) {
        }
        late_ns[i] = now_ns() - ended_ns;
    }
    qsort(late_ns, TRIES, sizeof(late_ns[0]), by_time);
    (void)printf("noticed behind the end of the stream: median %.0f us, 90 of 100 within %.0f us\n",
                 (double)late_ns[TRIES / 2] / 1000, (double)late_ns[TRIES * 9 / 10] / 1000);
}

/* ---- where a payload lies ---- */

static void post_named(enum amb_mem mem, const void *data)
{
    CHECK(amb_pub_post(pub, AMB_OUT(.data = data, .len = 64, .mem = mem), 5 * AMB_SEC, NULL) ==
          AMB_OK);
}

static unsigned long questions(void)
{
    return fakecuda_calls_of("cuPointerGetAttribute") + fakecuda_calls_of("cuPointerGetAttributes");
}

/* Questions of the kind "what does that point to". */
static void count_questions(void)
{
    static const char host[64];
    const void *device = (const void *)(uintptr_t)memory;
    unsigned long at[6] = {questions()};
    post_named(AMB_MEM_DEFAULT, device);
    at[1] = questions();
    post_named(AMB_MEM_CUDA, device);
    at[2] = questions();
    lease();
    at[3] = questions();
    post_named(AMB_MEM_DEFAULT, host);
    at[4] = questions();
    post_named(AMB_MEM_HOST, host);
    at[5] = questions();
    (void)printf(
        "questions where a payload lies: a post %lu, one that names CUDA %lu, a lease %lu, "
        "a host message %lu, one that names HOST %lu\n",
        at[1] - at[0], at[2] - at[1], at[3] - at[2], at[4] - at[3], at[5] - at[4]);
    CHECK(at[1] - at[0] == 1 && at[2] - at[1] == 1 && at[3] == at[2] && at[4] - at[3] == 1 &&
          at[5] == at[4]);
    CHECK(amb_flush(conn, 5 * AMB_SEC) == AMB_OK);
    for (unsigned i = 0; i < 5; i++) {
        struct amb_msg *msg;
        CHECK(amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK);
        amb_msg_release(msg);
    }
}

/* ---- the cases, each with so many outstanding ---- */

struct cost {
    double one, look; /* calls of one more, and of a look at all of them */
    double after;     /* calls a message until the last one was through */
};

/* Messages that wait for the stream. */
static struct cost cost_of_sending(const char *what, void (*send)(void), unsigned outstanding)
{
    struct cost cost;
    send();
    take_all(1);
    hold();
    for (unsigned i = 0; i < outstanding; i++) {
        send();
    }
    look();
    struct count before = count_now();
    for (unsigned i = 0; i < ROUNDS; i++) {
        send();
    }
    cost.one = calls_since(what, &before, ROUNDS);
    look();
    before = count_now();
    look();
    cost.look = calls_since("look", &before, 1);
    fakecuda_hold(false);
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    before = count_now();
    take_all(outstanding + ROUNDS);
    cost.after = calls_since("after", &before, outstanding + ROUNDS);
    return cost;
}

/* Messages that a subscriber has mapped, and then gives back behind the stream. */
static struct cost cost_of_release(unsigned outstanding, double *map)
{
    struct cost cost;
    for (unsigned i = 0; i < outstanding + ROUNDS; i++) {
        post();
    }
    CHECK(amb_flush(conn, 5 * AMB_SEC) == AMB_OK);
    for (unsigned i = 0; i < outstanding; i++) {
        msgs[i] = next();
    }
    struct count before = count_now();
    for (unsigned i = 0; i < ROUNDS; i++) {
        msgs[outstanding + i] = next();
    }
    *map = calls_since("map", &before, ROUNDS);
    hold();
    for (unsigned i = 0; i < outstanding; i++) {
        CHECK(amb_msg_release_on(msgs[i], stream) == AMB_OK);
    }
    look();
    before = count_now();
    for (unsigned i = 0; i < ROUNDS; i++) {
        CHECK(amb_msg_release_on(msgs[outstanding + i], stream) == AMB_OK);
    }
    cost.one = calls_since("release", &before, ROUNDS);
    look();
    before = count_now();
    look();
    cost.look = calls_since("look", &before, 1);
    CHECK(held() == outstanding + ROUNDS);
    fakecuda_hold(false);
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    before = count_now();
    look();
    cost.after = calls_since("after", &before, outstanding + ROUNDS);
    while (held() != 0) {
        look();
    }
    return cost;
}

static void say(const char *what, unsigned outstanding, struct cost cost)
{
    (void)printf("%-8s %5u outstanding: %6.2f a message, %6.2f a look, %6.2f a message when it is "
                 "over\n",
                 what, outstanding, cost.one, cost.look, cost.after);
}

/* Is the second no more than the first? But for what is allocated once, and the look at an older
 * batch by one message of 16. */
static bool is_no_more(struct cost few, struct cost many)
{
    return many.one < few.one + 1 && many.look <= few.look && many.after <= few.after + 0.5;
}

/* So much is in docs/gpu.md: at most. */
static void expect_at_most(struct cost cost, double one)
{
    CHECK(cost.one < one + 1 && cost.look <= 6 && cost.after < 1.5);
}

static void all_costs(void)
{
    static const unsigned numbers[] = {1, 64, MANY};
    double map;
    /* Until nothing is new. */
    (void)cost_of_sending("post", post, MANY);
    (void)cost_of_release(MANY, &map);
    count_questions();
    struct cost first[3];
    for (unsigned i = 0; i < 3; i++) {
        struct cost costs[] = {cost_of_sending("post", post, numbers[i]),
                               cost_of_sending("lease", lease, numbers[i]),
                               cost_of_release(numbers[i], &map)};
        static const char *const whats[] = {"post", "lease", "release"};
        static const double most[] = {9, 7, 6};
        for (unsigned k = 0; k < 3; k++) {
            first[k] = i == 0 ? costs[k] : first[k];
            say(whats[k], numbers[i], costs[k]);
            CHECK(is_no_more(first[k], costs[k]));
            expect_at_most(costs[k], most[k]);
        }
        (void)printf("%-8s %5u outstanding: %6.2f a message\n", "map", numbers[i], map);
        CHECK(map == 0);
    }
}

int main(int argc, char **argv)
{
    struct amb_error error;
    has_names = argc == 2 && strcmp(argv[1], "names") == 0;
    stream = start_cuda();
    CHECK(cuMemAlloc(&memory, BYTES) == CUDA_SUCCESS);
    bool is_late = argc == 2 && strcmp(argv[1], "late") == 0;
    CHECK(amb_connect(NULL,
                      AMB_OPTIONS(.error = &error,
                                  .progress = is_late ? AMB_PROGRESS_THREAD : AMB_PROGRESS_POLL),
                      &conn) == AMB_OK);
    CHECK(amb_subscribe(conn, TOPIC, AMB_SUB(.mem = AMB_MEM_CUDA, .credit_msgs = 2 * MANY), &sub) ==
          AMB_OK);
    CHECK(amb_pub_open(conn, TOPIC, AMB_PUB(.lease_mem = AMB_MEM_CUDA, .window_msgs = 2 * MANY),
                       &pub) == AMB_OK);
    if (is_late) {
        late();
    } else {
        all_costs();
    }
    CHECK(amb_close(conn, 5 * AMB_SEC) == AMB_OK);
    CHECK(cuMemFree(memory) == CUDA_SUCCESS && cuStreamDestroy(stream) == CUDA_SUCCESS);
    CHECK(fakecuda_left() == 0);
    return 0;
}
