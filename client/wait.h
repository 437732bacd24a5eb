/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting. A thread that must wait for something of a connection becomes its driver: it moves link
 * and control socket itself, so that no hop between threads is in the way of a message; while it
 * finds nothing it yields, and when yielding does not help it sleeps. Others that wait follow: they
 * sleep until the driver says that something changed, and one of them becomes the next driver.
 * When nobody drives, the I/O thread does (io.c).
 *
 *   ready? ─► driver free? ─► progress, yield, ... arm, sleep on {link, control, wake}
 *                 └─ taken ─► sleep on `change`
 */
#pragma once

#include "wire/base/spin.h"
#include "wire/base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_conn;

/* Frames a turn: few, so that what was received is still in the cache when it is taken. */
#define AMB_POLL_BUDGET 8u
/* The same while frames wait to be sent. A turn sends up to 1,024 of them, each may be answered,
 * and who reads less than he has answered is one that does not read, to the broker. */
#define AMB_POLL_BUDGET_BUSY 2048u

#define AMB_WAIT_STOPPABLE 1u /* ESTOPPED after amb_stop */
#define AMB_WAIT_CONTROL 2u   /* the answer comes on the control socket: do not spin */
#define AMB_WAIT_FLOW 4u      /* a flow value may end it */
#define AMB_WAIT_CLOSER 8u    /* goes on although the connection is being closed */
#define AMB_WAIT_LOST 16u     /* goes on although the session is lost */

struct amb_wait {
    bool (*is_ready)(void *arg); /* called under the connection's lock */
    void *arg;
    int64_t timeout_ns; /* relative; AMB_NOWAIT: one look */
    uint32_t flags;
    const _Atomic bool *is_over; /* ends it with ECLOSED; or NULL */
};

/*
 * Lock held on entry and on return, given up in between. AMB_OK: is_ready said so. EAGAIN,
 * ETIMEDOUT, ESTOPPED, ECLOSED, EFORKED, or why the session is lost.
 */
enum amb_status amb_conn_wait(struct amb_conn *conn, const struct amb_wait *wait);

/*
 * Moves what can be moved without waiting: link, batches that are due, what was released. Lock
 * held. Returns how much was done.
 */
unsigned amb_conn_progress(struct amb_conn *conn);
/* The first part of it: what has come on the link, and what was released. */
unsigned amb_conn_receive(struct amb_conn *conn);
/* Reads the control socket, speaks to keep the session alive, maps lease segments. Lock held, may
 * be given up. */
void amb_conn_timers(struct amb_conn *conn, int64_t now_ns);
/* The last time not after now_ns that is one to speak at: clients of one host do so together, so
 * that a broker with nothing else to do wakes seldom. */
int64_t amb_conn_ping_grid(const struct amb_conn *conn, int64_t now_ns);
/* When amb_conn_timers or a lingering batch wants its next turn. */
int64_t amb_conn_next_timer(const struct amb_conn *conn, int64_t now_ns);

/* Something that waits may be about is different. Lock held; those who wait look again when it is
 * given up, at the latest. */
void amb_conn_changed(struct amb_conn *conn);
/* Tells them. Lock held. */
void amb_conn_tell(struct amb_conn *conn);
/* Wakes all waits and the driver so that they look again. Any thread; async-signal-safe. */
void amb_conn_wake_all(struct amb_conn *conn);
/* It sleeps on the link, and shall look again. Lock held. */
void amb_conn_wake_driver(struct amb_conn *conn);
/* Arms the link so that it wakes us. False: there is work. Lock held. */
bool amb_conn_arm(struct amb_conn *conn, bool want_flow);
void amb_conn_disarm(struct amb_conn *conn);
/* Something waits for room since the link was armed: whoever sleeps on it arms it once more. */
void amb_conn_rearm(struct amb_conn *conn);
/* In POLL mode nobody watches the descriptors but the program's own loop: prepares them for it. */
void amb_conn_arm_for_user(struct amb_conn *conn);
/* Empties the epoll of the link's descriptor. */
void amb_conn_harvest(struct amb_conn *conn);
