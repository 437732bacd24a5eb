/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage 2 of 6 (link, codec ─► ingest ─► route): a batch's head gets a place in broker memory, and
 * its body, once whole and checked there, goes on in the order of the heads. Of a leased batch the
 * payloads stay where they are (commit.h).
 *
 * Threads: the shard's worker, inside its link's callbacks. Memory: entries and buffers come from
 * the shard's pools. Only a commit's records may lie in the heap (commit.h).
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_frame;
struct amb_link_mem;
struct amb_session;

/* on_frame of a BATCH: as struct amb_link_events says. The cookie is for amb_ingest_body. */
AMB_MUST_CHECK enum amb_status amb_ingest_head(struct amb_session *session,
                                               const struct amb_frame *frame, void **dst,
                                               void **cookie, struct amb_link_mem **mem);
/* The same of a COMMIT. EPROTO: its number is not expected, or the segment is not one of this
 * session's that is sealed. */
AMB_MUST_CHECK enum amb_status amb_ingest_commit(struct amb_session *session,
                                                 const struct amb_frame *frame, void **dst,
                                                 void **cookie, struct amb_link_mem **mem);
/*
 * on_device of a BATCH: its data goes to a slot of this worker's own in GPU memory (gpuslot.h). The
 * batch is then one that was leased there, but it has its window and nobody waits for its slot.
 * ENOTSUP: there is no room, or this batch belongs into host memory. EPROTO: the meta is malformed.
 */
AMB_MUST_CHECK enum amb_status amb_ingest_device(struct amb_session *session,
                                                 const struct amb_frame *frame, const void *meta,
                                                 uint64_t len, void **dst, void **cookie);
/* on_body of a BATCH or COMMIT. EPROTO: the body is malformed. EAGAIN: it has to be copied before
 * anything else comes, by amb_ingest_copy. */
AMB_MUST_CHECK enum amb_status amb_ingest_body(struct amb_session *session, void *cookie,
                                               enum amb_status status);
/* Bodies of other frames have cookies with that bit (dispatch.c). */
#define AMB_COOKIE_OTHER ((uintptr_t)1)
static inline bool amb_ingest_is_batch(const void *cookie)
{
    return ((uintptr_t)cookie & AMB_COOKIE_OTHER) == 0;
}
/* The batch leaves its publisher's slots, for memory that others may have to give up. EPROTO. */
AMB_MUST_CHECK enum amb_status amb_ingest_copy(struct amb_session *session, void *cookie);
