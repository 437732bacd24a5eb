/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands about clients and users: kick, block, unblock, and the table of those who are blocked.
 * An operator who is not of the tenant "$" reaches the clients and users of its own tenant alone.
 *
 * Threads: the control thread. Memory: as blocklist.h.
 */
#pragma once

#include "broker/control/admin/command.h"
#include "wire/base/status.h"

#include <jansson.h>
#include <stdint.h>

struct amb_client;

/* The tenant that a client administrates; NULL: all of them. */
const char *amb_operate_scope(const struct amb_client *client);
/* *count: clients that end, soon. *why, of an error: static. */
AMB_MUST_CHECK enum amb_status amb_operate(struct amb_client *client,
                                           const struct amb_command *command, uint64_t *count,
                                           const char **why);
/* Rows of those who are blocked, in its scope. */
json_t *amb_operate_blocked(const struct amb_client *client);
