/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The member of a queue that gets a message. That is by its key where it has one and there are
 * several members, else the one with the most credit left. On topics with prefer = "near" the
 * nearest goes before that, of those with half of their credit left. A message that comes again
 * goes by credit there, too, so that no member that is near and fails keeps all from the others.
 *
 * Threads: the queue's worker. Memory: none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct amb_entry;
struct amb_queue;
struct amb_seat;

/* Messages that are to be given. */
struct amb_choice {
    const struct amb_entry *entry;
    uint32_t first, count; /* of it */
    bool is_by_nearness;
    int64_t now_ns;
};

/* How many of them, from the first on, the member *out gets. 0: nobody has credit. */
uint32_t amb_queue_choose(const struct amb_queue *queue, const struct amb_choice *choice,
                          struct amb_seat **out);
