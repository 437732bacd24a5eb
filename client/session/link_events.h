/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of the broker: the link announces each, and its kind is looked up here.
 * Threads: under the connection's lock, inside amb_link_poll or amb_link_flush. Memory: none.
 */
#pragma once

#include "wire/link/link.h"

/* The argument of each is the connection. */
extern const struct amb_link_events amb_conn_link_events;
