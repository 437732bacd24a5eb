/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wait of a thread: its condition, and its possible ends; see drive.h.
 * Threads: the one that waits, and those that hold the connection's lock. Memory: the caller's.
 */
#pragma once

#include "wire/base/clock.h"
#include "wire/base/status.h"

#include <amb/amb.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_WAIT_STOPPABLE 1u /* ESTOPPED after amb_stop */
#define AMB_WAIT_CONTROL 2u   /* the answer comes on the control socket: do not spin */
#define AMB_WAIT_FLOW 4u      /* a flow value may end it */
#define AMB_WAIT_CLOSER 8u    /* goes on although the connection is being closed */
#define AMB_WAIT_LOST 16u     /* goes on although the session is lost */
#define AMB_WAIT_ASKS 32u     /* a signal has options.is_interrupted asked, which may end it */

struct amb_wait {
    bool (*is_ready)(void *arg); /* called under the connection's lock */
    void *arg;
    int64_t timeout_ns; /* relative; AMB_NOWAIT: one look */
    uint32_t flags;
    const _Atomic bool *is_over; /* ends it with ECLOSED; or NULL */
};

/* The end of a wait that begins now, of the monotonic clock; INT64_MAX: AMB_FOREVER. */
static inline int64_t amb_wait_deadline(int64_t timeout_ns)
{
    return timeout_ns == AMB_FOREVER ? INT64_MAX
                                     : amb_deadline_ns(amb_clock_monotonic_ns(), timeout_ns);
}
