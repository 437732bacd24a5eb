/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open batch of a publisher: payloads, records and property blobs as they are gathered. The
 * rule that says when a batch leaves is here, too:
 *
 *   a batch leaves when   | because
 *   it is full            | nothing more fits in
 *   it is `linger` old    | its messages have waited long enough
 *   there is a flush      | the program asks for it
 *   nothing is on the way | waiting for company would save nothing
 *
 * The last condition alone has two stable states when both sides run on cores of their own. In one
 * of them each message is a batch. So a batch must also have a minimum size. That doubles while
 * batches fill within 10 us, and is forgotten after 50 us of silence. It costs no latency: a stream
 * that fast fills the minimum at once.
 *
 * A batch of leased messages is gathered by the same rule. Its payloads stay in their slots, and
 * only the table of them is here.
 *
 * Where a batch costs system calls, `patience_ns` is above `linger_ns`. There a batch that has
 * lingered and is a quarter full waits on, for it will be full soon. While batches fill up like
 * that, the stream is `is_flowing`: no poll asks whether the last batch has arrived, and none
 * leaves early.
 *
 * Threads: under the publisher's lock. Memory: one block a batch, recycled.
 */
#pragma once

#include "client/conn/state/leases.h"
#include "client/drive/tx.h"
#include "wire/base/list.h"
#include "wire/codec/frame.h"

#include <amb/amb.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define AMB_BATCH_MIN_FIRST 512u
#define AMB_BATCH_MIN_MAX 16384u
#define AMB_BATCH_FAST_NS INT64_C(10000)
#define AMB_BATCH_IDLE_NS INT64_C(50000)

struct amb_gpu_fence;
struct amb_keep;
struct amb_pub;

struct amb_batch {
    struct amb_conn_tx out;
    struct amb_list_node node;    /* in the connection's list of unused ones */
    struct amb_pub *pub;          /* large and posted: whose memory it borrows */
    struct amb_slots *slots;      /* leased: what its payloads lie in */
    uint64_t *offsets;            /* leased: of each payload */
    uint64_t first_seq;           /* in a publisher's queue: of its first message */
    uint32_t slot_head;           /* leased: chain of its slots */
    struct amb_place place;       /* large: the slot that data lies in; slots NULL: none */
    struct amb_gpu_fence *fences; /* leased, on a GPU: what its payloads wait for */
    bool has_failed;              /* ... has failed: the broker refuses it */
    uint8_t *data;                /* room for data_cap bytes; or borrowed */
    uint8_t *meta;                /* records, then, when it leaves, blobs; zeros before it */
    uint8_t *blobs;               /* allocated at the first property */
    uint8_t *owned;               /* a large message's own copy, or NULL */
    uint32_t data_pad;            /* large: bytes of data_len that are not behind data */
    bool is_large, is_leased;
    bool is_packed;        /* a copy in one block of its own size: closed for good, see batches.h */
    bool is_pooled;        /* owned is of conn->leases.buffers, for owned_len bytes */
    struct amb_keep *keep; /* ... and the program keeps it; or NULL */
    bool is_kept;   /* it may have to be sent again: not recycled when the link is done with it */
    bool is_waited; /* somebody waits until the link is done with it, and frees it */
    uint32_t count;
    uint32_t blob_len, blob_cap, meta_cap;
    uint64_t data_len, data_cap;
    uint64_t owned_len;
    uint64_t charged; /* part of conn->batches.bytes */
};

/* For many small messages. NULL: no memory. */
struct amb_batch *amb_batch_create(uint32_t batch_bytes);
/* For one message whose payload lies elsewhere. */
struct amb_batch *amb_batch_create_large(void);
/* For leased messages: room for a table of them and as many properties as a frame takes. */
struct amb_batch *amb_batch_create_leased(void);
void amb_batch_destroy(struct amb_batch **batch);

static inline struct amb_record *amb_batch_records(const struct amb_batch *batch)
{
    return (struct amb_record *)(void *)batch->meta;
}

/* The memory that it holds: what was allocated for it, not what is in it. */
uint64_t amb_batch_whole(const struct amb_batch *batch);
/* The same of a copy as amb_batch_copy makes it. */
uint64_t amb_batch_copy_size(const struct amb_batch *batch);
/* Makes a closed batch of small or leased messages, whose fences are over, in `room` of that size.
 * It takes over the chain of slots. */
struct amb_batch *amb_batch_copy(struct amb_batch *batch, void *room);

/* data + meta as they would go out now. */
static inline uint64_t amb_batch_size(const struct amb_batch *batch)
{
    return batch->data_len + batch->count * sizeof(struct amb_record) + batch->blob_len;
}

/* Is there room for one more message? */
static inline bool amb_batch_fits(const struct amb_batch *batch, uint64_t len, uint32_t blob_len,
                                  uint32_t batch_msgs)
{
    uint64_t more =
        amb_payload_padded(len) + amb_props_padded(blob_len) + sizeof(struct amb_record);
    return batch->count < batch_msgs && amb_batch_size(batch) + more <= batch->data_cap;
}

/* Appends a message that fits. */
static inline void amb_batch_add(struct amb_batch *batch, const void *data, uint64_t len)
{
    uint8_t *to = batch->data + batch->data_len;
    uint64_t padded = amb_payload_padded(len);
    if (padded != 0) {
        /* The padding is ours and goes out: no stale bytes in it. */
        memset(to + padded - AMB_PAYLOAD_PAD, 0, AMB_PAYLOAD_PAD);
        memcpy(to, data, len);
    }
    amb_batch_records(batch)[batch->count++] = (struct amb_record){.len = (uint32_t)len};
    batch->data_len += padded;
}

/* The same from pieces, `len` bytes in all. */
void amb_batch_add_pieces(struct amb_batch *batch, const struct amb_iov *pieces, uint32_t count,
                          uint64_t len);
/* Takes back the message added last, which has no properties. */
void amb_batch_undo(struct amb_batch *batch);

/* Says of the message added last which memory its payload was in. */
static inline void amb_batch_say_mem(struct amb_batch *batch, enum amb_mem mem)
{
    if (__builtin_expect(mem > AMB_MEM_HOST, 0)) {
        amb_batch_records(batch)[batch->count - 1].flags = amb_record_mem_flags(mem);
    }
}

/* Appends a leased payload, whose place is kept by the caller. */
static inline void amb_batch_add_leased(struct amb_batch *batch, uint64_t offset, uint64_t len)
{
    batch->offsets[batch->count] = offset;
    amb_batch_records(batch)[batch->count++] = (struct amb_record){.len = (uint32_t)len};
    batch->data_len += amb_payload_padded(len);
}

/* Gives the message added last its properties. ENOMEM: it has none then. */
AMB_MUST_CHECK enum amb_status amb_batch_add_props(struct amb_batch *batch, const uint8_t *blob,
                                                   uint32_t blob_len, uint32_t key_hash,
                                                   uint32_t ttl_ms);
/* Brings data and meta into the form they travel in; fills the frame's lengths and count. */
void amb_batch_close(struct amb_batch *batch);
/* Empty again. */
void amb_batch_reset(struct amb_batch *batch);

struct amb_batch_rule {
    int64_t linger_ns;
    int64_t patience_ns; /* the same of a batch that fills up: linger_ns or more */
    uint64_t much;       /* bytes that show it */
    int64_t first_ns;    /* when the open batch got its first message */
    int64_t seen_ns;     /* the newest time that a caller gave */
    int64_t last_ns;     /* when a batch was sent, by seen_ns: the clock is not read for it alone */
    uint32_t min_bytes;
    int64_t look_ns; /* when it was looked at last */
    uint32_t slow_looks;
    uint32_t mask;   /* look at message n if (n & mask) is 0 */
    bool is_flowing; /* the last batch filled up */
};

void amb_batch_rule_init(struct amb_batch_rule *rule, int64_t linger_ns);
/* Batches cost system calls: those of up to `full` bytes that fill up get more time. */
void amb_batch_rule_patient(struct amb_batch_rule *rule, uint64_t full);
/* A batch has got its first message. */
void amb_batch_rule_open(struct amb_batch_rule *rule, int64_t now_ns);
/* Shall a batch of count messages and `bytes` leave? is_in_flight: an earlier one still travels. */
bool amb_batch_rule_ask(struct amb_batch_rule *rule, uint32_t count, uint64_t bytes,
                        bool is_in_flight, int64_t now_ns);
/* It was sent, with so many bytes. */
void amb_batch_rule_sent(struct amb_batch_rule *rule, uint64_t bytes);
