/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inboxes in the rows of a view. All of a broker are shown under one name, so that nobody learns
 * one by looking. Where a name is a key, or a label, they are left out: one would stand for all.
 *
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include <jansson.h>

/* Of an array of rows. Other JSON stays as it is. */
void amb_inboxes_leave_out(json_t *rows);
