/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's life on its worker.
 * Threads: the shard's worker.
 */
#pragma once

struct amb_session;
struct amb_shard;

/*
 * Cuts the session's link and gives up what it has: publishers, subscriptions, what is under way.
 * keep_held: deliveries in place stay, quarantined. `closed` is called with arg once the link is
 * gone, at once or later; the session is then without link, publishers and subscriptions. Where
 * very much is out that takes several turns (AMB_SHARD_CLEAR_TURN).
 */
void amb_session_close(struct amb_session *session, _Bool keep_held,
                       void (*closed)(struct amb_session *session, void *arg), void *arg);
/* Once a turn: goes on with sessions that have closed. Returns 1 if there was one. */
unsigned amb_sessions_clear(struct amb_shard *shard);
/* The upcall of its link: that is gone, and what it had comes next. */
void amb_session_link_gone(struct amb_session *session);
