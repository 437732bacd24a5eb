/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What broker-ctl shows: "status", "topics", "subs", "clients", "workers", "memory", "transports",
 * "doctor".
 * Each worker writes what it knows of its shard into a JSON object of its own, on its own thread;
 * the control thread puts them together with what it knows itself and answers.
 * Threads: the control thread; the collecting order runs on workers.
 */
#pragma once

#include <stdint.h>

struct amb_client;

/* Answers with AdminReply pieces, or Error: EFORBIDDEN, EINVAL. */
void amb_status_request(struct amb_client *client, uint64_t id, const char *query);
