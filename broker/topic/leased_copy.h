/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A leased batch as a batch of the broker's own. Payloads, records and property blobs follow each
 * other in one buffer, and the publisher's slots are not needed any more.
 * Threads: the worker of the entry's segment. Memory: one buffer of a pool of that worker.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>

struct amb_entry;
struct amb_shard;

/* Of a leased entry: gives `copy`, another entry for the same batch, with a body of its own in the
 * shard's memory. If it reclaims, others give something up for it. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_leased_copy_out(struct amb_shard *shard,
                                                   const struct amb_entry *entry, bool reclaims,
                                                   struct amb_entry *copy);
/* The entry itself becomes a batch of the broker's own, and gives its slots back. ENOMEM: it stays
 * as it is. */
AMB_MUST_CHECK enum amb_status amb_leased_copy_in(struct amb_shard *shard, struct amb_entry *entry);
