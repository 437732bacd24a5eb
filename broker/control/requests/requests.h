/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of clients to the control thread, message by message. A request that is wrong is
 * answered with an Error, and the session goes on. A message that may not come in this state ends
 * the session.
 * Threads: the control thread.
 */
#pragma once

#include "broker/control/clients/client.h"

struct amb_gpu_pool;

/* The message stays the caller's, unless it is client->kept then. The client may have ended
 * afterwards. */
void amb_request_handle(struct amb_client *client, const Amb__Control__Control *message);
