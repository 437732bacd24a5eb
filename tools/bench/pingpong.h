/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two parties that exchange messages, one at a time, each a process of a team:
 *
 *     asker ─► topic.ping ─► responder ─► topic.pong ─► asker
 *
 * Threads: one per process. Memory: owns the connection, the publisher and the subscription.
 */
#pragma once

#include "tools/bench/receiver.h"
#include "tools/bench/sender.h"
#include "tools/bench/team.h"

/* One end: listens on one topic, speaks on the other. */
struct amb_pingpong {
    const struct amb_team *team;
    struct amb_conn *conn; /* NULL: it could not be opened, and the team knows why */
    struct amb_sender sender;
    struct amb_receiver receiver;
};

/* The asker's end; both ends know each other when it returns. A failed one is left to the end of
 * the process. */
enum amb_status amb_pingpong_open(struct amb_pingpong *end, const struct amb_team *team);
void amb_pingpong_close(struct amb_pingpong *end);
/* The asker's process: `ask` runs between the phase RUN and EXIT, then is_stopped says that it has
 * ended. name: of the part, in the report of a failure. */
void amb_pingpong_asker(const struct amb_team *team, const char *name,
                        enum amb_status (*ask)(struct amb_pingpong *end));
/* Lets the team run: from the end of its warm-up (*a) to that of the asker (*b). */
enum amb_exit amb_pingpong_measure(struct amb_team *team, struct amb_team_mark *a,
                                   struct amb_team_mark *b);
/* One message there and one back. *is_answered: the answer to this very message came. */
enum amb_status amb_pingpong_trip(struct amb_pingpong *end, bool *is_answered);
/* The responder's process: each message is answered by one of the same size and sequence, until the
 * phase is EXIT. */
void amb_pingpong_responder(const struct amb_team *team, unsigned index);
