/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage 1 of 6 (link ─► dispatch ─► ingest): what a session's link brings, handed to the part of
 * the broker whose business it is. The table of upcalls that every link of the broker is made with;
 * their `arg` is the session.
 * Threads: the shard's worker.
 */
#pragma once

#include "wire/link/link.h"

extern const struct amb_link_events amb_dispatch_events;
