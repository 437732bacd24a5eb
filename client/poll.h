/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks: they run in amb_poll and in closes only, with no lock of ours held.
 * Threads: any; callbacks of one publisher or subscription never overlap.
 */
#pragma once

#include <stdbool.h>

struct amb_conn;
struct amb_pub;

/* Runs at most `max` callbacks; returns how many ran. No lock held. */
unsigned amb_callbacks_run(struct amb_conn *conn, unsigned max);
/* Runs the settled callbacks of one publisher. No lock held. */
void amb_callbacks_settled(struct amb_pub *pub);
/* Is this thread inside a callback of this connection? */
bool amb_callbacks_inside(const struct amb_conn *conn);
