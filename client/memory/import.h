/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of the broker's GPU memory, as they are in this process. A process opens a pool once for
 * each device, by its IPC handle. Each connection that uses the pool keeps it open. CUDA opens
 * nothing twice, and closing waits for the device.
 *
 * A handle does not say which broker's memory it is: it has a process id and an address in that
 * process. A broker that starts again in a container may have both from its former life. CUDA would
 * give the mapping that is there, of memory that is gone. So a pool belongs to one life of the
 * broker. A handle that a pool of another life has here is refused until that pool is closed.
 *
 *   SegAdd, LeaseOpened ─► amb_gpu_import ─► address ... the connection's end: closed
 *
 * Threads: any; a lock of its own, below all others. Memory: one block a pool, and one a user of
 * it.
 */
#pragma once

#include "client/conn/gpu_range.h"
#include "client/memory/gpu.h"
#include "wire/codec/control.h"

/* As a broker of that epoch says. from NULL: none, and true. False: malformed. */
bool amb_gpu_range_read(const Amb__Control__GpuRange *from, uint64_t epoch,
                        struct amb_gpu_range *out);

/* A pool that a connection has open. */
struct amb_import {
    struct amb_import *next;
    struct amb_import_pool *pool;
};

/*
 * The address and the device of a range of so many bytes. *why: static, for people.
 *
 *   ENOTFOUND | the process does not see the device
 *   ENOTSUP   | it may not open the pool: namespaces, or it is the broker's own process
 *   EBUSY     | the handle is another broker life's here
 *   ECUDA, ENOMEM, EPROTO
 */
AMB_MUST_CHECK enum amb_status amb_gpu_import(struct amb_conn *conn,
                                              const struct amb_gpu_range *range, uint64_t size,
                                              struct amb_gpu **gpu, uint64_t *address,
                                              const char **why);
/* Closes what a connection has open. */
void amb_imports_fini(struct amb_conn *conn);
