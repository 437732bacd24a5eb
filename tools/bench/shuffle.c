/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-bench shuffle: in each round every worker sends a partition to every other one, and is
 * through when it has those of all others. Worker `from` publishes to topic.TO.from, and subscribes
 * to topic.OWN.*. A round begins when all have met, and takes as long as its slowest worker. Each
 * byte is written before it and checked within it, as a merge reads them.
 *
 *     meet ─► send one, take what is there, send one ... ─► all sent, all taken ─► next round
 */
#include "tools/bench/shuffle.h"

#include "tools/bench/gpu.h"
#include "tools/bench/iterations.h"
#include "tools/bench/partition.h"
#include "tools/bench/team.h"

#include "wire/base/clock.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SYNC_NS (20 * AMB_SEC)
#define SETTLE_NS (30 * AMB_SEC)
#define ROOM_NS AMB_MS          /* a publisher waits so long, then takes what has come */
#define TAKE_NS (100 * AMB_MS)  /* between two looks at the phase */
#define STUCK_NS (30 * AMB_SEC) /* a round without progress is over */
#define NAP_AFTER_NS (200 * AMB_US)
#define TOPIC_MAX 256u

/* When a worker was in a round. */
struct span {
    int64_t begin_ns, end_ns;
};

struct shuffle {
    struct amb_team team; /* first: a child is given it alone */
    /* Shared with the workers. */
    _Atomic uint64_t *met;
    struct span *spans; /* [round][worker] */
};

struct worker {
    const struct shuffle *run;
    const struct amb_bench *bench;
    unsigned index, others;
    struct amb_conn *conn;
    struct amb_bench_gpu *gpu;
    struct amb_sub *sub;
    struct amb_team_sub *counts;
    uint32_t wrong; /* words on a GPU, so far */
    /* By the place of the other one: 0 is the next worker. */
    struct amb_pub *pub[AMB_PARTITION_WORKERS_MAX];
    void *data[AMB_PARTITION_WORKERS_MAX]; /* NULL: leased */
    struct amb_partition part[AMB_PARTITION_WORKERS_MAX];
    uint64_t seq[AMB_PARTITION_WORKERS_MAX]; /* of the partition that is on its way; 0: none */
};

static const struct shuffle *of_team(const struct amb_team *team)
{
    _Static_assert(offsetof(struct shuffle, team) == 0, "a team is the beginning of its run");
    return (const struct shuffle *)(const void *)team;
}

static uint64_t rounds_of(const struct amb_bench *bench)
{
    return bench->warm_iterations + bench->iterations;
}

static unsigned other(const struct worker *worker, unsigned place)
{
    return (worker->index + 1 + place) % worker->bench->workers;
}

/* ---- set-up ---- */

static enum amb_status open_publisher(struct worker *worker, unsigned place)
{
    const struct amb_bench *bench = worker->bench;
    char topic[TOPIC_MAX];
    bool is_gpu_lease = worker->gpu != NULL && bench->is_lease;
    (void)snprintf(topic, sizeof(topic), "%s.%u.%u", bench->topic, other(worker, place),
                   worker->index);
    enum amb_status status =
        amb_pub_open(worker->conn, topic,
                     AMB_PUB(.lease_mem = is_gpu_lease ? AMB_MEM_CUDA : AMB_MEM_DEFAULT,
                             .device = is_gpu_lease ? bench->device : 0),
                     &worker->pub[place]);
    if (status == AMB_OK && !bench->is_lease) {
        worker->data[place] = amb_bench_buffer_make(worker->gpu, bench->size);
        status = worker->data[place] != NULL ? AMB_OK : AMB_ENOMEM;
    }
    return status;
}

static enum amb_status subscribe(struct worker *worker)
{
    const struct amb_bench *bench = worker->bench;
    struct amb_sub_options options = AMB_INIT(amb_sub_options);
    char pattern[TOPIC_MAX];
    options.mem = bench->mem;
    options.device = bench->mem == AMB_MEM_CUDA ? bench->device : 0;
    options.slow = AMB_SLOW_BLOCK;
    options.slow_block_ns = 60 * AMB_SEC;
    options.copy = bench->wants_copy ? 1 : 0;
    (void)snprintf(pattern, sizeof(pattern), "%s.%u.*", bench->topic, worker->index);
    return amb_subscribe(worker->conn, pattern, &options, &worker->sub);
}

static enum amb_status worker_open(struct worker *worker)
{
    const struct amb_bench *bench = worker->bench;
    if (bench->mem == AMB_MEM_CUDA) {
        enum amb_status status = amb_bench_gpu_open(bench->device, &worker->gpu);
        if (status != AMB_OK) {
            return status;
        }
    }
    enum amb_status status = subscribe(worker);
    for (unsigned i = 0; i < worker->others && status == AMB_OK; i++) {
        status = open_publisher(worker, i);
    }
    for (unsigned i = 0; i < worker->others && status == AMB_OK; i++) {
        status = amb_pub_wait_subscribers(worker->pub[i], 1, SYNC_NS);
    }
    return status;
}

static void worker_close(struct worker *worker)
{
    for (unsigned i = 0; i < worker->others; i++) {
        (void)amb_pub_close(worker->pub[i], AMB_SEC);
        if (worker->data[i] != NULL) {
            amb_bench_buffer_free(worker->gpu, worker->data[i], worker->bench->size);
        }
    }
    (void)amb_sub_close(worker->sub, AMB_SEC);
    amb_bench_gpu_close(&worker->gpu);
    (void)amb_close(worker->conn, AMB_SEC);
}

/* ---- a round ---- */

/* All workers are here, or the run is over. */
static void meet(const struct worker *worker)
{
    const struct shuffle *run = worker->run;
    uint64_t workers = worker->bench->workers;
    uint64_t all = atomic_fetch_add(run->met, 1) / workers * workers + workers;
    int64_t begin_ns = amb_clock_monotonic_ns();
    while (atomic_load(run->met) < all && amb_team_phase(&run->team) == AMB_TEAM_RUN) {
        if (amb_clock_monotonic_ns() - begin_ns < NAP_AFTER_NS) {
            (void)sched_yield();
        } else {
            amb_bench_sleep_ns(20 * AMB_US);
        }
    }
}

/* Behind the GPU's stream, if there is one. */
static enum amb_status fill_one(struct worker *worker, unsigned place, void *to)
{
    struct amb_partition *part = &worker->part[place];
    uint64_t size = worker->bench->size;
    if (worker->gpu != NULL) {
        return amb_bench_gpu_fill(worker->gpu, to, size, (uint32_t)amb_partition_word(part));
    }
    amb_partition_fill(part, to, (size_t)size);
    return AMB_OK;
}

/* Writes the partitions of a round; the last ones have arrived, so nobody reads the buffers. */
static enum amb_status fill(struct worker *worker, uint64_t round)
{
    enum amb_status status = AMB_OK;
    for (unsigned i = 0; i < worker->others && status == AMB_OK; i++) {
        worker->part[i] =
            (struct amb_partition){.from = worker->index, .to = other(worker, i), .round = round};
        if (worker->data[i] == NULL) {
            continue;
        }
        if (worker->seq[i] != 0) {
            status = amb_pub_flush(worker->pub[i], worker->seq[i], SETTLE_NS);
        }
        if (status == AMB_OK) {
            status = fill_one(worker, i, worker->data[i]);
        }
    }
    return status;
}

static enum amb_status send_lease(struct worker *worker, unsigned place)
{
    const struct amb_partition *part = &worker->part[place];
    struct amb_lease *lease;
    enum amb_status status =
        amb_lease(worker->pub[place], (size_t)worker->bench->size, ROOM_NS, &lease);
    if (status != AMB_OK) {
        return status;
    }
    void *to = worker->gpu != NULL ? amb_lease_data_on(lease, amb_bench_gpu_stream(worker->gpu))
                                   : amb_lease_data(lease);
    status = fill_one(worker, place, to);
    if (status != AMB_OK) {
        amb_lease_abandon(lease);
        return status;
    }
    const struct amb_prop prop = {.name = AMB_PARTITION_PROP, .value = part, .len = sizeof(*part)};
    return amb_lease_commit(
        lease,
        AMB_OUT(.props = &prop, .prop_count = 1, .stream = amb_bench_gpu_stream(worker->gpu)),
        NULL);
}

static enum amb_status send_buffer(struct worker *worker, unsigned place)
{
    const struct amb_prop prop = {.name = AMB_PARTITION_PROP,
                                  .value = &worker->part[place],
                                  .len = sizeof(worker->part[place])};
    return amb_pub_post(worker->pub[place],
                        AMB_OUT(.mem = worker->bench->mem, .data = worker->data[place],
                                .len = (size_t)worker->bench->size, .props = &prop, .prop_count = 1,
                                .stream = amb_bench_gpu_stream(worker->gpu)),
                        ROOM_NS, &worker->seq[place]);
}

/* ETIMEDOUT: there is no room. */
static enum amb_status send_one(struct worker *worker, unsigned place)
{
    enum amb_status status =
        worker->bench->is_lease ? send_lease(worker, place) : send_buffer(worker, place);
    if (status == AMB_OK) {
        status = amb_pub_flush(worker->pub[place], 0, AMB_NOWAIT);
        return status == AMB_EAGAIN || status == AMB_ETIMEDOUT ? AMB_OK : status;
    }
    return status == AMB_EAGAIN ? AMB_ETIMEDOUT : status;
}

/* The bytes: by their checksum, or on a GPU word by word. */
static bool is_whole(struct worker *worker, const struct amb_partition *part,
                     const struct amb_msg *msg)
{
    uint64_t size = worker->bench->size;
    if (amb_msg_size(msg) != size) {
        return false;
    }
    if (worker->gpu == NULL) {
        return amb_partition_is_whole(part, amb_msg_data(msg), (size_t)size);
    }
    const void *at = amb_msg_data_on(msg, amb_bench_gpu_stream(worker->gpu));
    uint32_t before = worker->wrong;
    return at != NULL &&
           amb_bench_gpu_check(worker->gpu, at, size, (uint32_t)amb_partition_word(part)) ==
               AMB_OK &&
           amb_bench_gpu_wrong(worker->gpu, &worker->wrong) == AMB_OK && worker->wrong == before;
}

/* Is it the one of this round, from a worker that has sent none yet? */
static bool check(struct worker *worker, const struct amb_msg *msg, uint64_t round, uint32_t *seen)
{
    struct amb_partition part;
    size_t len = 0;
    const void *value = amb_msg_prop(msg, AMB_PARTITION_PROP, &len);
    if (!amb_partition_read(value, len, &part) || part.to != worker->index || part.round != round ||
        (*seen & 1u << part.from) != 0) {
        return false;
    }
    *seen |= 1u << part.from;
    return is_whole(worker, &part, msg);
}

/* Takes what is there; *taken grows by it. ETIMEDOUT: nothing is. */
static enum amb_status take(struct worker *worker, uint64_t round, int64_t timeout_ns,
                            unsigned *taken, uint32_t *seen)
{
    struct amb_msg *msgs[AMB_PARTITION_WORKERS_MAX];
    size_t count = 0;
    enum amb_status status =
        amb_next_many(worker->sub, timeout_ns, msgs, AMB_PARTITION_WORKERS_MAX, &count);
    for (size_t i = 0; i < count; i++) {
        if (!check(worker, msgs[i], round, seen)) {
            worker->counts->corrupt++;
        }
        if (worker->counts->path[0] == '\0') {
            const char *path = amb_msg_path(msgs[i]);
            (void)snprintf(worker->counts->path, sizeof(worker->counts->path), "%s",
                           path != NULL ? path : "");
        }
        if (worker->gpu == NULL ||
            amb_msg_release_on(msgs[i], amb_bench_gpu_stream(worker->gpu)) == AMB_ESTATE) {
            amb_msg_release(msgs[i]);
        }
    }
    *taken += (unsigned)count;
    return status == AMB_EAGAIN ? AMB_ETIMEDOUT : status;
}

/* Sends to all others and takes theirs. */
static enum amb_status exchange(struct worker *worker, uint64_t round)
{
    unsigned sent = 0, taken = 0;
    uint32_t seen = 0;
    int64_t moved_ns = amb_clock_monotonic_ns();
    while (sent < worker->others || taken < worker->others) {
        unsigned before = sent + taken;
        if (sent < worker->others) {
            enum amb_status status = send_one(worker, sent);
            sent += status == AMB_OK;
            if (status != AMB_OK && status != AMB_ETIMEDOUT) {
                return status;
            }
        }
        int64_t timeout_ns = sent < worker->others ? AMB_NOWAIT : TAKE_NS;
        if (taken < worker->others) {
            enum amb_status status = take(worker, round, timeout_ns, &taken, &seen);
            if (status != AMB_OK && status != AMB_ETIMEDOUT) {
                return status;
            }
        }
        int64_t now_ns = amb_clock_monotonic_ns();
        if (sent + taken != before) {
            moved_ns = now_ns;
        } else if (now_ns - moved_ns > STUCK_NS) {
            return AMB_ETIMEDOUT;
        }
        if (amb_team_phase(&worker->run->team) != AMB_TEAM_RUN) {
            return AMB_ECANCELED;
        }
    }
    return AMB_OK;
}

static enum amb_status exchange_all(struct worker *worker)
{
    const struct amb_bench *bench = worker->bench;
    enum amb_status status = AMB_OK;
    for (uint64_t round = 0; round < rounds_of(bench) && status == AMB_OK; round++) {
        struct span *span = &worker->run->spans[round * bench->workers + worker->index];
        status = fill(worker, round);
        if (status == AMB_OK && worker->gpu != NULL) {
            status = amb_bench_gpu_sync(worker->gpu);
        }
        meet(worker);
        span->begin_ns = amb_clock_monotonic_ns();
        if (status == AMB_OK) {
            status = exchange(worker, round);
        }
        span->end_ns = amb_clock_monotonic_ns();
        if (status == AMB_OK) {
            atomic_store(&worker->counts->received, round + 1);
        }
    }
    return status;
}

static void worker_main(const struct amb_team *team, unsigned index)
{
    struct worker worker = {
        .run = of_team(team),
        .bench = team->bench,
        .index = index,
        .others = team->bench->workers - 1,
        .counts = &team->shared->sub[index],
    };
    char name[32];
    (void)snprintf(name, sizeof(name), "bench-worker%u", index);
    worker.conn = amb_team_connect(team, name);
    if (worker.conn == NULL) {
        return;
    }
    enum amb_status status = worker_open(&worker);
    if (status == AMB_OK) {
        atomic_store(&worker.counts->is_ready, true);
        while (amb_team_phase(team) == AMB_TEAM_SYNC) {
            amb_bench_sleep_ns(AMB_MS);
        }
        status = exchange_all(&worker);
    }
    if (status != AMB_OK) {
        amb_team_fail(team, worker.conn, name, status);
        return;
    }
    while (amb_team_phase(team) != AMB_TEAM_EXIT) {
        amb_bench_sleep_ns(AMB_MS);
    }
    worker_close(&worker);
}

/* ---- the parent ---- */

/* Every worker is through with so many rounds, or a failure ends the wait. */
static void wait_rounds(struct amb_team *team, uint64_t rounds)
{
    for (bool is_over = false; !is_over && !amb_team_failed(team);) {
        is_over = true;
        for (unsigned i = 0; i < team->bench->workers; i++) {
            is_over = is_over && atomic_load(&team->shared->sub[i].received) >= rounds;
        }
        if (!is_over) {
            amb_bench_sleep_ns(AMB_MS);
        }
    }
}

/* From the first worker's begin to the last one's end, for each measured round. */
static void measure_rounds(const struct shuffle *run, int64_t *took_ns)
{
    const struct amb_bench *bench = run->team.bench;
    for (uint64_t i = 0; i < bench->iterations; i++) {
        const struct span *spans = &run->spans[(bench->warm_iterations + i) * bench->workers];
        struct span all = spans[0];
        for (unsigned w = 1; w < bench->workers; w++) {
            all.begin_ns = spans[w].begin_ns < all.begin_ns ? spans[w].begin_ns : all.begin_ns;
            all.end_ns = spans[w].end_ns > all.end_ns ? spans[w].end_ns : all.end_ns;
        }
        took_ns[i] = all.end_ns - all.begin_ns;
    }
}

static json_t *make_result(struct shuffle *run, int64_t *took_ns, const struct amb_team_mark *a,
                           const struct amb_team_mark *b)
{
    const struct amb_bench *bench = run->team.bench;
    const struct amb_team_shared *shared = run->team.shared;
    uint64_t corrupt = 0;
    double messages = (double)bench->workers * (double)(bench->workers - 1);
    double bytes = messages * (double)bench->size;
    double rounds = (double)bench->iterations;
    for (unsigned i = 0; i < bench->workers; i++) {
        corrupt += shared->sub[i].corrupt;
    }
    json_t *result = json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:I, s:s, s:s, s:I, s:I, s:I, s:s}", "workload", "shuffle",
        "link", bench->link != NULL ? bench->link : "auto", "path", shared->sub[0].path, "memory",
        bench->mem == AMB_MEM_CUDA ? "cuda" : "host", "workers", (int)bench->workers, "size",
        (json_int_t)bench->size, "send", bench->is_lease ? "lease" : "post", "receive",
        amb_bench_place(bench), "iterations", (json_int_t)bench->iterations, "warm_iterations",
        (json_int_t)bench->warm_iterations, "corrupt", (json_int_t)corrupt, "status",
        corrupt > 0 ? "wrong bytes" : "ok");
    amb_iterations_add(took_ns, bench->iterations, bytes, bench->is_detailed, result);
    (void)json_object_set_new(result, "round_ms",
                              json_real(amb_iterations_mean(took_ns, bench->iterations) / 1e6));
    (void)json_object_set_new(
        result, "round_ms_median",
        json_real((double)amb_iterations_median(took_ns, bench->iterations) / 1e6));
    amb_team_add_costs(&run->team, a, b, messages * rounds, bytes * rounds, result);
    return result;
}

static enum amb_exit measure(struct shuffle *run, json_t **out)
{
    struct amb_team *team = &run->team;
    const struct amb_bench *bench = team->bench;
    struct amb_team_mark a;
    struct amb_team_mark b;
    if (!amb_team_wait_ready(team, SYNC_NS)) {
        return amb_team_report(team);
    }
    amb_team_set_phase(team, AMB_TEAM_RUN);
    wait_rounds(team, bench->warm_iterations);
    amb_team_mark(team, &a);
    wait_rounds(team, rounds_of(bench));
    amb_team_mark(team, &b);
    enum amb_exit code = amb_team_report(team);
    if (code != AMB_EXIT_OK) {
        return code;
    }
    int64_t *took_ns = calloc(bench->iterations, sizeof(*took_ns));
    if (took_ns == NULL) {
        amb_tool_error("no memory for the times");
        return AMB_EXIT_SOFTWARE;
    }
    measure_rounds(run, took_ns);
    *out = make_result(run, took_ns, &a, &b);
    free(took_ns);
    return AMB_EXIT_OK;
}

enum amb_exit amb_bench_shuffle(const struct amb_bench *options, json_t **out)
{
    struct amb_bench bench = *options;
    struct shuffle run;
    size_t head = 128; /* the meeting's counter has a cache line of its own */
    size_t bytes = head + (size_t)rounds_of(&bench) * bench.workers * sizeof(struct span);
    bench.subs = bench.workers;
    bench.pubs = 0;
    enum amb_exit code = amb_team_init(&run.team, &bench);
    if (code != AMB_EXIT_OK) {
        return code;
    }
    void *shared =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (shared == MAP_FAILED) {
        amb_tool_error("no memory for the times: %s", strerror(errno));
        amb_team_fini(&run.team);
        return AMB_EXIT_SOFTWARE;
    }
    run.met = shared;
    run.spans = (struct span *)(void *)((char *)shared + head);
    for (unsigned i = 0; i < bench.workers; i++) {
        amb_team_start(&run.team, worker_main, i, true);
    }
    code = measure(&run, out);
    amb_team_fini(&run.team);
    (void)munmap(shared, bytes);
    return code;
}
