/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link: how data-plane frames travel between one client and its worker. Four makers give the
 * same object: ring.h (shared memory), stream.h (TCP), ucx_link.h (UCX active messages), and sim.h
 * (tests).
 *
 * The promises of all of them:
 *  - Frames arrive whole, in the order of amb_link_send, each exactly once, or the link goes down.
 *  - Flow values (absolute counters) never wait behind frames and are never refused. They may be
 *    coalesced: the receiver sees the newest value of each (kind, handle) that changed.
 *  - Nothing leaves for certain before amb_link_flush; a loop calls it once a turn.
 *  - Flushed frames that wait for room leave by polls alone. These polls wake a sleeping peer for
 *    them, and for the room that they make.
 *  - Peer input is checked: lengths, kinds, handles, indices. Violations take the link down with
 *    EPROTO; they never crash, block or size an allocation.
 *  - A body larger than what the transport moves at once is cut and put together by the link.
 *
 *      amb_link_send ──► (queue, ring, socket, AM) ──► on_frame: where to?  ──► bytes ──► on_body
 *
 * Threads: one at a time; the caller owns the link for that call (a worker, or the holder of the
 * connection's lock). Callbacks run inside amb_link_poll and amb_link_flush only (ucx: inside
 * amb_ucx_worker_progress), never inside amb_link_send or amb_link_flow, and may call send and flow
 * and nothing else. Memory: nothing is allocated per frame after warm-up.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/base/status.h"
#include "wire/codec/url.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

struct amb_frame;
struct amb_link;
struct amb_link_mem; /* registration of memory with a transport, see ucx_context.h; NULL: none */

/* Absolute counters, one value per (kind, handle). handle < AMB_HANDLES_MAX. */
enum amb_flow_kind {
    /* client to broker */
    AMB_FLOW_WANT = 0, /* publisher: I wait to have sent this many bytes in all */
    AMB_FLOW_RELEASE,  /* subscription: deliveries 1..value are given back */
    /* broker to client */
    AMB_FLOW_ACCEPTED = 0, /* publisher: batches 1..value are whole in broker memory and routed */
    AMB_FLOW_WINDOW,       /* publisher: bytes that may be sent in all */
    AMB_FLOW_SUBSCRIBERS,  /* publisher: subscriptions that match now; may go down. With
                              AMB_FLOW_BLOCKED: a quota keeps its window shut */
    AMB_FLOW_FREED,        /* handle 0: the session's COMMITs 1..value: their ranges are free */
    AMB_FLOW_KINDS = 4,    /* kinds of one direction */
};

/* Beside the number of subscriptions, which has 32 bits. */
#define AMB_FLOW_BLOCKED (UINT64_C(1) << 32)

/* One frame on its way out. The struct, meta and data stay the link's until it is settled. */
struct amb_link_tx {
    struct amb_list_node node;     /* the link's while queued */
    const struct amb_frame *frame; /* read during amb_link_send only: encoded there */
    const void *data;              /* frame->data_len bytes, less data_pad */
    const void *meta;              /* frame->meta_len bytes, data_pad more in front of them */
    uint32_t data_pad;             /* < 16: padding of data that is not behind data but before
                                      meta, for payloads in memory that ends where they end */
    struct amb_link_mem *mem;      /* memory that data lies in, or NULL */
    bool is_device;                /* data is a GPU's memory: on a link that takes_cuda only */
    bool
        is_pad_apart; /* of such a one: data_pad is not in front of meta, but zeros of the link's */
    uint8_t head[128];  /* the link's: the encoded head */
    uint64_t data_len;  /* the link's: of the body on the link, 0 if it has none */
    uint32_t meta_len;  /* the link's: the same */
    bool is_run;        /* the link's: meta repeats its first record, sent once */
    uint64_t sent;      /* the link's: progress */
    void *link_private; /* the link's */
};

/*
 * The remains of a link that was closed, and slow to give back. dispose gives them back, once, on
 * any thread, and the waste is gone. empties: memory that the peer may keep mapped loses its
 * contents, and so its pages. Then the peer must not read there any more.
 */
struct amb_link_waste {
    void (*dispose)(struct amb_link_waste *waste, bool empties);
    uint64_t bytes;  /* of memory that the peer may keep mapped */
    uint64_t unread; /* of them, sent and not read */
};

/* Upcalls. All but on_device, on_waste and on_connection are set. `arg` is the one given at
 * creation. */
struct amb_link_events {
    /*
     * A head has arrived and is well formed (amb_frame_decode). If the frame has a body, sets *dst
     * to room for amb_frame_body_len bytes, and *cookie to the argument of on_body. Sets *mem to
     * dst's registration or leaves it NULL. With dst left NULL the body is thrown away and on_body
     * not called. An error status takes the link down.
     */
    enum amb_status (*on_frame)(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem);
    /*
     * May be NULL. Comes before on_frame, for a frame whose data its sender has in a GPU's memory
     * (AMB_FRAME_FLAG_DEVICE). The link takes_cuda, and can write `len` bytes to such memory: the
     * data, less the end of its padding that lay with the meta. `meta` has frame->meta_len bytes,
     * not aligned, for this call. Sets *dst to device memory and *cookie;
     * dst left NULL: as in on_frame. ENOTSUP, and nothing has happened: on_frame is asked. Another
     * error takes the link down.
     */
    enum amb_status (*on_device)(void *arg, const struct amb_frame *frame, const void *meta,
                                 uint64_t len, void **dst, void **cookie);
    /*
     * The whole body is in dst (AMB_OK), or never will be (the link goes down, or this transfer
     * failed): exactly once for each dst given. Order: that of on_frame on ring, stream, sim; on
     * ucx large bodies may complete late. An error returned takes the link down.
     */
    enum amb_status (*on_body)(void *arg, void *cookie, enum amb_status status);
    /* A peer's counter has a new value. An error returned takes the link down. */
    enum amb_status (*on_flow)(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value);
    /* A queued tx is settled: its memory is yours again. status: AMB_OK, ECANCELED, ELOST. */
    void (*on_sent)(void *arg, struct amb_link_tx *tx, enum amb_status status);
    /* Once: the link is of no more use. Never from inside close. */
    void (*on_down)(void *arg, enum amb_status why, const char *text);
    /* Once, last, if amb_link_close answered false: nothing of the link is in use any more. */
    void (*on_closed)(void *arg);
    /* May be NULL: then close disposes of it. Takes it over, from inside close. */
    void (*on_waste)(void *arg, struct amb_link_waste *waste);
    /*
     * May be NULL: the peer is trusted. Takes over the Unix connection of a stream, from inside
     * close. Descriptors that the peer has passed may be in it, so closing it may take any time. A
     * stream whose peer passes some goes down (EPROTO), and reads by two calls instead of one.
     */
    void (*on_connection)(void *arg, int fd);
};

struct amb_link_stats {
    uint64_t frames_sent, frames_received, bytes_sent, bytes_received, wakes_sent;
};

/* A link that reads and writes a GPU's memory where it lies does so from here on. Below, a copy to
 * the host and one from there are fewer calls of the driver than two rendezvous. */
#define AMB_LINK_DEVICE_MIN UINT64_C(4096)

struct amb_link_ops {
    enum amb_link_kind kind;
    /* See the functions below. */
    enum amb_status (*send)(struct amb_link *link, struct amb_link_tx *tx);
    void (*flow)(struct amb_link *link, enum amb_flow_kind kind, uint32_t handle, uint64_t value);
    void (*flush)(struct amb_link *link);
    unsigned (*poll)(struct amb_link *link, unsigned budget);
    bool (*arm)(struct amb_link *link, bool want_flow);
    void (*disarm)(struct amb_link *link);
    int (*fd)(const struct amb_link *link);
    bool (*close)(struct amb_link *link);
    void (*describe)(const struct amb_link *link, char *out, size_t size);
    uint64_t (*rate)(const struct amb_link *link, uint64_t bytes); /* or NULL */
    bool (*trim)(struct amb_link *link);                           /* or NULL */
    bool (*rest)(struct amb_link *link, short *events);            /* or NULL */
    uint8_t **(*body)(struct amb_link *link, void **cookie);       /* or NULL */
    bool rereads;                                                  /* see amb_link_tx_move */
};

struct amb_link {
    const struct amb_link_ops *ops;
    const struct amb_link_events *events;
    void *arg;
    struct amb_link_stats stats;
    size_t queued;         /* tx taken and not settled */
    uint64_t queued_bytes; /* their heads and bodies */
    bool is_down;
    bool takes_cuda; /* tx->data may be memory of a GPU, */
    uint64_t
        device_min;  /* ... and best is, from so many bytes on; UINT64_MAX: copied, it is faster */
    bool trims_soon; /* it has memory to give back after a second already (amb_link_trim) */
    bool is_dry; /* stream: all that was there has most likely been read, and an edge will tell of
                    more; only arm makes sure */
    bool hears_end;  /* set by the owner, who watches for EPOLLRDHUP: a stream whose socket was read
                        empty is armed without another read. Cleared at that event: the end may lie
                        behind what was read */
    bool is_pending; /* stream: the last flush left frames or flow values behind; a poll goes on, */
    bool is_blocked; /* ... because the socket was full; an edge will tell of room */
    bool waits_for_read, waits_for_write; /* see amb_link_fd_events */
};

/*
 * Takes tx, always. AMB_OK: settled already, on_sent will not be called. AMB_EAGAIN: queued,
 * on_sent comes later. Anything else: the link is down, tx is yours and on_sent will not be called.
 */
static inline AMB_MUST_CHECK enum amb_status amb_link_send(struct amb_link *link,
                                                           struct amb_link_tx *tx)
{
    return link->ops->send(link, tx);
}

/* Sets one of our counters. On a link that is down it does nothing. */
static inline void amb_link_flow(struct amb_link *link, enum amb_flow_kind kind, uint32_t handle,
                                 uint64_t value)
{
    link->ops->flow(link, kind, handle, value);
}

/* Pushes out what was sent, and wakes a sleeping peer: at most one system call on a ring. */
static inline void amb_link_flush(struct amb_link *link)
{
    link->ops->flush(link);
}

/* Receives for about `budget` frames; returns how much was done, 0: nothing was there. */
static inline unsigned amb_link_poll(struct amb_link *link, unsigned budget)
{
    return link->ops->poll(link, budget);
}

/*
 * Before sleeping on amb_link_fd: asks the peer for a wake-up at new frames. New flow values wake
 * too, if want_flow or if queued tx wait for room. False: there is work, do not sleep.
 */
static inline AMB_MUST_CHECK bool amb_link_arm(struct amb_link *link, bool want_flow)
{
    return link->ops->arm(link, want_flow);
}

/* After sleeping, or after deciding not to. */
static inline void amb_link_disarm(struct amb_link *link)
{
    link->ops->disarm(link);
}

/*
 * The descriptor to wait on, edge triggered, for amb_link_fd_events and nothing else; then
 * amb_link_poll. A stream that could not send everything goes on when there is room. -1: there is
 * nothing to wait on (sim), or the ucx worker's descriptor speaks for it.
 */
static inline int amb_link_fd(const struct amb_link *link)
{
    return link->ops->fd(link);
}

/* For epoll. The two ends of a ring share one bell: the broker waits for EPOLLIN, the client for
 * EPOLLOUT. The level of either says nothing. */
static inline uint32_t amb_link_fd_events(const struct amb_link *link)
{
    return (link->waits_for_read ? (uint32_t)EPOLLIN : 0u) |
           (link->waits_for_write ? (uint32_t)EPOLLOUT : 0u);
}

/*
 * Before a poll(2) of amb_link_fd. That tells of all that is there, however long it has been so. No
 * read need find the socket empty first. Sets *events to what to wait for. False: there is work,
 * or this link must be armed.
 */
static inline AMB_MUST_CHECK bool amb_link_rest(struct amb_link *link, short *events)
{
    return link->ops->rest != NULL && link->ops->rest(link, events);
}

/*
 * The body that is under way: its cookie, and where its next byte goes. The caller may change that
 * to the same place of other memory, to which it has copied what is there; or to NULL. Then the
 * rest is thrown away, and on_body not called. NULL: there is no such body, or (ucx) it cannot go
 * elsewhere. Not from inside a callback.
 */
static inline uint8_t **amb_link_body(struct amb_link *link, void **cookie)
{
    return link->ops->body != NULL ? link->ops->body(link, cookie) : NULL;
}

/*
 * Has a queued tx read its data from `data`, a copy of it, from here on. False: the link may read
 * the old place until the tx is settled (ucx). Not from inside a callback.
 */
static inline AMB_MUST_CHECK bool amb_link_tx_move(const struct amb_link *link,
                                                   struct amb_link_tx *tx, const void *data)
{
    tx->data = link->ops->rereads ? data : tx->data;
    return link->ops->rereads;
}

/*
 * Cuts the link: no frame or flow is received any more, bodies still open get on_body(ECANCELED)
 * and queued tx on_sent(ECANCELED). True: all that happened during this call and the link is freed.
 * False: some of it happens later (ucx), and then on_closed. NULL is allowed (true).
 */
static inline AMB_MUST_CHECK bool amb_link_close(struct amb_link *link)
{
    return link == NULL || link->ops->close(link);
}

/*
 * Gives memory back of a link on which nothing was sent since the last call of this. Called now and
 * then, seconds apart. True: that took a system call.
 */
static inline bool amb_link_trim(struct amb_link *link)
{
    return link->ops->trim != NULL && link->ops->trim(link);
}

/* "ring 1024 KiB", "tcp/lo rndv": for people. Always NUL-terminated. */
static inline void amb_link_describe(const struct amb_link *link, char *out, size_t size)
{
    link->ops->describe(link, out, size);
}

/* Bytes a second that the transport itself expects for messages of that size; 0: it does not say.
 */
static inline uint64_t amb_link_rate(const struct amb_link *link, uint64_t bytes)
{
    return link->ops->rate != NULL ? link->ops->rate(link, bytes) : 0;
}
