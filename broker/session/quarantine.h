/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The quarantine of a session. Its client's process may still read deliveries in place after the
 * session's end, and may still write its leases. They stay as they are until that process is gone.
 *
 * Threads: the shard's worker. Memory: an allocation for each delivery.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_entry;
struct amb_session;

/* An entry that a quarantined session holds. */
struct amb_quarantined {
    struct amb_list_node node; /* of session->quarantined */
    struct amb_entry *entry;   /* one reference */
};

/* Takes over the reference of a delivery in place. */
void amb_quarantine_take(struct amb_session *session, struct amb_entry *entry);
/* All deliveries are given up, or taken; its leases end, or join it. */
void amb_quarantine_begin(struct amb_session *session);
/* Bytes of what it holds, without its ring (session->ring_waste), which the caller adds. 0: its
 * process can reach no delivery and no lease any more. */
uint64_t amb_quarantine_bytes(const struct amb_session *session);
/* The process is gone: gives back what the session holds, so many deliveries at most. True: that
 * was all. */
AMB_MUST_CHECK bool amb_quarantine_release(struct amb_session *session, unsigned budget);
