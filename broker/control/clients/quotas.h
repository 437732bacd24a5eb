/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas of users and tenants: the limits that the configuration gives their accounts, and
 * events.
 *
 *   login, reload ─► limits into the accounts of the user and of its tenant
 *   a request     ─► refused past one of them: amb_permit_quota
 *   now and then  ─► $SYS.quota.near at 75 % of a limit, $SYS.quota.full at all of it
 *
 * An event comes once, and again when less than half of the limit was in use meanwhile. Without a
 * users file there are no quotas. Root and the broker's own uid have none.
 *
 * Threads: the control thread. Memory: none.
 */
#pragma once

#include "broker/base/account.h"

struct amb_client;
struct amb_control;

/* The account of the client's user; NULL before its Auth, or without quotas. */
struct amb_account *amb_client_account(const struct amb_client *client);
/* The client's user and tenant have the limits of the configuration in force. */
void amb_quotas_limit(struct amb_client *client);
/* The same of all clients, after a reload. */
void amb_quotas_renew(struct amb_control *control);
/* Events, at most each second. */
void amb_quotas_tick(struct amb_control *control);
