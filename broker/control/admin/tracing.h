/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `broker-ctl trace`: a trace (shard/trace.h) is armed on all workers, waited for, disarmed, and
 * told. It ends when all of its batches are over, at its time, or when its client has gone.
 *
 *   asked ─► arming ─► armed ─► disarming ─► rows, by the observer ─► told
 *
 * A client with the right sees topics of its own tenant, or of all.
 *
 * Threads: the control thread. Memory: of the trace, some 350 KiB a worker, from the question until
 * its answer; AMB_TRACES_MAX of them at a time, one of each tenant.
 */
#pragma once

#include "wire/base/status.h"

#include <stdint.h>

#define AMB_TRACING_NS_MAX (INT64_C(3600) * 1000000000)

struct amb_client;
struct amb_control;

/* The answer, for free(), or NULL: there is none, because of `status` and `why`, which is static.
 */
typedef void (*amb_tracing_done_fn)(void *context, enum amb_status status, const char *why,
                                    char *json);

/* N, 1 to AMB_TRACE_BATCHES_MAX, and a time, as texts. EINVAL, EBUSY, ENOMEM: *why is static. */
AMB_MUST_CHECK enum amb_status amb_tracing_begin(struct amb_client *client, const char *pattern,
                                                 const char *count, const char *time,
                                                 amb_tracing_done_fn done, void *context,
                                                 const char **why);
/* Once a round of the control thread: those that are to end. */
void amb_tracing_run(struct amb_control *control);
/* Workers have ended, and all mail has been read. */
void amb_tracing_fini(struct amb_control *control);
