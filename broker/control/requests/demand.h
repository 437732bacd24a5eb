/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demands of a client's URL (?expect=rdma) or of a topic (topics.expect) on the way that payloads
 * take. Such a way is there, or the session, the publisher or the subscription is refused with what
 * is missing.
 *
 *   Auth, with its proof ──► the link that it would have, and its room in place
 *   PubOpen, Subscribe   ──► the rules of topics
 *
 * Nobody hears of the broker before it is known who asks.
 *
 * Threads: the control thread.
 */
#pragma once

#include "wire/codec/control.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_client;

/* Its link has been chosen, and its party is known. False: refused, and the client told. */
bool amb_demand_session(struct amb_client *client);
/* A publisher of that topic. False: as above, as the answer to request `id`. */
bool amb_demand_publish(struct amb_client *client, uint64_t id, const char *topic);
/* A subscription, for all rules that its pattern touches. False: as above. */
bool amb_demand_subscribe(struct amb_client *client, uint64_t id,
                          const Amb__Control__Subscribe *subscribe);
