/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May a client have it, by the rights of its user? Asked once, where a publisher or a subscription
 * is opened. A client that is refused hears EFORBIDDEN, and its session goes on. A client without
 * rights (client->rights is NULL) may have everything.
 *
 * Inboxes go by request and reply. A client with request reads an inbox of its own. One with reply
 * publishes to those whose names come with requests.
 *
 * Threads: the control thread. Memory: none.
 */
#pragma once

#include "broker/base/account.h"
#include "broker/rights/rights.h"
#include "wire/codec/control.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_client;

/* The topic was checked. False: refused, and the client told, as the answer to request `id`. */
bool amb_permit_publish(struct amb_client *client, uint64_t id, const char *topic);
/* The pattern was checked. *cut: the topics that it does not read. False: as above. */
bool amb_permit_subscribe(struct amb_client *client, uint64_t id,
                          const Amb__Control__Subscribe *subscribe, struct amb_rights_cut *cut);
/* Tells the client EFORBIDDEN, and the audit log. verb: "publish" or "subscribe", to that topic or
 * pattern. why: static. Always false. */
bool amb_permit_refuse(struct amb_client *client, uint64_t id, const char *verb, const char *name,
                       const char *why);
/* May its user and its tenant have `more` of what that row of their quotas counts? False: as above,
 * with ELIMIT. */
bool amb_permit_quota(struct amb_client *client, uint64_t id, enum amb_quota row, uint64_t more);
/* The owner of a name of that client's, as users are: itself, or its tenant where that shares it.
 */
uint32_t amb_permit_owner(const struct amb_client *client, const char *name);
/* The same of the queue that it asks for: by its durable name, or else its group. */
uint32_t amb_permit_queue_owner(const struct amb_client *client,
                                const Amb__Control__Subscribe *subscribe);
