/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data-plane frames: a fixed head, and for batches a body.
 *
 *   head (128 B, little endian)  |  data (data_len)  |  meta (meta_len)
 *
 *   data: the payloads in order, each padded to AMB_PAYLOAD_PAD (the last one too)
 *   meta: count records of 16 B, then the property blobs in order, each padded to 8 B
 *
 * A leased batch's payloads lie apart, in a segment that its publisher can still write. Its body is
 * all meta, and nothing of it is ever read from that segment:
 *
 *   meta: count records, then count offsets of 8 B into the segment, then the property blobs
 *
 * data comes first for two reasons. A payload starts where its allocation starts, and a sender may
 * append payloads before it knows how many there will be. A body lies in one allocation and is
 * checked there, in memory that its publisher can no longer write.
 *
 * Links move heads and bodies and know no more of them than their lengths. Frozen in wire
 * version 1. Threads: any. Memory: never allocates; views point into the bytes they were made from.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_FRAME_MAGIC UINT16_C(0x4d41) /* "AM" */
#define AMB_FRAME_VERSION UINT8_C(1)
#define AMB_FRAME_HEAD_SIZE 128u

#define AMB_BATCH_MSGS_MAX 1024u                   /* messages in one batch */
#define AMB_BATCH_BYTES (AMB_BATCH_MSGS_MAX * 80u) /* limit of data + meta of several messages */
#define AMB_PAYLOAD_PAD 16u /* payloads of a batch start at multiples of this */
#define AMB_PROPS_MAX 3072u /* bytes of one message's property blob */
#define AMB_META_MAX (AMB_BATCH_MSGS_MAX * 24u + 65536u)
#define AMB_DATA_MAX (UINT64_C(4) << 30) /* a record's length has 32 bits */
#define AMB_HANDLES_MAX 1024u            /* publishers, and subscriptions, of one session */

enum amb_frame_type {
    /* client to broker */
    AMB_FRAME_BATCH = 1,     /* handle = publisher; seq = number of this batch, from 1; body */
    AMB_FRAME_RELEASE_RANGE, /* handle = subscription; number, count: deliveries given back out of
                                order */
    AMB_FRAME_SEG_READY,     /* segment: mapped here, map descriptors welcome */
    AMB_FRAME_SEG_GONE,      /* segment: unmapped here */
    AMB_FRAME_COMMIT,  /* a leased batch: as BATCH, and segment (of this client's own); number =
                          commits of this session so far, this one too; body: meta only */
    AMB_FRAME_ACK = 8, /* handle = subscription; number = delivery; first, count: messages of it;
                          status = enum amb_ack_kind; time_ns = delay of a NAK */
    AMB_FRAME_TERM,    /* the same, of kind TERM; data: why, 1 to 255 bytes */
    AMB_FRAME_FETCH,   /* handle = subscription; number = delivery; first = message of those it
                          gave. seq = the client's name for it. offset, data_len: bytes of its
                          payload, 1 to AMB_FETCH_MAX; 0, 0: all of it, in place */
    /* broker to client */
    AMB_FRAME_TOPIC = 32, /* handle = subscription; topic; data = its name; before its first
                             delivery; count = enum amb_priority of what has this id */
    AMB_FRAME_DELIVER,    /* a batch by copy: handle, topic, count, first, rest, seq, number, lost;
                             body */
    AMB_FRAME_MAP, /* a batch by map descriptor: the same, and segment, offset instead of a body */
    AMB_FRAME_SETTLED,     /* handle = publisher; seq = batch number; number = first sequence in the
                              log; status; count = matched */
    AMB_FRAME_SEG_DROP,    /* segment: unmap it when nothing of it is held any more */
    AMB_FRAME_MAP_LEASED,  /* a leased batch by map descriptor: as MAP; body: meta only */
    AMB_FRAME_FREED,       /* number, count: commits whose ranges are free before older ones are */
    AMB_FRAME_LAZY,        /* a batch without its payloads: as DELIVER; body: meta only */
    AMB_FRAME_FETCHED,     /* answer to a FETCH: handle, seq; status AMB_OK: data, offset */
    AMB_FRAME_FETCHED_MAP, /* the same for all of it: segment, offset there, data_len */
};

/* The verdict of an ACK on its messages. Numbers are the wire's. */
enum amb_ack_kind {
    AMB_ACK_KIND_ACK = 1,
    AMB_ACK_KIND_NAK,
    AMB_ACK_KIND_IN_PROGRESS,
    AMB_ACK_KIND_TERM,
};
#define AMB_ACK_REASON_MAX 255u

#define AMB_FETCH_MAX (1u << 20) /* payload bytes that one FETCH asks for */

enum amb_frame_flags {
    AMB_FRAME_FLAG_NONE = 0,
    AMB_FRAME_FLAG_TTL = 1,     /* BATCH, COMMIT: a message of it has a time to live; without it
                                   nobody looks */
    AMB_FRAME_FLAG_OFFSETS = 2, /* LAZY: the meta is that of a leased batch; its offsets mean
                                   nothing to the reader */
    AMB_FRAME_FLAG_DEVICE = 4,  /* BATCH, DELIVER of one message: its sender has the data in a GPU's
                                 * memory, and the receiver may want it there too */
};

/*
 * One head, in host order. Fields that a type does not use are zero; a decoder ignores them.
 * MAP uses data_len and meta_len for the body in the segment; it has none of its own on the link.
 * COMMIT, MAP_LEASED and LAZY: data_len is what the payloads would take in a body (padded);
 * meta_len bytes are on the link.
 */
struct amb_frame {
    uint8_t type;
    uint32_t flags;
    uint32_t session, generation; /* the sender, and */
    uint64_t secret; /* the proof of it; all three checked on shared ports only (ucx) */
    uint32_t handle; /* publisher or subscription, < AMB_HANDLES_MAX */
    uint32_t topic;
    uint32_t count;   /* messages, deliveries or subscribers */
    uint32_t first;   /* index in the batch of the first message delivered */
    uint32_t rest;    /* messages at its end that are not delivered */
    uint32_t attempt; /* DELIVER, MAP: deliveries of these messages before this one */
    uint32_t meta_len;
    int32_t status; /* enum amb_status, or enum amb_loss of `lost` */
    uint64_t data_len;
    uint64_t seq;
    uint64_t number; /* of the delivery, per subscription, from 1 */
    uint64_t lost;   /* messages lost just before this delivery */
    int64_t time_ns; /* DELIVER, MAP: when the broker took it, ns since 1970 */
    uint64_t segment, offset;
    uint64_t above; /* DELIVER, MAP, SETTLED: what came before in the topic's other priorities */
};

/*
 * Of a record's flags: the memory that its publisher had the payload in, as enum amb_mem counts
 * from HOST on. 0 is host memory, and all that a publisher says that knows no other. Nothing but
 * the choice of a subscriber's allocator rests on them.
 */
#define AMB_RECORD_MEM UINT16_C(3)

/* A record of a body's table, as it stands in memory and on the wire. */
struct amb_record {
    uint32_t len; /* of the payload, without padding */
    uint16_t flags;
    uint16_t props_len; /* of the property blob, without padding */
    uint32_t key_hash;  /* 0: no key */
    uint32_t ttl_ms;    /* 0: for ever */
};

/* The flags that say a kind of memory; DEFAULT says nothing. */
static inline uint16_t amb_record_mem_flags(enum amb_mem mem)
{
    return mem > AMB_MEM_HOST ? (uint16_t)((unsigned)mem - AMB_MEM_HOST) & AMB_RECORD_MEM : 0;
}

/* The kind of memory that a record says. */
static inline enum amb_mem amb_record_mem(const struct amb_record *record)
{
    return (enum amb_mem)(AMB_MEM_HOST + (record->flags & AMB_RECORD_MEM));
}

static inline uint64_t amb_payload_padded(uint64_t len)
{
    return (len + (AMB_PAYLOAD_PAD - 1)) & ~(uint64_t)(AMB_PAYLOAD_PAD - 1);
}

static inline uint32_t amb_props_padded(uint32_t len)
{
    return (len + 7u) & ~7u;
}

/* Are the payloads of this type's body apart from it, in a segment of the publisher's? */
static inline bool amb_frame_is_leased(uint8_t type)
{
    return type == AMB_FRAME_COMMIT || type == AMB_FRAME_MAP_LEASED;
}

/* Does a frame of this type carry bytes behind its head on the link? */
static inline bool amb_frame_has_body(uint8_t type)
{
    const uint64_t with = UINT64_C(1) << AMB_FRAME_BATCH | UINT64_C(1) << AMB_FRAME_DELIVER |
                          UINT64_C(1) << AMB_FRAME_TOPIC | UINT64_C(1) << AMB_FRAME_COMMIT |
                          UINT64_C(1) << AMB_FRAME_MAP_LEASED | UINT64_C(1) << AMB_FRAME_TERM |
                          UINT64_C(1) << AMB_FRAME_LAZY | UINT64_C(1) << AMB_FRAME_FETCHED;
    return type < 64 && (with >> type & 1) != 0;
}

/* Are the payloads that its data_len counts elsewhere? */
static inline bool amb_frame_is_apart(uint8_t type)
{
    return amb_frame_is_leased(type) || type == AMB_FRAME_LAZY;
}

/* How many of them are data. */
static inline uint64_t amb_frame_body_data(const struct amb_frame *frame)
{
    return amb_frame_has_body(frame->type) && !amb_frame_is_apart(frame->type) ? frame->data_len
                                                                               : 0;
}

/* How many they are in all. */
static inline uint64_t amb_frame_body_len(const struct amb_frame *frame)
{
    return amb_frame_has_body(frame->type) ? amb_frame_body_data(frame) + frame->meta_len : 0;
}

void amb_frame_encode(const struct amb_frame *frame, uint8_t head[AMB_FRAME_HEAD_SIZE]);

/*
 * Checks magic, version, type, and every field's own range (handle, count, first <
 * AMB_BATCH_MSGS_MAX, meta_len <= AMB_META_MAX, data_len <= AMB_DATA_MAX, BATCH/DELIVER/MAP: count
 * >= 1 and meta_len holds count records). Allocates nothing. EPROTO, and *out untouched, on
 * anything else.
 */
AMB_MUST_CHECK enum amb_status amb_frame_decode(const uint8_t head[AMB_FRAME_HEAD_SIZE],
                                                struct amb_frame *out);

/*
 * Checks a whole body against its head: the records' padded lengths add up to data_len, their
 * property blobs to meta_len, each blob is well formed. `body` is memory that no peer can write.
 * EPROTO.
 */
AMB_MUST_CHECK enum amb_status amb_body_check(const struct amb_frame *frame, const uint8_t *body);

/*
 * The same for the meta of a COMMIT or MAP_LEASED: records and blobs. Each offset is a multiple of
 * AMB_PAYLOAD_PAD, with its payload inside `segment_size` bytes. Payloads may overlap. EPROTO.
 */
AMB_MUST_CHECK enum amb_status amb_leased_check(const struct amb_frame *frame, const uint8_t *meta,
                                                uint64_t segment_size);

/* The same for the meta of a LAZY; its offsets, if it has any, are not looked at. EPROTO.
 */
AMB_MUST_CHECK enum amb_status amb_lazy_check(const struct amb_frame *frame, const uint8_t *meta);

/* The offsets of a leased batch's meta. */
static inline const uint64_t *amb_leased_offsets(const uint8_t *meta, uint32_t count)
{
    return (const uint64_t *)(const void *)(meta + (size_t)count * sizeof(struct amb_record));
}

/* One message of a body, as views. */
struct amb_message_view {
    const uint8_t *payload;
    uint64_t len;
    const uint8_t *props;
    uint32_t props_len;
    uint32_t key_hash, ttl_ms;
    uint16_t flags;
};

/* Walks the messages of a checked body. */
struct amb_body_iter {
    const uint8_t *payload, *props;
    const struct amb_record *record;
    const uint64_t *offset; /* of the next payload, from `base`; NULL: they follow each other */
    const uint8_t *base;
    uint32_t left;
};

void amb_body_iter_init(struct amb_body_iter *iter, const uint8_t *body, uint64_t data_len,
                        uint32_t count);
/* Walks the messages of a checked leased batch; base: where its segment is mapped. */
void amb_body_iter_init_leased(struct amb_body_iter *iter, const uint8_t *base, const uint8_t *meta,
                               uint32_t count);
/* Walks the messages of a checked LAZY: their payloads are not here, and theirs point nowhere. */
void amb_body_iter_init_lazy(struct amb_body_iter *iter, const struct amb_frame *frame,
                             const uint8_t *meta);
/* False at the end. */
bool amb_body_iter_next(struct amb_body_iter *iter, struct amb_message_view *out);
