/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks: they run in amb_poll and in closes only, with no lock of ours held.
 * Threads: any; callbacks of one publisher or subscription never overlap.
 */
#pragma once

struct amb_conn;

/* Runs at most `max` callbacks; returns how many ran. No lock held. */
unsigned amb_callbacks_run(struct amb_conn *conn, unsigned max);
