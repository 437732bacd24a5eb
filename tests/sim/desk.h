/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the desk's two files share: desk.c has sessions, upcalls and turns, requests.c the
 * requests of clients.
 * Threads: one. Memory: a visit is the desk's; a request is freed with its answer.
 */
#pragma once

#include "broker/worker/orders.h"
#include "tests/sim/sim.h"

enum visit_state {
    VISIT_FREE,
    VISIT_LIVE,
    VISIT_ENDING,
    VISIT_QUARANTINED,
};

/* A session, as the control thread knows it. */
struct visit {
    enum visit_state state;
    unsigned slot;
    uint64_t id;
    struct amb_session_id session;
    bool may_map, said_bye, is_dead;
    bool is_heard; /* also what its client has said last */
    struct amb_dir_publisher *pubs[SIM_HANDLES];
    struct amb_dir_sub *subs[SIM_HANDLES];
    struct sim_asks asks;
    unsigned waiting; /* orders of its requests */
};

/* The client, unless it has another session by now, or none. */
struct sim_client *desk_client(struct sim *s, const struct visit *visit);
void desk_tell(struct sim *s, const struct visit *visit, const struct sim_ask *answer);
void *desk_order(const struct amb_order_kind *kind, amb_order_done_fn done, struct visit *visit,
                 void *context);
/* To the session's worker. */
void desk_post(struct sim *s, const struct visit *visit, struct amb_order *order);
void desk_request(struct sim *s, struct visit *visit, const struct sim_ask *ask);
void desk_forget_publisher(struct sim *s, struct visit *visit, uint32_t handle);
