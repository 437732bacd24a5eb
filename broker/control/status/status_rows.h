/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of broker-ctl that views.h does not make. The control thread puts the rows of all
 * workers together, with its own knowledge of clients and of the machine.
 *
 * Threads: the control thread.
 */
#pragma once

struct amb_status_view;

/* NULL: there is none of that name. */
const struct amb_status_view *amb_status_view_find(const char *name);
