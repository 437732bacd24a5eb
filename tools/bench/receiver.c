/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/receiver.h"

#include "tools/bench/gpu.h"
#include "tools/bench/payload.h"
#include "wire/base/clock.h"

#include <stdio.h>

#define MANY 256u

enum amb_status amb_receiver_init(struct amb_receiver *receiver, const struct amb_bench *bench,
                                  struct amb_conn *conn, const char *topic,
                                  struct amb_team_sub *counts)
{
    *receiver = (struct amb_receiver){.bench = bench, .counts = counts};
    struct amb_sub_options options = AMB_INIT(amb_sub_options);
    if (bench->mem == AMB_MEM_CUDA) {
        enum amb_status status = amb_bench_gpu_open(bench->device, &receiver->gpu);
        if (status != AMB_OK) {
            return status;
        }
        options.mem = AMB_MEM_CUDA;
        options.device = bench->device;
    }
    options.slow = bench->slow;
    options.copy = bench->wants_copy ? 1 : 0;
    /* A pause of the machine is no reason to lose messages of a measurement. */
    options.slow_block_ns = bench->slow == AMB_SLOW_BLOCK ? 60 * AMB_SEC : 0;
    if (bench->own != AMB_BENCH_OWN_NONE) {
        enum amb_status status = amb_bench_own_init(&receiver->own, bench, receiver->gpu);
        if (status != AMB_OK) {
            return status;
        }
        options.allocator = &receiver->own.allocator;
    }
    return amb_subscribe(conn, topic, &options, &receiver->sub);
}

bool amb_receiver_read(struct amb_receiver *receiver, const struct amb_msg *msg, uint64_t *word)
{
    const struct amb_bench *bench = receiver->bench;
    if (receiver->gpu == NULL) {
        return amb_payload_check(amb_msg_data(msg), amb_msg_size(msg), (size_t)bench->size,
                                 bench->is_touch, word);
    }
    /* The topic's only publisher counts as the log does, which may be older than this run. */
    if (receiver->log_first == 0) {
        receiver->log_first = amb_msg_seq(msg);
    }
    *word = amb_payload_word(0, amb_msg_seq(msg) - receiver->log_first);
    const void *at = amb_msg_data_on(msg, amb_bench_gpu_stream(receiver->gpu));
    if (at == NULL || amb_msg_size(msg) != bench->size || !bench->is_touch) {
        return at != NULL && amb_msg_size(msg) == bench->size;
    }
    uint32_t before = receiver->wrong;
    return amb_bench_gpu_check(receiver->gpu, at, bench->size, (uint32_t)*word) == AMB_OK &&
           amb_bench_gpu_wrong(receiver->gpu, &receiver->wrong) == AMB_OK &&
           receiver->wrong == before;
}

void amb_receiver_release(struct amb_receiver *receiver, struct amb_msg *msg)
{
    if (receiver->gpu != NULL && receiver->bench->is_touch) {
        amb_msg_release_on(msg, amb_bench_gpu_stream(receiver->gpu));
    } else {
        amb_msg_release(msg);
    }
}

/* Late against its own schedule, however late the publisher was: a broker that holds publishers
 * back does not hide what that costs the messages behind. */
static void note_late(struct amb_receiver *receiver, uint64_t publisher, uint64_t seq,
                      int64_t now_ns)
{
    const struct amb_team_shared *shared = receiver->team->shared;
    int64_t due_ns = amb_team_due_ns(receiver->team, publisher, seq);
    if (due_ns >= shared->from_ns && due_ns < shared->until_ns) {
        amb_hdr_record(receiver->late_ns, now_ns - due_ns);
    }
}

static void check(struct amb_receiver *receiver, const struct amb_msg *msg, int64_t now_ns)
{
    struct amb_team_sub *counts = receiver->counts;
    uint64_t word;
    uint64_t lost = amb_msg_lost(msg, NULL);
    counts->lost += lost == UINT64_MAX ? 1 : lost;
    receiver->received++;
    if (!amb_receiver_read(receiver, msg, &word)) {
        counts->corrupt++;
        return;
    }
    uint64_t publisher = word >> 48;
    uint64_t seq = word & AMB_PAYLOAD_SEQ_MASK;
    if (publisher >= AMB_BENCH_PUBS_MAX) {
        counts->corrupt++;
        return;
    }
    uint64_t next = receiver->next[publisher];
    if (seq > next) {
        counts->gaps += seq - next;
    } else if (seq < next) {
        counts->disorder++;
    }
    receiver->next[publisher] = seq + 1;
    if (receiver->team != NULL) {
        note_late(receiver, publisher, seq, now_ns);
    }
}

/* Publishers read these to stay within their window, the parent to count. */
static void show(const struct amb_receiver *receiver, bool is_timed)
{
    struct amb_team_sub *counts = receiver->counts;
    if (is_timed) {
        atomic_store_explicit(&counts->last_ns, amb_clock_monotonic_ns(), memory_order_relaxed);
    }
    for (unsigned i = 0; i < receiver->bench->pubs; i++) {
        atomic_store_explicit(&counts->next[i], receiver->next[i], memory_order_relaxed);
    }
    /* Pairs with the acquire loads of publishers and parent. */
    atomic_store_explicit(&counts->received, receiver->received, memory_order_release);
}

enum amb_status amb_receiver_run(struct amb_receiver *receiver, int64_t timeout_ns)
{
    struct amb_msg *msgs[MANY];
    size_t n = 0;
    bool is_large = receiver->bench->size >= AMB_BENCH_TIMED_SIZE;
    enum amb_status status =
        amb_next_many(receiver->sub, timeout_ns, msgs, is_large ? 1 : MANY, &n);
    if (status != AMB_OK) {
        return status;
    }
    if (receiver->received == 0 && n > 0) {
        const char *path = amb_msg_path(msgs[0]);
        (void)snprintf(receiver->counts->path, sizeof(receiver->counts->path), "%s",
                       path != NULL ? path : "");
    }
    int64_t now_ns = receiver->team != NULL ? amb_clock_monotonic_ns() : 0;
    for (size_t i = 0; i < n; i++) {
        check(receiver, msgs[i], now_ns);
        amb_receiver_release(receiver, msgs[i]);
    }
    show(receiver, is_large);
    return AMB_OK;
}

void amb_receiver_fini(struct amb_receiver *receiver, int64_t timeout_ns)
{
    (void)amb_sub_close(receiver->sub, timeout_ns);
    receiver->sub = NULL;
    amb_bench_own_fini(&receiver->own);
    amb_bench_gpu_close(&receiver->gpu);
}

void amb_receiver_main(const struct amb_team *team, unsigned index)
{
    struct amb_team_sub *counts = &team->shared->sub[index];
    struct amb_receiver receiver = {0};
    char name[32];
    (void)snprintf(name, sizeof(name), "bench-sub%u", index);
    struct amb_conn *conn = amb_team_connect(team, name);
    if (conn == NULL) {
        return;
    }
    enum amb_status status =
        amb_receiver_init(&receiver, team->bench, conn, team->bench->topic, counts);
    if (status != AMB_OK) {
        amb_team_fail(team, conn, name, status);
        return;
    }
    if (team->bench->rate > 0) {
        receiver.team = team;
        receiver.late_ns = &team->shared->late_ns[index];
    }
    atomic_store(&counts->is_ready, true);
    while (amb_team_phase(team) != AMB_TEAM_EXIT) {
        status = amb_receiver_run(&receiver, 50 * AMB_MS);
        if (status != AMB_OK && status != AMB_ETIMEDOUT) {
            amb_team_fail(team, conn, name, status);
            return;
        }
    }
    amb_receiver_fini(&receiver, AMB_SEC);
    (void)amb_close(conn, AMB_SEC);
}
