/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fakecuda: CUDA's driver library without a GPU, for tests. A program sees the driver's own
 * interface (<cuda.h>); these are the handles that tests turn on top.
 *
 * Device memory is a memfd that is mapped twice. One mapping is where the program sees it, without
 * any access, so that a host dereference crashes. The other is hidden, for copies. Streams run on a
 * thread of the library's, late if they are told to. Calls without a current context fail as the
 * driver's do, and so do all calls in a context after a sticky error.
 *
 * Environment, read by cuInit:
 *   FAKECUDA_DEVICES   2       how many; a process is shown those of CUDA_VISIBLE_DEVICES, in its
 *                              order, by index or UUID
 *   FAKECUDA_MEMORY    256M    bytes of each (K, M, G)
 *   FAKECUDA_MACHINE           a file: all processes that name it share that memory, as on one
 *                              machine; none: a process has it alone
 *   FAKECUDA_DELAY_US  0       everything on a stream runs so long after it was asked for
 *   FAKECUDA_PEER      1       0: devices do not see each other
 *   FAKECUDA_IPC       1       0: handles cannot be opened, as between containers
 *   FAKECUDA_MODE      default exclusive: a device is one process's; prohibited: nobody's
 *   FAKECUDA_MPS       0       1: as under MPS, by which processes share such a device
 *   FAKECUDA_MIG       0       N: the only device is the Nth part of a GPU, or the part that
 *                              CUDA_VISIBLE_DEVICES names first
 *   FAKECUDA_PAGEABLE  0       1: devices reach all host memory (HMM, Grace), so every pointer is
 *                              a known one
 *   FAKECUDA_FAIL              "cuMemAlloc:2=2,*:17=719": the 2nd cuMemAlloc answers 2, the 17th
 *                              call of any function 719; each fails once. No '=': 2
 *   FAKECUDA_REPORT            a file: FILE.PID has a line for each function, with the calls of
 *                              that process so far
 *   FAKECUDA_SLOW              "cuInit=8000,cuIpcOpenMemHandle=3000": these calls take so many
 *                              milliseconds each, and other threads' calls go on. cuInit and
 *                              cuDevicePrimaryCtxRetain do so at their first success alone
 * Threads: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nothing that is on a stream runs while it is held. */
void fakecuda_hold(bool is_held);
/* ... until an event is asked for. That question waits for it. */
void fakecuda_hold_until_asked(void);
/* The same of one device's streams alone; -1: of none. */
void fakecuda_hold_device(int device);
/* How much is on a device's streams and has not run. */
unsigned fakecuda_pending(int device);
/* As FAKECUDA_FAIL, from here on; NULL: nothing fails. Counting starts anew. */
void fakecuda_fail(const char *plan);
/* As FAKECUDA_SLOW, from here on; NULL: no call takes long. */
void fakecuda_slow(const char *plan);
/* As if another thread began to capture the stream, just before the next call of that function. */
void fakecuda_capture_before(const char *call, void *stream);
/* Calls that take the time of fakecuda_slow now. */
unsigned fakecuda_slowed(void);
/* Calls of all functions so far, and of one ("cuMemAlloc"). */
unsigned long fakecuda_calls(void);
unsigned long fakecuda_calls_of(const char *name);
/* Planned failures that have come true, since fakecuda_fail. */
unsigned long fakecuda_failures(void);
/* Allocations of device memory and of pinned memory that are not freed. */
unsigned fakecuda_live_device(void);
unsigned fakecuda_live_pinned(void);
unsigned fakecuda_live_streams(void);
unsigned fakecuda_live_events(void);
/* How many of all these there are; waits up to 10 s until there are none. For programs that have
 * closed all they had, since the last of it goes a little later. */
unsigned fakecuda_left(void);
/* Bytes of a device that are not free, for whichever process of the machine. */
uint64_t fakecuda_used(int device);
/* How often a process of the machine has freed memory that another one had open. */
unsigned long fakecuda_faults(void);
/* Reads and writes device memory as no program can. False: there is none. */
bool fakecuda_peek(uint64_t address, void *to, size_t len);
bool fakecuda_poke(uint64_t address, const void *from, size_t len);
