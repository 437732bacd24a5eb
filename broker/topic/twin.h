/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Twins: host memory copies of batches that lie in GPU memory, for readers that cannot, or do not
 * want to, read there. A twin is an entry like any other, with its own reference and charge. It is
 * made when the first such reader comes to the batch, once. A reader that waits for one has those
 * of the next batches made beside it, as far as its credit goes. The worker that is home to the
 * topic makes it, and it is kept with the batch. Borrowers of the batch borrow its twin, when they
 * want it.
 *
 *   forward ── amb_twin_get: NULL ──► the copier ... mail ... the topic is walked again ──► twin
 *   a borrower's ── mail ──► home: the same ... mail ── a shadow of the twin, or its failure
 *
 * Threads: the shard's worker; the copy itself on the copier (gpupool.h), of memory that both
 * entries keep. Memory: the twin's buffer is of the shard's pool.
 */
#pragma once

#include <stdint.h>

struct amb_entry;
struct amb_shard;
struct amb_topic;

enum amb_twin_state {
    AMB_TWIN_NONE,
    AMB_TWIN_COMING,
    AMB_TWIN_READY,
    AMB_TWIN_NOT_AHEAD, /* asked for ahead in vain: its reader asks in earnest */
    AMB_TWIN_FAILED,    /* the device's copy has: those who want it lose the batch */
    AMB_TWIN_NO_MEMORY, /* so do they; asked for once more it may come */
};

/* The twin of a batch in GPU memory. NULL: it is coming, and its topic will be marked; or it has
 * failed: see entry->twin_state. */
struct amb_entry *amb_twin_get(struct amb_shard *shard, struct amb_entry *entry);
/* A reader waits for the twin of the batch at that position of the topic's log. Has those of the
 * next batches made beside it, up to so many messages and bytes, where memory is free: they are
 * copied together. */
void amb_twin_ahead(struct amb_topic *topic, uint64_t position, uint64_t msgs, uint64_t bytes);
