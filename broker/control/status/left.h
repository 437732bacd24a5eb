/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the view `left`: of each client the messages that it has not been sent, and those that it
 * has not given back. A drain waits for them. `left` counts the first for each subscription that
 * reads them, so it may be more than the broker has messages.
 *
 * Threads: amb_left_of on the client's worker, amb_left_add on the control thread. Memory: JSON.
 */
#pragma once

#include <jansson.h>

struct amb_client;
struct amb_session;

/* NULL: nothing is left for it. cost: grows by what was looked at. */
json_t *amb_left_of(const struct amb_session *session, unsigned *cost);
/* part: of amb_left_of; NULL adds nothing. */
void amb_left_add(json_t *rows, const struct amb_client *client, const json_t *part);
