/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of broker/worker in a shard: sessions that close, and the port of UCX.
 *
 * Threads: the shard's worker. Memory: embedded in the shard.
 */
#pragma once

#include "wire/base/list.h"

#include <stdint.h>

/* A turn's work for sessions that close: */
#define AMB_SHARD_HEAR_TURN 4u      /* polls of their links, */
#define AMB_SHARD_CLEAR_TURN 16384u /* and deliveries that are given up */

struct amb_ucx_context;
struct amb_ucx_worker;

/* Sessions that close, whose last frames are still read: session_life.c. */
struct amb_shard_hearing {
    struct amb_list_node closings; /* struct amb_session_closing.hearing, by their numbers */
    uint64_t newest;               /* number */
    unsigned budget;               /* polls of links, this turn */
};

static inline void amb_shard_hearing_init(struct amb_shard_hearing *hearing)
{
    amb_list_init(&hearing->closings);
    hearing->budget = AMB_SHARD_HEAR_TURN;
}

/* Sessions that are closed, and not gone yet: session_life.c. */
struct amb_shard_clearing {
    struct amb_list_node sessions; /* struct amb_session.clearing */
    unsigned budget;               /* deliveries that may be given up this turn */
};

static inline void amb_shard_clearing_init(struct amb_shard_clearing *clearing)
{
    amb_list_init(&clearing->sessions);
    clearing->budget = AMB_SHARD_CLEAR_TURN;
}

/* ucxport.c */
struct amb_shard_ucx {
    struct amb_ucx_context *context; /* NULL: no ucx links */
    struct amb_ucx_worker *worker;   /* NULL until the first client asks for that link */
};
