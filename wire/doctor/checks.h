/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings of the doctor, as rows of JSON by the table of checks.
 *
 *   look (broker/doctor, tools/ctl) ── facts ──► amb_doctor_find ──► {check, state, finding, fix,
 *                                                                     id, link}
 *
 * Threads: any. Memory: JSON, the caller's.
 */
#pragma once

#include "wire/doctor/table.h"

#include <jansson.h>

/* "warning", static. */
const char *amb_doctor_state_name(enum amb_doctor_state state);

/*
 * Appends what the row says. Behind `check` come pairs of texts, "limit", "1024", and NULL. Values
 * may be anybody's words: control characters and bytes that are no UTF-8 become '?', and long
 * ones are cut.
 */
void amb_doctor_find(json_t *rows, enum amb_doctor_check check, ...) __attribute__((sentinel));
/* Appends that something is as it should be; fix: advice, or "". */
void amb_doctor_well(json_t *rows, const char *check, const char *finding, const char *fix);
/* The worst state of the rows. Others than those of this table count as warnings. */
enum amb_doctor_state amb_doctor_worst(const json_t *rows);
/* 0: neither warnings nor errors; 1: warnings; 2: errors. */
int amb_doctor_exit(const json_t *rows);
