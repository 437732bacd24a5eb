/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The duties of every link, as a CMocka group over wire/link/link.h. A link's own test gives a
 * factory and calls link_suite_run; promises that only that link makes are tested next to it.
 *
 *     static const struct link_suite_factory factory = {.name = "ring", .make = make, ...};
 *     int main(void) { return link_suite_run(&factory) + run_own_tests(); }
 *
 * The suite runs both ends in one thread: a link that waits for its peer inside a call hangs here.
 */
#pragma once

#include "wire/link/link.h"

/* End 0 is the client, end 1 the broker. */
struct link_suite_pair {
    struct amb_link *end[2]; /* made by the factory, closed by the suite, then NULL */
    void *state;             /* the factory's */
};

struct link_suite_factory {
    const char *name; /* of the group */
    /* Two connected ends. Asserts on failure. */
    void (*make)(struct link_suite_pair *pair, const struct amb_link_events *events, void *args[2]);
    /* After both ends are closed. NULL: nothing to do. */
    void (*clean)(struct link_suite_pair *pair);
    /* The needs of end `end` besides amb_link_poll (ucx: its worker's progress). Also called after
     * the end was closed, until on_closed. NULL: nothing. */
    void (*progress)(struct link_suite_pair *pair, unsigned end);
    /* Stand in for amb_link_arm and amb_link_fd where a worker speaks for its links. NULL: ask the
     * link. */
    bool (*arm)(struct link_suite_pair *pair, unsigned end);
    int (*fd)(struct link_suite_pair *pair, unsigned end);
    /* Frames that were settled AMB_OK before one end closed still arrive at the other. */
    bool delivers_before_down;
    /* A flow value set behind 48 MiB of queued bodies arrives before the last of them. */
    bool flow_overtakes;
};

/* 0 if all is well, as cmocka_run_group_tests. */
int link_suite_run(const struct link_suite_factory *factory);
