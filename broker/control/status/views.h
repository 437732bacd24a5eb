/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions that the observer answers: topics, subscriptions, queues, clients, workers, status,
 * metrics. The control thread has the workers bring the slots of that kind up to date. It hands the
 * query to the observer, and passes the pages on. The next page is made when the client has read
 * most of the former.
 *
 * Threads: the control thread. Memory: an allocation for each query under way, and one page.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_client;
struct amb_control;

/* May the users of a tenant ask that? They see their own. Others are of the whole broker. */
bool amb_views_are_of_tenants(const char *query);
/* Answers with AdminReply pieces, or Error: EINVAL, ENOMEM. tenant: the one that is seen, of
 * queries that are of tenants; AMB_TENANT_ANY. */
void amb_views_request(struct amb_client *client, uint64_t id, const char *query, uint32_t tenant);
/* Part of a round: goes on with those whose clients have room again, and ends those whose clients
 * have gone. */
void amb_views_run(struct amb_control *control);
