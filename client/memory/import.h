/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of the broker's GPU memory, as they are in this process. A process opens a pool once, by
 * its IPC handle. CUDA would count a second open, and close nothing before as many closes.
 *
 * A driver gives a dead broker's memory back when its last import is closed. Until then the next
 * broker may find the GPU full. So an import is a session's, and its borrowers': views, and
 * segments with leases in them. It is closed when its session is over and its last borrower is
 * gone. Closing waits for the device, and is put off (later.h).
 *
 * A handle does not say which broker's memory it is: it has a process id and an address in that
 * process. A broker that starts again in a container may have both from its former life. CUDA would
 * give the mapping that is there, of memory that is gone. So a pool belongs to one life of the
 * broker. A handle that a pool of another life has here is refused until that pool is closed. One
 * that is being closed is waited for, up to five seconds.
 *
 *   SegAdd, LeaseOpened ─► amb_gpu_import ─► address ... amb_import_return ─┐
 *                                            the session's end: amb_imports_over ─┴─► closed, later
 *
 * Threads: any; locks: gpu.h. Memory: one block a pool, and one a session of
 * a connection that has it open.
 */
#pragma once

#include "client/conn/gpu_range.h"
#include "client/memory/gpu.h"
#include "wire/codec/control.h"

/* As the connection's broker says, in its session. from NULL: none, and true. False: malformed. */
bool amb_gpu_range_read(const struct amb_conn *conn, const Amb__Control__GpuRange *from,
                        struct amb_gpu_range *out);

/* A pool that a connection has open in a session; under the lock in conn->gpu. */
struct amb_import {
    struct amb_import *next;
    struct amb_conn *conn;
    struct amb_import_pool *pool;
    uint32_t life; /* of the session */
    uint32_t borrowers;
};

/* A range, as it is here. */
struct amb_imported {
    struct amb_import *import; /* borrowed: amb_import_return */
    struct amb_gpu *gpu;
    uint64_t address;
};

/*
 * The address and the device of a range of so many bytes. It may bring up a device and open a pool,
 * which may take seconds: no lock is held. *why: static, for people. Failed: *out is as it was.
 *
 *   ENOTFOUND | the process does not see the device
 *   ENOTSUP   | it may not open the pool: namespaces, or it is the broker's own process
 *   EBUSY     | the handle is another broker life's here, or still being closed
 *   ECUDA, ENOMEM, EPROTO
 */
AMB_MUST_CHECK enum amb_status amb_gpu_import(struct amb_conn *conn,
                                              const struct amb_gpu_range *range, uint64_t size,
                                              struct amb_imported *out, const char **why);
/* The same of a range whose pool is open, without a call of the driver. Any lock may be held.
 * EAGAIN: ask amb_gpu_import; EPROTO. */
AMB_MUST_CHECK enum amb_status amb_gpu_import_open(struct amb_conn *conn,
                                                   const struct amb_gpu_range *range, uint64_t size,
                                                   struct amb_imported *out);
/* A borrower is gone. NULL: harmless. */
void amb_import_return(struct amb_import *import);
/* The session is over: imports without a borrower are closed, and the rest with their last one.
 * Connection's lock held. */
void amb_imports_over(struct amb_conn *conn);
/* Nothing is borrowed any more. The open pools are closed, later. */
void amb_imports_fini(struct amb_conn *conn);
