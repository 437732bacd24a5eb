/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffers of a publisher's batches: of the reserved memory, or one that was prepared for the
 * message that it waits to send.
 *
 * Threads: the session's worker. Memory: of its pool; a prepared buffer is charged to the session.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_buf;
struct amb_publisher;
struct amb_session;
struct amb_shard;

/* A batch's buffer: the prepared one, or a new one, of the reserved memory. ENOMEM is for the few
 * batches that "Batches that find no place" of docs/internals/windows.md lists. */
AMB_MUST_CHECK enum amb_status amb_publisher_buffer(struct amb_publisher *publisher, uint64_t len,
                                                    struct amb_buf *out);
/* May so many bytes be prepared for the session?
 *
 * No process reserves more at a time than the largest message takes, whatever it says it will send.
 * All together reserve half of the memory: the rest is for messages that do come. */
bool amb_publisher_may_prepare(const struct amb_session *session, uint64_t len);
/* A buffer for the message that it waits to send, and its window is opened for that. False: memory
 * or entries are missing, or the session has its share. */
bool amb_publisher_prepare(struct amb_publisher *publisher);
/* Nothing comes for the prepared buffer. */
void amb_publisher_unprepare(struct amb_publisher *publisher);
/* Takes back all that was prepared: its segments take nothing new. Windows stay as above. */
void amb_publishers_unprepare(struct amb_shard *shard);
/* Takes back what was prepared and has not been used for AMB_PREPARED_NS. Their windows stay as
 * their clients were told: a later message is kept if there is room then. */
void amb_publishers_take_back(struct amb_shard *shard);
