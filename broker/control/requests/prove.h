/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of a client: a Challenge asks for a proof, and Auth has it or has not.
 *
 *   without a users file   "peer" on a Unix socket, "token" where the broker has one, else "none"
 *   with one               "uid" on a Unix socket: the kernel's word, never that of the overflow
 * uid
 *
 * A failure has one text, whatever it is; the log has the reason.
 *
 * Threads: the control thread. Memory: none.
 */
#pragma once

#include "broker/control/clients/client.h"

/* For Challenge.mechanism. */
const char *amb_prove_mechanism(const struct amb_client *client);
/* False: not authenticated, and nothing has been sent. */
bool amb_prove(struct amb_client *client, const Amb__Control__Auth *auth);
