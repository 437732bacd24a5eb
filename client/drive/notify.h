/* SPDX-License-Identifier: Apache-2.0 */
/*
 * News for the program: events, callbacks, and the descriptor that shows them. Events wait in a
 * queue. The readiness of amb_fd is kept up only if the program has asked for it. Threads: as
 * each function says.
 */
#pragma once

#include <amb/amb.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_conn;
struct amb_event_cell;

/* Losses added up; UINT64_MAX: unknowable. */
static inline uint64_t amb_lost_sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* A message has become the next of its subscription; a callback shall run. Lock held. */
void amb_notify_message(struct amb_conn *conn);
void amb_notify_callback(struct amb_conn *conn);
/* Makes amb_fd readable from anywhere, async-signal-safe. */
void amb_notify_signal(struct amb_conn *conn);
/* POLL mode: a batch lingers, so amb_fd must become readable soon. Any thread. */
void amb_notify_timer(struct amb_conn *conn, int64_t delay_ns);

/* Queue events; dropped where the program has no on_event. Lock held. */
void amb_event_session(struct amb_conn *conn, enum amb_event_type type, enum amb_status status,
                       const char *text);
void amb_event_sub_closed(struct amb_conn *conn, struct amb_sub *sub, enum amb_status status,
                          const char *text);
void amb_event_gap(struct amb_conn *conn, struct amb_sub *sub, uint64_t count, enum amb_loss loss,
                   uint64_t seq);
void amb_event_slow(struct amb_conn *conn, struct amb_sub *sub, bool is_slow, uint64_t count);
void amb_event_subscribers(struct amb_conn *conn, struct amb_pub *pub, uint32_t count);
/* Forgets events that name a handle about to be freed. False: on_event is running on another thread
 * with one; threads that wait on the connection are woken when it returns. Lock held. */
bool amb_event_forget(struct amb_conn *conn, const struct amb_pub *pub, const struct amb_sub *sub);
/* on_event may be called about that publisher, and nobody else calls it before amb_event_end. */
bool amb_event_begin(struct amb_conn *conn, const struct amb_pub *pub);
/* The oldest event; the next one comes after amb_event_end. */
bool amb_event_take(struct amb_conn *conn, struct amb_event_cell *out);
/* May on_event be called, with an event that waits or because a publisher has room? */
bool amb_event_is_due(struct amb_conn *conn, bool has_room);
/* on_event has returned. No lock held. */
void amb_event_end(struct amb_conn *conn);

/* Makes amb_fd readable, and not readable any more unless the session is over. Lock held. */
void amb_notify_set(struct amb_conn *conn);
void amb_notify_clear(struct amb_conn *conn);
