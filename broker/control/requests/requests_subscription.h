/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subscriptions as clients open and close them, and the acknowledgements that a client waits for.
 *
 * Threads: the control thread.
 */
#pragma once

#include "broker/control/requests/requests_private.h"

void amb_request_subscribe(struct amb_client *client, uint64_t id,
                           const Amb__Control__Subscribe *subscribe);
void amb_request_unsubscribe(struct amb_client *client, uint64_t id,
                             const Amb__Control__Unsubscribe *unsubscribe);
void amb_request_ack_sync(struct amb_client *client, uint64_t id,
                          const Amb__Control__AckSync *sync);
