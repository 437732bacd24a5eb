/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The units of an answer's columns (wire/counters/units.h), where no table of metrics has them: by
 * the ends of their names.
 *
 * Threads: any. Memory: the caller's references.
 */
#pragma once

#include <jansson.h>

#define AMB_STATUS_UNITS_ROWS 64u /* looked at: the rows of a view are alike */

/* Adds them to an answer. rows: its rows; NULL: the answer is one itself. */
void amb_status_units_add(json_t *answer, json_t *rows);
