/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients that have gone lately, each with its reason, in slots of the counters. These are kept
 * for them from the start, so living clients cannot take them.
 *
 * Threads: the control thread. Memory: slots of the counters.
 */
#pragma once

#include <stdint.h>

#define AMB_CLOSED_MAX 1000u /* the eldest makes room */

struct amb_client;
struct amb_control;

struct amb_closed_clients {
    uint32_t slots[AMB_CLOSED_MAX]; /* of texts; 0: none */
    uint64_t count;                 /* that have gone so far */
};

/* Takes the slots. Harmless without counters. */
void amb_client_closed_prepare(struct amb_control *control);
/* A client with a session goes. kind: amb_client_end_kind. */
void amb_client_closed(const struct amb_client *client, const char *kind, const char *why);
