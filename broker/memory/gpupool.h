/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The broker's GPU memory: one pool a device, in one allocation that is exported once. Ranges of it
 * become lease segments, without a byte of it being touched. An IPC handle is for all of an
 * allocation, and writable: memory.cuda.trust says which clients may open one.
 *
 *   worker ── amb_gpu_pool_post ──► the pool's copier: GPU to host memory ── mail ──► worker
 *
 * Each pool has a copier, a thread of its own. So no worker waits for a copy engine, and a GPU that
 * is slow or stuck holds back no other one. The copier takes all that waits at once, and waits for
 * the engine once a chunk (wire/mem/gather.h). It also looks now and then whether the device is
 * well. One that has had a sticky error is fenced: nothing more is leased or committed on it.
 *
 * A driver keeps memory for as long as one process has it open, also where its owner has died. So
 * a broker that starts again may find a GPU full. It starts all the same, without that pool, and
 * the copier tries again. amb_gpu_pool_is_made is false until there is a pool.
 *
 * Threads: start and stop where the broker starts and stops; ranges and questions any, copies asked
 * for by workers. Memory: one allocation on each device, 1 byte for 2 MiB of it here, and the
 * copier's two chunks.
 */
#pragma once

#include "broker/base/mail.h"
#include "wire/base/status.h"
#include "wire/mem/cuda.h"
#include "wire/mem/gather.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define AMB_GPU_UNIT (UINT64_C(2) << 20) /* ranges are multiples of this */

struct amb_config;

struct amb_gpu_pool {
    struct amb_cuda *cuda;
    uint32_t index;       /* of struct amb_gpus.pools */
    _Atomic bool is_made; /* set once, when the next five are what they stay */
    uint64_t base, size;  /* the size is what is wished for before */
    uint8_t handle[AMB_CUDA_IPC_BYTES];
    bool is_exported;          /* else nobody can lease or map there */
    struct amb_gather *gather; /* the copier's */
    _Atomic bool is_lost;      /* a sticky error was seen */
    _Atomic uint64_t owner;    /* 1 + the tenant whose it is; 0: nobody has used it yet */
    _Atomic bool is_given;     /* the handle is in another process, which may have it open */
    pthread_mutex_t lock;      /* of the two below */
    uint8_t *taken;            /* by AMB_GPU_UNIT bytes: 1 is taken */
    uint64_t used;
    _Atomic uint64_t own_bytes; /* of `used`: the workers' own, at most half of the pool */
    _Atomic uint64_t staged_bytes, stage_failures;
    _Atomic uint64_t received, received_bytes; /* messages that a link has fetched into it */
    _Atomic uint64_t missed;                   /* ... into host memory instead, and the last */
    const char *_Atomic missed_why;            /* time why; of the first pool, for all; static */
    _Atomic int32_t retry_status;  /* enum amb_status: the answer to the last try to make it */
    _Atomic int64_t busy_since_ns; /* the copier's turn that goes on; 0: it sleeps */
    bool is_noted_stuck;           /* amb_gpus_look's */
    struct amb_inbox inbox;        /* the copier's, as all below */
    struct amb_mail stop;
    pthread_t thread;
    int64_t retry_ns; /* when to try again to make the pool; 0: it is made, or lost */
    bool is_running, is_stopping;
};

struct amb_gpus {
    struct amb_gpu_pool *pools;
    uint32_t count;
    const char *why_not; /* there are none; static */
};

/* The PCI addresses ("0000:3b:00.0") of the GPUs that amb_gpus_start would use, before it does: at
 * most `max`; valid for ever. Loads CUDA where memory.cuda asks for it; else, or without, 0. */
size_t amb_gpus_addresses(const struct amb_config *config, const char **out, size_t max);
/* The wishes of memory.cuda. A device that has no room now, for a context even, gets its pool
 * later. EINVAL, ENOTSUP, ENOTFOUND, ENOMEM, ELIMIT, EAGAIN, ECUDA: error has a sentence, and
 * amb_gpus_fini frees what was made. */
AMB_MUST_CHECK enum amb_status amb_gpus_start(struct amb_gpus *gpus,
                                              const struct amb_config *config, char *error,
                                              size_t error_size);
/* Ends the copiers, when they have done what they were asked for. Harmless on a zeroed one. False:
 * a device has not answered for seconds. Its copier goes on, so nothing that it uses may be freed:
 * only the end of the process is left. */
bool amb_gpus_stop(struct amb_gpus *gpus);
/* Frees the pools, but for those whose handle was given away. To free memory that others have open
 * is undefined: those go with the process, and with the last import. */
void amb_gpus_fini(struct amb_gpus *gpus);

/* Notes in the log devices that do not answer, and those that do so again. Now and then. */
void amb_gpus_look(const struct amb_gpus *gpus, int64_t now_ns);
/* The pool on the device with that UUID, made or not, or NULL. */
struct amb_gpu_pool *amb_gpus_find(const struct amb_gpus *gpus, const char *uuid);
static inline bool amb_gpu_pool_is_sound(const struct amb_gpu_pool *pool)
{
    return !atomic_load_explicit(&pool->is_lost, memory_order_relaxed);
}
/* False: its device had no room for it so far. Nothing can be taken, leased or read there. */
static inline bool amb_gpu_pool_is_made(const struct amb_gpu_pool *pool)
{
    /* With the store in pool_make. */
    return atomic_load_explicit(&pool->is_made, memory_order_acquire);
}
/* It is not made: the answer to the last try. */
static inline enum amb_status amb_gpu_pool_retry_status(const struct amb_gpu_pool *pool)
{
    return (enum amb_status)atomic_load_explicit(&pool->retry_status, memory_order_relaxed);
}
/* Its copier waits for the device, and has done so for seconds. */
bool amb_gpu_pool_is_stuck(const struct amb_gpu_pool *pool, int64_t now_ns);
/* A client that maps a pool may write all of it. So a pool is of the first tenant that uses it, as
 * long as the broker lives. Is it that tenant's, from here on if it was nobody's? Any thread. */
static inline bool amb_gpu_pool_claim(struct amb_gpu_pool *pool, uint32_t tenant)
{
    uint64_t owner = 0, own = UINT64_C(1) + tenant;
    return atomic_load_explicit(&pool->owner, memory_order_relaxed) == own ||
           atomic_compare_exchange_strong_explicit(&pool->owner, &owner, own, memory_order_relaxed,
                                                   memory_order_relaxed) ||
           owner == own;
}
/* Its handle leaves the process. */
static inline void amb_gpu_pool_give_away(struct amb_gpu_pool *pool)
{
    atomic_store_explicit(&pool->is_given, true, memory_order_relaxed);
}
uint64_t amb_gpu_pool_used(struct amb_gpu_pool *pool);
/* Takes size bytes, a multiple of AMB_GPU_UNIT. ENOMEM: no range is that long. */
AMB_MUST_CHECK enum amb_status amb_gpu_pool_take(struct amb_gpu_pool *pool, uint64_t size,
                                                 uint64_t *offset);
void amb_gpu_pool_give(struct amb_gpu_pool *pool, uint64_t offset, uint64_t size);

/* Has the pool's copier call fn with mail, and the pool as owner. */
static inline void amb_gpu_pool_post(struct amb_gpu_pool *pool, struct amb_mail *mail,
                                     amb_mail_fn fn)
{
    amb_mail_post(&pool->inbox, mail, fn);
}
/* On the copier: len bytes at a device address of the pool to host memory, a piece of a copy. */
static inline void amb_gpu_pool_read(struct amb_gpu_pool *pool, void *to, uint64_t from,
                                     uint64_t len)
{
    amb_gather_add(pool->gather, to, from, len);
}
/* The copy has all its pieces. When they have come, or one has failed, the copier calls fn. */
static inline void amb_gpu_pool_read_end(struct amb_gpu_pool *pool, void *copy, amb_gather_fn fn)
{
    amb_gather_end(pool->gather, copy, fn);
}
