/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operator empties a topic: all that its log holds goes, history and the newest messages of keys
 * too. Readers that have not had a message lose it by AMB_LOSS_PURGED. Entries that are out at a
 * reader stay whole until they are released.
 *
 * Home goes first, and tells its borrowers by mail. The mail is there before anything that home
 * lends later, so that no reader takes the gap for one of its own.
 *
 * Threads: the topic's worker. Memory: a mail for each borrower; without it a reader there takes
 * the gap for a slow reader's.
 */
#pragma once

#include <stdint.h>

struct amb_topic;

/* At home, when all of it is granted. Returns how many messages have gone. */
uint64_t amb_topic_purge(struct amb_topic *topic);
/* At home, after that: the shadows at other workers. */
void amb_topic_purge_lent(struct amb_topic *topic);
