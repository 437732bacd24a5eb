/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping on a connection's link: armed, it wakes its sleeper, through an edge that is there once.
 * A sleeper asks for what it waits for: frames always; counters and room if somebody needs them.
 *
 * Threads: under the connection's lock. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_conn;
struct pollfd;

/* How often releases that wait for a stream are looked at, by a waiter or the I/O thread. */
#define AMB_GPU_LOOK_NS INT64_C(1000000)

/* Arms the link so that it wakes us. False: there is work. Lock held. */
bool amb_conn_arm(struct amb_conn *conn, bool want_flow);
/* May a driver sleep on the link's own descriptor? The I/O thread and a program's loop sleep on its
 * epoll, whose edges are there once. */
bool amb_conn_can_rest(const struct amb_conn *conn);
/* Prepares for a poll(2) of that descriptor, which *out is set to. Bytes that have come since the
 * last look end it at once. False: there is work. */
bool amb_conn_rest(struct amb_conn *conn, struct pollfd *out);
void amb_conn_disarm(struct amb_conn *conn);
/* Something waits for room since the link was armed: its sleeper arms it once more. */
void amb_conn_rearm(struct amb_conn *conn);
/* Empties the epoll of the link's descriptor. A driver that may sleep for its edge looks again. */
void amb_conn_harvest(struct amb_conn *conn);
/* The same by the driver itself. */
void amb_conn_take_edge(struct amb_conn *conn);
/* The next turn of timers, or of a lingering batch. */
int64_t amb_conn_next_timer(const struct amb_conn *conn, int64_t now_ns);
/* In POLL mode nobody watches the descriptors but the program's own loop: prepares them for it. */
void amb_conn_arm_for_user(struct amb_conn *conn);
