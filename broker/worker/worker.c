/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/worker.h"

#include "broker/config/config.h"
#include "broker/count/counters.h"
#include "broker/delivery/acks/queue.h"
#include "broker/delivery/acks/taker.h"
#include "broker/delivery/forward.h"
#include "broker/delivery/hold.h"
#include "broker/delivery/reader/lazy.h"
#include "broker/delivery/reader/sift.h"
#include "broker/delivery/reader/sweep.h"
#include "broker/delivery/slow.h"
#include "broker/delivery/spill.h"
#include "broker/ingest/publisher.h"
#include "broker/ingest/publisher_buffer.h"
#include "broker/ingest/publisher_window.h"
#include "broker/observe/objects.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/gpuslot.h"
#include "broker/shard/shard_memory.h"
#include "broker/topic/compact.h"
#include "broker/topic/history.h"
#include "broker/topic/topic.h"
#include "broker/worker/links.h"
#include "broker/worker/session_life.h"
#include "broker/worker/shard_setup.h"
#include "broker/worker/tell.h"
#include "broker/worker/ucxport.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/base/cpus.h"
#include "wire/base/log.h"
#include "wire/base/spin.h"
#include "wire/link/link.h"
#include "wire/link/ucx/ucx_worker.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#define WORKER_SPIN_AUTO_NS (200 * AMB_NS_PER_US)
/* Between two looks at streams of large batches, each a system call: so long, then twice. */
#define WORKER_PAUSE_MIN_NS (16 * AMB_NS_PER_US)
#define WORKER_PAUSE_MAX_NS (32 * AMB_NS_PER_US)
#define WORKER_SLEEP_MAX_NS (4 * AMB_NS_PER_SEC)
#define WORKER_REAL_NS AMB_NS_PER_MS /* how often the clock of the day is read */
/* Idle for so long, a worker gives back the segments that it does not need. */
#define WORKER_TRIM_NS (10 * AMB_NS_PER_SEC)

enum amb_status amb_worker_init(struct amb_worker *worker, unsigned index,
                                const struct amb_config *config, struct amb_membudget *budget)
{
    worker->is_running = false;
    worker->is_stopping = false;
    return amb_shard_init(&worker->shard, index, config, budget);
}

static void shard_retry_starving(struct amb_shard *shard)
{
    AMB_LIST_FOR_EACH_SAFE (node, &shard->windows.starving) {
        amb_publisher_retry(AMB_CONTAINER_OF(node, struct amb_publisher, starving));
    }
    AMB_LIST_FOR_EACH_SAFE (node, &shard->windows.rationed) {
        amb_publisher_retry(AMB_CONTAINER_OF(node, struct amb_publisher, starving));
    }
}

unsigned amb_shard_turn(struct amb_shard *shard, int64_t now_ns, int64_t real_ns)
{
    int64_t since_ns = now_ns - shard->now_ns;
    shard->now_ns = now_ns;
    shard->real_ns = real_ns;
    shard->sweep.swept = 0;
    amb_shard_reclaim_turn(&shard->reclaim);
    shard->hearing.budget = AMB_SHARD_HEAR_TURN;
    shard->clearing.budget = AMB_SHARD_CLEAR_TURN;
    unsigned done = amb_inbox_run(&shard->inbox);
    if (done > 0) {
        amb_stat_add(&shard->stats->mails, done);
    }
    if (!amb_list_is_empty(&shard->entries.given_up)) {
        amb_entries_end(shard);
    }
    if (shard->ucx.worker != NULL) {
        done += amb_ucx_worker_progress(shard->ucx.worker);
    }
    done += amb_links_poll(shard, since_ns);
    if (!amb_list_is_empty(&shard->forward.blocked)) {
        (void)amb_hold_expire(shard);
    }
    if (!amb_list_is_empty(&shard->queues.dirty) || now_ns >= amb_queues_due(shard)) {
        amb_queues_run(shard);
    }
    if (now_ns >= shard->pace.due_ns) {
        (void)amb_pace_tick(shard);
    }
    if (!amb_list_is_empty(&shard->lazy.lacking)) {
        amb_lazy_retry(shard);
    }
    if (now_ns >= shard->spill.due_ns) {
        (void)amb_spill_tick(shard);
    }
    if (!amb_list_is_empty(&shard->sweep.owners)) {
        done += amb_sweep_run(shard);
    }
    done += amb_sessions_clear(shard);
    done += amb_forward_run(shard);
    if (!amb_list_is_empty(&shard->takers.busy) || now_ns >= amb_takers_due(shard)) {
        done += amb_takers_run(shard);
    }
    if (now_ns >= shard->compact.due_ns) {
        (void)amb_compact_run(shard);
    }
    if (now_ns >= shard->history.due_ns) {
        (void)amb_history_tick(shard);
    }
    if (now_ns >= shard->poll.trim_due_ns) {
        amb_links_trim(shard);
    }
    amb_gpuslot_tick(shard);
    if (done > 0 && shard->slow.due_ns == INT64_MAX) {
        shard->slow.due_ns = amb_deadline_ns(now_ns, AMB_SLOW_TICK_NS);
    }
    if (done > 0) {
        amb_objects_moved(shard);
    }
    if (now_ns >= shard->observe.due_ns) {
        amb_objects_turn(shard);
    }
    if (now_ns >= shard->slow.due_ns) {
        (void)amb_slow_tick(shard);
    }
    amb_bufpool_ahead(&shard->memory.bufpool);
    if (now_ns >= shard->memory.retired_due_ns) {
        (void)amb_shard_memory_tick(shard);
    }
    if (!amb_list_is_empty(&shard->windows.preparing)) {
        amb_publishers_take_back(shard);
    }
    if (!amb_list_is_empty(&shard->windows.starving) ||
        !amb_list_is_empty(&shard->windows.rationed)) {
        shard_retry_starving(shard);
        done += shard->reclaim.shed_goes_on;
    }
    if (!amb_list_is_empty(&shard->windows.shut) && now_ns >= shard->windows.shut_due_ns) {
        amb_publishers_retry_shut(shard);
    }
    if (shard->memory.has_fresh) {
        amb_shard_memory_served(shard);
    }
    amb_tell_all(shard);
    amb_stat_add(&shard->stats->turns, 1);
    return done;
}

/* Asks everybody for a wake-up. False: there is work. */
static bool shard_arm(struct amb_shard *shard)
{
    if (amb_shard_is_dirty(shard) || !amb_inbox_arm(&shard->inbox)) {
        return false;
    }
    if (!amb_links_arm(shard)) {
        return false;
    }
    return shard->ucx.worker == NULL || amb_ucx_worker_arm(shard->ucx.worker);
}

/* Features that have something to do at a time of their own, also where nothing comes.
 * amb_shard_turn has a call for each, which runs it when it is due. By its line here a sleeping
 * worker wakes for it. The simulator calls the turn alone. Each function does the work now, or
 * leaves it to the next turn, and returns the time of that, by shard->now_ns. INT64_MAX: its next
 * turn comes with something else. */
static int64_t (*const TIMERS[])(struct amb_shard *shard) = {
    amb_hold_expire,       /* readers that have held publishers back for as long as they may */
    amb_queues_due,        /* messages that come again, and queues that lacked memory */
    amb_takers_due,        /* takes that expire */
    amb_pace_tick,         /* readers whose pace lets them go on */
    amb_lazy_due,          /* readers that pin more than their user's quota has room for */
    amb_sift_due,          /* filters of users who are past their quota of tests */
    amb_spill_tick,        /* messages that move to host memory */
    amb_slow_tick,         /* notes about slow readers */
    amb_objects_due,       /* copies of objects for those who look at the broker */
    amb_history_tick,      /* history that has grown too old */
    amb_compact_due,       /* a walk through sparse slabs */
    amb_publishers_due,    /* publishers that wait for memory */
    amb_ucxport_due,       /* UCX, which does not ring for everything */
    amb_tell_due,          /* receipts that were kept back for a frame */
    amb_shard_memory_tick, /* segments that take nothing new, until they are empty */
    amb_links_trim_due,    /* links that have been idle for long */
};

/* The time until which the shard may sleep. */
static int64_t shard_due_ns(struct amb_shard *shard)
{
    int64_t until_ns = shard->now_ns + WORKER_SLEEP_MAX_NS;
    for (size_t i = 0; i < sizeof(TIMERS) / sizeof(TIMERS[0]); i++) {
        int64_t due_ns = TIMERS[i](shard);
        until_ns = due_ns < until_ns ? due_ns : until_ns;
    }
    return until_ns;
}

/* True: epoll was asked. */
static bool shard_sleep(struct amb_shard *shard, int64_t now_ns)
{
    shard->now_ns = now_ns;
    int64_t max_ns = shard_due_ns(shard) - now_ns;
    bool rang = false, may_sleep = max_ns > 0 && shard_arm(shard);
    if (may_sleep) {
        amb_stat_add(&shard->stats->sleeps, 1);
        rang = amb_links_wait(shard, (int)((max_ns + AMB_NS_PER_MS - 1) / AMB_NS_PER_MS));
    }
    amb_stat_add(&shard->stats->bells, rang);
    amb_inbox_disarm(&shard->inbox, rang);
    amb_links_disarm(shard);
    return may_sleep;
}

static int64_t worker_spin_ns(const struct amb_shard *shard)
{
    int64_t spin_ns = shard->config->server.spin_ns;
    if (spin_ns != AMB_CONFIG_TIME_AUTO) {
        return spin_ns;
    }
    return shard->peer_count < shard->config->server.cores ? WORKER_SPIN_AUTO_NS : 0;
}

/* The turn that began at turn_ns (0: none of interest) is over. */
static void worker_note_turn(struct amb_shard *shard, int64_t turn_ns, int64_t now_ns)
{
    if (turn_ns != 0) {
        amb_stat_turn(shard->stats, (uint64_t)(now_ns - turn_ns), now_ns);
    }
}

static int64_t shard_next_pause(const struct amb_shard *shard, int64_t pause_ns)
{
    if (!shard->poll.is_bulk || shard->poll.resting == 0) {
        return 0;
    }
    return amb_clock_next_pause(pause_ns, WORKER_PAUSE_MIN_NS, WORKER_PAUSE_MAX_NS);
}

/* Figures that change while messages come and go. */
struct rest {
    uint64_t batches, used;
    int64_t since_ns;
    bool is_over; /* segments have gone since then */
};

/* Mail alone is no work: probes ask each second whether it turns, and segments would stay. */
static void worker_rest(struct amb_shard *shard, struct rest *rest, int64_t now_ns)
{
    uint64_t batches = amb_stat_get(&shard->stats->batches_in);
    uint64_t used = amb_stat_get(&shard->stats->memory_used);
    if (batches != rest->batches || used != rest->used) {
        *rest = (struct rest){.batches = batches, .used = used, .since_ns = now_ns};
    } else if (!rest->is_over && now_ns - rest->since_ns > WORKER_TRIM_NS) {
        amb_shard_memory_rest(shard);
        rest->is_over = true;
    }
}

static void worker_loop(struct amb_worker *worker)
{
    struct amb_shard *shard = &worker->shard;
    struct amb_spin spin;
    amb_spin_init(&spin, worker_spin_ns(shard));
    int64_t idle_since_ns = 0, pause_ns = 0, turn_ns = 0;
    int64_t busy_since_ns = 0, worked_ns = 0;
    int64_t looked_ns = 0, real_ahead_ns = 0; /* of the clock of the day */
    struct rest rest = {.is_over = true};
    int64_t now_ns = amb_clock_monotonic_ns();
    while (!worker->is_stopping) {
        worker_note_turn(shard, turn_ns, now_ns);
        turn_ns = now_ns;
        shard->poll.sleeps_at_once = amb_spin_rests(&spin, now_ns);
        if (looked_ns == 0 || now_ns - looked_ns > WORKER_REAL_NS) {
            looked_ns = now_ns;
            real_ahead_ns = amb_clock_realtime_ns() - now_ns;
            if (shard->counters != NULL) {
                amb_counters_beat(shard->counters, now_ns, now_ns + real_ahead_ns);
            }
        }
        if (amb_shard_turn(shard, now_ns, now_ns + real_ahead_ns) > 0) {
            if (idle_since_ns != 0) {
                amb_spin_note(&spin, worked_ns, now_ns - idle_since_ns);
                busy_since_ns = now_ns;
            }
            idle_since_ns = pause_ns = 0;
            now_ns = amb_clock_monotonic_ns();
            continue;
        }
        turn_ns = 0; /* It had nothing to do. */
        if (idle_since_ns == 0) {
            idle_since_ns = now_ns;
            worked_ns = now_ns - busy_since_ns;
        }
        if (amb_spin_pays(&spin, now_ns - idle_since_ns, now_ns)) {
            pause_ns = shard_next_pause(shard, pause_ns);
            now_ns = amb_spin_yield(&spin, pause_ns);
            continue;
        }
        pause_ns = 0;
        worker_rest(shard, &rest, now_ns);
        bool has_asked = shard_sleep(shard, now_ns);
        now_ns = amb_clock_monotonic_ns();
        shard->poll.edges_ns = has_asked ? now_ns : shard->poll.edges_ns;
    }
}

/* To its processor, where it has one of its own: before it touches any memory. */
static enum amb_status worker_bind(const struct amb_shard *shard)
{
    const struct amb_config_server *server = &shard->config->server;
    if (shard->index >= server->bound || amb_cpus_bind(server->cpu[shard->index])) {
        return AMB_OK;
    }
    amb_error("worker %u cannot run on processor %u (server.cpus)", shard->index,
              (unsigned)server->cpu[shard->index]);
    return AMB_EINVAL; /* It could when the configuration was read. */
}

static enum amb_status worker_set_up(struct amb_shard *shard)
{
    enum amb_status status = worker_bind(shard);
    if (status != AMB_OK) {
        return status;
    }
    shard->poll.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (shard->poll.epoll_fd < 0) {
        return amb_status_from_errno(errno);
    }
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = AMB_SHARD_TAG_BELL};
    if (epoll_ctl(shard->poll.epoll_fd, EPOLL_CTL_ADD, shard->inbox.bell, &event) != 0) {
        return amb_status_from_errno(errno);
    }
    /* The first message shall not wait for the system to find the memory. */
    return amb_bufpool_prepare(&shard->memory.bufpool);
}

struct worker_start {
    struct amb_worker *worker;
    sem_t ready;
};

static void *worker_main(void *arg)
{
    struct worker_start *start = arg;
    struct amb_worker *worker = start->worker;
    char name[16];
    (void)snprintf(name, sizeof(name), "amb-worker-%u", worker->shard.index);
    (void)pthread_setname_np(pthread_self(), name);
    worker->started = worker_set_up(&worker->shard);
    enum amb_status started = worker->started;
    (void)sem_post(&start->ready); /* `start` is gone from here on. */
    if (started == AMB_OK) {
        worker_loop(worker);
    }
    amb_ucxport_close(&worker->shard);
    if (worker->shard.poll.epoll_fd >= 0) {
        (void)close(worker->shard.poll.epoll_fd);
        worker->shard.poll.epoll_fd = -1;
    }
    return NULL;
}

enum amb_status amb_worker_start(struct amb_worker *worker)
{
    struct worker_start start = {.worker = worker};
    if (sem_init(&start.ready, 0, 0) != 0) {
        return AMB_EINTERNAL;
    }
    int error = pthread_create(&worker->thread, NULL, worker_main, &start);
    if (error != 0) {
        (void)sem_destroy(&start.ready);
        return amb_status_from_errno(error);
    }
    while (sem_wait(&start.ready) != 0 && errno == EINTR) {
    }
    (void)sem_destroy(&start.ready);
    worker->is_running = true;
    return worker->started;
}

static void stop_arrived(struct amb_mail *mail, void *owner)
{
    (void)owner;
    AMB_CONTAINER_OF(mail, struct amb_worker, stop)->is_stopping = true;
}

void amb_worker_stop(struct amb_worker *worker)
{
    if (worker->is_running) {
        amb_mail_post(&worker->shard.inbox, &worker->stop, stop_arrived);
        (void)pthread_join(worker->thread, NULL);
        worker->is_running = false;
    }
}

void amb_worker_fini(struct amb_worker *worker)
{
    amb_assert(!worker->is_running);
    amb_shard_fini(&worker->shard);
}
