/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cases of GPU segments that only the fake driver can show, with a real broker ($AMB_URL) that
 * has pools:
 *
 *   gpu-fake order           messages leave behind their streams, and nobody waits for a device
 *   gpu-fake torture COUNT FIRST STRIDE
 *                            calls of the driver fail, a process for each of COUNT plans. Any
 *                            call, eight codes, three kinds of subscribers, streams that are late
 *   gpu-fake try             the same without a failure
 *   gpu-fake classes         an error that nothing is known of is one of its call: it stages; one
 *                            that ends the process's use of a GPU fences it
 *   gpu-fake again           goes on, in the new broker's GPU memory, when its broker has died;
 *                            says "first" when that may be
 *   gpu-fake keep            the same with a message of the dead broker's in its hands: while it is
 *                            held ("held") the new broker may have no room for a pool
 *   gpu-fake faults          how often memory was freed that another process had open
 *   gpu-fake publish         leases, writes, commits; says "sent"; waits to be killed
 *   gpu-fake hold            takes what was published, says "held"; at the end of standard input
 *                            compares it and gives it back
 */
#include "tests/fakecuda/fakecuda.h"
#include "tests/gpu/program.h"
#include "wire/base/clock.h"
#include "wire/mem/cuda_api.h"

#include <amb/amb.h>
#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOPIC "gpu.fake"
#define BYTES ((size_t)200000)
#define HELD 5

static CUstream stream;
static CUdeviceptr memory;

static void begin_cuda(void)
{
    stream = start_cuda();
    CHECK(cuMemAlloc(&memory, BYTES) == CUDA_SUCCESS);
}

/* Is a device's memory `word`, over and over? */
static bool is_word(uint64_t address, size_t len, uint32_t word)
{
    uint32_t *bytes = malloc(len);
    CHECK(bytes != NULL && fakecuda_peek(address, bytes, len));
    size_t same = 0;
    while (same < len / 4 && bytes[same] == word) {
        same++;
    }
    free(bytes);
    return same == len / 4;
}

static void expect_word(struct amb_sub *sub, uint32_t word)
{
    struct amb_msg *msg;
    CHECK(amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK);
    CHECK(amb_msg_data(msg) == NULL && amb_msg_size(msg) == BYTES);
    CHECK(strcmp(amb_msg_path(msg), "cuda_ipc") == 0);
    CHECK(is_word((uintptr_t)amb_msg_data_on(msg, stream), BYTES, word));
    amb_msg_release_on(msg, stream);
}

/* ---- order ---- */

static void order_of_posts(struct amb_conn *conn, struct amb_pub *pub, struct amb_sub *sub)
{
    struct amb_msg *msg;
    uint64_t first = 0, second = 0;
    const struct amb_out *out =
        AMB_OUT(.data = (const void *)(uintptr_t)memory, .len = BYTES, .stream = stream);
    fakecuda_hold(true);
    CHECK(cuMemsetD32Async(memory, 1, BYTES / 4, stream) == CUDA_SUCCESS);
    int64_t begin = amb_clock_monotonic_ns();
    CHECK(amb_pub_post(pub, out, 5 * AMB_SEC, &first) == AMB_OK);
    CHECK(cuMemsetD32Async(memory, 2, BYTES / 4, stream) == CUDA_SUCCESS);
    CHECK(amb_pub_post(pub, out, 5 * AMB_SEC, &second) == AMB_OK);
    CHECK(amb_clock_monotonic_ns() - begin < 4 * AMB_SEC);
    CHECK(second == first + 1);
    CHECK(amb_pub_flush(pub, first, 100 * AMB_MS) == AMB_ETIMEDOUT);
    CHECK(amb_next(sub, 50 * AMB_MS, &msg) == AMB_ETIMEDOUT);
    /* Others do not wait for that stream. */
    CHECK(amb_publish(conn, "host.fake", "x", 1, 5 * AMB_SEC) == AMB_OK);
    fakecuda_hold(false);
    CHECK(amb_pub_flush(pub, second, 5 * AMB_SEC) == AMB_OK);
    expect_word(sub, 1);
    expect_word(sub, 2);
}

static void order_of_leases(struct amb_pub *pub, struct amb_sub *sub)
{
    struct amb_msg *msg;
    struct amb_lease *lease;
    CHECK(amb_lease(pub, BYTES, 5 * AMB_SEC, &lease) == AMB_OK);
    CHECK(amb_lease_data(lease) == NULL);
    CUdeviceptr at = (uintptr_t)amb_lease_data_on(lease, stream);
    fakecuda_hold(true);
    CHECK(cuMemsetD32Async(at, 7, BYTES / 4, stream) == CUDA_SUCCESS);
    CHECK(amb_lease_commit(lease, AMB_OUT(.stream = stream), NULL) == AMB_OK);
    /* A host message on the same publisher stays behind it. */
    CHECK(amb_pub_send(pub, "host", 4, AMB_NOWAIT) == AMB_EAGAIN);
    CHECK(amb_next(sub, 50 * AMB_MS, &msg) == AMB_ETIMEDOUT);
    fakecuda_hold(false);
    CHECK(amb_pub_send(pub, "host", 4, 5 * AMB_SEC) == AMB_OK);
    expect_word(sub, 7);
    CHECK(amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK && amb_msg_size(msg) == 4);
    amb_msg_release(msg);
}

static void no_reply(enum amb_status status, struct amb_msg *reply, void *arg)
{
    (void)status, (void)arg;
    amb_msg_release(reply);
}

/* Received messages are sent on, from where they lie. */
static void forwarding(struct amb_conn *conn, struct amb_pub *pub, struct amb_sub *sub)
{
    struct amb_msg *msg;
    CHECK(cuMemsetD32Async(memory, 9, BYTES / 4, stream) == CUDA_SUCCESS);
    CHECK(amb_pub_post(
              pub, AMB_OUT(.data = (const void *)(uintptr_t)memory, .len = BYTES, .stream = stream),
              5 * AMB_SEC, NULL) == AMB_OK);
    CHECK(amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK);
    CHECK(amb_pub_post(pub, AMB_OUT(.forward = msg), 5 * AMB_SEC, NULL) == AMB_OK);
    CHECK(amb_pub_flush(pub, 0, 5 * AMB_SEC) == AMB_OK);
    /* A request has no way for them: the host cannot read there. */
    CHECK(amb_request_post(conn, TOPIC ".ask", AMB_OUT(.forward = msg), AMB_SEC, no_reply, NULL) ==
          AMB_ENOTSUP);
    CHECK(strstr(amb_last_error(conn).text, "from GPU memory") != NULL);
    amb_msg_release(msg);
    expect_word(sub, 9);
}

/* A close that does not wait must still not give memory back that a GPU writes. */
static void close_while_it_runs(void)
{
    struct amb_conn *conn = connect_to();
    struct amb_pub *pub;
    CHECK(amb_pub_open(conn, TOPIC ".other", NULL, &pub) == AMB_OK);
    CHECK(cuMemsetD32Async(memory, 3, BYTES / 4, stream) == CUDA_SUCCESS);
    CHECK(amb_pub_post(
              pub, AMB_OUT(.data = (const void *)(uintptr_t)memory, .len = BYTES, .stream = stream),
              5 * AMB_SEC, NULL) == AMB_OK);
    (void)amb_close(conn, AMB_NOWAIT);
}

/* Takes a lease, fills and commits it. */
static struct amb_keep *lease_filled(struct amb_pub *pub, unsigned value, bool is_kept,
                                     CUdeviceptr *at)
{
    struct amb_lease *lease;
    struct amb_keep *keep = NULL;
    CHECK(amb_lease(pub, BYTES, 5 * AMB_SEC, &lease) == AMB_OK);
    CHECK(!is_kept || amb_lease_keep(lease, &keep) == AMB_OK);
    *at = (uintptr_t)amb_lease_data_on(lease, stream);
    CHECK(cuMemsetD32Async(*at, value, BYTES / 4, stream) == CUDA_SUCCESS);
    CHECK(amb_lease_commit(lease, AMB_OUT(.stream = stream), NULL) == AMB_OK);
    CHECK(amb_pub_flush(pub, 0, 5 * AMB_SEC) == AMB_OK);
    return keep;
}

/* Kept memory is nobody else's, before and after the end of its connection. */
static void keeping(void)
{
    CUdeviceptr kept, at;
    struct amb_keep *keep = NULL;
    for (int i = 0; i < 2; i++) {
        struct amb_pub *pub;
        struct amb_conn *conn = connect_to();
        CHECK(amb_pub_open(conn, TOPIC ".kept", AMB_PUB(.lease_mem = AMB_MEM_CUDA), &pub) ==
              AMB_OK);
        keep = i == 0 ? lease_filled(pub, 5, true, &kept) : keep;
        for (int other = 0; other < 20; other++) {
            (void)lease_filled(pub, 6, false, &at);
            CHECK(at != kept);
        }
        CHECK(amb_close(conn, 5 * AMB_SEC) == AMB_OK);
        CHECK(is_word(kept, BYTES, 5));
    }
    CHECK(cuMemsetD32Async(kept, 7, BYTES / 4, stream) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS && is_word(kept, BYTES, 7));
    amb_lease_unkeep(keep);
}

static void order(void)
{
    struct amb_pub *pub;
    struct amb_sub *sub;
    begin_cuda();
    struct amb_conn *conn = connect_to();
    CHECK(amb_subscribe(conn, TOPIC, AMB_SUB(.mem = AMB_MEM_AS_SENT), &sub) == AMB_OK);
    CHECK(amb_pub_open(conn, TOPIC, AMB_PUB(.lease_mem = AMB_MEM_CUDA), &pub) == AMB_OK);
    order_of_posts(conn, pub, sub);
    order_of_leases(pub, sub);
    forwarding(conn, pub, sub);
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    CHECK(amb_pub_stat(pub, &info) == AMB_OK && info.staged_bytes == 0 && info.leases == 0);
    close_while_it_runs();
    keeping();
    CHECK(amb_close(conn, 5 * AMB_SEC) == AMB_OK);
    CHECK(cuMemFree(memory) == CUDA_SUCCESS && cuStreamDestroy(stream) == CUDA_SUCCESS);
    CHECK(fakecuda_left() == 0);
}

/* ---- torture ---- */

#define AT_ONCE 4
#define CODES 8u
#define KINDS 3u
#define CALLS 120u /* about as many as there are */

/* The failures of a run. */
struct plan {
    const char *name;           /* of the call; "*": any */
    unsigned long turn, second; /* second: another call, 0: none */
    const char *code;
    enum amb_mem kind; /* of the subscriber */
    bool is_late;
};

/* The system, memory, a handle, three sticky ones, the unknown one, support. Not 1 (a wrong
 * value): of a pointer that is no error but an answer, and says that it is plain host memory.
 */
static const char *const codes[CODES] = {"304", "2", "400", "700", "719", "226", "999", "801"};
static const enum amb_mem kinds[KINDS] = {AMB_MEM_CUDA, AMB_MEM_PINNED, AMB_MEM_CUDA_MANAGED};

/* Every function that libamb and brokerd have of the driver. */
#define NAME(name) #name,
static const char *const names[] = {AMB_CUDA_API(NAME)};
#define NAMES (sizeof(names) / sizeof(names[0]))

/* Each function at its first call, then each at its second, and so on; codes and kinds in turn. */
static struct plan plan_of_call(unsigned long number)
{
    unsigned long round = number / NAMES;
    return (struct plan){.name = names[number % NAMES],
                         .turn = round + 1,
                         .code = codes[(number + round) % CODES],
                         .kind = kinds[(number / CODES + round) % KINDS],
                         .is_late = (number + round) % 2 == 1};
}

/* Single failures first, then pairs. */
static struct plan plan_of(unsigned long number)
{
    struct plan plan = {
        .name = "*", .code = codes[number % CODES], .kind = kinds[number / CODES % KINDS]};
    number /= CODES * KINDS;
    plan.is_late = number % 2 == 1;
    number /= 2;
    plan.turn = number % CALLS + 1;
    number /= CALLS;
    plan.second = number == 0 ? 0 : plan.turn + 1 + number * 7 % 40;
    return plan;
}

/* Publishes and receives what it can. Any of it may fail; none of it may hang or crash. */
static void try_gpu(struct amb_conn *conn, enum amb_mem kind)
{
    struct amb_pub *pub;
    struct amb_sub *sub;
    struct amb_msg *msg;
    struct amb_lease *lease;
    char topic[64];
    (void)snprintf(topic, sizeof(topic), TOPIC ".p%d", (int)getpid());
    enum amb_mem leased = kind == AMB_MEM_PINNED ? AMB_MEM_PINNED : AMB_MEM_CUDA;
    if (amb_subscribe(conn, topic, AMB_SUB(.mem = kind), &sub) != AMB_OK) {
        return;
    }
    if (amb_pub_open(conn, topic, AMB_PUB(.lease_mem = leased), &pub) != AMB_OK) {
        return;
    }
    const struct amb_out *out =
        AMB_OUT(.data = (const void *)(uintptr_t)memory, .len = BYTES, .stream = stream);
    for (unsigned i = 0; i < 2; i++) {
        (void)!amb_pub_post(pub, out, 5 * AMB_SEC, NULL);
        (void)!amb_pub_send(pub, (const void *)(uintptr_t)memory, 64, 5 * AMB_SEC);
        if (amb_lease(pub, BYTES, 5 * AMB_SEC, &lease) == AMB_OK) {
            (void)amb_lease_commit(lease, AMB_OUT(.stream = stream), NULL);
        }
    }
    (void)!amb_pub_flush(pub, 0, 5 * AMB_SEC);
    while (amb_next(sub, 20 * AMB_MS, &msg) == AMB_OK) {
        (void)amb_msg_data_on(msg, stream);
        amb_msg_release_on(msg, stream);
    }
}

static void host_goes_on(struct amb_conn *conn)
{
    struct amb_sub *sub;
    struct amb_msg *msg;
    char topic[64];
    (void)snprintf(topic, sizeof(topic), "host.p%d", (int)getpid());
    CHECK(amb_subscribe(conn, topic, NULL, &sub) == AMB_OK);
    CHECK(amb_publish(conn, topic, "host", 4, 5 * AMB_SEC) == AMB_OK);
    CHECK(amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK);
    CHECK(memcmp(amb_msg_data(msg), "host", 4) == 0);
    amb_msg_release(msg);
}

/* In a process of its own. Exit 2: there are not so many calls. */
static int one_run(const struct plan *plan)
{
    char text[128], second[32] = "";
    (void)alarm(60);
    if (plan->is_late) {
        (void)setenv("FAKECUDA_DELAY_US", "300", 1);
    }
    begin_cuda();
    struct amb_conn *conn = connect_to();
    if (plan->second != 0) {
        (void)snprintf(second, sizeof(second), ",*:%lu=%s", plan->second, plan->code);
    }
    (void)snprintf(text, sizeof(text), "%s:%lu=%s%s", plan->name, plan->turn, plan->code, second);
    fakecuda_fail(text);
    try_gpu(conn, plan->kind);
    bool has_failed = fakecuda_failures() != 0;
    fakecuda_fail(NULL);
    host_goes_on(conn);
    CHECK(amb_close(conn, 5 * AMB_SEC) != AMB_ETIMEDOUT);
    return has_failed ? 0 : 2;
}

static bool is_sticky(const char *code)
{
    return strcmp(code, "700") == 0 || strcmp(code, "719") == 0 || strcmp(code, "226") == 0;
}

static pid_t begin_run(const struct plan *plan)
{
    pid_t pid = fork();
    if (pid == 0) {
        int result = one_run(plan);
        if (is_sticky(plan->code)) {
            _exit(result); /* Objects of a lost device cannot be freed. */
        }
        exit(result);
    }
    CHECK(pid > 0);
    return pid;
}

static void torture(unsigned long count, unsigned long first, unsigned long stride,
                    struct plan (*plan_at)(unsigned long))
{
    struct {
        pid_t pid;
        struct plan plan;
    } runs[AT_ONCE] = {{0}};
    unsigned long begun = 0, ended = 0, failed_calls = 0;
    while (ended < count) {
        for (size_t i = 0; i < AT_ONCE && begun < count; i++) {
            if (runs[i].pid == 0) {
                runs[i].plan = plan_at(first + begun++ * stride);
                runs[i].pid = begin_run(&runs[i].plan);
            }
        }
        int status;
        pid_t pid = wait(&status);
        size_t i = 0;
        while (i < AT_ONCE && runs[i].pid != pid) {
            i++;
        }
        CHECK(pid > 0 && i < AT_ONCE);
        if (!WIFEXITED(status) || WEXITSTATUS(status) == 1) {
            const struct plan *plan = &runs[i].plan;
            (void)fprintf(
                stderr,
                "gpu-fake: call %lu of %s, and %lu, answering %s, kind %d, late %d: status "
                "%x\n",
                plan->turn, plan->name, plan->second, plan->code, (int)plan->kind, plan->is_late,
                (unsigned)status);
            exit(1);
        }
        failed_calls += WEXITSTATUS(status) == 0;
        runs[i].pid = 0;
        ended++;
    }
    (void)printf("{\"check\": \"torture\", \"processes\": %lu, \"failed_calls\": %lu}\n", ended,
                 failed_calls);
}

static void try_once(void)
{
    begin_cuda();
    struct amb_conn *conn = connect_to();
    try_gpu(conn, AMB_MEM_CUDA);
    host_goes_on(conn);
    CHECK(amb_close(conn, 5 * AMB_SEC) != AMB_ETIMEDOUT);
}

/* ---- classes of errors ---- */

static void an_unknown_error_stages(void)
{
    struct amb_pub *pub;
    struct amb_sub *sub;
    struct amb_msg *msg;
    CUdeviceptr more;
    begin_cuda();
    struct amb_conn *conn = connect_to();
    CHECK(amb_subscribe(conn, TOPIC ".class", NULL, &sub) == AMB_OK);
    CHECK(amb_pub_open(conn, TOPIC ".class", NULL, &pub) == AMB_OK);
    CHECK(cuMemsetD32Async(memory, 13, BYTES / 4, stream) == CUDA_SUCCESS);
    fakecuda_fail("cuIpcOpenMemHandle:1=999");
    const struct amb_out *out =
        AMB_OUT(.data = (const void *)(uintptr_t)memory, .len = BYTES, .stream = stream);
    CHECK(amb_pub_post(pub, out, 5 * AMB_SEC, NULL) == AMB_OK);
    CHECK(amb_pub_flush(pub, 0, 5 * AMB_SEC) == AMB_OK);
    fakecuda_fail(NULL);
    struct amb_pub_info info = AMB_INIT(amb_pub_info);
    CHECK(amb_pub_stat(pub, &info) == AMB_OK && info.staged_bytes == BYTES);
    CHECK(amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK && amb_msg_size(msg) == BYTES);
    const uint32_t *words = amb_msg_data(msg);
    CHECK(words != NULL && words[0] == 13 && words[BYTES / 4 - 1] == 13);
    amb_msg_release(msg);
    CHECK(cuMemAlloc(&more, 64) == CUDA_SUCCESS && cuMemFree(more) == CUDA_SUCCESS);
    CHECK(amb_close(conn, 5 * AMB_SEC) == AMB_OK);
}

static void a_contained_error_fences(void)
{
    struct amb_pub *pub;
    begin_cuda();
    struct amb_conn *conn = connect_to();
    CHECK(amb_pub_open(conn, TOPIC ".class", NULL, &pub) == AMB_OK);
    const struct amb_out *out =
        AMB_OUT(.data = (const void *)(uintptr_t)memory, .len = BYTES, .stream = stream);
    fakecuda_fail("cuMemcpyAsync:1=226");
    CHECK(amb_pub_post(pub, out, 5 * AMB_SEC, NULL) == AMB_ECUDA);
    fakecuda_fail(NULL);
    /* The program's own calls fail too, and none of ours is made. */
    CHECK(cuStreamSynchronize(stream) == CUDA_ERROR_CONTAINED);
    CHECK(amb_pub_post(pub, out, 5 * AMB_SEC, NULL) == AMB_ECUDA);
    host_goes_on(conn);
    CHECK(amb_close(conn, 5 * AMB_SEC) != AMB_ETIMEDOUT);
}

static void in_a_child(void (*fn)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        (void)alarm(60);
        fn();
        _exit(0); /* Objects of a lost device cannot be freed. */
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

static void classes(void)
{
    in_a_child(an_unknown_error_stages);
    in_a_child(a_contained_error_fences);
}

/* ---- another broker ---- */

/* Publishes and receives until `count` messages came from GPU memory in a row. */
static void exchange(struct amb_pub *pub, struct amb_sub *sub, unsigned count)
{
    const struct amb_out *out =
        AMB_OUT(.data = (const void *)(uintptr_t)memory, .len = BYTES, .stream = stream);
    unsigned in_a_row = 0;
    int64_t deadline = amb_clock_monotonic_ns() + 30 * AMB_SEC;
    while (in_a_row < count) {
        struct amb_msg *msg;
        CHECK(amb_clock_monotonic_ns() < deadline);
        bool is_sent = amb_pub_post(pub, out, AMB_SEC, NULL) == AMB_OK;
        if (!is_sent || amb_next(sub, AMB_SEC, &msg) != AMB_OK) {
            in_a_row = 0;
            continue;
        }
        in_a_row = strcmp(amb_msg_path(msg), "cuda_ipc") == 0 ? in_a_row + 1 : 0;
        if (in_a_row != 0) {
            CHECK(is_word((uintptr_t)amb_msg_data_on(msg, stream), BYTES, 11));
        }
        amb_msg_release_on(msg, stream);
    }
}

/* Says a word, and goes on at the end of standard input. */
static void say_and_wait(const char *word)
{
    char byte;
    (void)puts(word);
    (void)fflush(stdout);
    while (read(0, &byte, 1) > 0) {
    }
}

static struct amb_conn *begin_exchange(uint32_t attempts, struct amb_pub **pub,
                                       struct amb_sub **sub)
{
    begin_cuda();
    CHECK(cuMemsetD32Async(memory, 11, BYTES / 4, stream) == CUDA_SUCCESS);
    struct amb_conn *conn = connect_with_attempts(attempts);
    CHECK(amb_subscribe(conn, TOPIC, AMB_SUB(.mem = AMB_MEM_CUDA), sub) == AMB_OK);
    CHECK(amb_pub_open(conn, TOPIC, NULL, pub) == AMB_OK);
    exchange(*pub, *sub, 5);
    return conn;
}

static void again(void)
{
    struct amb_pub *pub;
    struct amb_sub *sub;
    struct amb_conn *conn = begin_exchange(0, &pub, &sub);
    say_and_wait("first"); /* Until the old broker is dead and the new one there. */
    exchange(pub, sub, 5);
    (void)!amb_close(conn, 5 * AMB_SEC);
}

/* Is not connected again, and leaves its connection lying about. */
static void idle(void)
{
    struct amb_pub *pub;
    struct amb_sub *sub;
    struct amb_conn *conn = begin_exchange(AMB_NONE, &pub, &sub);
    say_and_wait("idle");
    (void)!amb_close(conn, 5 * AMB_SEC);
}

static void keep(void)
{
    struct amb_pub *pub;
    struct amb_sub *sub;
    struct amb_msg *msg;
    struct amb_conn *conn = begin_exchange(0, &pub, &sub);
    const struct amb_out *out =
        AMB_OUT(.data = (const void *)(uintptr_t)memory, .len = BYTES, .stream = stream);
    CHECK(amb_pub_post(pub, out, AMB_SEC, NULL) == AMB_OK);
    CHECK(amb_next(sub, 5 * AMB_SEC, &msg) == AMB_OK);
    CHECK(strcmp(amb_msg_path(msg), "cuda_ipc") == 0);
    say_and_wait("held");
    CHECK(is_word((uintptr_t)amb_msg_data_on(msg, stream), BYTES, 11));
    amb_msg_release_on(msg, stream);
    exchange(pub, sub, 5);
    (void)!amb_close(conn, 5 * AMB_SEC);
}

/* ---- death ---- */

static void publish(void)
{
    struct amb_pub *pub;
    begin_cuda();
    struct amb_conn *conn = connect_to();
    CHECK(amb_pub_open(conn, TOPIC, AMB_PUB(.lease_mem = AMB_MEM_CUDA), &pub) == AMB_OK);
    CHECK(amb_pub_wait_subscribers(pub, 1, 20 * AMB_SEC) == AMB_OK);
    for (uint32_t i = 0; i < HELD; i++) {
        struct amb_lease *lease;
        CHECK(amb_lease(pub, BYTES, 5 * AMB_SEC, &lease) == AMB_OK);
        CUdeviceptr at = (uintptr_t)amb_lease_data_on(lease, stream);
        CHECK(cuMemsetD32Async(at, 100 + i, BYTES / 4, stream) == CUDA_SUCCESS);
        CHECK(amb_lease_commit(lease, AMB_OUT(.stream = stream), NULL) == AMB_OK);
    }
    CHECK(amb_pub_flush(pub, 0, 20 * AMB_SEC) == AMB_OK);
    (void)puts("sent");
    (void)fflush(stdout);
    for (;;) {
        (void)pause();
    }
}

static void hold(void)
{
    struct amb_sub *sub;
    struct amb_msg *held[HELD];
    char byte;
    begin_cuda();
    struct amb_conn *conn = connect_to();
    CHECK(amb_subscribe(conn, TOPIC, AMB_SUB(.mem = AMB_MEM_CUDA), &sub) == AMB_OK);
    for (uint32_t i = 0; i < HELD; i++) {
        CHECK(amb_next(sub, 20 * AMB_SEC, &held[i]) == AMB_OK);
    }
    (void)puts("held");
    (void)fflush(stdout);
    while (read(0, &byte, 1) > 0) {
    }
    for (uint32_t i = 0; i < HELD; i++) {
        CHECK(is_word((uintptr_t)amb_msg_data_on(held[i], stream), BYTES, 100 + i));
        amb_msg_release_on(held[i], stream);
    }
    CHECK(amb_close(conn, 5 * AMB_SEC) == AMB_OK);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "order") == 0) {
        order();
    } else if (strcmp(mode, "torture") == 0 && argc > 4) {
        torture((unsigned long)atoi(argv[2]), (unsigned long)atoi(argv[3]),
                (unsigned long)atoi(argv[4]), plan_of);
    } else if (strcmp(mode, "calls") == 0 && argc > 4) {
        torture((unsigned long)atoi(argv[2]), (unsigned long)atoi(argv[3]),
                (unsigned long)atoi(argv[4]), plan_of_call);
    } else if (strcmp(mode, "names") == 0) {
        for (size_t i = 0; i < NAMES; i++) {
            (void)puts(names[i]);
        }
    } else if (strcmp(mode, "try") == 0) {
        try_once();
    } else if (strcmp(mode, "classes") == 0) {
        classes();
    } else if (strcmp(mode, "again") == 0) {
        again();
    } else if (strcmp(mode, "idle") == 0) {
        idle();
    } else if (strcmp(mode, "keep") == 0) {
        keep();
    } else if (strcmp(mode, "faults") == 0) {
        CHECK(cuInit(0) == CUDA_SUCCESS);
        (void)printf("%lu\n", fakecuda_faults());
    } else if (strcmp(mode, "publish") == 0) {
        publish();
    } else if (strcmp(mode, "hold") == 0) {
        hold();
    } else {
        (void)fprintf(
            stderr,
            "usage: gpu-fake order|torture|calls COUNT FIRST STRIDE|names|try|classes|again|idle|"
            "keep|faults|publish|hold\n");
        return 64;
    }
    return 0;
}
