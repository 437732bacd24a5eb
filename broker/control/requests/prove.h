/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of a client: a Challenge asks for a proof, and Auth has it or has not.
 *
 * Without a users file the broker asks for one thing: "peer" on a Unix socket, "token" where it has
 * one, else "none". With a users file Challenge has a list, and Auth uses one of it:
 *
 *   key     everywhere: Ed25519 over the login's text (signer.h)
 *   token   inside TLS, and on a Unix socket
 *   cert    over TLS, where the client has shown a certificate
 *   uid     on a Unix socket: the kernel's word, and never the overflow uid
 *
 * Plain TCP has no exporter for the text: a signature could be passed on there.
 *
 * A failure has one text, whatever it is; the log has the reason.
 *
 * Threads: the control thread; signatures are checked by a handshaker. Memory: an allocation for
 * each signature under way.
 */
#pragma once

#include "broker/control/clients/client.h"

enum amb_proof {
    AMB_PROOF_GOOD,  /* client->login has the user, if the broker has users */
    AMB_PROOF_BAD,   /* not authenticated, and nothing has been sent */
    AMB_PROOF_LATER, /* the answer comes by the function */
};

/* The client is in AUTH still. */
typedef void (*amb_proved_fn)(struct amb_client *client, bool is_proved);

/* Fills in what Challenge asks for. The list's strings are static. */
void amb_prove_ask(const struct amb_client *client, Amb__Control__Challenge *challenge,
                   char *mechanisms[AMB_MECHANISMS]);
enum amb_proof amb_prove(struct amb_client *client, const Amb__Control__Auth *auth,
                         amb_proved_fn on_proved);
