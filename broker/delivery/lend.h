/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lending: home gives its entries to the shadow of a topic on another worker. It lends as far ahead
 * of the readers there as the topic is deep. The shadow says how far they have come.
 *
 *   home                          the borrower
 *   amb_lend_walk ── entries ───► shadow's log
 *                 ◄── consumed ── amb_lend_report
 *
 * Threads: amb_lend_walk at home, amb_lend_report at the borrower. Memory: an entry each, from the
 * pool of home.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_topic;

/* A reader of history has come near the end: from here on it may hold publishers back. */
bool amb_lend_is_near(const struct amb_topic *topic, uint64_t position);
/* To every worker that reads the topic, what it has room for. */
void amb_lend_walk(struct amb_topic *topic);
/* At the borrower: tells home how much of what it lent holds nobody back any more. */
void amb_lend_report(struct amb_topic *shadow);
/* ... has home look at its topic. */
void amb_lend_kick(struct amb_topic *shadow);
