/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the files of fakecuda share. One lock for everything; the engine gives it up while
 * it copies.
 */
#pragma once

#include "tests/fakecuda/fakecuda.h"

#include <cuda.h>
#include <pthread.h>
#include <sys/types.h>

#define FAKE_DEVICES_MAX 8

struct fake_op;

struct CUstream_st {
    struct CUctx_st *context;
    struct CUstream_st *next;
    struct fake_op *first, **last;
    bool is_blocking; /* the legacy stream and it wait for each other */
    CUstreamCaptureStatus capture;
    CUstreamCaptureMode mode;
    pthread_t capturer;         /* the thread that began it */
    struct CUstream_st *origin; /* the stream on which it began; NULL: it captures nothing */
};

struct CUevent_st {
    struct CUctx_st *context;
    struct CUevent_st *next;
    unsigned long recorded, done;    /* how often */
    struct CUstream_st *captured_by; /* recorded there while it captured; NULL: it was not */
};

struct CUctx_st {
    int device;
    unsigned retained;
    CUresult sticky;
    uint32_t peers; /* devices it was let to reach */
    struct CUstream_st default_stream;
};

/* A pool of stream-ordered memory. */
struct CUmemPoolHandle_st {
    struct CUmemPoolHandle_st *next;
    int device;
    bool is_gone; /* destroyed: its last blocks go when they are freed */
    uint64_t threshold, size_max;
    CUmemAllocationHandleType handle_types;
    uint8_t access[FAKE_DEVICES_MAX]; /* CUmemAccess_flags */
};

enum fake_kind {
    FAKE_DEVICE,
    FAKE_POOL, /* cuMemAllocAsync */
    FAKE_MANAGED,
    FAKE_PINNED,
    FAKE_REGISTERED, /* the program's own, pinned where it is */
    FAKE_IMPORTED,
    FAKE_RESERVED, /* addresses, with other memory mapped in places */
};

struct fake_physical; /* memory without an address */
struct fake_mapping;

struct fake_memory {
    struct fake_memory *next;
    enum fake_kind kind;
    int device;
    uintptr_t base; /* as the program sees it */
    size_t size;
    unsigned char *alias; /* as we do */
    int fd;               /* -1: none */
    ino_t inode;
    pid_t owner;              /* of an import: its exporter */
    struct CUctx_st *context; /* of an import: where it is open, */
    unsigned opens;           /* and how often */
    /* A block of a pool: */
    struct CUmemPoolHandle_st *pool;
    unsigned long life;           /* how often it was allocated */
    bool is_there, is_back;       /* a stream has come to its allocation, to its free */
    struct CUstream_st *freed_on; /* NULL: on none, or it is not freed */
    /* Addresses: */
    struct fake_mapping *mappings;
};

struct fake_state {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_initialised, is_held;
    bool is_held_until_asked;
    int stuck; /* a device on which nothing runs, and 1; 0: none */
    int devices;
    size_t memory_max, memory_used[FAKE_DEVICES_MAX];
    int64_t delay_ns;
    bool has_peers, has_ipc, is_pageable;
    struct CUctx_st contexts[FAKE_DEVICES_MAX];
    struct CUctx_st *running; /* of what the engine runs now */
    struct fake_memory *memories;
    struct fake_physical *physicals;
    struct fake_memory *idle; /* blocks that their pools keep */
    struct CUmemPoolHandle_st *pools, *current_pools[FAKE_DEVICES_MAX];
    struct CUmemPoolHandle_st default_pools[FAKE_DEVICES_MAX];
    struct CUstream_st *streams; /* made by the program */
    struct CUevent_st *events;   /* the driver's own, also on a device that is lost */
    unsigned stream_count, event_count;
};
extern struct fake_state fake;

/*
 * The beginning of every call: takes the lock, counts, fails if it is its turn. The result of
 * fake_leave is the call's. needs: a current context is needed, and must be well.
 */
CUresult fake_enter(const char *name, bool needs_context);

/* If result is a sticky error, context is lost: nothing runs there once this returns. */
void fake_fault(CUcontext context, CUresult result);

CUresult fake_leave(CUresult result);
/* The thread runs a host function of a stream, which may call nothing of the driver's. */
extern _Thread_local bool fake_is_in_host_function;
/* fake_enter with a context, of a call that a capture may forbid. */
CUresult fake_enter_unsafe(const char *name);
CUcontext fake_current(void);
void fake_environment(void);

/* ---- memory.c ---- */

/* For what an address is resolved. */
struct fake_reach {
    int device; /* that reaches for it; -1: none, a test looks */
    bool is_write;
};
/* Where bytes really lie. *is_async false: pageable memory, so the copy may not be left to the
 * engine. NULL: the range is not whole in its allocation, or the device may not reach it. */
unsigned char *fake_resolve(uintptr_t address, size_t len, struct fake_reach reach, bool *is_async);
struct fake_memory *fake_find(uintptr_t address);
struct fake_memory *fake_add(enum fake_kind kind, int device, size_t size, int fd);
void fake_remove(struct fake_memory *memory);
bool fake_is_page_locked(enum fake_kind kind);
/* Pools give up what they keep for it. */
bool fake_has_room(int device, size_t size);
/* New memory of the current context's device. */
CUresult fake_allocate(enum fake_kind kind, size_t size, struct fake_memory **out);

/* ---- pool.c ---- */

void fake_pools_init(void);
/* Gives back what no stream uses, beyond what each pool may keep; all: beyond nothing. */
void fake_pools_trim(bool is_all);
/* A block that the program has freed, or NULL. */
struct fake_memory *fake_find_idle(uintptr_t address);
bool fake_pool_reaches(const struct fake_memory *memory, int device);
CUresult fake_pool_free(struct fake_memory *memory, struct CUstream_st *stream);

/* ---- virtual.c ---- */

/* May the device reach all of these bytes of a reservation? Are they mapped, if it is -1? */
bool fake_virtual_reaches(const struct fake_memory *range, size_t offset, size_t len,
                          struct fake_reach reach);
/* The mapping at an address of a reservation, as memory; false: there is none. */
bool fake_virtual_mapping(const struct fake_memory *range, uintptr_t address,
                          struct fake_memory *out);
unsigned fake_virtual_live(void);

/* ---- machine.c ---- */

void fake_machine_open(const char *path);
/* Bytes of a device that are not free. */
size_t fake_machine_used(int device);
void fake_machine_hold(const struct fake_memory *memory);
void fake_machine_let_go(const struct fake_memory *memory);
/* Something was done that to a driver is undefined. */
void fake_machine_fault(const char *what);

/* False: a device that is for one process alone is another one's. */
bool fake_machine_claim(int device);

/* ---- modes.c ---- */

void fake_modes_environment(void);
/* The part of a GPU that this process sees as its device; 0: whole ones. */
int fake_instance(void);
int fake_mode_attribute(CUdevice_attribute name);
/* May this process have a context there? */
CUresult fake_may_use(int device);

/* ---- visible.c ---- */

/* The part of a GPU that CUDA_VISIBLE_DEVICES names; 0: none. */
int fake_visible_environment(void);
/* A device of this process as the machine numbers it, which is the same in all processes. */
int fake_machine_number(int device);
/* ... and back; -1: this process is not shown it. */
int fake_index_of(int number);

/* ---- capture.c ---- */

/* May this thread make a call that might wait for anything? */
CUresult fake_unsafe(void);
/* May anybody wait for that stream, or ask it? */
CUresult fake_may_wait(struct CUstream_st *stream);
/* Something is put on the stream: does it go into a graph? */
CUresult fake_captured(struct CUstream_st *stream, bool *is_captured);
/* The call that a test has named begins: a stream captures from here on. */
void fake_begin_planned_capture(const char *call);
/* The stream waits for an event of one that captures: it captures too. */
CUresult fake_join(struct CUstream_st *stream, struct CUstream_st *capturing);

/* ---- stream.c ---- */

enum fake_what {
    FAKE_COPY,
    FAKE_FILL,
    FAKE_RECORD,
    FAKE_WAIT,
    FAKE_CALL,
    FAKE_HOST_CALL, /* it may call nothing of the driver's */
    FAKE_ALLOC,     /* blocks[0] is there from here on */
    FAKE_RELEASE,   /* and no more */
};

struct fake_op {
    struct fake_op *next;
    enum fake_what what;
    int64_t due_ns;
    unsigned char *to;
    const unsigned char *from;
    size_t len;
    unsigned char pattern[4];
    size_t width;
    CUevent event;
    unsigned long number; /* of the event's recordings */
    CUhostFn fn;
    void *arg;
    struct fake_memory *blocks[2]; /* of pools, which it touches */
    unsigned long lives[2];
    bool is_spoilt; /* its memory is not mapped any more */
};

/* Notes that op touches memory, if that is a pool's. */
void fake_touch(struct fake_op *op, unsigned which, uintptr_t address);
/* The memory behind an alias goes. Work that comes to it later is an illegal address. */
void fake_spoil(const unsigned char *alias, size_t size);
/* Does anything on a stream touch it? */
bool fake_is_touched(const struct fake_memory *memory);
/* A copy of op at the end of the stream (NULL: the current context's own). Lock held. */
CUresult fake_push(CUstream stream, const struct fake_op *op);
/* The stream behind a handle, of which some are the current context's. */
struct CUstream_st *fake_stream(CUstream handle);
bool fake_needs_context(CUstream handle);
/* Waits until nothing is left on it. Lock held, given up meanwhile. */
void fake_drain(CUstream stream);
void fake_drain_all(void);
/* Does something that is on a stream still read or write it? */
bool fake_is_used(const struct fake_memory *memory);
