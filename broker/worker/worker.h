/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker: the thread that runs one shard. Its loop is the table of contents of the data path:
 * mail, links (dispatch, ingest, route), topics (forward), links again (flush), and sleep.
 *
 * Idle, it spins with sched_yield for a while after the last work. Then it asks every link
 * (links.h), its UCX worker and its inbox for a wake-up and sleeps in epoll.
 */
#pragma once

#include "broker/shard/shard.h"

#include <pthread.h>

struct amb_worker {
    struct amb_shard shard;
    pthread_t thread;
    bool is_running;
    bool is_stopping; /* the worker's own */
    struct amb_mail stop;
    enum amb_status started; /* of the thread's own set-up */
};

/* Initialises the shard; the thread is not started. */
AMB_MUST_CHECK enum amb_status amb_worker_init(struct amb_worker *worker, unsigned index,
                                               const struct amb_config *config,
                                               struct amb_membudget *budget);
/* After all shards are initialised and know each other. Blocks until the thread is set up. */
AMB_MUST_CHECK enum amb_status amb_worker_start(struct amb_worker *worker);
/* Asks the thread to end, and waits for it. Sessions are closed before. */
void amb_worker_stop(struct amb_worker *worker);
void amb_worker_fini(struct amb_worker *worker);

/* One turn without sleeping; returns how much was done. For the simulator and the loop. */
unsigned amb_shard_turn(struct amb_shard *shard, int64_t now_ns, int64_t real_ns);
