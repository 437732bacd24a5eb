/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A payload: the memory that an entry has of its own, by kind, and its one end. Nobody else knows
 * where that memory came from and whom it goes back to.
 *
 *   kind     payloads lie in            records lie in        at its end
 *   NONE     somebody else's memory     the same              nothing
 *   BUFFER   a buffer of a pool         the same              the buffer goes back to its pool
 *   COPIED   the same; it was SLOTS     the same              and the commit is over, at the latest
 *   SLOTS    slots that a client wrote  a buffer, of a pool   the slots are free, the commit is
 *                                       or of the heap        over, the buffer goes
 *   LANDED   a slot of the worker's own the same              the slot is free, the buffer goes
 *            in GPU memory (gpuslot.h)
 *
 * NONE: a shadow, and a batch that was refused before it had any memory. A payload of another
 * entry, for as long as that is referenced, is that entry's.
 *
 * Threads: the worker whose entry it is. Another one that holds the entry may read `kind` and
 * `buf`, which stay as they were when the entry was handed over. Memory: of that worker's pools; of
 * the heap for records alone, where the pools have nothing left.
 */
#pragma once

#include "broker/memory/bufpool.h"
#include "broker/shard/book.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_heap_account;
struct amb_link_mem;
struct amb_shard;

enum amb_payload_kind {
    AMB_PAYLOAD_NONE,
    AMB_PAYLOAD_BUFFER,
    AMB_PAYLOAD_COPIED,
    AMB_PAYLOAD_SLOTS,
    AMB_PAYLOAD_LANDED,
};

struct amb_payload {
    enum amb_payload_kind kind;
    uint32_t heap;            /* bytes that its session is charged for the buffer */
    struct amb_buf buf;       /* data NULL: none */
    struct amb_commit commit; /* COPIED, SLOTS, LANDED */
};

/* For records where the pools have nothing left: the buffer is of the heap, and `heap` is charged.
 * ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_payload_alloc_heap(struct amb_payload *payload,
                                                      struct amb_shard *shard,
                                                      struct amb_heap_account *heap, uint64_t len);
/* SLOTS: what they hold has been copied to that buffer, and nobody reads it in place. COPIED from
 * here on. */
void amb_payload_copied(struct amb_payload *payload, struct amb_shard *shard,
                        const struct amb_buf *buf);
/* COPIED: the publisher may go on, so its commit is over. */
void amb_payload_settled(struct amb_payload *payload);

/* SLOTS: they are free and the commit is over, though the entry goes on. Harmless twice. */
void amb_payload_let_go(struct amb_payload *payload);

/* Is all of it in one buffer? */
static inline bool amb_payload_is_buffer(const struct amb_payload *payload)
{
    return payload->kind == AMB_PAYLOAD_BUFFER || payload->kind == AMB_PAYLOAD_COPIED;
}

static inline bool amb_payload_is_landed(const struct amb_payload *payload)
{
    return payload->kind == AMB_PAYLOAD_LANDED;
}

/* The buffer's registration with a link; NULL: none. */
static inline struct amb_link_mem *amb_payload_mem(const struct amb_payload *payload)
{
    return payload->buf.segment == NULL ? NULL : payload->buf.segment->mem;
}

/* amb_payload_end of all kinds but BUFFER. */
void amb_payload_end_other(struct amb_payload *payload, struct amb_shard *shard);
/* Its end, on the worker whose it is. */
static inline void amb_payload_end(struct amb_payload *payload, struct amb_shard *shard)
{
    if (__builtin_expect(payload->kind == AMB_PAYLOAD_BUFFER, 1)) {
        amb_buf_free(&payload->buf);
    } else if (payload->kind != AMB_PAYLOAD_NONE) {
        amb_payload_end_other(payload, shard);
    }
}
