/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of one measurement and the memory they share: publishers and subscribers are
 * children of the parent that measures. Credit and counters go through this memory, not through
 * the broker, so that a window costs the broker nothing.
 *
 *   SYNC: everybody connects ─► RUN ─► STOP: publishers end ─► EXIT: everybody closes
 *
 * Threads: one per process. Memory: one shared mapping, made before the first fork.
 */
#pragma once

#include "tools/bench/bench.h"
#include "tools/common/hdr.h"

#include <jansson.h>
#include <stdatomic.h>

#define AMB_TEAM_CHILDREN_MAX (AMB_BENCH_SUBS_MAX + AMB_BENCH_PUBS_MAX)
#define AMB_TEAM_REASON 320u

enum amb_team_phase {
    AMB_TEAM_SYNC,
    AMB_TEAM_RUN,
    AMB_TEAM_STOP,
    AMB_TEAM_EXIT,
};

struct amb_team_sub {
    _Alignas(128) _Atomic uint64_t received;
    _Atomic uint64_t next[AMB_BENCH_PUBS_MAX]; /* per publisher: the next sequence expected */
    _Atomic int64_t last_ns;                   /* arrival of the latest, large sizes only */
    _Atomic bool is_ready;
    uint64_t gaps, disorder, corrupt, lost;
    char path[16]; /* of the latest message */
};

struct amb_team_pub {
    _Alignas(128) _Atomic uint64_t sent;
    _Atomic bool is_ready, is_stopped;
    uint64_t stalls;
};

struct amb_team_shared {
    _Atomic int phase;
    _Atomic bool is_failing, is_failed;
    _Atomic int failed_status; /* enum amb_status of the first failure */
    char reason[AMB_TEAM_REASON];
    struct amb_team_sub sub[AMB_BENCH_SUBS_MAX];
    struct amb_team_pub pub[AMB_BENCH_PUBS_MAX];
    _Atomic bool is_warm;
    uint64_t unanswered;
    int64_t first_ns;      /* the first round trip */
    struct amb_hdr rtt_ns; /* round trips */
    /* Open loop: when messages are due, and which of them are measured; set before RUN. */
    int64_t start_ns, from_ns, until_ns;
    struct amb_hdr late_ns[AMB_BENCH_SUBS_MAX]; /* arrival after that, by subscriber */
};

struct amb_team {
    const struct amb_bench *bench;
    struct amb_team_shared *shared;
    pid_t children[AMB_TEAM_CHILDREN_MAX];
    bool is_sub[AMB_TEAM_CHILDREN_MAX];
    unsigned count;
};

typedef void (*amb_team_fn)(const struct amb_team *team, unsigned index);

enum amb_exit amb_team_init(struct amb_team *team, const struct amb_bench *bench);
/* A child that runs fn(team, index) and ends. */
void amb_team_start(struct amb_team *team, amb_team_fn fn, unsigned index, bool is_sub);
/* All of the bench's, subscribers first. */
void amb_team_start_all(struct amb_team *team, amb_team_fn subscriber, amb_team_fn publisher);
/* Child: a connection, or NULL after amb_team_fail. */
struct amb_conn *amb_team_connect(const struct amb_team *team, const char *name);
/* Child: the first failure of all is kept, with the connection's words where it has some. */
void amb_team_fail(const struct amb_team *team, const struct amb_conn *conn, const char *what,
                   enum amb_status status);
enum amb_team_phase amb_team_phase(const struct amb_team *team);
void amb_team_set_phase(const struct amb_team *team, enum amb_team_phase phase);
/* Parent: has a child failed or died, or has a signal come? */
bool amb_team_failed(struct amb_team *team);
/* Parent: waits until all flags of publishers and subscribers say ready. */
bool amb_team_wait_ready(struct amb_team *team, int64_t timeout_ns);
/* Says what failed and returns its exit code; 0 if nothing did. */
enum amb_exit amb_team_report(const struct amb_team *team);
/* Sums over all, at this moment. */
uint64_t amb_team_received(const struct amb_team *team);
uint64_t amb_team_sent(const struct amb_team *team);
/* Parent: waits until the publishers have stopped and all is there, nothing has come for a while,
 * or the limit has passed. */
void amb_team_drain(struct amb_team *team, int64_t limit_ns);
/* Open loop: when this message is due. Publishers take turns. */
int64_t amb_team_due_ns(const struct amb_team *team, uint64_t publisher, uint64_t seq);
/* Lets the children close, ends those that do not, frees. */
void amb_team_fini(struct amb_team *team);

/* Percentiles in microseconds as members of a result; scale: 1, or 0.5 for half of a round trip. */
void amb_team_add_percentiles(const struct amb_hdr *hdr, double scale, json_t *result);

/* CPU times at one moment, and the difference of two as members of a result. */
struct amb_team_mark {
    int64_t now_ns, broker_ns, pub_ns, sub_ns, machine_ns;
};
void amb_team_mark(const struct amb_team *team, struct amb_team_mark *out);
/* messages, bytes: delivered in between. */
void amb_team_add_costs(const struct amb_team *team, const struct amb_team_mark *a,
                        const struct amb_team_mark *b, double messages, double bytes,
                        json_t *result);
