/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late ACKs: of a former delivery (former.h), whose messages have come home unsettled since. Each
 * settles its messages wherever they are by now.
 *
 *   kept by the queue           settled at once; they count against nobody's credit any more
 *   out, with whatever member   settled when that take comes home; it is that member's until then,
 *                               and so is its credit
 *   settled, or dead            nothing changes
 *
 * So the member that has it by then acknowledges in vain, or refuses in vain.
 *
 * Threads: the queue's worker. Memory: none of its own. The first ACK of a take is kept while that
 * is out.
 */
#pragma once

#include "broker/base/mail.h"

struct amb_take;

/* It is home: those that late ACKs have settled meanwhile (NULL: none) are settled. */
void amb_queue_late_settle(struct amb_take *take, const struct amb_take *late);
/* Mail of a member's worker: an ACK, as a take whose bits are the messages that it settles, with
 * their key. */
void amb_queue_late_ack(struct amb_mail *mail, void *owner);
