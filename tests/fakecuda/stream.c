/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fakecuda: streams, events and copies. One thread runs what is on all streams, each in its order,
 * when it is due.
 */
#include "tests/fakecuda/internal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

_Thread_local bool fake_is_in_host_function;
static bool has_engine;

static int64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts); /* The clock that condition variables wait by. */
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- the engine ---- */

/* The head of a stream, if it may run; *due: when to look again if none may. */
static struct fake_op *ready_head(const struct CUstream_st *stream, int64_t now, int64_t *due)
{
    struct fake_op *op = stream->first;
    if (op == NULL || stream->context->device + 1 == fake.stuck ||
        (op->what == FAKE_WAIT && op->event->done < op->number)) {
        return NULL;
    }
    if (op->due_ns > now) {
        *due = op->due_ns < *due ? op->due_ns : *due;
        return NULL;
    }
    return op;
}

static struct CUstream_st *next_stream(int64_t *due)
{
    int64_t now = now_ns();
    *due = INT64_MAX;
    if (fake.is_held) {
        return NULL;
    }
    for (int i = 0; i < fake.devices; i++) {
        if (ready_head(&fake.contexts[i].default_stream, now, due) != NULL) {
            return &fake.contexts[i].default_stream;
        }
    }
    for (struct CUstream_st *stream = fake.streams; stream != NULL; stream = stream->next) {
        if (ready_head(stream, now, due) != NULL) {
            return stream;
        }
    }
    return NULL;
}

/* May op touch what it touches? A block of a pool is there between two points of its stream. */
static bool is_in_time(const struct fake_op *op)
{
    if (op->is_spoilt) {
        return false;
    }
    for (int i = 0;
         i < 2 && (op->what == FAKE_COPY || op->what == FAKE_FILL || op->what == FAKE_CALL); i++) {
        const struct fake_memory *block = op->blocks[i];
        if (block != NULL && (block->life != op->lives[i] || !block->is_there || block->is_back)) {
            return false;
        }
    }
    return true;
}

/* The op has run. */
static void note(const struct fake_op *op)
{
    struct fake_memory *block = op->blocks[0];
    if (op->what == FAKE_RECORD && op->number > op->event->done) {
        op->event->done = op->number;
    } else if (op->what == FAKE_ALLOC && block->life == op->lives[0]) {
        block->is_there = true;
    } else if (op->what == FAKE_RELEASE && block->life == op->lives[0]) {
        block->is_back = true;
    }
}

/* Without the lock: copies may be long, and memory that they touch is freed by drained streams
 * only. */
static void run(const struct fake_op *op)
{
    if (op->what == FAKE_COPY) {
        memmove(op->to, op->from, op->len);
    } else if (op->what == FAKE_FILL) {
        for (size_t i = 0; i < op->len; i += op->width) {
            memcpy(op->to + i, op->pattern, op->width);
        }
    } else if (op->what == FAKE_CALL || op->what == FAKE_HOST_CALL) {
        fake_is_in_host_function = op->what == FAKE_HOST_CALL;
        op->fn(op->arg);
        fake_is_in_host_function = false;
    }
}

static bool lies_in(const unsigned char *at, const struct fake_memory *memory)
{
    return at >= memory->alias && (size_t)(at - memory->alias) < memory->size;
}

static bool stream_uses(const struct CUstream_st *stream, const struct fake_memory *memory)
{
    const struct fake_op *op = stream->first;
    while (op != NULL &&
           ((op->what != FAKE_COPY && op->what != FAKE_FILL) ||
            !(lies_in(op->to, memory) || (op->from != NULL && lies_in(op->from, memory))))) {
        op = op->next;
    }
    return op != NULL;
}

bool fake_is_used(const struct fake_memory *memory)
{
    bool is_used = false;
    for (int i = 0; i < fake.devices; i++) {
        is_used = is_used || stream_uses(&fake.contexts[i].default_stream, memory);
    }
    for (const struct CUstream_st *stream = fake.streams; stream != NULL; stream = stream->next) {
        is_used = is_used || stream_uses(stream, memory);
    }
    return is_used;
}

static void *engine_main(void *arg)
{
    (void)arg;
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* Else each wait is 50 us late. */
    (void)pthread_mutex_lock(&fake.lock);
    for (;;) {
        int64_t due;
        struct CUstream_st *stream = next_stream(&due);
        if (stream == NULL) {
            if (due == INT64_MAX) {
                (void)pthread_cond_wait(&fake.changed, &fake.lock);
            } else {
                struct timespec ts = {.tv_sec = due / 1000000000, .tv_nsec = due % 1000000000};
                (void)pthread_cond_timedwait(&fake.changed, &fake.lock, &ts);
            }
            continue;
        }
        struct fake_op *op = stream->first;
        if (!is_in_time(op) && stream->context->sticky == CUDA_SUCCESS) {
            (void)fprintf(stderr, "fakecuda: memory is used before it is allocated, or after it "
                                  "is freed or unmapped\n");
            stream->context->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
        }
        if (stream->context->sticky == CUDA_SUCCESS) { /* Nothing runs in a context that is lost. */
            fake.running = stream->context;
            (void)pthread_mutex_unlock(&fake.lock);
            run(op);
            (void)pthread_mutex_lock(&fake.lock);
            fake.running = NULL;
        }
        note(op);
        stream->first = op->next;
        if (stream->first == NULL) {
            stream->last = &stream->first;
        }
        free(op);
        (void)pthread_cond_broadcast(&fake.changed);
    }
    return NULL;
}

static bool start_engine(void)
{
    if (!has_engine) {
        sigset_t all, old;
        pthread_t thread;
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &old);
        has_engine = pthread_create(&thread, NULL, engine_main, NULL) == 0;
        (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
        if (has_engine) {
            (void)pthread_detach(thread);
        }
    }
    return has_engine;
}

/* The thread's own default streams, one a device. They stay in the list when it has ended. */
static _Thread_local struct CUstream_st *own[FAKE_DEVICES_MAX];

static struct CUstream_st *add_stream(bool is_blocking)
{
    struct CUstream_st *stream = calloc(1, sizeof(*stream));
    if (stream != NULL) {
        stream->context = fake_current();
        stream->last = &stream->first;
        stream->is_blocking = is_blocking;
        stream->next = fake.streams;
        fake.streams = stream;
    }
    return stream;
}

bool fake_needs_context(CUstream handle)
{
    return handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

struct CUstream_st *fake_stream(CUstream handle)
{
    if (handle == CU_STREAM_PER_THREAD) {
        struct CUstream_st **stream = &own[fake_current()->device];
        *stream = *stream != NULL ? *stream : add_stream(true);
        return *stream;
    }
    return fake_needs_context(handle) ? &fake_current()->default_stream : handle;
}

void fake_touch(struct fake_op *op, unsigned which, uintptr_t address)
{
    struct fake_memory *memory = fake_find(address);
    if (memory != NULL && memory->kind == FAKE_POOL) {
        op->blocks[which] = memory;
        op->lives[which] = memory->life;
    }
}

static bool touches(const struct CUstream_st *stream, const struct fake_memory *memory)
{
    const struct fake_op *op = stream->first;
    while (op != NULL && op->blocks[0] != memory && op->blocks[1] != memory) {
        op = op->next;
    }
    return op != NULL;
}

static void spoil(const struct CUstream_st *stream, const unsigned char *alias, size_t size)
{
    for (struct fake_op *op = stream->first; op != NULL; op = op->next) {
        bool is_from = op->from != NULL && op->from < alias + size && alias < op->from + op->len;
        bool is_to = op->to != NULL && op->to < alias + size && alias < op->to + op->len;
        op->is_spoilt = op->is_spoilt || is_from || is_to;
    }
}

void fake_spoil(const unsigned char *alias, size_t size)
{
    while (fake.running != NULL) { /* The running one has been in time. */
        (void)pthread_cond_wait(&fake.changed, &fake.lock);
    }
    for (int i = 0; i < fake.devices; i++) {
        spoil(&fake.contexts[i].default_stream, alias, size);
    }
    for (const struct CUstream_st *stream = fake.streams; stream != NULL; stream = stream->next) {
        spoil(stream, alias, size);
    }
}

bool fake_is_touched(const struct fake_memory *memory)
{
    for (int i = 0; i < fake.devices; i++) {
        if (touches(&fake.contexts[i].default_stream, memory)) {
            return true;
        }
    }
    for (const struct CUstream_st *stream = fake.streams; stream != NULL; stream = stream->next) {
        if (touches(stream, memory)) {
            return true;
        }
    }
    return false;
}

CUresult fake_push(CUstream handle, const struct fake_op *op)
{
    bool is_captured;
    struct CUstream_st *stream = fake_stream(handle);
    CUresult result = fake_captured(stream, &is_captured);
    if (result != CUDA_SUCCESS || is_captured) {
        return result;
    }
    struct fake_op *copy = malloc(sizeof(*copy));
    if (copy == NULL || !start_engine()) {
        free(copy);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *copy = *op;
    copy->next = NULL;
    copy->due_ns = now_ns() + fake.delay_ns;
    if (stream->last == NULL) {
        stream->last = &stream->first;
    }
    *stream->last = copy;
    stream->last = &copy->next;
    (void)pthread_cond_broadcast(&fake.changed);
    return CUDA_SUCCESS;
}

void fake_drain(CUstream handle)
{
    const struct CUstream_st *stream = fake_stream(handle);
    while (stream->first != NULL) {
        (void)pthread_cond_wait(&fake.changed, &fake.lock);
    }
}

static bool is_idle(void)
{
    for (int i = 0; i < fake.devices; i++) {
        if (fake.contexts[i].default_stream.first != NULL) {
            return false;
        }
    }
    for (const struct CUstream_st *stream = fake.streams; stream != NULL; stream = stream->next) {
        if (stream->first != NULL) {
            return false;
        }
    }
    return true;
}

void fake_drain_all(void)
{
    while (!is_idle()) {
        (void)pthread_cond_wait(&fake.changed, &fake.lock);
    }
}

void fakecuda_hold(bool is_held)
{
    (void)pthread_mutex_lock(&fake.lock);
    fake.is_held = is_held;
    (void)pthread_cond_broadcast(&fake.changed);
    (void)pthread_mutex_unlock(&fake.lock);
}

void fakecuda_hold_until_asked(void)
{
    fakecuda_hold(true);
    (void)pthread_mutex_lock(&fake.lock);
    fake.is_held_until_asked = true;
    (void)pthread_mutex_unlock(&fake.lock);
}

void fakecuda_hold_device(int device)
{
    (void)pthread_mutex_lock(&fake.lock);
    fake.stuck = device + 1;
    (void)pthread_cond_broadcast(&fake.changed);
    (void)pthread_mutex_unlock(&fake.lock);
}

static unsigned left_on(const struct CUstream_st *stream)
{
    unsigned count = 0;
    for (const struct fake_op *op = stream->first; op != NULL; op = op->next) {
        count++;
    }
    return count;
}

unsigned fakecuda_pending(int device)
{
    (void)pthread_mutex_lock(&fake.lock);
    unsigned count = left_on(&fake.contexts[device].default_stream);
    for (const struct CUstream_st *stream = fake.streams; stream != NULL; stream = stream->next) {
        count += stream->context == &fake.contexts[device] ? left_on(stream) : 0;
    }
    (void)pthread_mutex_unlock(&fake.lock);
    return count;
}

/* ---- streams ---- */

CUresult cuStreamCreate(CUstream *out, unsigned int flags)
{
    CUresult result = fake_enter(__func__, true);
    if (result == CUDA_SUCCESS) {
        struct CUstream_st *stream =
            flags > CU_STREAM_NON_BLOCKING ? NULL : add_stream(flags == CU_STREAM_DEFAULT);
        if (stream == NULL) {
            result = CUDA_ERROR_INVALID_VALUE;
        } else {
            fake.stream_count++;
            *out = stream;
        }
    }
    return fake_leave(result);
}

CUresult cuStreamDestroy(CUstream stream)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS) {
        fake_drain(stream); /* The driver's lets it run on; nobody can tell. */
        struct CUstream_st **link = &fake.streams;
        while (*link != stream) {
            link = &(*link)->next;
        }
        *link = stream->next;
        for (struct CUevent_st *event = fake.events; event != NULL; event = event->next) {
            event->captured_by = event->captured_by == stream ? NULL : event->captured_by;
        }
        fake.stream_count--;
        free(stream);
    }
    return fake_leave(result);
}

CUresult cuStreamQuery(CUstream stream)
{
    CUresult result = fake_enter_unsafe(__func__);
    result = result == CUDA_SUCCESS ? fake_may_wait(fake_stream(stream)) : result;
    if (result == CUDA_SUCCESS && fake_stream(stream)->first != NULL) {
        result = CUDA_ERROR_NOT_READY;
    }
    return fake_leave(result);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *out)
{
    CUresult result = fake_enter(__func__, fake_needs_context(stream));
    if (result == CUDA_SUCCESS) {
        *out = fake_stream(stream)->context;
    }
    return fake_leave(result);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    CUresult result = fake_enter_unsafe(__func__);
    result = result == CUDA_SUCCESS ? fake_may_wait(fake_stream(stream)) : result;
    if (result == CUDA_SUCCESS) {
        fake_drain(stream);
        fake_pools_trim(false);
        result = fake_stream(stream)->context->sticky; /* It may have failed meanwhile. */
    }
    return fake_leave(result);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    (void)flags;
    CUresult result = fake_enter(__func__, true);
    if (result == CUDA_SUCCESS && event->captured_by != NULL) {
        result = fake_join(fake_stream(stream), event->captured_by);
    } else if (result == CUDA_SUCCESS) {
        struct fake_op op = {.what = FAKE_WAIT, .event = event, .number = event->recorded};
        result = fake_push(stream, &op);
    }
    return fake_leave(result);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *arg)
{
    CUresult result = fake_enter(__func__, true);
    if (result == CUDA_SUCCESS) {
        struct fake_op op = {.what = FAKE_HOST_CALL, .fn = fn, .arg = arg};
        result = fake_push(stream, &op);
    }
    return fake_leave(result);
}

/* ---- kernels: the two of tools/bench/kernels.h, by their names ---- */

struct kernel_call {
    unsigned char *at, *wrong; /* wrong NULL: amb_fill */
    uint64_t words;
    uint32_t base;
};

static void CUDA_CB run_kernel(void *arg)
{
    struct kernel_call *call = arg;
    for (uint64_t i = 0; i < call->words; i++) {
        uint32_t value = call->base + (uint32_t)i, seen;
        if (call->wrong == NULL) {
            memcpy(call->at + i * sizeof(value), &value, sizeof(value));
        } else {
            memcpy(&seen, call->at + i * sizeof(value), sizeof(seen));
            *(uint32_t *)(void *)call->wrong += seen != value;
        }
    }
    free(call);
}

static char fill_kernel, check_kernel;

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    CUresult result = fake_enter(__func__, true);
    if (result == CUDA_SUCCESS) {
        bool is_ours = strstr(image, "amb_fill") != NULL && strstr(image, "amb_check") != NULL;
        *module = (CUmodule)(void *)&fill_kernel;
        result = is_ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
    }
    return fake_leave(result);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CUresult result = fake_enter(__func__, true);
    (void)module;
    if (result == CUDA_SUCCESS) {
        bool is_fill = strcmp(name, "amb_fill") == 0;
        *function = (CUfunction)(void *)(is_fill ? &fill_kernel : &check_kernel);
        result = is_fill || strcmp(name, "amb_check") == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
    }
    return fake_leave(result);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
                        unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                        CUstream stream, void **params, void **extra)
{
    CUresult result = fake_enter(__func__, true);
    (void)(gx + gy + gz + bx + by + bz + shared);
    (void)extra;
    if (result != CUDA_SUCCESS) {
        return fake_leave(result);
    }
    struct kernel_call *call = calloc(1, sizeof(*call));
    bool is_async;
    bool is_check = function == (CUfunction)(void *)&check_kernel;
    call->words = *(const uint64_t *)params[1];
    call->base = *(const uint32_t *)params[2];
    uint64_t at = *(const uint64_t *)params[0], wrong = is_check ? *(const uint64_t *)params[3] : 0;
    struct fake_reach reach = {fake_current()->device, !is_check};
    call->at = fake_resolve(at, call->words * 4, reach, &is_async);
    reach.is_write = true;
    call->wrong = is_check ? fake_resolve(wrong, 4, reach, &is_async) : NULL;
    struct fake_op op = {
        .what = FAKE_CALL, .fn = run_kernel, .arg = call, .to = call->at, .len = call->words * 4};
    fake_touch(&op, 0, at);
    fake_touch(&op, 1, wrong);
    result = call->at != NULL && (!is_check || call->wrong != NULL) ? fake_push(stream, &op)
                                                                    : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS) {
        free(call);
    }
    return fake_leave(result);
}

/* ---- events ---- */

CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
    (void)flags;
    CUresult result = fake_enter(__func__, true);
    if (result == CUDA_SUCCESS) {
        *out = calloc(1, sizeof(**out));
        result = *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        if (result == CUDA_SUCCESS) {
            (*out)->context = fake_current();
            (*out)->next = fake.events;
            fake.events = *out;
            fake.event_count++;
        }
    }
    return fake_leave(result);
}

static void remove_event(const struct CUevent_st *event)
{
    struct CUevent_st **link = &fake.events;
    while (*link != event) {
        link = &(*link)->next;
    }
    *link = event->next;
}

CUresult cuEventDestroy(CUevent event)
{
    CUresult result = fake_enter(__func__, false);
    /* A plan may have this call fail. Nobody destroys an event twice, so it goes all the same, or
     * it would look like a leak of the caller's. */
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY) {
        fake_drain_all(); /* Nothing on a stream may name it any more. */
        fake.event_count--;
        remove_event(event);
        free(event);
    }
    return fake_leave(result);
}

CUresult cuEventRecord(CUevent event, CUstream handle)
{
    CUresult result = fake_enter(__func__, true);
    struct CUstream_st *stream = result == CUDA_SUCCESS ? fake_stream(handle) : NULL;
    bool is_captured = false;
    if (result == CUDA_SUCCESS) {
        result = stream->context != event->context ? CUDA_ERROR_INVALID_HANDLE
                                                   : fake_captured(stream, &is_captured);
    }
    if (result == CUDA_SUCCESS) {
        event->captured_by = is_captured ? stream : NULL;
    }
    if (result == CUDA_SUCCESS && !is_captured) {
        struct fake_op op = {.what = FAKE_RECORD, .event = event, .number = event->recorded + 1};
        result = fake_push(stream, &op);
        event->recorded += result == CUDA_SUCCESS;
    }
    return fake_leave(result);
}

/* An event of a context that is lost says so, whichever context is current, if any. An error
 * that a plan gives it is its context's. */
static CUresult fault_of(CUevent event, CUresult result)
{
    fake_fault(event->context, result);
    return result == CUDA_SUCCESS ? event->context->sticky : result;
}

CUresult cuEventQuery(CUevent event)
{
    CUresult result = fake_enter(__func__, false);
    result = result == CUDA_SUCCESS ? fake_unsafe() : result;
    if (result == CUDA_SUCCESS && fake.is_held_until_asked) {
        fake.is_held = fake.is_held_until_asked = false;
        (void)pthread_cond_broadcast(&fake.changed);
        while (event->done < event->recorded) {
            (void)pthread_cond_wait(&fake.changed, &fake.lock);
        }
    }
    result = fault_of(event, result);
    if (result == CUDA_SUCCESS && event->captured_by != NULL) {
        result = CUDA_ERROR_CAPTURED_EVENT;
    } else if (result == CUDA_SUCCESS && event->done < event->recorded) {
        result = CUDA_ERROR_NOT_READY;
    }
    return fake_leave(result);
}

CUresult cuEventSynchronize(CUevent event)
{
    CUresult result = fake_enter_unsafe(__func__);
    if (result == CUDA_SUCCESS && event->captured_by != NULL) {
        result = CUDA_ERROR_CAPTURED_EVENT;
    }
    while (result == CUDA_SUCCESS && event->done < event->recorded) {
        (void)pthread_cond_wait(&fake.changed, &fake.lock);
    }
    result = fault_of(event, result);
    if (result == CUDA_SUCCESS) {
        fake_pools_trim(false);
    }
    return fake_leave(result);
}

/* ---- copies ---- */

struct side {
    uintptr_t address;
    int device; /* that reaches for it */
};

/* Pageable host memory is done with when the call returns; pinned and device memory may be late. */
static CUresult copy(CUstream stream, struct side to, struct side from, size_t len, bool must_wait)
{
    bool is_async = !must_wait;
    unsigned char *dst =
        fake_resolve(to.address, len, (struct fake_reach){to.device, true}, &is_async);
    const unsigned char *src =
        fake_resolve(from.address, len, (struct fake_reach){from.device, false}, &is_async);
    if (dst == NULL || src == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct fake_op op = {.what = FAKE_COPY, .to = dst, .from = src, .len = len};
    fake_touch(&op, 0, to.address);
    fake_touch(&op, 1, from.address);
    CUresult result = fake_push(stream, &op);
    if (result == CUDA_SUCCESS && !is_async) {
        fake_drain(stream);
    }
    return result;
}

static CUresult copy_call(const char *call, CUstream stream, uintptr_t to, uintptr_t from,
                          size_t len, bool must_wait)
{
    CUresult result = must_wait ? fake_enter_unsafe(call) : fake_enter(call, true);
    if (result == CUDA_SUCCESS && len != 0) {
        int device = fake_current()->device;
        result =
            copy(stream, (struct side){to, device}, (struct side){from, device}, len, must_wait);
    }
    return fake_leave(result);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t len, CUstream stream)
{
    return copy_call(__func__, stream, to, from, len, false);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t len, CUstream stream)
{
    if (to_context == NULL || from_context == NULL) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    CUresult result = fake_enter(__func__, true);
    if (result == CUDA_SUCCESS && len != 0) { /* Each side is reached from its own device. */
        result = copy(stream, (struct side){to, to_context->device},
                      (struct side){from, from_context->device}, len, false);
    }
    return fake_leave(result);
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t len)
{
    return copy_call(__func__, NULL, to, (uintptr_t)from, len, true);
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t len)
{
    return copy_call(__func__, NULL, (uintptr_t)to, from, len, true);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t len, CUstream stream)
{
    return copy_call(__func__, stream, to, (uintptr_t)from, len, false);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t len, CUstream stream)
{
    return copy_call(__func__, stream, (uintptr_t)to, from, len, false);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t len, CUstream stream)
{
    return copy_call(__func__, stream, to, from, len, false);
}

static CUresult fill(const char *call, CUdeviceptr to, const void *pattern, size_t width,
                     size_t count, CUstream stream)
{
    CUresult result = fake_enter(call, true);
    if (result == CUDA_SUCCESS && count != 0) {
        bool is_async = true;
        struct fake_op op = {.what = FAKE_FILL, .len = width * count, .width = width};
        op.to = fake_find(to) != NULL
                    ? fake_resolve(to, op.len, (struct fake_reach){fake_current()->device, true},
                                   &is_async)
                    : NULL;
        fake_touch(&op, 0, to);
        memcpy(op.pattern, pattern, width);
        result = op.to != NULL ? fake_push(stream, &op) : CUDA_ERROR_INVALID_VALUE;
    }
    return fake_leave(result);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    return fill(__func__, to, &value, 1, count, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
    return fill(__func__, to, &value, 4, count, stream);
}

/* ---- for tests ---- */

unsigned fakecuda_live_streams(void)
{
    (void)pthread_mutex_lock(&fake.lock);
    unsigned count = fake.stream_count;
    (void)pthread_mutex_unlock(&fake.lock);
    return count;
}

unsigned fakecuda_live_events(void)
{
    (void)pthread_mutex_lock(&fake.lock);
    unsigned count = fake.event_count;
    (void)pthread_mutex_unlock(&fake.lock);
    return count;
}

unsigned fakecuda_left(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    unsigned left = 1;
    for (int i = 0; left != 0 && i < 10000; i++) {
        left = fakecuda_live_device() + fakecuda_live_pinned() + fakecuda_live_streams() +
               fakecuda_live_events();
        if (left != 0) {
            (void)nanosleep(&moment, NULL);
        }
    }
    return left;
}
