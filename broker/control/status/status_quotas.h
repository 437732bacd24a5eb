/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "quotas" and "quotas USER": what users and tenants have used, beside the limits of their quotas.
 *
 * Threads: the control thread. Memory: the answer.
 */
#pragma once

#include <jansson.h>

struct amb_control;
struct amb_status_query;

/* A row for each limit; of one user, for each key. */
json_t *amb_status_gather_quotas(struct amb_status_query *query, struct amb_control *control);
