/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue's beginning and end, who is a member of it, and which topics it reads.
 *
 * Threads: the queue's worker.
 */
#pragma once

#include "broker/delivery/acks/queue.h"

struct amb_party;

/* party: one of the user who pays for its filter's tests; or NULL. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_queue_create(struct amb_shard *shard, uint64_t id,
                                                const struct amb_queue_options *options,
                                                struct amb_party *party, struct amb_queue **out);
/* Reads no more, and drops the messages that it keeps; takes that come home are dropped too. */
void amb_queue_close(struct amb_queue *queue);
/* NULL: there is none. */
struct amb_queue *amb_shard_queue(const struct amb_shard *shard, uint64_t id);
/* Starts reading a topic, as amb_subscription_attach. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_queue_attach(struct amb_queue *queue, struct amb_topic *topic,
                                                const struct amb_begun *begun);
/* A member comes. Unless a newer one was here first, its options are in force from here on, and so
 * is its filter, or that it has none. Then the filter is taken over, and *filter is NULL. The seat
 * is the queue's until its worker says that it leaves. */
void amb_queue_join(struct amb_queue *queue, struct amb_seat *seat,
                    const struct amb_queue_options *options, struct amb_filter **filter);
void amb_queue_seat_gone(struct amb_mail *mail, void *owner);
void amb_queue_seat_kicked(struct amb_mail *mail, void *owner);
/* Messages that members have and did not settle. */
uint64_t amb_queue_out(const struct amb_queue *queue);
/* At the end of the shard. */
void amb_queues_fini(struct amb_shard *shard);
/* Frees a closed one whose last take and seat are back. */
void amb_queue_free_if_done(struct amb_queue *queue);
