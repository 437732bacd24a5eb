/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-bench latency --rate R: an open loop. Each publisher sends R messages a second by a
 * schedule of its own, whatever the broker does. A message's latency runs from the moment it was
 * due to its arrival. So a pause delays, and counts for, every message that was due during it (no
 * coordinated omission). A ping-pong would note one long round trip.
 *
 * All processes read one clock, and sequence numbers say when a message was due: nothing but the
 * message travels.
 */
#include "tools/bench/openloop.h"

#include "tools/bench/receiver.h"
#include "tools/bench/schedule.h"
#include "tools/bench/sender.h"
#include "tools/bench/team.h"

#include "wire/base/clock.h"

#include <sched.h>

#define SLICE_NS (100 * AMB_MS)
#define SYNC_NS (20 * AMB_SEC)
#define DRAIN_NS (10 * AMB_SEC)
#define AHEAD_NS (20 * AMB_MS) /* everybody has seen the start by then */
#define NAP_NS (200 * AMB_US)  /* sleeping is not more exact than this */

/* Sleeps while there is time, then yields the core until the moment has come. */
static void wait_until(int64_t due_ns)
{
    for (;;) {
        int64_t left_ns = due_ns - amb_clock_monotonic_ns();
        if (left_ns <= 0) {
            return;
        }
        if (left_ns > NAP_NS) {
            amb_bench_sleep_ns(left_ns - NAP_NS);
        } else {
            (void)sched_yield();
        }
    }
}

static enum amb_status publish(const struct amb_team *team, struct amb_sender *sender)
{
    struct amb_team_pub *counts = &team->shared->pub[sender->index];
    while (amb_team_phase(team) == AMB_TEAM_RUN) {
        int64_t due_ns = amb_team_due_ns(team, sender->index, sender->sent);
        if (due_ns >= team->shared->until_ns) {
            break;
        }
        wait_until(due_ns);
        enum amb_status status = amb_sender_send(sender, SLICE_NS);
        if (status != AMB_OK && status != AMB_ETIMEDOUT && status != AMB_EAGAIN) {
            return status;
        }
        atomic_store_explicit(&counts->sent, sender->sent, memory_order_release);
    }
    return amb_sender_push(sender);
}

static void publisher_main(const struct amb_team *team, unsigned index)
{
    amb_sender_main(team, index, publish);
}

static void set_schedule(const struct amb_team *team)
{
    const struct amb_bench *bench = team->bench;
    struct amb_team_shared *shared = team->shared;
    int64_t length_ns = bench->duration_ns;
    if (bench->count > 0) {
        length_ns = amb_schedule_ns((double)bench->count, bench->rate);
    }
    shared->start_ns = amb_clock_monotonic_ns() + AHEAD_NS;
    shared->from_ns = shared->start_ns + bench->warm_ns;
    shared->until_ns = shared->from_ns + length_ns;
}

static void sleep_until(struct amb_team *team, int64_t until_ns)
{
    while (!amb_team_failed(team) && amb_clock_monotonic_ns() < until_ns) {
        amb_bench_sleep_ns(AMB_MS);
    }
}

static json_t *make_result(struct amb_team *team, const struct amb_team_mark *a,
                           const struct amb_team_mark *b)
{
    const struct amb_bench *bench = team->bench;
    struct amb_team_shared *shared = team->shared;
    struct amb_hdr *all = &shared->late_ns[0];
    uint64_t corrupt = shared->sub[0].corrupt;
    uint64_t wrong = shared->sub[0].gaps + shared->sub[0].disorder;
    for (unsigned i = 1; i < bench->subs; i++) {
        amb_hdr_add(all, &shared->late_ns[i]);
        corrupt += shared->sub[i].corrupt;
        wrong += shared->sub[i].gaps + shared->sub[i].disorder;
    }
    double seconds = (double)(shared->until_ns - shared->from_ns) / (double)AMB_SEC;
    double messages = (double)all->total;
    uint64_t lost = amb_team_sent(team) * bench->subs - amb_team_received(team);
    json_t *result = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:i, s:i, s:f, s:b, s:s, s:f, s:f, s:I, s:I, s:I, s:s}",
        "workload", "latency", "loop", "open", "link", bench->link != NULL ? bench->link : "auto",
        "path", shared->sub[0].path, "size", (json_int_t)bench->size, "subs", (int)bench->subs,
        "pubs", (int)bench->pubs, "rate", bench->rate, "touch", bench->is_touch, "send",
        amb_bench_way(bench), "msgs_per_s", messages / seconds, "wanted_per_s",
        bench->rate * bench->pubs * bench->subs, "lost", (json_int_t)lost, "wrong",
        (json_int_t)wrong, "corrupt", (json_int_t)corrupt, "status",
        corrupt > 0 || wrong > 0 ? "wrong bytes"
        : messages > 0           ? "ok"
                                 : "nothing arrived");
    amb_team_add_percentiles(all, 1, result);
    amb_team_add_costs(team, a, b, messages, messages * (double)bench->size, result);
    return result;
}

enum amb_exit amb_bench_open_loop(const struct amb_bench *bench, json_t **out)
{
    struct amb_team team;
    struct amb_team_mark a;
    struct amb_team_mark b;
    enum amb_exit code = amb_team_init(&team, bench);
    if (code != AMB_EXIT_OK) {
        return code;
    }
    amb_team_start_all(&team, amb_receiver_main, publisher_main);
    if (amb_team_wait_ready(&team, SYNC_NS)) {
        set_schedule(&team);
        amb_team_set_phase(&team, AMB_TEAM_RUN);
        sleep_until(&team, team.shared->from_ns);
        amb_team_mark(&team, &a);
        sleep_until(&team, team.shared->until_ns);
        amb_team_mark(&team, &b);
        /* Publishers that are behind their schedule end it first. */
        amb_team_drain(&team, DRAIN_NS);
        amb_team_set_phase(&team, AMB_TEAM_STOP);
        amb_team_drain(&team, DRAIN_NS);
    }
    code = amb_team_report(&team);
    if (code == AMB_EXIT_OK) {
        *out = make_result(&team, &a, &b);
    }
    amb_team_fini(&team);
    return code;
}
