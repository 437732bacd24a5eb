/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of `broker-ctl paths`, one for each session, direction and class of messages. A row has
 * the way of the last payloads, how many took which way, and why no better one is taken. The rate
 * that was measured stands beside the expected one. A worker gives the counts of its sessions
 * (path.h). The control thread adds the reasons. Where nothing has gone yet, a row has the way that
 * payloads would take, and 0 messages.
 *
 * Threads: amb_paths_of on the session's worker, the rest on the control thread. Memory: JSON, the
 * caller's.
 */
#pragma once

#include <jansson.h>

struct amb_client;
struct amb_session;

/* The counts of one session, for amb_paths_add. */
json_t *amb_paths_of(const struct amb_session *session);
/* Appends the client's rows. counts: from its worker; NULL: it has none yet. */
void amb_paths_add(json_t *rows, const struct amb_client *client, const json_t *counts);
