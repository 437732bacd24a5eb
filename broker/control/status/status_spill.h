/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of status about readers that spill (spill.h). Their topics' figures are those of all
 * workers that have such readers, together.
 * Threads: as each says. Memory: the caller's.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct amb_topic;

/* On a worker: has the topic, or a private shadow of it, anything to tell? */
bool amb_status_has_spills(const struct amb_topic *topic);
/* ... its own figures, in a topic's row, */
void amb_status_spill_put(json_t *row, const struct amb_topic *topic);
/* ... and, where the topic is another worker's, by topic. */
void amb_status_spill_note(json_t *spills, const struct amb_topic *topic);
/* On the control thread: adds what workers have told to the rows of topics. */
void amb_status_add_spills(json_t *rows, const json_t *spills);
