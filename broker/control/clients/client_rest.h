/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rests: a client whose user is past its quota of requests a second is not read for a while.
 *
 *   a request comes       ─► it is on the bill of its user's account (client_bill.h)
 *   that is not over yet  ─► the client is not read, and stands in the line control->resting
 *   each AMB_REST_NS      ─► clients whose bill is over are read on, the first of the line first
 *
 * A client that rests hears a Pong now and then, so that it does not take the broker for lost.
 * Clients without a quota never rest.
 *
 * Threads: the control thread. Memory: none.
 */
#pragma once

#include "broker/control/clients/client.h"

#define AMB_REST_NS INT64_C(2000000)

/* Those that have rested for long enough are read on. */
void amb_client_rest_look(struct amb_control *control);
/* At each tick: a sign of life to one that rests. */
void amb_client_rest_tell(struct amb_client *client);
