/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrivals of a subscription: from the link to those who take messages.
 * Threads: as each function says. Memory: topics' names are the connection's.
 */
#pragma once

#include "client/message/arrival.h"
#include "client/message/sub.h"

/* ---- from link_events.c, under the connection's lock ---- */

/* Room for the name that a TOPIC frame brings, to be filled in; NULL: no memory. */
struct amb_topic_name *amb_sub_topic_add(struct amb_sub *sub, uint32_t topic, uint32_t len);
struct amb_topic_name *amb_sub_topic_find(const struct amb_sub *sub, uint32_t topic);
/* The name has come. If it is that of an older session, messages are missed from there on. */
void amb_sub_topic_named(struct amb_topic_name *name);
/* Ids of another broker's mean nothing. */
void amb_sub_topics_forget(struct amb_sub *sub);
/* Something of it has another priority than NORMAL. Without acknowledgements the higher comes first
 * from here on. Connection's lock held. */
void amb_sub_has_ranks(struct amb_sub *sub);
/* Appends it, not yet ready. ENOMEM. Takes over the delivery on success. */
enum amb_status amb_sub_append(struct amb_sub *sub, struct amb_arrival *arrival);
/* Its body is here (AMB_OK), or never will be. EPROTO: the body is malformed. */
enum amb_status amb_sub_ready(struct amb_arrival *arrival, enum amb_status status);

/* ---- taken ---- */

/* Takes the next messages as they came, at most max; returns how many, 0: none is ready. Without
 * locks. */
size_t amb_sub_take_plain(struct amb_sub *sub, struct amb_msg **out, size_t max);
/* The delivery of that topic that was taken in part, or NULL. Subscription's lock held. */
const struct amb_arrival *amb_sub_begun(const struct amb_sub *sub,
                                        const struct amb_topic_name *topic);

/* ---- the end ---- */

/* Gives back all that was not taken and answers waiters; connection's lock held. */
void amb_sub_shut(struct amb_sub *sub);
