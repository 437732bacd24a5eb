/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An arrival: a delivery of the broker as this process has it. A delivery is one batch, given to
 * one subscription and numbered. Its messages are here as the program sees them.
 *
 *   body of       | lies in
 *   a copy        | a buffer of ours
 *   a mapped one  | a segment of the broker's
 *   a leased one  | both: meta in a buffer, because its publisher can write to the segment
 *
 *   on_frame ─► arrives ─► (on_body) ready ─► taken message by message ─► last one released
 *      ─► `returned` of the connection ─► reported to the broker, recycled
 *
 * Threads: as each field says. Memory: recycled by class, with room for the messages behind it, so
 * that nothing is allocated per message or, after warm-up, per delivery.
 */
#pragma once

#include "wire/base/list.h"
#include "wire/base/mpsc.h"
#include "wire/codec/frame.h"

#include <amb/amb.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>

struct amb_conn;
struct amb_sub;
struct amb_view;

/* A topic's name. Lives as long as the connection's memory. */
struct amb_topic_name {
    struct amb_list_node node;
    uint64_t next;  /* sequence behind what was taken of it; 0: nothing. Under the sub's lock */
    uint64_t order; /* counts names as they come */
    const struct amb_topic_name
        *former;         /* while it is coming: the name that had its id before, or NULL */
    uint64_t next_seq;   /* behind the last delivery of it */
    uint64_t resumes_at; /* where the first delivery of this session should begin; 0: anywhere */
    uint32_t life;       /* of the session that named it */
    uint32_t len;
    enum amb_priority priority;
    char name[256];
};

struct amb_gpu;
struct amb_gpu_buffer;
struct amb_region;
struct amb_target;
struct amb_tensor;

/* Of few messages: where the payload was brought to, and an array's description. */
struct amb_side {
    const uint8_t *bytes;              /* the payload as it came; NULL: on a GPU */
    struct amb_gpu *gpu;               /* address is in its memory; NULL: host */
    enum amb_mem mem;                  /* of address; 0: as it came */
    uint64_t address;                  /* where it was brought; 0: nowhere */
    struct amb_region *region;         /* of the application, that address is in; or NULL */
    struct amb_gpu_buffer *buffer;     /* of our pool; NULL: the allocator's */
    const struct amb_target *target;   /* address is in its memory */
    struct amb_tensor *_Atomic tensor; /* made when asked for */
    bool is_placed;
    bool is_in_place; /* address is of the broker's memory */
    uint8_t *fetched; /* a lazy message's payload, once it was asked for; connection's lock */
    uint64_t fetched_len;
    struct amb_view *view; /* it lies in; NULL: it is in a buffer of ours */
};

struct amb_msg {
    _Atomic uint32_t refs;
    uint32_t index;         /* in its delivery's msgs */
    const uint8_t *payload; /* NULL: on a GPU, or lazy and not fetched */
    const struct amb_record *record;
    const uint8_t *props;
};

struct amb_arrival {
    struct amb_mpsc_node returned;
    struct amb_list_node node;  /* in sub->arrivals.list, under the subscription's lock */
    struct amb_list_node known; /* in receive.outstanding, under the connection's lock */
    struct amb_conn *conn;
    struct amb_sub *sub; /* counted; NULL: an answer of amb_admin */
    struct amb_topic_name *topic;
    struct amb_view *view; /* payloads lie there; NULL: in our buffer */
    uint8_t *body;         /* in the segment, unless the next is set */
    void *buffer;          /* ours, for body; NULL: all of it lies in the segment */
    uint64_t buffer_len;
    struct amb_gpu_buffer *far; /* its one payload came into this by the link; or NULL */
    uint64_t body_len;          /* wherever it lies */
    const uint8_t *base;        /* a leased batch's segment, or far's memory */
    uint64_t base_size;
    uint64_t number, seq, lost; /* seq: within its priority */
    int64_t time_ns;
    enum amb_loss loss;
    uint32_t life; /* of its session */
    uint32_t class;
    uint32_t count; /* messages to take: those behind the first `skip` of the body */
    uint32_t skip;
    _Atomic uint32_t taken; /* written under the subscription's lock */
    bool is_ready;          /* the body is here; under the subscription's lock */
    bool has_failed;        /* it never will be; the same */
    struct amb_frame frame; /* as it came, for the check of the body */
    struct amb_body_iter iter;
    alignas(64) _Atomic uint32_t refs; /* messages not yet released, taken or not */
    struct amb_side *_Atomic sides;    /* one for each message, or NULL */
    alignas(64) struct amb_msg msgs[];
};

static inline struct amb_arrival *amb_msg_arrival(const struct amb_msg *msg)
{
    const struct amb_msg *first = msg - msg->index;
    return AMB_CONTAINER_OF((uintptr_t)first, struct amb_arrival, msgs);
}

/* The answer of amb_msg_data. */
static inline const void *amb_msg_payload(const struct amb_msg *msg)
{
    /* Acquire: a fetch on another thread may bring it. Elsewhere it is there from the beginning. */
    return __atomic_load_n(&msg->payload, __ATOMIC_ACQUIRE);
}
