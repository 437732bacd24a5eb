/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-bench inside: the options of a measurement, and the parts that all measurements share. The
 * walk through the files is in README.md.
 *
 * Results are JSON objects throughout; a table is the same JSON printed for people.
 * Threads: every process has one (libamb adds its own in those that connect; the parent never
 * does).
 */
#pragma once

#include "tools/cli/limits.h"
#include "tools/common/exit.h"

#include <amb/amb.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define AMB_BENCH_WARM_NS (150 * AMB_MS)          /* unless told otherwise */
#define AMB_BENCH_TIMED_SIZE (UINT64_C(64) << 10) /* from here on every arrival is timed */

/* Where a subscriber's messages end. */
enum amb_bench_own_kind {
    AMB_BENCH_OWN_NONE,   /* where libamb has them: in place, if they can be mapped */
    AMB_BENCH_OWN_FRESH,  /* in memory of its own, allocated for each */
    AMB_BENCH_OWN_REUSED, /* ... allocated once */
};

struct amb_bench {
    const char *url;     /* NULL: a private broker */
    const char *link;    /* "ring", "stream", "ucx"; NULL: what the broker chooses */
    const char *brokerd; /* NULL: the one beside this program, or in PATH */
    const char *broker_options[AMB_BENCH_BROKER_OPTIONS_MAX]; /* for brokerd -o */
    unsigned broker_option_count;
    pid_t broker_pid; /* the process whose CPU time and memory are shown; 0: none */
    const char *credentials;
    const char *topic;
    enum amb_mem mem; /* HOST, or CUDA: what is published from and received into */
    int device;
    uint64_t size, count; /* count 0: by time */
    /* sendrecv: round trips; shuffle: exchanges; not measured before them */
    uint64_t iterations, warm_iterations;
    unsigned workers; /* shuffle */
    enum amb_bench_own_kind own;
    unsigned subs, pubs;
    int64_t duration_ns, warm_ns;
    uint64_t window; /* messages a publisher may be ahead of the slowest subscriber; 0: by size */
    double rate;     /* messages a second of a publisher, 0: no limit; latency: open loop */
    bool is_open;    /* no window */
    bool is_touch, is_post, is_lease, is_json;
    bool is_detailed; /* sendrecv, shuffle: each iteration is a row, too */
    bool wants_copy;  /* subscribers never map */
    enum amb_slow slow;
    const char *json_file; /* matrix: also there */
    const char *files[2];  /* compare: what it compares */
    double tolerance;      /* compare: 0.1 is a tenth */
};

/* From here on SIGINT and SIGTERM end a measurement instead of the process. */
void amb_bench_catch_signals(void);
/* True once one of them has come. */
bool amb_bench_stopped(void);
void amb_bench_sleep_ns(int64_t ns);
/* How messages are handed over: "copy", "post" or "lease". */
const char *amb_bench_way(const struct amb_bench *bench);
/* Where received messages end, in words. */
const char *amb_bench_place(const struct amb_bench *bench);
/* The window in messages for one publisher. */
uint64_t amb_bench_window(const struct amb_bench *bench);
/* A connection to bench->url, or NULL and *error. */
struct amb_conn *amb_bench_connect(const struct amb_bench *bench, const char *name,
                                   struct amb_error *error);
