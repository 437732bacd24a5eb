/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection as the library's own files see it. A feature's state is a part of the struct, and
 * the feature's file works on it. Fields between the parts are the connection's own.
 *
 *   amb_conn ── link_state, driver, io, ucx      drive/, session/io.c: threads move bytes, or sleep
 *       │  ├─── control, session, again, notify drive/, session/: the broker's word; callbacks
 *       │  ├─── handles ─┬─ amb_pub             publish/, batch/: messages out
 *       │  │             └─ amb_sub             subscribe/: messages in
 *       │  ├─── batches, leases                 batch/batches.c, memory/slots.c
 *       │  ├─── receive, acks, fetch            message/, subscribe/ack.c
 *       │  └─── views, regions, gpu             memory/
 *
 * Threads: everything below `lock` is touched with the lock held, unless its part says otherwise.
 * Lock order: a publisher's lock, then conn->lock, then a subscription's lock, then the leaf locks
 * (events, error, regions, and those of memory/gpu.h). Link callbacks run under conn->lock.
 * Memory: one struct, counted by refs: the user's handle, the I/O thread, and each delivery that
 * has messages out.
 */
#pragma once

#include "client/conn/again.h"
#include "client/conn/error.h"
#include "client/conn/handle.h"
#include "client/conn/interrupt.h"
#include "client/conn/state/batches.h"
#include "client/conn/state/control.h"
#include "client/conn/state/driver.h"
#include "client/conn/state/leases.h"
#include "client/conn/state/link.h"
#include "client/conn/state/memory.h"
#include "client/conn/state/notify.h"
#include "client/conn/state/receive.h"
#include "client/conn/state/session.h"
#include "wire/base/list.h"
#include "wire/base/mpsc.h"
#include "wire/codec/frame.h"
#include "wire/link/link.h"

#include <amb/amb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Why calls may have to turn back; 0 is what the hot paths look for. */
#define AMB_TROUBLE_FORKED 1u
#define AMB_TROUBLE_DOWN 2u
#define AMB_TROUBLE_CLOSING 4u
#define AMB_TROUBLE_STOPPED 8u
#define AMB_TROUBLE_AWAY 16u /* no session, or not all of it is back: waits go on */

#define AMB_POLL_CALLBACKS 256u

struct amb_implicit;
struct amb_replies;

/* Options of amb_connect that stay as they are. */
struct amb_conn_settings {
    bool is_poll_mode;
    int64_t timeout_ns;
    uint64_t memory_max;
    struct amb_interrupt interrupt;
    char name[64];
};

struct amb_conn {
    /* Touched by calls of any thread, without the lock. */
    _Atomic uint32_t trouble;
    _Atomic uint32_t refs;
    _Atomic uint32_t inside;      /* calls that may wait, see amb_conn_enter */
    _Atomic uint32_t gathering;   /* publishers whose open batch has messages */
    _Atomic uint32_t mapped_held; /* deliveries that are in segments and not given back */
    struct amb_conn_io io;
    struct amb_mpsc returned; /* deliveries whose last message was released */

    pthread_mutex_t lock;
    _Atomic uint32_t lock_waits; /* threads that found it taken, and wait */
    uint32_t unrefs;             /* references that amb_conn_unlock gives up */
    struct amb_link *link;
    struct amb_conn_link link_state;
    struct amb_conn_driver driver;
    struct amb_conn_session session;
    struct amb_conn_ucx ucx;
    struct amb_conn_batches batches;
    struct amb_conn_receive receive;
    struct amb_conn_acks acks;
    struct amb_conn_fetch fetch;
    struct amb_conn_notify notify;
    struct amb_conn_control control;
    struct amb_reconnect again;
    struct amb_leases leases;
    struct amb_conn_views views;
    struct amb_conn_regions regions;
    struct amb_conn_gpu gpu;
    struct amb_implicit *implicit; /* amb_publish's own publishers */
    struct amb_replies *replies;   /* requests; NULL until the first one */
    struct amb_conn_settings settings;
    struct amb_conn_handles handles;
    struct amb_conn_events events;
    struct amb_conn_error error;
    struct amb_list_node registry; /* session/fork.c */
};

/* Is there no link that anything may be sent on? Lock held. */
static inline bool amb_conn_is_cut(const struct amb_conn *conn)
{
    return conn->link == NULL || conn->link_state.is_closing || conn->session.down != AMB_OK;
}

static inline bool amb_conn_has_trouble(const struct amb_conn *conn, uint32_t which)
{
    return (atomic_load_explicit(&conn->trouble, memory_order_relaxed) & which) != 0;
}

/*
 * A call that may wait is counted from beginning to end. A close by another thread makes the call
 * turn back, and frees nothing before it has returned.
 */
static inline void amb_conn_enter(struct amb_conn *conn)
{
    atomic_fetch_add_explicit(&conn->inside, 1, memory_order_relaxed);
}

/* The last touch of the connection. Returns status, for `return amb_conn_leave(...)`. */
static inline enum amb_status amb_conn_leave(struct amb_conn *conn, enum amb_status status)
{
    /* Release: pairs with the acquire of the one who closes. */
    atomic_fetch_sub_explicit(&conn->inside, 1, memory_order_release);
    return status;
}
