/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a landing: landing.c has the memory, bring.c brings payloads there.
 * Threads: as each field says. Memory: see landing.h.
 */
#pragma once

#include "client/conn/options.h"
#include "client/message/arrival.h"
#include "client/message/landing.h"
#include "wire/base/clock.h"

#include <pthread.h>

struct amb_side;

/* How often memory is asked for that was not there. */
#define AMB_LANDING_RETRY_NS (10 * AMB_NS_PER_MS)

/* Memory that payloads are brought to. */
struct amb_target {
    enum amb_mem mem;               /* HOST, PINNED, CUDA, CUDA_MANAGED */
    int device;                     /* for the allocator; -1: host */
    struct amb_gpu *gpu;            /* NULL: host memory, which the CPU fills */
    bool is_copied;                 /* into memory of its own, also where it could stay */
    struct amb_allocator allocator; /* alloc NULL: the GPU's pool */
};

struct amb_landing {
    struct amb_conn *conn;
    pthread_mutex_t lock;                              /* of the thread that takes */
    enum amb_mem mem;                                  /* that deliveries may lie in */
    bool is_lazy;                                      /* they come when they are asked for */
    bool is_by_link;                                   /* a link may bring them by itself */
    struct amb_target targets[AMB_SUB_ALLOCATORS_MAX]; /* by the kind of memory, from HOST on */
    struct amb_target *of[AMB_SUB_ALLOCATORS_MAX];     /* of what was sent from such memory; NULL:
                                                          it stays where it came */
    struct amb_msg *_Atomic waiting;                   /* taken, and no memory for it yet */
    _Atomic int64_t retry_ns;                          /* not before; 0: at once */
    _Atomic uint32_t seen_frees; /* of conn->gpu.frees, before it was asked for */
    _Atomic uint64_t staged_bytes;
};

/* Where a message is brought to, by the memory that it was sent from; NULL: nowhere. */
static inline const struct amb_target *amb_landing_target(const struct amb_landing *landing,
                                                          const struct amb_msg *msg)
{
    return landing->of[amb_record_mem(msg->record) - AMB_MEM_HOST];
}

/* Memory for a payload, noted in its side with its target. gpu: whose pool it is of, where there is
 * no allocator. False: there is none now. */
bool amb_landing_get_memory(struct amb_landing *landing, const struct amb_target *target,
                            struct amb_gpu *gpu, struct amb_side *side, uint64_t len);
/* Gives it back. The side says nothing of the payload's place then. */
void amb_landing_put_memory(struct amb_side *side, uint64_t len);
