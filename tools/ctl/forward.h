/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port of loopback that leads to a broker's Unix socket of HTTP, for a browser. Requests that may
 * pass (visitor.h) are handed on as they came, one a connection.
 *
 *   browser ─► 64 connections: head ─► judged ─► the socket, both ways
 *
 * Threads: the main one. Memory: about 40 KiB a connection.
 */
#pragma once

#include "tools/common/exit.h"
#include "wire/auth/visits.h"

#include <stdbool.h>
#include <stdint.h>

#define AMB_FORWARD_CONNECTIONS 64u

struct amb_forward;

/* port: 0 takes a free one; *port is the real one then. Else an error was said. */
enum amb_exit amb_forward_open(const char *socket, uint16_t *port, struct amb_forward **out);
/* Its keys, for the address that is printed. */
struct amb_visits *amb_forward_visits(struct amb_forward *forward);
/* Part of the work: waits for at most that long. */
void amb_forward_turn(struct amb_forward *forward, int timeout_ms);
void amb_forward_close(struct amb_forward **forward);
