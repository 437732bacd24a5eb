/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The links of a worker's sessions. A turn asks some of them, the worker's epoll watches some, and
 * all are armed while it sleeps.
 *
 * A socket is polled when epoll has named it; where they are few and messages short, each turn.
 * Other links are polled each turn, and some of the cold ones, one after another. Of thousands of
 * idle links nearly all are dormant: armed once, until epoll names them.
 *
 * Threads: the shard's worker.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_LINKS_TRIM_NS (10 * INT64_C(1000000000))
#define AMB_LINKS_TRIM_SOON_NS (1 * INT64_C(1000000000)) /* of those that have TLS */

struct amb_session;
struct amb_shard;

/* Has the worker's epoll report what happens on the session's link. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_links_watch(struct amb_session *session);
/* The link is about to close. */
void amb_links_unwatch(const struct amb_session *session);

/* The links' part of a turn: reads what has come. since_ns: the last turn began so long ago.
 * Returns how much was done. */
unsigned amb_links_poll(struct amb_shard *shard, int64_t since_ns);

/* Asks each link for a wake-up. False: one has something. */
bool amb_links_arm(struct amb_shard *shard);
/* Asks epoll, sleeps there for up to timeout_ms, and notes the sessions whose links have something.
 * True: the inbox's bell has rung. */
bool amb_links_wait(struct amb_shard *shard, int timeout_ms);
void amb_links_disarm(struct amb_shard *shard);

/* Gives memory back of links on which nothing was sent for AMB_LINKS_TRIM_NS, or nothing moved for
 * AMB_LINKS_TRIM_SOON_NS, of one a turn. Called when it is due. */
void amb_links_trim(struct amb_shard *shard);
/* A link has come that trims soon. */
void amb_links_trim_soon(struct amb_shard *shard);
/* By shard->now_ns; in the past while it has more to do. */
int64_t amb_links_trim_due(struct amb_shard *shard);
