/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions and commands of broker-ctl: the level that each needs, its line in the audit log, and
 * its answer. Views are answered by status/.
 *
 * With `log.audit` a command is carried out when its line is on the disk: one with "begun", and
 * then one with its result. A command that cannot be recorded is refused.
 *
 *   request ─► obstacle? ─► line ─► audit ─► carried out ─► line, answer
 *
 * Threads: the control thread. Memory: an allocation for each command under way; a client has at
 * most AMB_CLIENT_WORK_MAX.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_client;
struct amb_control;

/* "ping" is answered to everybody. Answers with AdminReply or Error. Of commands EFORBIDDEN,
 * EINVAL, ENOTFOUND, EREJECTED, EBUSY; ESTATE where it cannot be recorded. */
void amb_admin_request(struct amb_client *client, uint64_t id, const char *query);
/* The broker ends: those who wait for a reload are answered. */
void amb_admin_end(struct amb_control *control);
/* A reload has ended: those who asked for it up to number `upto` are answered. Nobody has: it was a
 * signal's. text: what is in force, or why nothing has changed; rows: the same as JSON, or NULL. */
void amb_admin_reloaded(struct amb_control *control, uint64_t upto, bool is_done, const char *text,
                        const char *rows);
