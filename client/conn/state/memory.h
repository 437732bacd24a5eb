/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a connection has met: mapped segments of the broker (memory/view.c), memory that
 * the program has registered (memory/region.c), and GPUs (memory/gpu.c, memory/import.c).
 *
 * Threads: as each says. Memory: freed with the connection.
 */
#pragma once

#include "client/conn/gpu_range.h"
#include "wire/base/list.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct amb_gpu;
struct amb_import;
struct amb_patience;
struct amb_region;

/* Under the connection's lock. */
struct amb_conn_views {
    struct amb_list_node current; /* of the session */
    struct amb_list_node former;  /* of former sessions, held by messages */
    struct amb_list_node coming;  /* in GPU memory that is being opened */
};

struct amb_conn_regions {
    pthread_mutex_t lock; /* a leaf */
    struct amb_region *first;
};

struct amb_conn_gpu {
    pthread_mutex_t lock; /* of the lists and flags, and of staged_in */
    struct amb_gpu *devices;
    struct amb_import *imports;         /* the broker's pools there */
    uint32_t sessions_over;             /* those of an earlier session are not kept */
    _Atomic uint32_t frees;             /* of buffers: memory is asked for again then */
    struct amb_patience *patient;       /* releases of host memory behind a stream, */
    bool is_patient;                    /* ... and a thread waits for these */
    bool is_leaving;                    /* a thread waits for the releases of a closed one */
    uint32_t asides;                    /* under way; under the lock in memory/aside.c */
    _Atomic uint32_t waiting_count;     /* releases that wait for a stream */
    _Atomic bool has_new;               /* ... and one has come since the last spin for them */
    _Atomic uint32_t vain_spins;        /* in a row, that none of them was over by */
    _Atomic uint64_t staged_out;        /* bytes brought from the host to a GPU, */
    _Atomic uint64_t staged_out_msgs;   /* ... and messages */
    uint64_t staged_in;                 /* bytes of GPU memory published by way of the host, */
    uint64_t staged_in_msgs;            /* ... messages, */
    char staged_why[AMB_GPU_WHY_BYTES]; /* ... and the last reason */
};
