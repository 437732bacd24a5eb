/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wait for another session, and the count of what of it is not back yet.
 * Threads: under the connection's lock. Memory: none.
 */
#pragma once

#include "wire/base/status.h"

struct amb_conn;

/* Calls that need a session wait for it, up to the round trip's time. ELOST: it is not back. */
enum amb_status amb_back_await(struct amb_conn *conn);
/* A publisher or subscription is back, or refused, of the session that is. */
void amb_back_one(struct amb_conn *conn);
