/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other users, or other roles, are in force. Each client goes over to them by the credential that
 * it came with, or is ended:
 *
 *   EAUTH   no user who may enter has its credential, or another user has it
 *   ELOST   the user has lost a right, or is of another tenant. Or there was no users file and is
 *           one now, or the other way round. It comes again by itself
 *
 * A gain ends nobody. Nothing that a client asks for is carried out from there on, but many are
 * ended slice by slice. Queues of a user go, with an event, when he may not read all of their
 * pattern.
 *
 * Threads: the control thread. Memory: none.
 */
#pragma once

#include "broker/auth/users.h"

struct amb_control;

/* The set of the configuration in force. NULL: no users file any more. Takes a reference of its
 * own. */
void amb_renew_users(struct amb_control *control, struct amb_auth_users *users);
/* Ends some of the clients of control->revoked. */
void amb_renew_end_some(struct amb_control *control);
