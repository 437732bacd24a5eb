/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-bench latency: publisher ─► topic.ping ─► responder ─► topic.pong ─► publisher, one
 * message at a time (a closed loop). A round trip passes the broker twice; half of it is shown.
 * With --rate: openloop.c.
 */
#include "tools/bench/latency.h"

#include "tools/bench/openloop.h"
#include "tools/bench/pingpong.h"
#include "tools/bench/team.h"

#include "wire/base/clock.h"

#define SAMPLES_MIN 5u

static bool is_running(const struct amb_team *team)
{
    return amb_team_phase(team) == AMB_TEAM_RUN;
}

static enum amb_status ping(struct amb_pingpong *end)
{
    struct amb_team_shared *shared = end->team->shared;
    const struct amb_bench *bench = end->team->bench;
    enum amb_status status = AMB_OK;
    bool is_answered;
    int64_t begin_ns = amb_clock_monotonic_ns();
    int64_t warm_ns = begin_ns + bench->warm_ns;
    for (unsigned i = 0; status == AMB_OK && is_running(end->team) &&
                         (i < SAMPLES_MIN || amb_clock_monotonic_ns() < warm_ns);
         i++) {
        status = amb_pingpong_trip(end, &is_answered);
        if (i == 0) { /* With all that is made and mapped once. */
            shared->first_ns = amb_clock_monotonic_ns() - begin_ns;
        }
    }
    atomic_store(&shared->is_warm, true);
    int64_t start_ns = amb_clock_monotonic_ns();
    int64_t t0_ns = start_ns;
    uint64_t n = 0;
    uint64_t max = bench->count > 0 ? bench->count : UINT64_MAX;
    while (status == AMB_OK && is_running(end->team) && n < max &&
           (bench->count > 0 || n < SAMPLES_MIN || t0_ns - start_ns < bench->duration_ns)) {
        status = amb_pingpong_trip(end, &is_answered);
        int64_t t1_ns = amb_clock_monotonic_ns();
        if (is_answered) {
            amb_hdr_record(&shared->rtt_ns, t1_ns - t0_ns);
            n++;
        } else {
            shared->unanswered++;
        }
        t0_ns = t1_ns;
    }
    return status;
}

static void ping_main(const struct amb_team *team, unsigned index)
{
    (void)index;
    amb_pingpong_asker(team, "ping", ping);
}

static json_t *make_result(struct amb_team *team, const struct amb_team_mark *a,
                           const struct amb_team_mark *b)
{
    struct amb_team_shared *shared = team->shared;
    const struct amb_bench *bench = team->bench;
    uint64_t n = shared->rtt_ns.total;
    json_t *result =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:b, s:s, s:I, s:I, s:s}", "workload", "latency",
                  "loop", "closed", "link", bench->link != NULL ? bench->link : "auto", "path",
                  shared->sub[0].path, "size", (json_int_t)bench->size, "touch", bench->is_touch,
                  "send", amb_bench_way(bench), "unanswered", (json_int_t)shared->unanswered,
                  "corrupt", (json_int_t)shared->sub[0].corrupt, "status",
                  shared->sub[0].corrupt > 0 ? "wrong bytes"
                  : n > 0                    ? "ok"
                                             : "nothing arrived");
    amb_team_add_percentiles(&shared->rtt_ns, 0.5, result);
    (void)json_object_set_new(result, "first_us", json_real((double)shared->first_ns / 2e3));
    /* Two messages a round trip pass the broker. */
    amb_team_add_costs(team, a, b, 2.0 * (double)n, 2.0 * (double)n * (double)bench->size, result);
    return result;
}

static enum amb_exit measure(struct amb_team *team, json_t **out)
{
    struct amb_team_mark a;
    struct amb_team_mark b;
    enum amb_exit code = amb_pingpong_measure(team, &a, &b);
    if (code == AMB_EXIT_OK) {
        *out = make_result(team, &a, &b);
    }
    return code;
}

enum amb_exit amb_bench_latency(const struct amb_bench *options, json_t **out)
{
    struct amb_bench bench = *options;
    struct amb_team team;
    if (bench.rate > 0) {
        return amb_bench_open_loop(options, out);
    }
    bench.subs = 1;
    bench.pubs = 1;
    enum amb_exit code = amb_team_init(&team, &bench);
    if (code != AMB_EXIT_OK) {
        return code;
    }
    amb_team_start(&team, amb_pingpong_responder, 0, true);
    amb_team_start(&team, ping_main, 0, false);
    code = measure(&team, out);
    amb_team_fini(&team);
    return code;
}
