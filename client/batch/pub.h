/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A publisher. Its open batch is under a lock of its own, so two threads on two publishers meet
 * only when a batch leaves. The fields that a link's callbacks touch are under the connection's
 * lock.
 *
 *   posted ─► open batch ─► sent (in flight) ─► accepted by the broker ─► settled, called back
 *   committed ─► queue ──────┘
 *
 * The queue holds commits, behind the open batch. Usually it has one batch of leased messages,
 * which waits for company. It has more where an earlier batch finds no window, because a commit
 * does not wait.
 *
 * Memory: freed by amb_pub_close; batches that the link still has keep it until they are settled.
 */
#pragma once

#include "client/batch/asking.h"
#include "client/batch/away.h"
#include "client/batch/batch.h"
#include "client/batch/pub_callback.h"
#include "client/batch/pub_memory.h"
#include "client/batch/room_wish.h"
#include "client/batch/settle.h"
#include "client/batch/window.h"
#include "client/conn/conn.h"
#include "client/conn/spinlock.h"
#include "client/memory/slots.h"
#include "wire/base/clock.h"

#include <amb/amb.h>
#include <pthread.h>
#include <stdatomic.h>

/*
 * CUDA may come to life between two messages of a batch that is open for long. The second of them
 * may be in device memory, so each message is looked at before it is read.
 */
#define AMB_WARY_OPEN 1u /* nothing bounds how long batches stay open */
#define AMB_WARY_HELD 2u /* the open batch may not leave */
#define AMB_WARY_LIVE 4u /* CUDA is there */
#define AMB_WARY_LINGER_NS AMB_NS_PER_MS

/* The trouble that keeps a publisher from taking messages. */
#define AMB_TROUBLE_PUB (AMB_TROUBLE_FORKED | AMB_TROUBLE_DOWN | AMB_TROUBLE_CLOSING)

struct amb_pub {
    struct amb_conn *conn;
    struct amb_spinlock lock;
    bool is_named;           /* it has a name, and sends again what may be lost */
    bool avoids_slots;       /* it has a name, or its messages are for one reader: an inbox */
    uint32_t batch_msgs;     /* 0 while `queue` has batches */
    _Atomic uint32_t inside; /* calls that may wait: it is not freed before they have returned */
    _Atomic bool is_closing; /* they turn back */
    _Atomic uint32_t wary;   /* AMB_WARY_ */
    uint64_t looked_ticks;   /* when CUDA was looked for */

    /* Under lock. */
    struct amb_batch *open;    /* NULL until the first message */
    _Atomic uint64_t posted;   /* sequence of the last message */
    _Atomic bool is_gathering; /* open has messages */
    _Atomic bool must_leave;   /* the open batch goes as soon as the window lets it */
    struct amb_batch_rule rule;
    struct amb_list_node queue; /* batches of commits, behind the open one: while there are any,
                                   nothing is appended to that */
    int64_t last_poll_ns;       /* when it asked whether its last batch has arrived */

    /* Written under the connection's lock, read by the publisher's holder too. */
    _Atomic uint64_t sent_batches, accepted_batches;
    _Atomic uint64_t settled_seq;
    _Atomic uint32_t subscribers;

    /* Under the connection's lock. */
    bool is_open;            /* the broker has answered */
    bool knows_subscribers;  /* a SUBSCRIBERS value has come */
    bool is_over_quota;      /* ... by which a quota keeps the window shut */
    bool awaits_delivery;    /* confirm is DELIVERED */
    bool has_settled_frames; /* the broker sends SETTLED for each batch */
    uint32_t borrowed;       /* batches of the user's memory that the link has */
    uint32_t handle;
    struct amb_pub_window window;
    struct amb_pub_away away;
    struct amb_pub_lease lease;
    struct amb_pub_callback callback;
    struct amb_settle settle;
    struct amb_asking asking;
    struct amb_pub_gpu gpu;
    struct amb_room_wish wish;
    uint64_t number; /* of all publishers of its connection: a handle has one after the other */
    /* Under lock, and seldom used. */
    const struct amb_gpu_fence *fresh; /* of the message that is being added; else NULL */
    uint32_t fresh_looks;              /* at other fences, meanwhile */
    char topic[256];
};

/* Condition of a wait; connection's lock held. */
static inline bool amb_pub_has_nothing_borrowed(void *arg)
{
    const struct amb_pub *pub = (const struct amb_pub *)arg;
    return pub->borrowed == 0;
}

/* A slot for a message of that length. */
static inline struct amb_slot_wish amb_pub_slot(const struct amb_pub *pub, uint64_t len)
{
    return (struct amb_slot_wish){.len = len, .group = pub->lease.group};
}

/* Has the broker not yet taken the last batch that was sent? */
static inline bool amb_pub_in_flight(const struct amb_pub *pub)
{
    return atomic_load_explicit(&pub->sent_batches, memory_order_relaxed) !=
           atomic_load_explicit(&pub->accepted_batches, memory_order_relaxed);
}

/* The open batch, if there is one, goes as soon as the window lets it. */
static inline void amb_pub_push_open(struct amb_pub *pub)
{
    if (atomic_load_explicit(&pub->is_gathering, memory_order_relaxed)) {
        atomic_store_explicit(&pub->must_leave, true, memory_order_relaxed);
    }
}

/* A call that may wait: the publisher, and its connection, stay until it has returned. */
static inline void amb_pub_enter(struct amb_pub *pub)
{
    amb_conn_enter(pub->conn);
    atomic_fetch_add_explicit(&pub->inside, 1, memory_order_relaxed);
}

static inline enum amb_status amb_pub_leave(struct amb_pub *pub, enum amb_status status)
{
    struct amb_conn *conn = pub->conn;
    /* Release: pairs with the acquire of the one who closes. */
    atomic_fetch_sub_explicit(&pub->inside, 1, memory_order_release);
    return amb_conn_leave(conn, status);
}
