/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the link says: frames of the broker, told apart.
 * Threads: under the connection's lock, inside amb_link_poll or amb_link_flush. Memory: none.
 */
#pragma once

#include "wire/link/link.h"

/* The argument of each is the connection. */
extern const struct amb_link_events amb_conn_link_events;
