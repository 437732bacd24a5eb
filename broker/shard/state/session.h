/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of broker/session in a shard: the sessions, frames that are out, and the turn in which
 * each link is asked.
 *
 * Threads: the shard's worker. Memory: embedded in the shard; the table is one allocation,
 * the pool has its own.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/base/pool.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_session;

/* session.c */
struct amb_shard_sessions {
    struct amb_session **at; /* by index; amb_shard_session_cell */
    uint32_t cells;
    struct amb_list_node live; /* struct amb_session.live */
};

static inline void amb_shard_sessions_init(struct amb_shard_sessions *sessions)
{
    amb_list_init(&sessions->live);
}

/* outgoing.c */
struct amb_shard_outgoing {
    struct amb_pool pool;
};

/* Warm, cold and dormant links: session.c sorts them, links.c asks them. */
struct amb_shard_poll {
    struct amb_list_node warm, cold, dormant; /* struct amb_session.heat */
    uint32_t warm_count, cold_count, cold_watched, dormant_count;
    uint32_t resting, busy; /* watched links that wait for an edge, and the other watched ones */
    int64_t tell_due_ns;    /* when receipts that are kept back leave: worker/tell.h */
    int64_t edges_ns;       /* time of the last question which links have something */
    int64_t trim_due_ns;    /* when idle links are looked at again, */
    uint32_t trim_next;     /* ... from this session on */
    int64_t trim_all_ns;    /* when all of them are, and not those alone that trim soon */
    bool is_trimming_all;   /* this time */
    bool has_trimmed_soon;  /* there are some that trim soon */
    int epoll_fd;           /* -1 under the simulator */
    bool has_found;         /* the last turn's questions */
    bool sleeps_at_once;    /* the worker does, where it finds nothing; epoll then names links */
    bool is_bulk;           /* the last batch had many messages: a wait is not worth a spin */
};

static inline void amb_shard_poll_init(struct amb_shard_poll *poll)
{
    amb_list_init(&poll->warm);
    amb_list_init(&poll->cold);
    amb_list_init(&poll->dormant);
    poll->epoll_fd = -1;
    poll->tell_due_ns = INT64_MAX;
}
