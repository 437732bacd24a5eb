/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A publisher's window: how far it stands open, and the memory that is reserved behind it. The
 * rules and an example are in docs/internals/windows.md.
 *
 * Threads: the session's worker.
 */
#pragma once

#include "broker/ingest/publisher.h"

/* A batch's buffer: the prepared one, or a new one, of the reserved memory. ENOMEM is for the few
 * batches that "Batches that find no place" of docs/internals/windows.md lists. */
AMB_MUST_CHECK enum amb_status amb_publisher_buffer(struct amb_publisher *publisher, uint64_t len,
                                                    struct amb_buf *out);
/* WANT. EPROTO for nonsense. The newest word counts. It may be less than the one before: the client
 * has thought better, or that one came from the handle's last opening. */
AMB_MUST_CHECK enum amb_status amb_publisher_want(struct amb_publisher *publisher, uint64_t want);
/* So many bytes may be used again. */
void amb_publisher_grant(struct amb_publisher *publisher, uint64_t bytes);
/* Memory has come back: tries again what it could not grant. */
void amb_publisher_retry(struct amb_publisher *publisher);
/* Takes back what was prepared and has not been used for AMB_PREPARED_NS. Their windows stay as
 * their clients were told: a later message is kept if there is room then. */
void amb_publishers_take_back(struct amb_shard *shard);
/* For publisher.c. A new one's first window; */
void amb_publisher_open_first(struct amb_publisher *publisher);
/* ... the open part of its window is to be reserved from here on, as far as there is room; */
void amb_publisher_reserve_open(struct amb_publisher *publisher);
/* ... less of it is still to come; */
void amb_publisher_unreserve(struct amb_publisher *publisher, uint64_t bytes);
/* ... nothing comes for the prepared buffer. */
void amb_publisher_unprepare(struct amb_publisher *publisher);
