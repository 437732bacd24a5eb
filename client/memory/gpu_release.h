/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Releases behind a stream: a message of which the program's GPU still reads the payload is
 * released when that is over. The thread that drives the connection and the I/O thread look at
 * these.
 *
 * Threads: any; locks: gpu.h. Memory: used again, freed with the device.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>

struct amb_conn;
struct amb_gpu;
struct amb_gpu_release_queue;
struct amb_gpu_waiting;
struct amb_msg;

/* Those of a device. The driver is asked for the oldest of each stream. */
struct amb_gpu_releases {
    struct amb_gpu_release_queue *queues,
        *unused_queues; /* streams, with something that waits; without */
    struct amb_gpu_waiting *unused;
};

/* The release of a message; any thread, no lock of this file held. */
typedef void (*amb_gpu_release_fn)(struct amb_msg *msg);

/* A stream that captures a graph, or a thread in a host function of a stream: nobody can say when
 * its work has run. */
enum amb_gpu_capturing {
    AMB_GPU_CAPTURING_REFUSED,
    AMB_GPU_CAPTURING_AWAITED, /* the release comes behind the end of the capture */
};

/*
 * Has msg released when the work on the stream so far has run, see amb_conn_gpus_look. Where no
 * event can be had, blocks until then. On a fenced device it is released at once. On failure msg
 * stays the caller's. ESTATE: the stream captures a graph; AWAITED gets that only where no event
 * can be had. ENOTSUP: the stream is another context's.
 */
AMB_MUST_CHECK enum amb_status amb_gpu_release_after(struct amb_gpu *gpu, struct amb_msg *msg,
                                                     amb_gpu_release_fn release, void *stream,
                                                     enum amb_gpu_capturing capturing);
/* Releases what is due; returns whether something is left. Any lock may be held. */
bool amb_conn_gpus_look(struct amb_conn *conn);
/* Before a nap: looks again and again for a moment, where a release is new and such looks have
 * helped. Once a new release, so that one that waits for long costs nothing. No lock held. */
void amb_conn_gpus_spin(struct amb_conn *conn);
/* Would that look at all? */
bool amb_conn_gpus_may_spin(struct amb_conn *conn);
/* Waits for all of it, but for captures that go on. No lock held. */
void amb_conn_gpus_drain(struct amb_conn *conn);
/* The same on a thread, one a connection: nobody looks any more, for the connection is closed. */
void amb_conn_gpus_leave(struct amb_conn *conn);
/* Nothing waits any more. is_entered: the device's driver answers. */
void amb_gpu_releases_fini(struct amb_gpu *gpu, bool is_entered);
