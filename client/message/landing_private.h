/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a landing: landing.c has the memory, bring.c brings payloads there.
 * Threads: as each field says. Memory: see landing.h.
 */
#pragma once

#include "client/message/landing.h"
#include "wire/base/clock.h"

#include <pthread.h>

struct amb_side;

/* How often memory is asked for that was not there. */
#define AMB_LANDING_RETRY_NS (10 * AMB_NS_PER_MS)

struct amb_landing {
    struct amb_conn *conn;
    pthread_mutex_t lock;            /* of the thread that takes */
    enum amb_mem mem;                /* HOST, PINNED, CUDA, CUDA_MANAGED */
    int device;                      /* for the allocator; -1: host */
    struct amb_gpu *gpu;             /* NULL: memory that is the allocator's, or as sent */
    bool is_as_sent;                 /* nothing is brought anywhere */
    bool is_lazy;                    /* the same: they come when they are asked for */
    bool is_copied;                  /* into memory of its own, also where it could stay */
    struct amb_allocator allocator;  /* alloc NULL: the GPU's pool */
    struct amb_msg *_Atomic waiting; /* taken, and no memory for it yet */
    _Atomic int64_t retry_ns;        /* not before; 0: at once */
    _Atomic uint32_t seen_frees;     /* of conn->gpu.frees, before it was asked for */
    _Atomic uint64_t staged_bytes;
};

/* Memory for a payload, noted in its side. False: there is none now. */
bool amb_landing_get_memory(struct amb_landing *landing, struct amb_side *side, uint64_t len);
/* Gives it back. The side says nothing of the payload's place then. */
void amb_landing_put_memory(struct amb_landing *landing, struct amb_side *side, uint64_t len);
