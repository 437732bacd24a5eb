/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batches of a connection, and the memory that they hold; batch/batches.c works on it.
 *
 * Threads: under the connection's lock; `bytes` is read without it. Memory: its own, bounded.
 */
#pragma once

#include "client/conn/buffer.h"
#include "wire/base/list.h"
#include "wire/base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Unused batches of one kind. */
struct amb_batch_stock {
    struct amb_list_node list;
    uint32_t count;
};

struct amb_conn_batches {
    _Atomic uint64_t bytes; /* bytes that closed batches hold: see batch/batches.h */
    uint64_t bytes_max;     /* ... and may hold */
    struct amb_batch_stock plain, large, commits;
    struct amb_list_node written; /* commits that will not leave, while a GPU writes there */
    bool is_awaiting;             /* a thread waits for these */
    struct amb_buffers packed;    /* for batches that are no larger than they must be */
    enum amb_status failure; /* the first failed publish that no amb_flush has returned; AMB_OK */
};
