/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other users, or other roles, are in force. Each client goes over to them by the credential that
 * it came with, or is ended:
 *
 *   EAUTH   no user who may enter has its credential, or another user has it
 *   ELOST   the user has lost a right, or is of another tenant. Or there was no users file and is
 *           one now, or the other way round. It comes again by itself
 *
 * A gain ends nobody. Queues of a user go, with an event, when he may not read all of their
 * pattern.
 *
 * Thousands of clients, each with a hundred patterns, take seconds to compare. So this is done
 * slice by slice, and others have their turn in between. A client that asks for something, or
 * that ends, is compared first: nothing is carried out by rights of former roles.
 *
 * Threads: the control thread. Memory: none.
 */
#pragma once

#include "broker/auth/users.h"

struct amb_client;
struct amb_control;

/* The set of the configuration in force. NULL: no users file any more. Takes a reference of its
 * own. The first slice is done at once. */
void amb_renew_users(struct amb_control *control, struct amb_auth_users *users);
/* The quotas of the configuration in force, for all clients (quotas.h). One that has leased ends
 * where its user has leased more than a second of in_bytes. */
void amb_renew_quotas(struct amb_control *control);
/* The next slice: clients that have not been compared yet, those that are to end, and queues. */
void amb_renew_some(struct amb_control *control);
/* Is there more to do? */
bool amb_renew_is_busy(const struct amb_control *control);
/* The client is compared now, if it has not been yet. */
void amb_renew_client(struct amb_client *client);
/* Nothing more of that client is carried out, and it ends in its turn, with EAUTH, ELOST or
 * EKICKED. */
void amb_renew_revoke(struct amb_client *client, enum amb_status status);
/* The same with EKICKED, and an operator's words for the client; "": none. */
void amb_renew_kick(struct amb_client *client, const char *text);
/*
 * Once a round. Clients have lost rights (client->loses_maps), and their sessions were told to
 * close. Their processes may keep all that they have mapped, also from sessions before. So all
 * segments of the groups that they could map take nothing new from here on.
 */
void amb_renew_retire(struct amb_control *control);
