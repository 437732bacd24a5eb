/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders about a topic: that it comes and goes, and its readers, here or at a borrower.
 *
 * Threads: the order's worker.
 */
#pragma once

#include "broker/worker/orders.h"

extern const struct amb_order_kind amb_order_topic_add;
/* At home: EAGAIN while somebody has not read all of it. */
extern const struct amb_order_kind amb_order_topic_ask;
/* Nobody writes it any more, and its cursors go with it. It is out of the shard's tables then, and
 * empty. EAGAIN: its name is being sent, or somebody has not read all of it. */
extern const struct amb_order_kind amb_order_topic_remove;
extern const struct amb_order_kind amb_order_topic_matched;
/* A quiet topic has all of its readers: messages that have come to it go on. */
extern const struct amb_order_kind amb_order_topic_awake;
/* At the topic's home: changes what it lends to another worker. A new reader's cursor is attached
 * there by the same order, which home sends on with the number that it begins at. So it is attached
 * before anything that it must see is lent. */
extern const struct amb_order_kind amb_order_lend;
/* The same: a reader goes on, and is slow in another way (u.lend: sub, topic, borrower, holding,
 * spilling). */
extern const struct amb_order_kind amb_order_recount;
extern const struct amb_order_kind amb_order_cursor_attach;
