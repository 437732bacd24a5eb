/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reaching a broker: one of a list of hosts, a handshake, a link.
 * Threads: the caller's, no lock held. Memory: the session comes in a connection of its own,
 * without threads, that nobody else knows.
 */
#pragma once

#include "client/session/handshake.h"

#include <amb/amb.h>
#include <stdint.h>

struct amb_client_config;

/*
 * Tries the list of URLs in order until the deadline; error has the sentence that says most.
 *   former     the session that this one replaces; or NULL
 *   cancel_fd  ends it when it becomes readable; -1: nothing does
 *   out        has a session and a link; amb_conn_teardown and amb_conn_unref otherwise
 */
AMB_MUST_CHECK enum amb_status amb_connect_session(const struct amb_client_config *config,
                                                   const struct amb_options *options,
                                                   const struct amb_former *former,
                                                   int64_t deadline_ns, int cancel_fd,
                                                   struct amb_error *error, struct amb_conn **out);
