/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes come home to their queue: settled, to go out again, or given up as dead letters.
 *
 *   SETTLED ─► dropped      UNSENT, LEFT, EXPIRED, NAK ─► kept (queue_kept.h)
 *   too often, TERM ─► $DLQ.<topic> (deadletter.h)
 *
 * Threads: the queue's worker. Memory: a take for each run of messages that goes out again.
 */
#pragma once

#include "broker/base/mail.h"

/* Mail of members' workers. */
void amb_queue_take_home(struct amb_mail *mail, void *owner);
