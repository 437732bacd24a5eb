/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structs that the files of the ucx link share: a worker, its links, and the operations under
 * way. UCX's types stay in this room and in ucxlib. A file calls only those below it:
 *
 *   ucx_worker.c   progress: which link hears of what
 *   ucx_link.c     a link's life, and what has settled
 *   ucx_leave.c    a link's end
 *   ucx_flow.c     flow values and the words of the end, both ways
 *   ucx_send.c     frames to active messages,            ucx_receive.c  and back
 *   ucx_op.c       operations; what progress hands on    ucx_table.c    links by session
 *
 * UCX may call back in the middle of any of our calls into it. So its callbacks reach the owner of
 * a link only to ask for the place of an arrived frame's body. UCX's data is gone afterwards.
 * Completions and errors join a list. amb_ucx_worker_progress empties it when UCX is not on the
 * stack.
 *
 * Threads: those of the worker (ucx_worker.h).
 */
#pragma once

#include "wire/base/list.h"
#include "wire/base/pool.h"
#include "wire/codec/bytes.h"
#include "wire/codec/frame.h"
#include "wire/link/link.h"
#include "wire/link/ucxlib/ucx_api.h"
#include "wire/link/ucxlib/ucx_context_private.h"
#include "wire/link/ucxlib/ucx_log.h"

#include <endian.h>
#include <string.h>
#include <ucp/api/ucp.h>

/* Of one worker's address; a client's comes from its Auth message. */
#define AMB_UCX_ADDRESS_MAX 4096u
/* A frame's meta travels in the active message's header up to here. One record and the property
 * blob of a single message fit, and UCX's own limit is above it with our segment sizes. */
#define AMB_UCX_META_IN_HEAD_MAX 3584u
#define AMB_UCX_HEAD_BUFFER (AMB_FRAME_HEAD_SIZE + AMB_UCX_META_IN_HEAD_MAX)

/* Active message ids. */
enum amb_ucx_am {
    AMB_UCX_AM_DATA = 1,
    AMB_UCX_AM_FLOW = 2,
};

struct amb_ucx_link;

enum amb_ucx_op_kind {
    AMB_UCX_OP_SEND,  /* one frame on its way out */
    AMB_UCX_OP_FLOW,  /* flow values on their way out */
    AMB_UCX_OP_RECV,  /* one rendezvous on its way in */
    AMB_UCX_OP_WORD,  /* one of the last messages */
    AMB_UCX_OP_FLUSH, /* of what is in sockets, before the endpoint's end */
    AMB_UCX_OP_CLOSE, /* the endpoint's end */
};

/* One call into UCX that has not settled, or has and waits for the next progress. */
struct amb_ucx_op {
    struct amb_list_node node; /* in worker->under_way or settled */
    struct amb_ucx_link *link;
    enum amb_ucx_op_kind kind;
    ucs_status_t status;
    struct amb_link_tx *tx; /* SEND */
    void *cookie;           /* RECV */
    size_t expected;        /* RECV: bytes */
    uint8_t *head;          /* from worker->heads, or NULL */
    ucp_dt_iov_t iov[2];    /* SEND of a body in two places */
};

struct amb_ucx_worker {
    struct amb_ucx_context *context;
    ucp_worker_h handle;
    ucp_address_t *address;
    size_t address_len;
    int fd;
    bool is_progressing;
    struct amb_list_node under_way; /* amb_ucx_op: UCX has them, or they are in reserve */
    struct amb_list_node settled;   /* amb_ucx_op: UCX is through with them */
    struct amb_list_node broken;    /* amb_ucx_link: to be taken down */
    struct amb_list_node leaving;   /* amb_ucx_link.leave_node: ending */
    struct amb_list_node links;     /* amb_ucx_link.all_node: all there are */
    int64_t leave_seen_ns;          /* when progress last looked at `leaving` */
    int64_t settle_by_ns;           /* all links were forced to end: until then they may; or 0 */
    struct amb_pool ops;
    struct amb_pool heads; /* AMB_UCX_HEAD_BUFFER each */
    struct amb_ucx_link **buckets;
    size_t bucket_mask;
    size_t link_count; /* alive, in the table or not */
    uint64_t foreign;
};

/* Flow values of 64 neighbouring handles; made when the first of them is used. */
struct amb_ucx_flow_block {
    uint64_t dirty; /* a bit for each value not sent yet */
    uint64_t values[64];
};

#define AMB_UCX_FLOW_BLOCKS (AMB_HANDLES_MAX / 64u)

struct amb_ucx_link {
    struct amb_link base;
    struct amb_ucx_worker *worker;
    struct amb_ucx_link *next; /* in its bucket */
    ucp_ep_h ep;               /* NULL once its forced close has begun */
    struct amb_ucx_op *close;  /* in reserve for that close */
    uint32_t session, generation;
    uint64_t secret;
    size_t pending;            /* ops not handed on */
    struct amb_list_node node; /* in worker->broken */
    enum amb_status why;       /* it is broken if not AMB_OK */
    const char *why_text;
    bool is_closing;   /* amb_link_close was called */
    bool is_in_close;  /* and is on the stack */
    bool is_peer_gone; /* UCX says so */
    unsigned flow_pending;
    uint64_t receiving_bytes; /* of rendezvous under way */
    /* Its end, see ucx_leave.c. */
    bool is_leaving, is_done, is_flushed;
    bool has_peer_left, is_peer_done;
    bool is_second; /* the peer was first */
    bool has_moved; /* a sign of life since progress last looked */
    int64_t leave_by_ns;
    uint64_t nonce;                            /* of our bye */
    struct amb_list_node leave_node, all_node; /* in worker->leaving, links */
    uint16_t flow_dirty[AMB_FLOW_KINDS];       /* a bit for each block with dirty values */
    struct amb_ucx_flow_block *flow[AMB_FLOW_KINDS][AMB_UCX_FLOW_BLOCKS];
};

static inline struct amb_ucx_link *amb_ucx_link_of(struct amb_link *base)
{
    return AMB_CONTAINER_OF(base, struct amb_ucx_link, base);
}

static inline enum amb_status amb_ucx_status(ucs_status_t ucs)
{
    return ucs == UCS_ERR_NO_MEMORY ? AMB_ENOMEM : AMB_ELOST;
}
