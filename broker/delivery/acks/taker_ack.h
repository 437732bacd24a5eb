/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acknowledgements come to a member: they settle its takes, or parts of them, and credit goes back
 * to the queue. Messages given back early (NAK, TERM) go home ahead of the rest.
 *
 * Threads: the subscription's worker. Memory: a take for each part that is given back.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdint.h>

struct amb_frame;
struct amb_session;
struct amb_subscription;
struct amb_taker;

/* Somebody who waits for acknowledgements that are under way. */
struct amb_taker_waiter {
    struct amb_list_node node;
    uint64_t frames; /* so many ACK and TERM */
    void (*done)(struct amb_taker_waiter *waiter, struct amb_subscription *sub);
};

#define AMB_TAKER_WAITERS_MAX 16u

/* An ACK, or a TERM with its reason (may be NULL). EPROTO. */
AMB_MUST_CHECK enum amb_status amb_taker_ack(struct amb_session *session,
                                             const struct amb_frame *frame, const char *reason);
/* Calls done when waiter->frames have come, or when the subscription goes (sub is NULL then).
 * ELIMIT: AMB_TAKER_WAITERS_MAX wait already. */
AMB_MUST_CHECK enum amb_status amb_taker_wait(struct amb_taker *taker,
                                              struct amb_taker_waiter *waiter);
