/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of the audit log about clients: the user, the address, the words and the result. Without
 * `log.audit` they go nowhere.
 *
 * Threads: the control thread. Memory: as audit.h.
 */
#pragma once

#include "broker/audit/audit.h"
#include "broker/control/clients/login.h"

struct amb_client;
struct amb_control;

/* It has logged in. */
void amb_record_login(const struct amb_client *client);
/* It may not: what it wanted, and why not. */
void amb_record_refused(const struct amb_client *client, const char *what, const char *why);
/* It has been shown a view. */
void amb_record_view(const struct amb_client *client, const char *what);
/* An entry about a command of that client, by whom and from where; the rest is the caller's. NULL:
 * nobody, as at a signal. */
void amb_record_fill(const struct amb_client *client, enum amb_audit_event event,
                     struct amb_audit_entry *out);
/* ... and it goes into the log. */
void amb_record_note(struct amb_control *control, const struct amb_audit_entry *entry);
