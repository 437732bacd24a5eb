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

#include "client/asking.h"
#include "client/batch.h"
#include "client/settle.h"
#include "client/spinlock.h"
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

/* ---- flush.c: batches leave ---- */

/*
 * Sends the open batch and the queue. Both locks held. AMB_OK: nothing is left of them. EAGAIN: no
 * window, the broker has been told. Else the session is lost.
 */
enum amb_status amb_pub_flush_open(struct amb_pub *pub);
/* Puts the open batch aside while the broker is away. Both locks held. False: it may not. */
bool amb_pub_hold(struct amb_pub *pub);
/* Sends one message as a batch of its own, the same way. Takes the batch on AMB_OK only. */
enum amb_status amb_pub_flush_large(struct amb_pub *pub, struct amb_batch *large);
/* Sends what is due on all publishers of the connection; its lock held. Returns how many left. */
unsigned amb_pub_flush_due(struct amb_conn *conn);
/* The same, but only what is as old as it may become. */
unsigned amb_pub_flush_lingering(struct amb_conn *conn, int64_t now_ns);
/* The link has settled a batch's tx. Connection's lock held. */
void amb_pub_batch_sent(struct amb_batch *batch);
/* Appends a batch of commits to the queue; publisher's lock held. */
void amb_pub_enqueue(struct amb_pub *pub, struct amb_batch *batch);
/* Gives back what has not left. Connection's lock held. */
void amb_pub_queue_drop(struct amb_pub *pub);

/* ---- pub_settle.c: what the broker says, from link_events.c; connection's lock held ---- */

enum amb_status amb_pub_accepted(struct amb_pub *pub, uint64_t batches);
enum amb_status amb_pub_window(struct amb_pub *pub, uint64_t bytes);
void amb_pub_subscribers(struct amb_pub *pub, uint32_t count);
enum amb_status amb_pub_settled(struct amb_pub *pub, const struct amb_frame *frame);
/* Of a named one, in another session: messages up to `come` have come, the rest is sent again. */
void amb_pub_send_again(struct amb_pub *pub, uint64_t come);
/* Nothing more is sent before another session. Lock held. */
void amb_pubs_pause(struct amb_conn *conn);
/* Nobody knows what became of what was sent: EUNKNOWN. The rest stays. */
void amb_pub_lose(struct amb_pub *pub);
/* Settles everything posted and not settled with `why`: nothing of it will be heard of again. */
void amb_pub_settle_all(struct amb_pub *pub, enum amb_status why);
/* Everything up to message `last` is over, for `why`. */
void amb_pub_settle_upto(struct amb_pub *pub, uint64_t last, enum amb_status why);
/* A batch that was sent need not be kept to be sent again. What the link still has of it comes back
 * by itself. */
void amb_pub_unkeep(struct amb_pub *pub, struct amb_batch *batch);

/* ---- pub.c ---- */

/* As amb_pub_open, options checked; is_asking: it carries requests. No lock held. */
enum amb_status amb_pub_open_checked(struct amb_conn *conn, const char *topic,
                                     const struct amb_pub_options *options, bool is_asking,
                                     struct amb_pub **out);
/* Takes it out of the connection: settles the rest with `why`, tells the broker. What the link
 * reads of the user's memory is waited for. Lock held, may be given up meanwhile. */
void amb_pub_detach(struct amb_pub *pub, enum amb_status why);
/* Are there publishers, closed without waiting, of which the broker does not have all batches yet?
 * A Bye would overtake those. */
bool amb_pubs_are_closing(const struct amb_conn *conn);
/* Frees it: nothing refers to it any more. Connection's lock held. */
void amb_pub_free(struct amb_pub *pub);

/* ---- implicit.c: the publishers of amb_publish ---- */

enum amb_status amb_implicit_init(struct amb_conn *conn);
/* Frees the table; the publishers are gone already. */
void amb_implicit_fini(struct amb_conn *conn);
/* Makes a publisher handle free by closing the one used least. False: there is none. */
bool amb_implicit_evict(struct amb_conn *conn);
