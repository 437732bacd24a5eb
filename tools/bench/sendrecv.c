/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-bench sendrecv: a message there and one of the same size back, one at a time, as often as
 * --n-iter says, after --n-warmup-iter of them. Each round trip is timed. Bandwidth is that of both
 * messages, latency is half of the round trip.
 */
#include "tools/bench/sendrecv.h"

#include "tools/bench/iterations.h"
#include "tools/bench/pingpong.h"

#include "wire/base/clock.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

struct sendrecv {
    struct amb_team team; /* first: a child is given it alone */
    int64_t *took_ns;     /* of each round trip; shared with the asker */
};

static const struct sendrecv *of_team(const struct amb_team *team)
{
    _Static_assert(offsetof(struct sendrecv, team) == 0, "a team is the beginning of its run");
    return (const struct sendrecv *)(const void *)team;
}

/* ETIMEDOUT: an answer did not come. */
static enum amb_status trip(struct amb_pingpong *end)
{
    bool is_answered = false;
    enum amb_status status = amb_pingpong_trip(end, &is_answered);
    return status == AMB_OK && !is_answered ? AMB_ETIMEDOUT : status;
}

static enum amb_status ask(struct amb_pingpong *end)
{
    const struct amb_team *team = end->team;
    const struct amb_bench *bench = team->bench;
    int64_t *took_ns = of_team(team)->took_ns;
    enum amb_status status = AMB_OK;
    for (uint64_t i = 0; i < bench->warm_iterations && status == AMB_OK; i++) {
        status = trip(end);
    }
    atomic_store(&team->shared->is_warm, true);
    int64_t start_ns = amb_clock_monotonic_ns();
    for (uint64_t i = 0;
         i < bench->iterations && status == AMB_OK && amb_team_phase(team) == AMB_TEAM_RUN; i++) {
        status = trip(end);
        int64_t now_ns = amb_clock_monotonic_ns();
        took_ns[i] = now_ns - start_ns;
        start_ns = now_ns;
        atomic_store(&team->shared->pub[0].sent, i + 1);
    }
    return status;
}

static void asker_main(const struct amb_team *team, unsigned index)
{
    (void)index;
    amb_pingpong_asker(team, "sendrecv", ask);
}

static json_t *make_result(struct sendrecv *run, const struct amb_team_mark *a,
                           const struct amb_team_mark *b)
{
    const struct amb_team_shared *shared = run->team.shared;
    const struct amb_bench *bench = run->team.bench;
    const struct amb_team_sub *counts = &shared->sub[0];
    uint64_t n = atomic_load(&shared->pub[0].sent);
    double bytes = 2.0 * (double)bench->size;
    json_t *result = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:b, s:s, s:s, s:I, s:I, s:I, s:s}", "workload", "sendrecv",
        "link", bench->link != NULL ? bench->link : "auto", "path", counts->path, "memory",
        bench->mem == AMB_MEM_CUDA ? "cuda" : "host", "size", (json_int_t)bench->size, "touch",
        bench->is_touch, "send", amb_bench_way(bench), "receive", amb_bench_place(bench),
        "iterations", (json_int_t)n, "warm_iterations", (json_int_t)bench->warm_iterations,
        "corrupt", (json_int_t)counts->corrupt, "status",
        counts->corrupt > 0      ? "wrong bytes"
        : n == bench->iterations ? "ok"
                                 : "cut short");
    amb_iterations_add(run->took_ns, n, bytes, bench->is_detailed, result);
    (void)json_object_set_new(result, "latency_us",
                              json_real(amb_iterations_mean(run->took_ns, n) / 2e3));
    (void)json_object_set_new(result, "latency_us_median",
                              json_real((double)amb_iterations_median(run->took_ns, n) / 2e3));
    amb_team_add_costs(&run->team, a, b, 2.0 * (double)n, bytes * (double)n, result);
    return result;
}

static enum amb_exit measure(struct sendrecv *run, json_t **out)
{
    struct amb_team_mark a;
    struct amb_team_mark b;
    enum amb_exit code = amb_pingpong_measure(&run->team, &a, &b);
    if (code == AMB_EXIT_OK) {
        *out = make_result(run, &a, &b);
    }
    return code;
}

enum amb_exit amb_bench_sendrecv(const struct amb_bench *options, json_t **out)
{
    struct amb_bench bench = *options;
    struct sendrecv run;
    size_t bytes = (size_t)bench.iterations * sizeof(*run.took_ns);
    bench.subs = 1;
    bench.pubs = 1;
    if (bench.own == AMB_BENCH_OWN_NONE && bench.wants_copy) {
        bench.own = AMB_BENCH_OWN_FRESH;
    }
    enum amb_exit code = amb_team_init(&run.team, &bench);
    if (code != AMB_EXIT_OK) {
        return code;
    }
    void *times =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (times == MAP_FAILED) {
        amb_tool_error("no memory for the times: %s", strerror(errno));
        amb_team_fini(&run.team);
        return AMB_EXIT_SOFTWARE;
    }
    run.took_ns = times;
    amb_team_start(&run.team, amb_pingpong_responder, 0, true);
    amb_team_start(&run.team, asker_main, 0, false);
    code = measure(&run, out);
    amb_team_fini(&run.team);
    (void)munmap(times, bytes);
    return code;
}
