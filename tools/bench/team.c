/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/team.h"

#include "tools/bench/schedule.h"

#include "tools/common/proc.h"
#include "wire/base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLOSE_NS (3 * AMB_SEC)
/* A message that has not come by then is lost; a busy machine pauses for longer than a moment. */
#define QUIET_NS (3 * AMB_SEC)

enum amb_exit amb_team_init(struct amb_team *team, const struct amb_bench *bench)
{
    *team = (struct amb_team){.bench = bench};
    void *shared = mmap(NULL, sizeof(*team->shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        amb_tool_error("no memory for the counters: %s", strerror(errno));
        return AMB_EXIT_SOFTWARE;
    }
    team->shared = shared;
    return AMB_EXIT_OK;
}

void amb_team_start(struct amb_team *team, amb_team_fn fn, unsigned index, bool is_sub)
{
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)prctl(PR_SET_TIMERSLACK, 1);
        /* The parent decides when to end. */
        (void)signal(SIGINT, SIG_IGN);
        (void)signal(SIGTERM, SIG_DFL);
        fn(team, index);
        _exit(0);
    }
    if (pid < 0) {
        amb_team_fail(team, NULL, "fork", AMB_ELIMIT);
        return;
    }
    team->is_sub[team->count] = is_sub;
    team->children[team->count++] = pid;
}

void amb_team_start_all(struct amb_team *team, amb_team_fn subscriber, amb_team_fn publisher)
{
    for (unsigned i = 0; i < team->bench->subs; i++) {
        amb_team_start(team, subscriber, i, true);
    }
    for (unsigned i = 0; i < team->bench->pubs; i++) {
        amb_team_start(team, publisher, i, false);
    }
}

static void fail(const struct amb_team *team, const char *what, enum amb_status status,
                 const char *text)
{
    struct amb_team_shared *shared = team->shared;
    if (!atomic_exchange(&shared->is_failing, true)) {
        (void)snprintf(shared->reason, sizeof(shared->reason), "%s: %s", what,
                       text[0] != '\0' ? text : amb_strerror(status));
        atomic_store(&shared->failed_status, (int)status);
        /* Last: a reader that sees it reads the words above. */
        atomic_store(&shared->is_failed, true);
    }
}

void amb_team_fail(const struct amb_team *team, const struct amb_conn *conn, const char *what,
                   enum amb_status status)
{
    struct amb_error error = {.status = AMB_OK};
    if (conn != NULL) {
        error = amb_last_error(conn);
    }
    fail(team, what, status, error.status == status ? error.text : "");
}

struct amb_conn *amb_team_connect(const struct amb_team *team, const char *name)
{
    struct amb_error error = {.status = AMB_OK};
    struct amb_conn *conn = amb_bench_connect(team->bench, name, &error);
    if (conn == NULL) {
        fail(team, "connect", error.status, error.text);
    }
    return conn;
}

enum amb_team_phase amb_team_phase(const struct amb_team *team)
{
    return (enum amb_team_phase)atomic_load_explicit(&team->shared->phase, memory_order_relaxed);
}

void amb_team_set_phase(const struct amb_team *team, enum amb_team_phase phase)
{
    atomic_store(&team->shared->phase, (int)phase);
}

bool amb_team_failed(struct amb_team *team)
{
    for (unsigned i = 0; i < team->count; i++) {
        int status;
        if (team->children[i] > 0 && waitpid(team->children[i], &status, WNOHANG) > 0) {
            team->children[i] = 0;
            if (!atomic_load(&team->shared->is_failed)) {
                amb_team_fail(team, NULL, "a child process died", AMB_EINTERNAL);
            }
        }
    }
    return atomic_load(&team->shared->is_failed) || amb_bench_stopped();
}

bool amb_team_wait_ready(struct amb_team *team, int64_t timeout_ns)
{
    int64_t deadline_ns = amb_clock_monotonic_ns() + timeout_ns;
    for (;;) {
        bool is_ready = true;
        for (unsigned i = 0; i < team->bench->subs; i++) {
            is_ready = is_ready && atomic_load(&team->shared->sub[i].is_ready);
        }
        for (unsigned i = 0; i < team->bench->pubs; i++) {
            is_ready = is_ready && atomic_load(&team->shared->pub[i].is_ready);
        }
        if (is_ready) {
            return true;
        }
        if (amb_team_failed(team)) {
            return false;
        }
        if (amb_clock_monotonic_ns() > deadline_ns) {
            amb_team_fail(team, NULL, "publishers and subscribers did not meet", AMB_ETIMEDOUT);
            return false;
        }
        amb_bench_sleep_ns(AMB_MS);
    }
}

enum amb_exit amb_team_report(const struct amb_team *team)
{
    if (atomic_load(&team->shared->is_failed)) {
        amb_tool_error("%s", team->shared->reason);
        return amb_exit_of((enum amb_status)atomic_load(&team->shared->failed_status));
    }
    return amb_bench_stopped() ? AMB_EXIT_TIMEOUT : AMB_EXIT_OK;
}

uint64_t amb_team_received(const struct amb_team *team)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < team->bench->subs; i++) {
        sum += atomic_load(&team->shared->sub[i].received);
    }
    return sum;
}

uint64_t amb_team_sent(const struct amb_team *team)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < team->bench->pubs; i++) {
        sum += atomic_load(&team->shared->pub[i].sent);
    }
    return sum;
}

static bool have_stopped(const struct amb_team *team)
{
    bool is_stopped = true;
    for (unsigned i = 0; i < team->bench->pubs; i++) {
        is_stopped = is_stopped && atomic_load(&team->shared->pub[i].is_stopped);
    }
    return is_stopped;
}

void amb_team_drain(struct amb_team *team, int64_t limit_ns)
{
    int64_t start_ns = amb_clock_monotonic_ns();
    int64_t changed_ns = start_ns;
    uint64_t last = amb_team_received(team);
    while (!amb_team_failed(team)) {
        int64_t now_ns = amb_clock_monotonic_ns();
        uint64_t n = amb_team_received(team);
        bool is_stopped = have_stopped(team);
        if (n != last) {
            last = n;
            changed_ns = now_ns;
        }
        if ((is_stopped && n >= amb_team_sent(team) * team->bench->subs) ||
            (is_stopped && now_ns - changed_ns > QUIET_NS) || now_ns - start_ns > limit_ns) {
            break;
        }
        amb_bench_sleep_ns(AMB_MS);
    }
}

int64_t amb_team_due_ns(const struct amb_team *team, uint64_t publisher, uint64_t seq)
{
    const struct amb_bench *bench = team->bench;
    double turn = (double)seq + (double)publisher / (double)bench->pubs;
    return team->shared->start_ns + amb_schedule_ns(turn, bench->rate);
}

void amb_team_fini(struct amb_team *team)
{
    if (team->shared == NULL) {
        return;
    }
    amb_team_set_phase(team, AMB_TEAM_EXIT);
    int64_t deadline_ns = amb_clock_monotonic_ns() + CLOSE_NS;
    for (unsigned i = 0; i < team->count; i++) {
        while (team->children[i] > 0 && waitpid(team->children[i], NULL, WNOHANG) == 0) {
            if (amb_clock_monotonic_ns() > deadline_ns) {
                (void)kill(team->children[i], SIGKILL);
            }
            amb_bench_sleep_ns(AMB_MS);
        }
        team->children[i] = 0;
    }
    (void)munmap(team->shared, sizeof(*team->shared));
    team->shared = NULL;
}

void amb_team_mark(const struct amb_team *team, struct amb_team_mark *out)
{
    *out = (struct amb_team_mark){
        .now_ns = amb_clock_monotonic_ns(),
        .broker_ns = amb_proc_cpu_ns(team->bench->broker_pid),
        .machine_ns = amb_proc_machine_busy_ns(),
    };
    for (unsigned i = 0; i < team->count; i++) {
        int64_t cpu_ns = amb_proc_cpu_ns(team->children[i]);
        if (team->is_sub[i]) {
            out->sub_ns += cpu_ns;
        } else {
            out->pub_ns += cpu_ns;
        }
    }
}

static void set_real(json_t *result, const char *key, double value)
{
    (void)json_object_set_new(result, key, json_real(value));
}

void amb_team_add_costs(const struct amb_team *team, const struct amb_team_mark *a,
                        const struct amb_team_mark *b, double messages, double bytes,
                        json_t *result)
{
    const double sec = (double)AMB_SEC;
    double broker_s = (double)(b->broker_ns - a->broker_ns) / sec;
    double pub_s = (double)(b->pub_ns - a->pub_ns) / sec;
    double sub_s = (double)(b->sub_ns - a->sub_ns) / sec;
    double seconds = (double)(b->now_ns - a->now_ns) / sec;
    set_real(result, "seconds", seconds);
    set_real(result, "pub_cpu_s", pub_s);
    set_real(result, "sub_cpu_s", sub_s);
    if (team->bench->broker_pid > 0) {
        struct amb_proc_memory memory;
        amb_proc_memory(team->bench->broker_pid, &memory);
        set_real(result, "broker_cpu_s", broker_s);
        set_real(result, "broker_cpu_s_per_mmsg", messages > 0 ? broker_s * 1e6 / messages : 0);
        set_real(result, "broker_cpu_s_per_gb", bytes > 0 ? broker_s * 1e9 / bytes : 0);
        (void)json_object_set_new(result, "broker_peak_rss_bytes",
                                  json_integer((json_int_t)memory.peak_rss_bytes));
        (void)json_object_set_new(result, "broker_anon_bytes",
                                  json_integer((json_int_t)memory.anon_bytes));
        /* The time that other programs took of the machine meanwhile: a busy one spoils a
         * measurement. */
        double busy_s = (double)(b->machine_ns - a->machine_ns) / sec;
        double all_s = seconds * (double)sysconf(_SC_NPROCESSORS_ONLN);
        double others = (busy_s - broker_s - pub_s - sub_s) / all_s;
        set_real(result, "others", others > 0 ? others : 0);
    }
}

void amb_team_add_percentiles(const struct amb_hdr *hdr, double scale, json_t *result)
{
    static const struct {
        const char *key;
        double fraction;
    } points[] = {{"p50_us", 0.5},      {"p90_us", 0.9}, {"p99_us", 0.99}, {"p999_us", 0.999},
                  {"p9999_us", 0.9999}, {"min_us", 0},   {"max_us", 1}};
    (void)json_object_set_new(result, "samples", json_integer((json_int_t)hdr->total));
    set_real(result, "mean_us", amb_hdr_mean(hdr) * scale / 1e3);
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        set_real(result, points[i].key,
                 (double)amb_hdr_percentile(hdr, points[i].fraction) * scale / 1e3);
    }
}
