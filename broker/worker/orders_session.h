/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders about a session and its publishers. Those about its life are unpacked here and carried out
 * by session_life.h.
 *
 * Threads: the order's worker.
 */
#pragma once

#include "broker/worker/orders.h"
#include "broker/worker/session_life.h"

#include <stdbool.h>
#include <stdint.h>

struct amb_identity;
struct amb_tls;
struct amb_trust_group;

struct amb_order_session_open {
    struct amb_order order;
    struct amb_session_opening opening; /* its address is freed with the order */
};
extern const struct amb_order_kind amb_order_session_open;

/* The control thread's share of quarantine for it has grown. */
struct amb_order_session_raise_mapped {
    struct amb_order order;
    uint64_t mapped_max;
};
extern const struct amb_order_kind amb_order_session_raise_mapped;

struct amb_order_session_attach {
    struct amb_order order;
    int fd;
    struct amb_tls *tls; /* on it; NULL: it is plain */
};
extern const struct amb_order_kind amb_order_session_attach;

/* A session's end, of two kinds: one order can close it, and release it after its quarantine. */
struct amb_order_session_end {
    struct amb_order order;
    struct amb_session_closing closing;
};
extern const struct amb_order_kind amb_order_session_close;
extern const struct amb_order_kind amb_order_session_release;

/* A client of that tenant has lost the right to map these trust groups, and its session closes: the
 * order for that came before. Their segments take nothing new from here on. */
struct amb_order_groups_retire {
    struct amb_order order;
    uint32_t tenant;
    uint64_t maps; /* those that are still to be done */
    bool has_said; /* ... that there is no memory for it */
};
extern const struct amb_order_kind amb_order_groups_retire;

/* Its answer says more than that of amb_order_nothing. Sessions whose closing was ordered before
 * have been heard (amb_session_hear), and nothing comes from them any more. */
struct amb_order_fence {
    struct amb_order order;
    bool has_begun;
    uint64_t number; /* of the newest session that it waits for */
};
extern const struct amb_order_kind amb_order_fence;
/* The same of one session, which was closed before, and without a wait for others. */
extern const struct amb_order_kind amb_order_session_heard;

struct amb_order_publisher_open {
    struct amb_order order;
    uint32_t handle, topic;
    uint32_t subscribers; /* as its client is told */
    unsigned home;
    bool wants_settled, confirms, verifies, copies, avoids_gpu, is_private;
    const struct amb_trust_group *group; /* the topic's; NULL: the main one */
    uint32_t lease_user;
    struct amb_identity *identity; /* the control thread's; or NULL */
    uint64_t *seq;                 /* messages of that name that have come; NULL: it has no name */
    uint64_t last_seq;             /* of a named one: the newest that has come */
    uint64_t window;               /* out */
};
extern const struct amb_order_kind amb_order_publisher_open;

struct amb_order_publisher_close {
    struct amb_order order;
    uint32_t handle;
    uint64_t batches; /* the last one sent */
};
extern const struct amb_order_kind amb_order_publisher_close;

struct amb_order_publisher_subscribers {
    struct amb_order order;
    uint32_t handle;
    uint32_t count;
    bool copies; /* another user reads it in place where that is allowed */
};
extern const struct amb_order_kind amb_order_publisher_subscribers;

struct amb_order_segment_refused {
    struct amb_order order;
    uint64_t segment;
};
extern const struct amb_order_kind amb_order_segment_refused;
