/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bill for a client's requests: its user has so many a second (the quota's `requests`). Of
 * Pings, one each half of limits.heartbeat is free. client_rest.h has how a client that must rest
 * goes on.
 *
 * Threads: the control thread. Memory: none.
 */
#pragma once

#include "broker/control/clients/client.h"

/* A message of a client has come. */
void amb_client_bill(struct amb_client *client, const Amb__Control__Control *message);
/* Is the bill of its user not over yet? */
bool amb_client_is_late(const struct amb_client *client);
/* May no more of it be read now? Then it stands in control->resting. The caller has epoll know. */
bool amb_client_must_rest(struct amb_client *client);
