/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limbo: segments that the broker has dropped and another process may still have mapped. Their
 * pages live as long as any mapping does. So they stay charged to memory.host.size until the kernel
 * says that no mapping is left (amb_segment_ask_use). The client's word is not enough.
 *
 *   worker, maker ── dropped ──► in use? ── no ──► gone, its bytes are the budget's again
 *                                   │ yes
 *                                   ▼
 *                                 limbo ──► looked at each AMB_LIMBO_LOOK_NS by the maker
 *                                   └─────► used again as a segment of the pool, under a new id
 *
 * The last way is open to segments that only the broker writes: a reader that keeps its mapping
 * costs the pool nothing. A lease segment is its writer's for as long as that has it mapped.
 *
 * Segments stand in four queues: of the pools and leased, each fresh and late. A look takes so many
 * of each. So a segment that an honest client has just unmapped does not wait behind thousands that
 * another one keeps. And a pool that looks for one to use again passes no leased ones.
 *
 * Threads: any. The one lock is taken where segments are made and dropped, and for no batch.
 * Memory: the segments; no allocation.
 */
#pragma once

#include "broker/base/mail.h"
#include "wire/base/clock.h"
#include "wire/base/list.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A client that is told to drop a segment unmaps it within a millisecond or two. */
#define AMB_LIMBO_LOOK_NS (20 * AMB_NS_PER_MS)
/* So long after the last drop limbo is looked at so often, and so long a segment is fresh. Later
 * each AMB_LIMBO_LATE_NS, or so much sooner that each segment is looked at in that time. */
#define AMB_LIMBO_FRESH_NS AMB_NS_PER_SEC
#define AMB_LIMBO_LATE_NS AMB_NS_PER_SEC
/* So long after the last drop a shortage of memory waits for limbo, and nothing else is given up.
 */
#define AMB_LIMBO_WAIT_NS (50 * AMB_NS_PER_MS)
/* Segments of each queue that one look asks the kernel about. */
#define AMB_LIMBO_LOOKS 24u

struct amb_membudget;
struct amb_segment;
struct amb_trust_group;

/* A look takes the late ones first: fresh ones that come to them have been looked at. */
enum amb_limbo_queue {
    AMB_LIMBO_POOL_LATE,
    AMB_LIMBO_POOL_FRESH,
    AMB_LIMBO_LEASED_LATE,
    AMB_LIMBO_LEASED_FRESH,
    AMB_LIMBO_QUEUES,
};

struct amb_limbo {
    pthread_mutex_t lock;
    /* struct amb_segment.node; looked at longest ago first. */
    struct amb_list_node queues[AMB_LIMBO_QUEUES];
    _Atomic uint32_t count;
    _Atomic uint64_t bytes;        /* of all segments */
    _Atomic uint64_t leased_bytes; /* ... of them, lease segments */
    _Atomic uint64_t reused;       /* segments that the pools used again */
    _Atomic int64_t dropped_ns;    /* when the last one came */
    struct amb_inbox *looker;      /* of the thread that looks and is woken; or NULL */
    struct amb_mail wake;
    atomic_flag is_waking;
};

/* looker: the maker's inbox. */
void amb_limbo_init(struct amb_limbo *limbo, struct amb_inbox *looker);
/* Destroys all segments that are left: the broker ends. Harmless on a zeroed one. */
void amb_limbo_fini(struct amb_limbo *limbo, struct amb_membudget *budget);

/* Takes over a segment that the broker uses no more and that is charged to the budget. A budget
 * without limbo has the segment destroyed at once. */
void amb_limbo_drop(struct amb_membudget *budget, struct amb_segment *segment);
/* Destroys segments that nobody has mapped any more. Returns the milliseconds until the next look;
 * -1: when woken. */
int amb_limbo_look(struct amb_membudget *budget, int64_t now_ns);
/* May so many bytes be about to come back by themselves? */
bool amb_limbo_may_give(const struct amb_membudget *budget, uint64_t bytes, int64_t now_ns);
/* A segment of that group, of least to most bytes, under a new id and still charged. It was not
 * leased, and came after the last amb_membudget_fence. NULL: there is none. The caller registers
 * it. */
struct amb_segment *amb_limbo_reuse(struct amb_membudget *budget,
                                    const struct amb_trust_group *group, uint64_t least,
                                    uint64_t most);
