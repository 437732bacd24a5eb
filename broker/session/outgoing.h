/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A frame on its way to a client: the link's tx, and the reference that keeps its bytes. From the
 * shard's pool; back in it when settled.
 *
 * Threads: the shard's worker.
 */
#pragma once

#include "wire/link/link.h"

#define AMB_OUTGOING_SIZE 512u /* bytes of the shard's pool objects */

struct amb_entry;
struct amb_frame;
struct amb_session;
struct amb_shard;

/* handle, opened: the publisher it speaks of, by value. */
typedef void (*amb_outgoing_fn)(struct amb_session *session, uint32_t handle, uint32_t opened);

struct amb_outgoing {
    struct amb_link_tx tx;
    struct amb_entry *entry;    /* one reference, or NULL */
    amb_outgoing_fn on_settled; /* NULL: nobody waits for it */
    uint32_t handle, opened;
    uint32_t *naming; /* counts those that read a topic's name, or NULL */
};
_Static_assert(sizeof(struct amb_outgoing) <= AMB_OUTGOING_SIZE, "AMB_OUTGOING_SIZE");

/* Nothing is allocated yet. */
void amb_outgoing_init(struct amb_shard *shard);

/*
 * Sends frame; `entry` (may be NULL) is what its body lies in and gets a reference until the link
 * is done with it. data, meta: of a frame with a body, else NULL. ENOMEM, or the link is down.
 */
AMB_MUST_CHECK enum amb_status amb_outgoing_send(struct amb_session *session,
                                                 const struct amb_frame *frame, const void *data,
                                                 const void *meta, struct amb_entry *entry);
/* Sends a TOPIC frame; *naming is one more until the link has done with the name. */
AMB_MUST_CHECK enum amb_status amb_outgoing_send_name(struct amb_session *session,
                                                      const struct amb_frame *frame,
                                                      const char *name, uint32_t *naming);
/* Sends a frame about a publisher. AMB_OK: it is sent. AMB_EAGAIN: on_settled will be called when
 * it is. ENOMEM, or the link is down. */
AMB_MUST_CHECK enum amb_status amb_outgoing_send_watched(struct amb_session *session,
                                                         const struct amb_frame *frame,
                                                         uint32_t opened,
                                                         amb_outgoing_fn on_settled);
/* Sends a frame with data in `entry` (may be NULL, both), as amb_outgoing_send, and on_settled as
 * amb_outgoing_send_watched. */
AMB_MUST_CHECK enum amb_status amb_outgoing_send_answer(struct amb_session *session,
                                                        const struct amb_frame *frame,
                                                        const void *data, struct amb_entry *entry,
                                                        amb_outgoing_fn on_settled);
/* Bytes of the heap that a session has, the frames that wait for its client among that. */
uint64_t amb_outgoing_heap(const struct amb_session *session);
/* The link's on_sent. */
void amb_outgoing_settled(struct amb_session *session, struct amb_link_tx *tx);
