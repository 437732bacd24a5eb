/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory by CUDA's driver, which is loaded at run time. So one binary runs where there is no
 * driver, on a real one, and on the fake one of the tests. Nothing here needs the CUDA headers, and
 * a build without them answers AMB_ENOTSUP.
 *
 *   amb_cuda_start ─► amb_cuda_at(0) ─► amb_cuda_enter ─► alloc, copy, record ... ─► leave
 *
 * One interface, made twice: by cuda_api.c, cuda_device.c, cuda_memory.c and cuda_stream.c with the
 * driver, by cuda_none.c without. So all of it is declared here, and not file by file.
 *
 * Device addresses are uint64_t, so that nobody dereferences one by accident. Streams and events
 * are the driver's own handles (CUstream, CUevent), so that the program's can be passed through.
 *
 * Threads: any. Calls on a device are made between enter and leave, or on a thread of ours that is
 * bound to it. Queries of events and pointers are made anywhere.
 *
 * A program may capture graphs. While one of its threads does so, the driver refuses many calls to
 * the others, and breaks the capture. Threads in RELAXED mode are let through. So all calls that a
 * capture forbids are made in that mode. A thread that is bound keeps it; any other is as it was
 * before. Source: CUDA's reference, cuThreadExchangeStreamCaptureMode.
 *
 * Memory: devices live as long as the process, and so do their primary contexts once retained.
 *
 * A sticky error (an illegal address, a failed launch) makes every later call in that context fail.
 * The device is fenced then: it answers AMB_ECUDA at once, and amb_cuda_failure says what it was.
 */
#pragma once

#include "wire/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <strings.h>

/* The library to load instead of libcuda.so.1, a path or a name. */
#define AMB_CUDA_LIBRARY_ENV "AMB_CUDA_LIBRARY"
#define AMB_CUDA_DEVICES_MAX 64u
#define AMB_CUDA_IPC_BYTES 64u

struct amb_cuda; /* a device and its primary context */

/* ---- the driver ---- */

/* Loads and initialises it, once. AMB_ENOTSUP: there is none, or no device, or this is a child of
 * fork, and its parent had begun with it; amb_cuda_why_not. */
AMB_MUST_CHECK enum amb_status amb_cuda_start(void);
/* A sentence, static. Empty if amb_cuda_start was well or not called. */
const char *amb_cuda_why_not(void);
/*
 * Has this process the driver in memory, whoever loaded it? Loads nothing. No: a list of libraries
 * is looked at (about 0.1 us); yes: one load. A pointer to device memory exists only after a yes.
 * No, too, in a child of fork as above.
 */
bool amb_cuda_is_live(void);
uint32_t amb_cuda_count(void);

/* ---- devices ---- */

/* How many processes may use a device. */
enum amb_cuda_mode {
    AMB_CUDA_MODE_DEFAULT,   /* any number */
    AMB_CUDA_MODE_EXCLUSIVE, /* one, or MPS for many */
    AMB_CUDA_MODE_PROHIBITED,
};

enum amb_cuda_mps {
    AMB_CUDA_MPS_UNKNOWN, /* the driver does not say */
    AMB_CUDA_MPS_NO,
    AMB_CUDA_MPS_YES, /* this process is a client of it */
};

struct amb_cuda_info {
    int index;
    char uuid[48]; /* "GPU-8-4-4-4-12", of a part of a GPU "MIG-..." */
    char pci[20];  /* "0000:01:00.0" */
    char name[96];
    uint64_t memory;
    bool is_mig; /* a part of a GPU */
    enum amb_cuda_mode mode;
    enum amb_cuda_mps mps;
};

/* By index; retains its primary context, which takes up to seconds. ENOTFOUND; the answers of
 * amb_cuda_start; ECUDA. ENOMEM: the device is too full for a context; *out is set, for
 * amb_cuda_info and for another amb_cuda_at. */
AMB_MUST_CHECK enum amb_status amb_cuda_at(int index, struct amb_cuda **out);
/* By "0", a UUID ("GPU-...", "MIG-...") or a PCI address; a part of a GPU also by its old name, if
 * CUDA_VISIBLE_DEVICES begins with that. */
AMB_MUST_CHECK enum amb_status amb_cuda_find(const char *name, struct amb_cuda **out);
/* The same, and its context is left alone: of a device that amb_cuda_find did not give. NULL: there
 * is none. */
struct amb_cuda *amb_cuda_seen(const char *name);
/* Is it "MIG-GPU-UUID/...", as drivers before 470 named parts of GPUs? */
static inline bool amb_cuda_is_old_part(const char *name)
{
    static const char start[] = "MIG-GPU-";
    return strncasecmp(name, start, sizeof(start) - 1) == 0;
}
/* The name of a mode by which no further process gets the device; static. NULL: others do, or MPS
 * may let them. */
const char *amb_cuda_mode_alone(const struct amb_cuda_info *info);
/* Why the device's mode has kept this process's context away; static; NULL: it has not. */
const char *amb_cuda_refusal(const struct amb_cuda *device);
/* With the modes of now: an administrator changes them. */
struct amb_cuda_info amb_cuda_now(const struct amb_cuda *device);
const struct amb_cuda_info *amb_cuda_info(const struct amb_cuda *device);
/* False once a sticky error was seen. */
bool amb_cuda_is_sound(const struct amb_cuda *device);
/* The last call that failed and why, in a sentence; empty if none has. */
void amb_cuda_failure(struct amb_cuda *device, char *text, size_t size);
/* Can `device` read the memory of `other` by itself? Nothing is changed. */
bool amb_cuda_can_reach(const struct amb_cuda *device, const struct amb_cuda *other);
/* Lets it, where it can. That takes time and memory of the driver's, so it is for copies alone. */
void amb_cuda_let_reach(struct amb_cuda *device, struct amb_cuda *other);

/* ---- contexts ---- */

/* The context that was current before amb_cuda_enter. */
struct amb_cuda_scope {
    struct amb_cuda *device, *outer;
    bool is_relaxed;
};

/* Makes the device's context current on this thread; nests. On failure nothing is to be left. */
AMB_MUST_CHECK enum amb_status amb_cuda_enter(struct amb_cuda *device,
                                              struct amb_cuda_scope *scope);
/* The same, however often the driver refuses it. ECUDA: the device is fenced, so nothing runs there
 * that could be waited for. ESTATE: this thread runs a host function of a stream. */
AMB_MUST_CHECK enum amb_status amb_cuda_enter_to_wait(struct amb_cuda *device,
                                                      struct amb_cuda_scope *scope);
/* The thread is as it was before. */
void amb_cuda_leave(struct amb_cuda_scope *scope);
/* Around several questions and calls: none of them asks for the thread's capture mode again. No
 * code of the program's is called between. Nests. */
void amb_cuda_row_begin(void);
void amb_cuda_row_end(void);
/* This thread is ours for good. Once it is in RELAXED mode it stays so. */
void amb_cuda_own_thread(void);
/* For threads of ours: current from here on, without a push and a pop around every use. */
AMB_MUST_CHECK enum amb_status amb_cuda_bind(struct amb_cuda *device);

/* ---- memory ---- */

/* ENOMEM, ECUDA. */
AMB_MUST_CHECK enum amb_status amb_cuda_alloc(struct amb_cuda *device, uint64_t size,
                                              uint64_t *out);
/* Memory that both sides read and write, moved as they do. */
AMB_MUST_CHECK enum amb_status amb_cuda_alloc_managed(struct amb_cuda *device, uint64_t size,
                                                      uint64_t *out);
/* Of both of these. */
void amb_cuda_free(struct amb_cuda *device, uint64_t address);
/* Host memory that copy engines reach. */
AMB_MUST_CHECK enum amb_status amb_cuda_pin(struct amb_cuda *device, uint64_t size, void **out);
void amb_cuda_unpin(struct amb_cuda *device, void *memory);
/* Pins memory that is there already, whole pages, for all devices; *address is where they see it.
 * ENOTSUP, ENOMEM, ECUDA. It is undone before the memory goes. */
AMB_MUST_CHECK enum amb_status amb_cuda_register(struct amb_cuda *device, void *memory,
                                                 uint64_t size, uint64_t *address);
void amb_cuda_unregister(struct amb_cuda *device, void *memory);

/* The memory that a pointer points to. */
struct amb_mem_place {
    enum amb_mem mem; /* HOST, PINNED, CUDA, CUDA_MANAGED */
    int device;       /* -1: host */
    uint64_t base;    /* of its allocation, and how large that is; 0: host */
    uint64_t size;
    bool is_unknown;     /* the driver refused to say: a GPU may be lost */
    bool is_exportable;  /* amb_cuda_export will take it */
    const char *why_not; /* it is not exportable; static, never NULL */
};

/* Any pointer. Without a live driver everything is host memory. */
void amb_cuda_classify(const void *pointer, struct amb_mem_place *out);
/*
 * The quick form for a payload: mem, device, base, size, by one question to the driver. Memory that
 * it gives no answer for, and that cannot be read here, is CUDA of device -1: of a GPU that has
 * failed.
 */
void amb_cuda_locate(const void *pointer, struct amb_mem_place *out);

/*
 * Another process's way to an allocation of cuMemAlloc: a handle for all of it, writable. ENOTSUP:
 * the driver, the allocation or the namespaces do not let it.
 */
AMB_MUST_CHECK enum amb_status amb_cuda_export(struct amb_cuda *device, uint64_t address,
                                               uint8_t handle[AMB_CUDA_IPC_BYTES]);
/* Its first byte here; never in the exporter's process. A device opens an allocation once, and
 * counts: the second import has the same address, and each is closed. */
AMB_MUST_CHECK enum amb_status
amb_cuda_import(struct amb_cuda *device, const uint8_t handle[AMB_CUDA_IPC_BYTES], uint64_t *out);
/* On failure it is open still, unless the device is fenced. */
enum amb_status amb_cuda_unimport(struct amb_cuda *device, uint64_t address);

/* ---- streams, events, copies ---- */

/* One that does not wait for the program's default stream. */
AMB_MUST_CHECK enum amb_status amb_cuda_stream_create(struct amb_cuda *device, void **stream);
void amb_cuda_stream_destroy(struct amb_cuda *device, void *stream);
/* Waits until everything on it has run. */
AMB_MUST_CHECK enum amb_status amb_cuda_stream_sync(struct amb_cuda *device, void *stream);

/* The handle by which each thread has a stream of its own, one a context. */
#define AMB_CUDA_STREAM_PER_THREAD ((void *)2)

/* A stream of the program's, as the device finds it. */
enum amb_cuda_stream_kind {
    AMB_CUDA_STREAM_HERE,      /* in the device's context: events can be recorded there */
    AMB_CUDA_STREAM_ELSEWHERE, /* of another device or context: it can only be waited for */
    AMB_CUDA_STREAM_CAPTURING, /* its work goes into a graph, which runs later, or never */
};
/* The device is entered. NULL, 1 and 2 are the default streams of its context. */
enum amb_cuda_stream_kind amb_cuda_stream_classify(struct amb_cuda *device, void *stream);

/*
 * Waits for a stream of the program's, whatever its device. NULL, 1 and 2 are those of the thread's
 * context; where it has none, of each device that has been used. ESTATE: it captures, or this
 * thread runs a host function of a stream, where nothing may be asked. ECUDA: its work has failed,
 * or it is no stream. A driver that refuses to wait is asked again.
 */
AMB_MUST_CHECK enum amb_status amb_cuda_program_sync(void *stream);
/* Has it run all that is on it? EAGAIN: not yet, or the driver refuses to say; ESTATE: it captures;
 * ECUDA: as above. */
AMB_MUST_CHECK enum amb_status amb_cuda_program_query(void *stream);
extern const char amb_cuda_captures[]; /* the sentence about a stream that captures */

/* Without timing; a thread that waits for it sleeps. */
AMB_MUST_CHECK enum amb_status amb_cuda_event_create(struct amb_cuda *device, void **event);
void amb_cuda_event_destroy(struct amb_cuda *device, void *event);
/* It is done when the work on the stream so far has run. */
AMB_MUST_CHECK enum amb_status amb_cuda_event_record(struct amb_cuda *device, void *event,
                                                     void *stream);
/* AMB_OK: done. EAGAIN: not yet, or the driver refuses to say. ECUDA: the device is fenced. ESTATE:
 * its stream began to capture while it was recorded, so it says nothing: record it again. The same
 * of a wait. */
AMB_MUST_CHECK enum amb_status amb_cuda_event_query(struct amb_cuda *device, void *event);
AMB_MUST_CHECK enum amb_status amb_cuda_event_sync(struct amb_cuda *device, void *event);
/* The same on a stream of the program's. ESTATE: it captures; ENOTSUP: it is of another device or
 * context, so that it can only be waited for. */
AMB_MUST_CHECK enum amb_status amb_cuda_event_follow(struct amb_cuda *device, void *event,
                                                     void *stream);
/* Later work on the stream waits for the event; the caller does not. */
AMB_MUST_CHECK enum amb_status amb_cuda_stream_wait(struct amb_cuda *device, void *stream,
                                                    void *event);

/*
 * Copies on the stream, from and to any kind of memory of this device and the host. Returns at once
 * unless pageable host memory is among them.
 */
AMB_MUST_CHECK enum amb_status amb_cuda_copy(struct amb_cuda *device, uint64_t to, uint64_t from,
                                             uint64_t len, void *stream);
/* The same between two devices, on a stream of `device`. */
AMB_MUST_CHECK enum amb_status amb_cuda_copy_peer(struct amb_cuda *device, uint64_t to,
                                                  struct amb_cuda *source, uint64_t from,
                                                  uint64_t len, void *stream);
