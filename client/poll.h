/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is due to the program: events, settled ranges, messages for on_message; and the descriptor
 * that says so. Callbacks run in amb_poll and in closes only, with no lock of ours held.
 * Threads: as each function says.
 */
#pragma once

#include <amb/amb.h>
#include <stdbool.h>

struct amb_conn;
struct amb_pub;
struct amb_sub;

/* A message has become the next of its subscription; a callback is due. Lock held. */
void amb_due_message(struct amb_conn *conn);
void amb_due_callback(struct amb_conn *conn);
/* Makes amb_fd readable from anywhere, async-signal-safe. */
void amb_due_signal(struct amb_conn *conn);
/* POLL mode: a batch lingers, so amb_fd must become readable soon. Any thread. */
void amb_due_timer(struct amb_conn *conn, int64_t delay_ns);

/* Queue events; dropped if nobody listens. Lock held. */
void amb_event_session(struct amb_conn *conn, enum amb_event_type type, enum amb_status status,
                       const char *text);
void amb_event_gap(struct amb_sub *sub, uint64_t count, enum amb_loss loss, uint64_t seq);
void amb_event_subscribers(struct amb_pub *pub, uint32_t count);
/* Forgets events that name a handle about to be freed. */
void amb_event_forget(struct amb_conn *conn, const struct amb_pub *pub, const struct amb_sub *sub);

/* Runs at most `max` callbacks; returns how many ran. No lock held. */
unsigned amb_callbacks_run(struct amb_conn *conn, unsigned max);
/* Runs the settled callbacks of one publisher. No lock held. */
void amb_callbacks_settled(struct amb_pub *pub);
/* Is this thread inside a callback of this connection? */
bool amb_callbacks_inside(const struct amb_conn *conn);
