/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch that is coming leaves a segment that takes nothing new (bufpool_retire.h). Its bytes so
 * far are copied to another buffer of its group, and the link goes on there.
 *
 *     link ──► [retired: ████░░░░]        link ──► [new:     ████░░░░]
 *
 * Threads: the session's worker, outside of its link's callbacks. Memory: a buffer for another.
 */
#pragma once

struct amb_session;

/* Of a session that is up. Without memory the batch is refused (ENOMEM). A body that a ucx link
 * fetches stays where it is: that peer is trusted, and the transport has its address. */
void amb_ingest_leave(struct amb_session *session);
