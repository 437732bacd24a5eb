/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May a publisher be opened? And the opening of one that has a name. The count of its last life
 * must be known first. So the order to open it waits for a fence at the worker that had it. See
 * identity.h. Threads: the control thread. Memory: the orders.
 */
#pragma once

#include "broker/control/clients/client.h"
#include "broker/control/directory/identity.h"
#include "broker/worker/orders_session.h"

/* Topic, handle and limits of a publisher that is to be opened. False: refused, and the client
 * told.
 */
bool amb_naming_check(struct amb_client *client, uint64_t id, const Amb__Control__PubOpen *open);
/* Takes the name that a publisher wants; *out NULL: it wants none. False: it may not, and the
 * client has been told. */
bool amb_naming_take(struct amb_client *client, uint64_t id, const Amb__Control__PubOpen *open,
                     struct amb_identity **out);
/* NULL: no memory. */
struct amb_order *amb_naming_fence(void);
/* Posts the order to open a publisher, behind the fence if it has a name; takes both. */
void amb_naming_post(struct amb_control *control, struct amb_order_publisher_open *open,
                     struct amb_order *fence);
