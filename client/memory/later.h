/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that may wait for a whole device, put off. A driver that frees device memory, or closes
 * another process's, waits until the device is idle. A kernel there may itself wait for our next
 * message. So a thread of the process's does it, and that thread has no lock.
 *
 *   any thread, any lock held ── amb_later ──► the thread: fn(job), oldest first
 *
 * The thread begins with the first job and ends with the last. Where none can be had, fn is called
 * at once.
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
/* How many jobs are done. */
uint64_t amb_later_done(void);
/* Waits until all that was put off so far is done. No lock is held that a job may want. False: no
 * more was put off than was done at amb_later_done's answer `since`. */
bool amb_later_wait(uint64_t since);
