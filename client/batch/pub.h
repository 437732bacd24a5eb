/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A publisher. Its open batch is under its own lock, so that two threads on two publishers meet
 * only when a batch leaves; what the link's callbacks touch is under the connection's.
 *
 *   posted ─► open batch ─► sent (in flight) ─► accepted by the broker ─► settled, told
 *   committed ─► queue ──────┘
 *
 * The queue holds commits, behind the open batch: usually one of leased messages that waits for
 * company; more where an earlier batch finds no window, because a commit does not wait.
 *
 * Memory: freed by amb_pub_close; batches that the link still has keep it until they are settled.
 */
#pragma once

#include "client/batch/asking.h"
#include "client/batch/batch.h"
#include "client/batch/settle.h"
#include "client/conn/conn.h"
#include "client/conn/spinlock.h"
#include "wire/base/clock.h"

#include <amb/amb.h>
#include <pthread.h>
#include <stdatomic.h>

struct amb_conn;
struct amb_gpu;

/*
 * A batch that is open for long may see CUDA come to life between two of its messages, and the
 * second of them may be in device memory: then each message is looked at before it is read.
 */
#define AMB_WARY_OPEN 1u /* nobody bounds how long batches stay open */
#define AMB_WARY_HELD 2u /* the open batch may not leave */
#define AMB_WARY_LIVE 4u /* CUDA is there */
#define AMB_WARY_LINGER_NS AMB_NS_PER_MS

/* What keeps a publisher from taking messages. */
#define AMB_TROUBLE_PUB (AMB_TROUBLE_FORKED | AMB_TROUBLE_DOWN | AMB_TROUBLE_CLOSING)

struct amb_pub {
    struct amb_conn *conn;
    struct amb_spinlock lock;
    uint32_t batch_msgs;
    _Atomic uint32_t inside;       /* calls that may wait: it is not freed before they have left */
    _Atomic bool is_closing;       /* they turn back */
    _Atomic uint32_t wary;         /* AMB_WARY_ */
    _Atomic uint64_t staged_bytes; /* read from devices */

    /* Under lock. */
    struct amb_batch *open;       /* NULL until the first message */
    struct amb_list_node unacked; /* of a named one: sent and not settled, under the connection's
                                     lock */
    bool is_named;                /* it has a name, and sends again what may be lost */
    bool avoids_slots;            /* it does, or its messages are for one reader: an inbox */
    bool must_restage; /* held has batches of the last session: under the connection's lock */
    struct amb_list_node held; /* full batches from while it is away, before the open one */
    uint64_t held_bytes;
    struct amb_list_node queue; /* batches of commits; while there are any, batch_msgs is 0, so
                                   that nothing is appended to an open batch before them */
    struct amb_batch_rule rule;
    uint64_t looked_ticks;   /* when CUDA was looked for */
    int64_t last_poll_ns;    /* when it asked whether its last batch has arrived */
    _Atomic uint64_t posted; /* sequence of the last message */
    _Atomic bool is_staged;  /* open has messages */
    _Atomic bool must_leave; /* the open batch goes as soon as the window lets it */

    /* Written under the connection's lock, read by the publisher's holder too. */
    _Atomic uint64_t sent_batches, accepted_batches;
    _Atomic uint64_t settled_seq;
    _Atomic uint32_t subscribers;

    /* Under the connection's lock. */
    uint64_t sent_bytes, window;
    uint64_t leased_bytes;       /* part of sent_bytes that is outside the window */
    uint64_t leased;             /* messages that left in slots */
    struct amb_list_node leases; /* that are out; struct amb_lease.node */
    uint32_t lease_count;
    uint64_t wanted;    /* bytes in all that the broker was told we wait to have sent; flush.c */
    uint64_t flush_seq; /* what amb_flush waits for */
    uint64_t need;      /* size of the batch that found no room */
    struct amb_settle settle;
    uint32_t borrowed; /* batches of the user's memory that the link has */
    bool has_heard_subscribers;
    bool awaits_delivery; /* confirm is DELIVERED */
    bool is_settled_told; /* the broker sends SETTLED for each batch */

    struct amb_asking asking;
    bool is_open;            /* the broker has answered */
    bool is_away;            /* ... and lost it since: nothing leaves */
    enum amb_status refused; /* it may not come back */
    uint8_t *ask;            /* the PubOpen, packed, for another session */
    size_t ask_len;

    uint32_t handle;
    uint64_t window_msgs, window_bytes;
    amb_settled_fn on_settled;
    void *arg;
    bool in_callback, is_free_due;
    pthread_t callback_thread;
    struct amb_gpu *lease_gpu; /* what is leased is its memory; NULL: host memory */
    bool is_lease_pinned;      /* no: host memory that its driver has pinned */
    bool has_gpu_room;         /* the broker takes commits in GPU memory for this topic */
    bool rejects_gpu;          /* what cannot stay on its GPU is not published */
    char gpu_why[128];         /* without has_gpu_room: why, of AMB_GPU_WHY_BYTES */
    char topic[256];
};

/* Has the broker not yet taken the last batch that was sent? */
static inline bool amb_pub_in_flight(const struct amb_pub *pub)
{
    return atomic_load_explicit(&pub->sent_batches, memory_order_relaxed) !=
           atomic_load_explicit(&pub->accepted_batches, memory_order_relaxed);
}

/* A call that may wait: the publisher, and its connection, stay until it has left. */
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
