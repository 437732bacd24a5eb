/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the stream link: the object that its files share.
 *
 *   stream.c       life, vtable       stream_tx.c  queue and flow values to the socket
 *   stream_down.c  going down         stream_rx.c  the socket to upcalls
 *
 * On the socket, all little endian (docs/wire.md, section Stream):
 *
 *   unit:  u32 kind | u32 len | u64 zero | len bytes
 *   FRAME: head, first part of the body     CHUNK: next part     FLOW: n x {u32, u32, u64}
 *   RUN:   head, data, one record: a frame whose meta is nothing but this record, again and again
 *
 * A tx as it stands on the socket is a function of its lengths alone. So `tx->sent` is an offset in
 * it, and nothing else is remembered about a partial write.
 * Over TLS a tx is settled when its last record is in the socket, as without.
 * Threads and Memory: those of link.h.
 */
#pragma once

#include "wire/codec/frame.h"
#include "wire/link/link.h"

#define AMB_STREAM_CHUNK (UINT32_C(512) << 10) /* bytes of a body in one unit, at most */
#define STREAM_UNIT_HEAD 16u
#define STREAM_FRAME_HEAD (STREAM_UNIT_HEAD + AMB_FRAME_HEAD_SIZE)
#define STREAM_RECORD_SIZE ((uint32_t)sizeof(struct amb_record))
#define STREAM_RUN_MIN (4u * STREAM_RECORD_SIZE) /* less is not worth the look */
#define STREAM_FLOW_SIZE 16u
#define STREAM_FLOWS_MAX 256u /* values in one unit */
#define STREAM_FLOW_UNIT_MAX (STREAM_UNIT_HEAD + STREAM_FLOWS_MAX * STREAM_FLOW_SIZE)

/* The most that one flush or poll sends, so that a link with much to send does not starve
 * others. */
#define STREAM_BURST (UINT64_C(4) << 20)
#define STREAM_BURST_UNITS 1024u

#define STREAM_STAGING (UINT32_C(64) << 10)
/* Read behind a body. It is little where frames are large: the next bytes are the next body, and
 * bytes that land in staging are copied once more. */
#define STREAM_STAGING_SMALL 4096u
#define STREAM_LARGE_BODY (UINT64_C(32) << 10)

enum stream_unit_kind {
    STREAM_UNIT_FRAME = 1,
    STREAM_UNIT_CHUNK,
    STREAM_UNIT_FLOW,
    STREAM_UNIT_RUN,
};

/* Counters of ours that the peer does not know yet: each at most once in `dirty`. */
struct stream_flows {
    uint64_t value[AMB_FLOW_KINDS * AMB_HANDLES_MAX];
    bool is_dirty[AMB_FLOW_KINDS * AMB_HANDLES_MAX];
    uint16_t dirty[AMB_FLOW_KINDS * AMB_HANDLES_MAX]; /* ring, oldest first */
    uint32_t head, count;
    uint8_t unit[STREAM_FLOW_UNIT_MAX]; /* on its way */
    uint32_t unit_len, unit_sent;
};

struct stream_rx {
    void *cookie;
    uint8_t *dst;        /* where the next byte of the open body goes; NULL: nowhere */
    uint64_t body_left;  /* of the open body, in all units to come */
    uint64_t part_left;  /* of it, in this unit */
    uint32_t run_left;   /* of it, behind all units: copies of the last record */
    uint64_t last_body;  /* size of the latest body, to guess the next one's */
    uint32_t start, end; /* unparsed bytes of staging */
    uint32_t need;       /* bytes beyond those that the parser waits for */
    bool is_drained;     /* the last read found nothing */
    bool has_more;       /* the last poll used up its budget: there may be units in staging */
    uint8_t staging[STREAM_STAGING];
};

struct stream {
    struct amb_link link;
    int fd;
    struct amb_tls *tls;         /* NULL: plain */
    bool is_busy;                /* in an upcall's reach: poll, flush and close are forbidden */
    bool is_guarded;             /* its peer may pass descriptors: on_connection of link.h */
    bool is_mute;                /* sending failed: down once everything received is read */
    struct amb_list_node queue;  /* struct amb_link_tx, oldest first */
    struct amb_list_node flying; /* TLS: the same, encrypted whole, and not all in the socket yet */
    struct stream_flows flows;
    struct stream_rx rx;
};
