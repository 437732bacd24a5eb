/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that may wait for a whole device, put off. A driver that frees device memory, or closes
 * another process's, waits until the device is idle. A kernel there may itself wait for our next
 * message. So a thread of the process's does it, without locks, and nobody waits for it.
 *
 *   any thread, any lock held ── amb_later ──► the thread: fn(job), oldest first
 *
 * The thread begins with the first job and ends with the last. Where none can be had, fn is called
 * at once, with the caller's locks, and the call blocks. So fn takes only locks below those.
 *
 * Threads: any. Memory: none; a job is part of what it ends.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_later;
typedef void (*amb_later_fn)(struct amb_later *job);

struct amb_later {
    struct amb_later *next;
    amb_later_fn fn;
};

/* Has fn called with job, which is its from here on. It may have been when this returns. */
void amb_later(struct amb_later *job, amb_later_fn fn);
/* Is this the thread? */
bool amb_later_is_here(void);
/* Waits until there is no job any more; for tests. A device may be busy for ever. No lock is held
 * that a job may want. */
void amb_later_wait(void);
/* Around a fork: the child has the list in one piece. */
void amb_later_lock(void);
void amb_later_unlock(void);
