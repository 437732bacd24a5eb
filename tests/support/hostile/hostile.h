/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attacks of the hostile client. Each gets a client that has logged in by a ring and has some
 * traffic under way. It has publishers 0 and 1, subscription 0 to its own topics and 1 to
 * everybody's. It does one bad thing, and says what the broker must make of it. Faults that an
 * attack itself can see (a descriptor that can be written, say) it reports by hostile_fail.
 */
#pragma once

#include "tests/support/hostile/hostile_client.h"

enum hostile_verdict {
    HOSTILE_EITHER, /* harmless or not, as the dice fell: the session lives, or ends */
    HOSTILE_LIVES,  /* no rule was broken, or nothing came of it: the session must live */
    HOSTILE_ENDS,   /* a rule was broken: the session must end, and the client be told why */
    HOSTILE_GONE,   /* the attack has ended the session itself */
};

struct hostile_attack {
    const char *name;
    enum hostile_verdict (*run)(struct hostile *h);
    bool is_bare;   /* begins before the login, does that itself */
    bool is_greedy; /* takes more than its share: `--greedy` runs it with the others of its kind */
};

/* Ended by one without a name. */
extern const struct hostile_attack hostile_memory_attacks[];
extern const struct hostile_attack hostile_ring_attacks[];
extern const struct hostile_attack hostile_frame_attacks[];
extern const struct hostile_attack hostile_control_attacks[];
extern const struct hostile_attack hostile_stream_attacks[];

extern const struct hostile_attack hostile_lease_attacks[];
extern const struct hostile_attack hostile_greed_attacks[];

/* Everything that changes a segment's bytes or size, by a descriptor of it however it was got: each
 * must be refused. */
void hostile_try_segment(int fd, uint64_t size, const char *of);
/* The same by another user who holds the descriptor. */
void hostile_try_as_nobody(int fd, uint64_t size, const char *of);
/* A segment is one file, and those who run beside us have it, too. Its mode stays what it is until
 * the release; with may_change we may change it, and nobody looks at it meanwhile. */
void hostile_modes_hold(bool may_change);
void hostile_modes_release(void);
/* Publishes on both publishers and lives, so that things are under way. */
void hostile_traffic(struct hostile *h, int ms);
