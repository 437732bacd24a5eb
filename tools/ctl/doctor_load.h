/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings of the doctor on a broker's figures: subscriptions that are slow, memory and topics that
 * run out, dead letters that were lost. It judges answers of views, and trusts nothing in them.
 * Threads: any. Memory: JSON, the caller's.
 */
#pragma once

#include <jansson.h>

/* Answers to "status", "subs sort=lost_slow" and "subs sort=pending_bytes"; NULL: there is none.
 * Appends rows. */
void amb_doctor_load(const json_t *status, const json_t *losers, const json_t *waiters,
                     json_t *rows);
