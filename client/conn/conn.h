/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection as the library's own files see it. What the calls do is in one file per verb; this
 * is what they share.
 *
 *   amb_conn ── control socket, link        drive.c, io.c: who moves bytes, and who sleeps
 *       │  ├─── pubs[handle]                publish.c, batch.c, settle.c
 *       │  ├─── subs[handle] ── deliveries  arrivals.c, message.c, returns.c
 *       │  ├─── segments, buffers           segment.c, buffer.c
 *       │  └─── lease segments              slots.c, commit.c, lease.c
 *
 * Threads: everything below `lock` is touched with the lock held. Lock order: a publisher's lock,
 * then conn->lock, then a subscription's lock, then the leaf locks (event_lock, error_lock). Link
 * callbacks run under conn->lock.
 * Memory: one struct, counted by refs: the user's handle, the I/O thread, and each delivery that
 * has messages out.
 */
#pragma once

#include "client/conn/again.h"
#include "client/conn/buffer.h"
#include "client/conn/handle.h"
#include "client/conn/leases.h"
#include "wire/base/list.h"
#include "wire/base/mpsc.h"
#include "wire/base/spin.h"
#include "wire/codec/control.h"
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

#define AMB_EVENTS_MAX 64u
#define AMB_POLL_CALLBACKS 256u

struct amb_pub;
struct amb_sub;
struct amb_segment;
struct amb_implicit;
struct amb_inbox;
struct amb_gpu;
struct amb_import;
struct amb_region;
struct amb_ucx_context;
struct amb_ucx_worker;

enum amb_io_mode {
    AMB_IO_NONE,  /* no thread */
    AMB_IO_AWAKE, /* running */
    AMB_IO_WATCH, /* asleep on the link, armed */
    AMB_IO_TICK,  /* asleep for a moment: callers move the link themselves, or a batch lingers */
    AMB_IO_DEEP,  /* asleep until a timer: a caller sleeps on the link */
};

/* An event with its text, as it waits for amb_poll. */
struct amb_event_slot {
    struct amb_event event;
    char text[128];
};

struct amb_conn {
    _Atomic uint32_t trouble;
    _Atomic uint32_t refs;
    _Atomic uint32_t staged;      /* publishers with messages that wait for company */
    _Atomic uint32_t io_mode;     /* enum amb_io_mode */
    _Atomic uint32_t inside;      /* calls that may wait, see amb_conn_enter */
    _Atomic uint32_t mapped_held; /* deliveries that are in segments and not given back */
    struct amb_mpsc returned;     /* deliveries whose last message was released */
    pthread_mutex_t lock;

    /* The link. */
    struct amb_link *link;
    const char *path; /* amb_msg_path of what comes by copy */
    struct amb_ucx_context *ucx_context;
    struct amb_ucx_worker *ucx_worker;
    int link_ep;     /* an epoll of the link's descriptor alone, edge triggered; -1: none */
    bool armed;      /* the link shall wake us, */
    bool armed_room; /* ... also when there is room for what is queued */
    bool is_busy;    /* polling costs a system call: not at every look */
    bool is_link_closing, is_link_closed;
    bool is_bulk;      /* many messages at a time come or go: a wait is not worth a spin */
    bool must_flush;   /* frames or flow values were given to the link */
    bool may_flush;    /* ... which the I/O thread sends at its next turn but one */
    uint64_t activity; /* callers' turns at the link */

    /* The driver: see drive.h. */
    bool has_driver, driver_sleeps, driver_wants_flow;
    bool driver_told;                   /* while it sleeps: it has been woken */
    const struct amb_wait *driver_wait; /* what it sleeps for */
    uint64_t driver_epoch;
    uint32_t followers;  /* threads waiting for `change` */
    uint32_t flow_waits; /* waits that flow values may end */
    bool has_changed;    /* since the followers were woken */
    _Atomic uint32_t change;
    uint32_t unrefs; /* references that amb_conn_unlock gives up */
    struct amb_spin spin;
    int wake_fd; /* eventfd: wakes a sleeping driver; amb_stop writes it */

    /* The I/O thread. */
    pthread_t io_thread;
    bool has_io_thread, io_stop, is_lingering;
    int io_fd; /* eventfd: wakes the I/O thread */
    int64_t tick_ns;

    /* Callbacks that are due, see poll.c. */
    int event_fd; /* readable while something is due; only written if is_fd_used */
    int user_fd;  /* amb_fd: event_fd, or in POLL mode an epoll of everything */
    int timer_fd; /* POLL mode: heartbeat and linger; -1 */
    _Atomic bool is_fd_used;
    bool is_fd_set;
    uint32_t settled_wanted;  /* publishers with on_settled */
    uint32_t messages_wanted; /* subscriptions with on_message */
    uint32_t sub_cursor;
    bool has_news; /* a message has arrived since amb_poll */

    /* The control connection. */
    int control_fd;
    struct amb_control_reader reader;
    int reader_fd; /* descriptor that came with the message being read; -1 */
    uint8_t *out;
    size_t out_len, out_cap;
    struct amb_list_node requests;
    uint64_t last_request;
    int64_t heard_ns, ping_ns; /* the broker was heard, we spoke */
    int64_t heartbeat_ns, peer_timeout_ns;

    /* The session. */
    uint32_t session, generation;
    uint64_t secret, max_message, epoch;
    uint32_t life; /* counts sessions: what is of an older one is not told to the broker */
    struct amb_reconnect again;
    uint32_t batch_bytes, batch_msgs;
    enum amb_status down; /* why, when DOWN */
    char down_text[200];
    bool is_link_down; /* said by on_down, looked at after the poll */
    enum amb_status link_status;
    char link_text[160];

    struct amb_pub *pubs[AMB_HANDLES_MAX];
    struct amb_sub *subs[AMB_HANDLES_MAX];
    bool pub_taken[AMB_HANDLES_MAX], sub_taken[AMB_HANDLES_MAX];
    uint32_t pub_next, sub_next, pub_high, sub_high;
    struct amb_past past[AMB_HANDLES_MAX];
    struct amb_leases leases;
    struct amb_buffers lease_buffers;            /* for leases where there is no segment */
    struct amb_lease *lease_free;                /* unused ones */
    struct amb_list_node segments, old_segments; /* of the session, of former ones */
    struct amb_list_node topics;                 /* every name ever told, for messages still held */
    struct amb_list_node outstanding;            /* deliveries with messages out */
    struct amb_buffers buffers;
    struct amb_list_node acking;     /* struct amb_acks.node: something of them is to be said */
    struct amb_list_node ack_frames; /* unused ones */
    uint32_t ack_frames_cached;
    struct amb_list_node fetches; /* pieces of payloads that were asked for: fetch.c */
    uint64_t last_fetch;
    void *delivery_free[3];                        /* by class */
    struct amb_list_node batches, larges, commits; /* unused batches, see amb_pub_batch_put */
    uint32_t batches_cached, larges_cached, commits_cached;
    struct amb_buffers packed;  /* for batches that are no larger than they must be */
    _Atomic uint64_t out_bytes; /* what closed batches hold: see batches.h */
    uint64_t out_max;           /* ... and may hold */
    enum amb_status failure;    /* the first failed publish not told by amb_flush; AMB_OK */

    /* amb_publish's own publishers. */
    struct amb_implicit *implicit;
    struct amb_inbox *inbox; /* requests; NULL until the first one */
    int64_t reply_due_ns;    /* their first deadline, perhaps an earlier one; INT64_MAX: none */

    /* GPUs that this connection has met, see gpu.c. */
    pthread_mutex_t gpu_lock;
    struct amb_gpu *gpus;
    pthread_mutex_t region_lock;
    struct amb_region *regions;   /* memory that the application has registered */
    struct amb_import *imports;   /* what it has open of the broker's memory there */
    _Atomic uint32_t gpu_waiting; /* releases that wait for a stream */
    _Atomic uint64_t staged_out;  /* bytes brought from the host to a GPU */
    uint64_t staged_in;           /* gpu_lock: bytes of GPU memory published by way of the host */
    char staged_why[128];         /* gpu_lock: the last reason, of AMB_GPU_WHY_BYTES */

    /* Options. */
    bool is_poll_mode;
    amb_event_fn on_event;
    void *event_arg;
    int64_t timeout_ns;
    uint64_t memory_max;
    char name[64];

    pthread_mutex_t event_lock;
    struct amb_event_slot events[AMB_EVENTS_MAX];
    uint32_t event_first, event_count;
    bool event_running;

    pthread_mutex_t error_lock;
    struct amb_error error;

    struct amb_list_node registry; /* fork.c */
};

/* Is there no link that anything may be sent on? Lock held. */
static inline bool amb_conn_is_cut(const struct amb_conn *conn)
{
    return conn->link == NULL || conn->is_link_closing || conn->down != AMB_OK;
}

static inline bool amb_conn_has_trouble(const struct amb_conn *conn, uint32_t which)
{
    return (atomic_load_explicit(&conn->trouble, memory_order_relaxed) & which) != 0;
}

/*
 * A call that may wait is counted from beginning to end: a close by another thread makes it turn
 * back, and waits until it has left before anything is freed.
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
