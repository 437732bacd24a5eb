/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the ring link: what lies in the shared memfd, and each side's private view of it. The
 * functions are in ring_send, ring_recv and ring_down, which all stand on this.
 *
 *      memfd:  control A | control B | bytes A | bytes B
 *              A: broker to client, B: client to broker
 *
 * A byte ring is mapped twice in a row, so that no unit ever wraps. It holds units, each padded to
 * 64 B, in positions that only grow (modulo 2^64; place = position modulo size):
 *
 *      FRAME   unit head (16 B) | frame head (128 B) | the body, or its beginning
 *      CHUNK   unit head (16 B) | more of the body of the last FRAME
 *
 * Positions: the producer alone writes tail, the consumer alone head; each keeps its own privately
 * and checks the other's. A flow value is stored in its slot, then marked in a map of two levels.
 * The consumer empties the map, and so looks at changed values only.
 *
 * Sleeping: the consumer says what it waits for (exchange of `sleeping`), looks once more, sleeps.
 * The producer makes its change by a read-modify-write, then looks at `sleeping`. If it finds a bit
 * that the sleeper waits for, it takes the word (exchange 0) and rings the bell. Both are
 * sequentially consistent, so one of the two sees the other; read-modify-writes rather than fences,
 * because the thread sanitizer knows nothing of fences.
 *
 * Threads and Memory: those of link.h. Only this folder's ring*.c include this.
 */
#pragma once

#include "wire/codec/frame.h"
#include "wire/link/link.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

#define RING_PAD UINT64_C(64)
#define RING_HEAD 16u /* struct ring_unit */
#define RING_FLOW_WORDS (AMB_FLOW_KINDS * AMB_HANDLES_MAX / 64u)
#define RING_FLOW_OUT_KINDS_CLIENT 2u /* WANT, RELEASE */

_Static_assert(RING_FLOW_WORDS <= 64, "one word sums up the map");

enum ring_unit_kind {
    RING_UNIT_FRAME = 0x4652414d, /* "MARF" in memory: anything but zero */
    RING_UNIT_CHUNK = 0x4b4e4843,
};

struct ring_unit {
    uint32_t len; /* bytes behind this head, without padding */
    uint32_t kind;
    uint64_t reserved;
};

/* The news that a sleeper waits for. */
enum ring_wait {
    RING_WAIT_DATA = 1u, /* units on its way in */
    RING_WAIT_FLOW = 2u, /* flow values on its way in */
    RING_WAIT_ROOM = 4u, /* room on its way out */
};

/* One direction. Lines of 128 B: processors fetch 64 B lines in pairs. */
struct ring_control {
    alignas(128) _Atomic uint64_t tail; /* producer */
    _Atomic uint64_t flow_words; /* words of flow_map that may have bits; changes with tail */
    _Atomic uint32_t closed;     /* no tail comes after this one */
    alignas(128) _Atomic uint64_t head; /* consumer */
    alignas(128) _Atomic uint32_t sleeping;
    alignas(128) _Atomic uint64_t flow_map[RING_FLOW_WORDS];
    alignas(4096) _Atomic uint64_t flow[AMB_FLOW_KINDS * AMB_HANDLES_MAX];
};

_Static_assert(sizeof(struct ring_control) == 9 * 4096, "the layout is frozen in wire version 1");

/* The way out: this side is the producer. */
struct ring_out {
    struct ring_control *control;
    uint8_t *bytes;
    uint64_t tail;                                  /* ours */
    uint64_t published;                             /* the peer may know of it */
    uint64_t flushed;                               /* the peer does know, even if it sleeps */
    uint64_t head;                                  /* the peer's, when last looked at */
    uint64_t flow_words, flow_map[RING_FLOW_WORDS]; /* stored, and not marked yet */
    struct amb_list_node queue;                     /* tx that wait for room */
    bool has_all_pages;                             /* else from ... to: ring_pages.c */
    uint64_t pages_begin, pages_end, tail_at_trim;
};

/* The way in. */
struct ring_in {
    struct ring_control *control;
    uint8_t *bytes;
    uint64_t head;
    uint64_t published, flushed;
    uint64_t tail;
    uint64_t flow_words, flow_map[RING_FLOW_WORDS]; /* taken, and not passed on yet */
    /* The open body. */
    uint64_t body_left;
    uint8_t *body_at; /* NULL: thrown away */
    void *body_cookie;
};

struct ring {
    struct amb_link link;
    struct amb_link_waste waste; /* all of it, when it is closed */
    struct ring_out out;
    struct ring_in in;
    uint64_t size;
    uint8_t *control_map;
    const char *broken; /* found inside amb_link_send: to be reported */
    enum amb_status broken_status;
    bool is_broker, is_armed;
    int bell; /* ring_bell.h */
};

static inline struct ring *ring_of(struct amb_link *link)
{
    return AMB_CONTAINER_OF(link, struct ring, link);
}

static inline const struct ring *ring_of_const(const struct amb_link *link)
{
    return (const void *)((const char *)link - offsetof(struct ring, link));
}

static inline uint64_t ring_pad(uint64_t n)
{
    return (n + RING_PAD - 1) & ~(RING_PAD - 1);
}

static inline uint8_t *ring_at(uint8_t *bytes, uint64_t size, uint64_t position)
{
    return bytes + (position & (size - 1));
}

/* The largest unit, so that copying in and copying out of a large body overlap. */
static inline uint64_t ring_unit_max(const struct ring *ring)
{
    return ring->size / 4;
}

#define RING_COPY_PIECE ((size_t)1024) /* below the C library's threshold */
#define RING_COPY_MAX ((size_t)AMB_BATCH_BYTES)

/*
 * As memcpy. From a few kilobytes on the C library takes `rep movsb`, which is right where memory
 * is the limit. It is slow for a batch, which fits in a cache and was last in another core's. Short
 * pieces make it take vector moves.
 */
static inline void ring_copy(void *to, const void *from, size_t n)
{
    uint8_t *out = to;
    const uint8_t *in = from;
    size_t piece = n <= RING_COPY_MAX ? RING_COPY_PIECE : n;
    /* The compiler must not know the length, or it writes `rep movsq` in place of the call. */
    __asm__("" : "+r"(piece));
    for (; n > piece; n -= piece) {
        memcpy(out, in, piece);
        out += piece;
        in += piece;
    }
    memcpy(out, in, n);
}
