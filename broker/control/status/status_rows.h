/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of broker-ctl. The control thread puts the rows of all workers together, with its own
 * knowledge of subscriptions, queues and clients.
 *
 * Threads: the control thread.
 */
#pragma once

struct amb_status_view;

/* NULL: there is none of that name. */
const struct amb_status_view *amb_status_view_find(const char *name);
