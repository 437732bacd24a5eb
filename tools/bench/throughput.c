/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-bench throughput: publishers to subscribers on one topic, as processes.
 *
 * Only what subscribers received counts. Small messages are timed by counting over the interval,
 * large ones by their arrival. A publisher stays within a window of the slowest subscriber, by
 * memory that the processes share. So nothing is lost and no queue hides the speed; --open removes
 * the window.
 */
#include "tools/bench/throughput.h"

#include "tools/bench/receiver.h"
#include "tools/bench/sender.h"
#include "tools/bench/team.h"

#include "wire/base/clock.h"

#include <stdio.h>

#define SLICE_NS (100 * AMB_MS)
#define SYNC_NS (20 * AMB_SEC)
#define DRAIN_NS (10 * AMB_SEC)
#define STALL_NS AMB_SEC

static uint64_t slowest(const struct amb_team *team, unsigned publisher)
{
    uint64_t min = UINT64_MAX;
    for (unsigned i = 0; i < team->bench->subs; i++) {
        /* Acquire: pairs with the release store of the subscriber that counted these. */
        (void)atomic_load_explicit(&team->shared->sub[i].received, memory_order_acquire);
        uint64_t n =
            atomic_load_explicit(&team->shared->sub[i].next[publisher], memory_order_relaxed);
        min = n < min ? n : min;
    }
    return min;
}

struct window {
    uint64_t size, floor, seen;
    int64_t stalled_since_ns;
};

/* True if the next message is within the window; else sleeps a moment. */
static bool window_has_room(struct window *window, const struct amb_team *team,
                            struct amb_sender *sender, struct amb_team_pub *counts)
{
    if (team->bench->is_open || sender->sent - window->floor < window->size) {
        return true;
    }
    uint64_t min = slowest(team, sender->index);
    if (min > window->floor) {
        window->floor = min;
    }
    if (sender->sent - window->floor < window->size) {
        window->stalled_since_ns = 0;
        return true;
    }
    int64_t now_ns = amb_clock_monotonic_ns();
    if (min != window->seen || window->stalled_since_ns == 0) {
        window->seen = min;
        window->stalled_since_ns = now_ns;
    } else if (now_ns - window->stalled_since_ns > STALL_NS) {
        /* The missing messages were lost for good (they are counted as such): go on. */
        window->floor = sender->sent;
        window->stalled_since_ns = 0;
        counts->stalls++;
    }
    return false;
}

static enum amb_status publish(const struct amb_team *team, struct amb_sender *sender)
{
    struct amb_team_pub *counts = &team->shared->pub[sender->index];
    const struct amb_bench *bench = team->bench;
    struct window window = {.size = amb_bench_window(bench)};
    while (amb_team_phase(team) == AMB_TEAM_RUN) {
        enum amb_status status;
        if (bench->count > 0 && sender->sent >= bench->count) {
            break;
        }
        if (!window_has_room(&window, team, sender, counts)) {
            status = amb_sender_push(sender);
            if (status != AMB_OK) {
                return status;
            }
            amb_bench_sleep_ns(10 * AMB_US);
            continue;
        }
        status = amb_sender_send(sender, SLICE_NS);
        if (status == AMB_ETIMEDOUT || status == AMB_EAGAIN) {
            continue;
        }
        if (status != AMB_OK) {
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

struct mark {
    struct amb_team_mark costs;
    uint64_t received[AMB_BENCH_SUBS_MAX];
    int64_t at_ns[AMB_BENCH_SUBS_MAX];
};

static void take_mark(const struct amb_team *team, struct mark *mark)
{
    bool is_timed = team->bench->size >= AMB_BENCH_TIMED_SIZE;
    amb_team_mark(team, &mark->costs);
    for (unsigned i = 0; i < team->bench->subs; i++) {
        const struct amb_team_sub *counts = &team->shared->sub[i];
        uint64_t n;
        do {
            /* A count together with the arrival time that belongs to it. */
            n = atomic_load(&counts->received);
            mark->at_ns[i] = is_timed ? atomic_load(&counts->last_ns) : amb_clock_monotonic_ns();
        } while (is_timed && atomic_load(&counts->received) != n);
        mark->received[i] = n;
    }
}

/* Everybody has received at least `more` messages beyond `base` (NULL: 0). */
static bool all_received(const struct amb_team *team, const uint64_t *base, uint64_t more)
{
    for (unsigned i = 0; i < team->bench->subs; i++) {
        if (atomic_load(&team->shared->sub[i].received) < (base != NULL ? base[i] : 0) + more) {
            return false;
        }
    }
    return true;
}

/* The time for it, and at least two messages everywhere. */
static void warm_up(struct amb_team *team)
{
    int64_t start_ns = amb_clock_monotonic_ns();
    int64_t passed_ns = 0;
    while (!amb_team_failed(team) && passed_ns < 8 * AMB_SEC &&
           (passed_ns < team->bench->warm_ns || !all_received(team, NULL, 2))) {
        amb_bench_sleep_ns(AMB_MS);
        passed_ns = amb_clock_monotonic_ns() - start_ns;
    }
}

static void wait_for_time(struct amb_team *team, const struct mark *start)
{
    int64_t duration_ns = team->bench->duration_ns;
    int64_t passed_ns = 0;
    /* Large messages: at least four of them, for up to four times as long. */
    while (!amb_team_failed(team) && passed_ns < 4 * duration_ns &&
           (passed_ns < duration_ns || !all_received(team, start->received, 4))) {
        amb_bench_sleep_ns(AMB_MS);
        passed_ns = amb_clock_monotonic_ns() - start->costs.now_ns;
    }
}

static json_t *make_result(struct amb_team *team, const struct mark *a, const struct mark *b)
{
    const struct amb_bench *bench = team->bench;
    double rate = 0;
    double messages = 0;
    uint64_t gaps = 0, disorder = 0, corrupt = 0, told = 0, stalls = 0;
    for (unsigned i = 0; i < bench->subs; i++) {
        const struct amb_team_sub *counts = &team->shared->sub[i];
        double n = (double)(b->received[i] - a->received[i]);
        double seconds = (double)(b->at_ns[i] - a->at_ns[i]) / (double)AMB_SEC;
        rate += seconds > 0 ? n / seconds : 0;
        messages += n;
        gaps += counts->gaps;
        disorder += counts->disorder;
        corrupt += counts->corrupt;
        told += counts->lost;
    }
    for (unsigned i = 0; i < bench->pubs; i++) {
        stalls += team->shared->pub[i].stalls;
    }
    uint64_t sent = amb_team_sent(team);
    uint64_t received = amb_team_received(team);
    json_t *result = json_pack(
        "{s:s, s:s, s:s, s:I, s:i, s:i, s:I, s:b, s:s, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:I, s:I, s:s}",
        "workload", "throughput", "link", bench->link != NULL ? bench->link : "auto", "path",
        team->shared->sub[0].path, "size", (json_int_t)bench->size, "subs", (int)bench->subs,
        "pubs", (int)bench->pubs, "window",
        (json_int_t)(bench->is_open ? 0 : amb_bench_window(bench)), "touch", bench->is_touch,
        "send", amb_bench_way(bench), "msgs_per_s", rate, "mb_per_s",
        rate * (double)bench->size / 1e6, "sent", (json_int_t)sent, "received",
        (json_int_t)received, "lost", (json_int_t)(sent * bench->subs - received), "lost_told",
        (json_int_t)told, "gaps", (json_int_t)gaps, "disorder", (json_int_t)disorder, "corrupt",
        (json_int_t)corrupt, "stalls", (json_int_t)stalls, "status",
        corrupt > 0 || disorder > 0 ? "wrong bytes"
        : messages > 0              ? "ok"
                                    : "nothing arrived");
    amb_team_add_costs(team, &a->costs, &b->costs, messages, messages * (double)bench->size,
                       result);
    return result;
}

static enum amb_exit measure(struct amb_team *team, json_t **out)
{
    struct mark a;
    struct mark b;
    if (!amb_team_wait_ready(team, SYNC_NS)) {
        return amb_team_report(team);
    }
    if (team->bench->count > 0) {
        take_mark(team, &a);
        for (unsigned i = 0; i < team->bench->subs; i++) {
            a.at_ns[i] = a.costs.now_ns;
        }
        amb_team_set_phase(team, AMB_TEAM_RUN);
        amb_team_drain(team, INT64_MAX);
        take_mark(team, &b);
    } else {
        amb_team_set_phase(team, AMB_TEAM_RUN);
        warm_up(team);
        take_mark(team, &a);
        wait_for_time(team, &a);
        take_mark(team, &b);
        amb_team_set_phase(team, AMB_TEAM_STOP);
        amb_team_drain(team, DRAIN_NS);
    }
    enum amb_exit code = amb_team_report(team);
    if (code == AMB_EXIT_OK) {
        *out = make_result(team, &a, &b);
    }
    return code;
}

enum amb_exit amb_bench_throughput(const struct amb_bench *bench, json_t **out)
{
    struct amb_team team;
    enum amb_exit code = amb_team_init(&team, bench);
    if (code != AMB_EXIT_OK) {
        return code;
    }
    amb_team_start_all(&team, amb_receiver_main, publisher_main);
    code = measure(&team, out);
    amb_team_fini(&team);
    return code;
}
