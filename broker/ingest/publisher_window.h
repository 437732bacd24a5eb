/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A publisher's window: how far it stands open, and the memory that is reserved behind it. The
 * rules and an example are in docs/internals/windows.md.
 *
 * Threads: the session's worker.
 */
#pragma once

#include "broker/ingest/publisher.h"

/* WANT. EPROTO for nonsense. The newest word counts. It may be less than the one before: the client
 * has thought better, or that one came from the handle's last opening. */
AMB_MUST_CHECK enum amb_status amb_publisher_want(struct amb_publisher *publisher, uint64_t want);
/* So many bytes may be used again. */
void amb_publisher_grant(struct amb_publisher *publisher, uint64_t bytes);
/* Memory has come back: tries again what it could not grant. */
void amb_publisher_retry(struct amb_publisher *publisher);
/* The same for some of those whose windows a quota keeps shut: at shard->windows.shut_due_ns. A
 * user may have very many of them. */
void amb_publishers_retry_shut(struct amb_shard *shard);
/* The time at which publishers that wait for memory are to be tried again; INT64_MAX: none waits.
 */
int64_t amb_publishers_due(struct amb_shard *shard);
/* Its client hears how many subscriptions match, and whether a quota keeps the window shut. */
void amb_publisher_tell_audience(struct amb_publisher *publisher);
/* For publisher.c. A new one's first window. */
void amb_publisher_open_first(struct amb_publisher *publisher);
