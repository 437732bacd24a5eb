/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A publisher while there is no session: full batches are put aside, and sent in the next one. A
 * publisher with a name keeps what it has sent, too, until that is settled.
 *
 * Threads: under the connection's lock; `aside` and must_gather under the publisher's, too. Memory:
 * the batches are the connection's, see batches.h; the packed request is the heap's.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct amb_conn;
struct amb_pub;

struct amb_pub_away {
    bool is_on;                 /* the broker does not know the publisher: nothing leaves */
    bool must_gather;           /* `aside` has batches of the last session: they are to be sent */
    enum amb_status refused;    /* the publisher may not come back */
    struct amb_list_node aside; /* batches that were put aside, before the open one */
    uint64_t aside_bytes;
    struct amb_list_node unacked; /* of a named publisher: batches sent and not settled */
    uint8_t *ask;                 /* the PubOpen, packed, for another session */
    size_t ask_len;
};

static inline void amb_pub_away_init(struct amb_pub_away *away)
{
    amb_list_init(&away->aside);
    amb_list_init(&away->unacked);
}

/* Its batches are gone, see amb_pub_drop_unsent. */
static inline void amb_pub_away_fini(struct amb_pub_away *away)
{
    free(away->ask);
    away->ask = NULL;
}

/* ---- the session is lost; connection's lock held ---- */

/* Nothing more is sent before another session. */
void amb_pubs_pause(struct amb_conn *conn);
/* The same of one. Nobody knows what became of what was sent: EUNKNOWN. The rest stays. */
void amb_pub_lose(struct amb_pub *pub);
/* Puts the open batch aside. Both locks held. False: it may not. */
bool amb_pub_put_aside(struct amb_pub *pub);

/* ---- there is another ---- */

/* Of a named one: messages up to `come` have come, the rest is sent again. Lock held. */
void amb_pub_send_again(struct amb_pub *pub, uint64_t come);
/* `aside` counts as messages to be sent, see must_gather. Both locks held. */
void amb_away_gather(struct amb_pub *pub);
/* Sends what was put aside. AMB_OK: all of it; EAGAIN: no window. Both locks held. */
enum amb_status amb_away_flush(struct amb_pub *pub);

/* Gives back all batches of `aside` and `unacked`. Lock held. */
void amb_away_drop(struct amb_pub *pub);
