/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trust groups that were mapped in sessions that have ended. Their processes may live on, and keep
 * what they have mapped. So a user who loses rights later has these groups retired too.
 *
 *   a session ends ──► its user's line ──► a reload, its `until`, ──► amb_tenants_lose_maps
 *                                          or the same moment
 *
 * Threads: the control thread. Memory: embedded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define AMB_LEFT_MAPS_MAX 1024u /* users; sessions of more than these count as `others` */

struct amb_client;
struct amb_control;

/* Zero-initialised. */
struct amb_left_maps {
    uint32_t count, next; /* next: the line that is compared next; count: no more */
    int64_t now_s;        /* since 1970 */
    int64_t due_s;        /* when the time of the first of its users is over; 0: of none */
    uint64_t others; /* of any tenant, of sessions without a user, or without a line: each is in
                      * its tenant's left_maps. They are lost with the next change, and when the
                      * time of any user is over. */
    struct {
        uint32_t user, tenant; /* their numbers */
        uint64_t maps;         /* a bit for each group */
    } lines[AMB_LEFT_MAPS_MAX];
};

/* The client's session is told to close, and its user keeps its rights. */
void amb_left_maps_note(struct amb_client *client);
/* Other users are in force: each line is to be compared with them. */
void amb_left_maps_review(struct amb_control *control);
/* Once a round. Where the time of a user has come (`until`), lines are to be compared, too. */
void amb_left_maps_look(struct amb_control *control, int64_t now_s);
/* Compares one line. False: there is none that waits. */
bool amb_left_maps_review_next(struct amb_control *control);
