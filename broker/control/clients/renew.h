/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another users file is in force. Each client goes over to it by the credential that it came with,
 * or is ended:
 *
 *   EAUTH   no user who may enter has its credential, or another user has it
 *   ELOST   the user is of another tenant, or there was no users file and is one now, or the other
 *           way round: it comes again by itself, and is another owner of names then
 *
 * Threads: the control thread. Memory: none.
 */
#pragma once

#include "broker/auth/users.h"

struct amb_control;

/* NULL: no users file any more. Takes a reference of its own. */
void amb_renew_users(struct amb_control *control, struct amb_auth_users *users);
