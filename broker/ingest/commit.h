/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The particulars of batches whose payloads lie in a leased segment: their check, and the word that
 * their slots are free again. Only records, offsets and properties come on the link; they are
 * copied, checked where their publisher cannot write, and held against its lease.
 *
 *   amb_ingest_commit ─► (body) amb_commit_check ─► route … last reader ─► amb_commit_tell (FREED)
 *
 * Threads: the shard's worker. Memory: of the pools. Records lie in the heap only
 * where the pools have nothing left (amb_commit_alloc).
 */
#pragma once

#include "broker/session/session.h"
#include "wire/base/status.h"

struct amb_entry;
struct amb_frame;
struct amb_publisher;

/* Bytes of the buffer for what comes with a COMMIT. */
uint64_t amb_commit_buffer(const struct amb_frame *frame);
/*
 * That buffer. Where leases and messages have all memory, it is of the heap, and the session is
 * charged. A commit has its payloads in their place already, so nothing else would be won by a
 * refusal. ENOMEM, ELIMIT.
 */
AMB_MUST_CHECK enum amb_status amb_commit_alloc(struct amb_publisher *publisher, uint64_t len,
                                                struct amb_entry *entry);
/*
 * The whole meta is in the entry's buffer: checks it, and takes its slots. EPROTO. EAGAIN: it is to
 * be copied out of them. It is well formed, but refused: ECUDA, its GPU is out of use; EREJECTED,
 * the topic wants a copy, and it lies on a GPU.
 */
AMB_MUST_CHECK enum amb_status amb_commit_check(struct amb_publisher *publisher,
                                                struct amb_entry *entry);

/* Tells the client which commits are over. */
void amb_commit_tell_news(struct amb_session *session);
/* Once a turn, while the link is up. */
static inline void amb_commit_tell(struct amb_session *session)
{
    if (session->book.has_news) {
        amb_commit_tell_news(session);
    }
}
/* There is something to tell, and nothing in the link whose leaving would wake the worker for it.
 */
static inline bool amb_commit_may_tell(const struct amb_session *session)
{
    return session->book.has_news && !session->book.is_late && session->link->queued == 0;
}
