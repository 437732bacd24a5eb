/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of a query: its JSON as text, cut to the size that a client's connection takes, in
 * pieces.
 *
 * Threads: the control thread. Memory: the text.
 */
#pragma once

struct amb_control;
struct amb_status_query;

/* The answer for query->ask, for free(); NULL: no memory. */
char *amb_status_answer_text(struct amb_status_query *query, struct amb_control *control);
/* All workers have made their rows. The client is told, or gets an Error: ENOMEM, ETOOLARGE. */
void amb_status_answer(struct amb_status_query *query, struct amb_control *control);
