/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer as frames of AdminReply.
 *
 * Threads: the control thread. Memory: what the client's connection does not take at once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_client;

/* A part of the answer's JSON; is_end: there is no more. */
void amb_pieces_send(struct amb_client *client, uint64_t id, const char *text, bool is_end);
