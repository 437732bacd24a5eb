/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   simulate [--seeds N] [--from SEED] [--steps N] [--jobs N]      many seeds
 *   simulate --seed SEED [--steps N] [--trace]                     one of them
 *   simulate --twice ...                                           each seed twice: the same
 * happens
 */
#include "tests/sim/options.h"

#include "tests/sim/sim.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"

#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS_MAX 64u
#define SEED_SECONDS_MAX 60u /* of real time, of 1000 steps: they take milliseconds */

struct options {
    uint64_t from, seeds;
    uint32_t steps, jobs;
    bool is_tracing, is_twice, is_verbose;
};

static struct sim sim;

static void no_log(enum amb_log_level level, const char *line, void *arg)
{
    (void)level;
    (void)line;
    (void)arg;
}

static void run_one(const struct options *options, uint64_t seed)
{
    if (options->seeds > 1) { /* else somebody may be looking with a debugger */
        (void)alarm(SEED_SECONDS_MAX * (1 + options->steps / 1000));
    }
    sim_run(&sim, seed, options->steps);
    if (options->is_twice) {
        uint64_t hash = sim.hash;
        sim_run(&sim, seed, options->steps);
        if (hash != sim.hash) {
            sim_fail(&sim, "the seed went another way the second time");
        }
    }
    if (options->is_verbose) {
        (void)printf("seed %" PRIu64 ": hash %016" PRIx64 "\n", seed, sim.hash);
    }
}

/* Every `jobs`th seed. */
static void run_job(const struct options *options, uint32_t job, struct sim_stats *out)
{
    sim_init(&sim);
    sim.is_tracing = options->is_tracing;
    for (uint64_t i = job; i < options->seeds; i += options->jobs) {
        run_one(options, options->from + i);
    }
    *out = sim.stats;
    sim_fini(&sim);
}

static void print_stats(const struct options *options, const struct sim_stats *stats,
                        double seconds)
{
    (void)printf("%" PRIu64 " seeds, %" PRIu64 " steps in %.1f s (%.2f us a step and job): %" PRIu64
                 " turns, %" PRIu64 " messages sent, %" PRIu64 " delivered, %" PRIu64
                 " again, %" PRIu64 " lost, %" PRIu64 " refused, %" PRIu64 " dead letters, %" PRIu64
                 " reconnects, %" PRIu64 " deaths, %" PRIu64 " commits, %" PRIu64
                 " copied and %" PRIu64 " lost for readers that spill, %" PRIu64
                 " fetches, %" PRIu64 " stale: no invariant violated\n",
                 options->seeds, stats->steps, seconds,
                 seconds * 1e6 * options->jobs / (double)stats->steps, stats->turns, stats->sent,
                 stats->delivered, stats->redelivered, stats->lost, stats->refused, stats->dead,
                 stats->reconnects, stats->deaths, stats->commits, stats->spilled,
                 stats->spill_lost, stats->fetches, stats->stale);
}

static int wait_for_jobs(const struct options *options, pid_t pids[])
{
    int failed = 0;
    for (uint32_t n = 0; n < options->jobs; n++) {
        int status;
        pid_t pid = wait(&status);
        bool is_bad = pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        for (uint32_t i = 0; i < options->jobs; i++) {
            pids[i] = pids[i] == pid ? 0 : pids[i];
            if (is_bad && failed == 0 && pids[i] != 0) {
                (void)kill(pids[i], SIGTERM);
            }
        }
        failed = is_bad ? 1 : failed;
    }
    return failed;
}

static int run_jobs(const struct options *options)
{
    struct sim_stats *stats = mmap(NULL, JOBS_MAX * sizeof(*stats), PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[JOBS_MAX] = {0};
    int64_t start_ns = amb_clock_monotonic_ns();
    if (stats == MAP_FAILED) {
        return 1;
    }
    for (uint32_t i = 0; i < options->jobs; i++) {
        if (options->jobs == 1) {
            run_job(options, 0, &stats[0]);
            continue;
        }
        pids[i] = fork();
        if (pids[i] == 0) {
            run_job(options, i, &stats[i]);
            _exit(0);
        }
    }
    if (options->jobs > 1 && wait_for_jobs(options, pids) != 0) {
        return 1;
    }
    for (uint32_t i = 1; i < options->jobs; i++) {
        uint64_t *sum = (uint64_t *)&stats[0], *add = (uint64_t *)&stats[i];
        for (size_t k = 0; k < sizeof(*stats) / sizeof(uint64_t); k++) {
            sum[k] += add[k];
        }
    }
    print_stats(options, &stats[0], (double)(amb_clock_monotonic_ns() - start_ns) / 1e9);
    return 0;
}

static bool read_options(int argc, char **argv, struct options *out)
{
    static const struct option table[] = {
        {"seeds", required_argument, NULL, 'n'},
        {"from", required_argument, NULL, 'f'},
        {"seed", required_argument, NULL, 's'},
        {"steps", required_argument, NULL, 'c'},
        {"jobs", required_argument, NULL, 'j'},
        {"trace", no_argument, NULL, 't'},
        {"twice", no_argument, NULL, '2'},
        {"verbose", no_argument, NULL, 'v'},
        {NULL, 0, NULL, 0},
    };
    int c;
    while ((c = getopt_long(argc, argv, "", table, NULL)) != -1) {
        uint64_t value = optarg == NULL ? 0 : strtoull(optarg, NULL, 10);
        switch (c) {
        case 'n':
            out->seeds = value;
            break;
        case 'f':
            out->from = value;
            break;
        case 's':
            out->from = value;
            out->seeds = 1;
            break;
        case 'c':
            out->steps = (uint32_t)value;
            break;
        case 'j':
            out->jobs = value == 0 || value > JOBS_MAX ? JOBS_MAX : (uint32_t)value;
            break;
        case 't':
            out->is_tracing = true;
            break;
        case '2':
            out->is_twice = true;
            break;
        case 'v':
            out->is_verbose = true;
            break;
        default:
            return false;
        }
    }
    return optind == argc;
}

int sim_main(int argc, char **argv)
{
    struct options options = {.from = 1, .seeds = 1000, .steps = 1000, .jobs = 1};
    if (!read_options(argc, argv, &options)) {
        (void)fprintf(stderr, "simulate [--seeds N] [--from SEED] [--steps N] [--jobs N] [--twice] "
                              "[--verbose] | --seed SEED [--trace]\n");
        return 2;
    }
    /* Sessions come and go: their memory is not to be given back to the system each time. */
    (void)mallopt(M_MMAP_THRESHOLD, 64 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 256 << 20);
    amb_log_set_sink(no_log, NULL);
    amb_log_set_level(AMB_LOG_ERROR);
    sim_trace_init(&sim, argv[0]);
    return run_jobs(&options);
}
