/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fakecuda: initialisation, failures on purpose, devices and contexts.
 */
#include "tests/fakecuda/internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define STACK_MAX 16
#define PLANS_MAX 16
#define NAMES_MAX 128
#define RETAIN "cuDevicePrimaryCtxRetain" /* takes long only where there is no context yet */

struct fake_state fake = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .changed = PTHREAD_COND_INITIALIZER,
    .devices = 2,
    .memory_max = 256u << 20,
    .has_peers = true,
    .has_ipc = true,
};

static _Thread_local struct CUctx_st *stack[STACK_MAX];
static _Thread_local int depth; /* 0: none is current */

/* ---- failures ---- */

static struct plan {
    char name[48];
    unsigned long turn, seen;
    CUresult result;
} plans[PLANS_MAX];
static unsigned plan_count;
static unsigned long calls, failures;
static struct {
    const char *name;
    unsigned long count;
} counts[NAMES_MAX]; /* of each function that was called */
#define REPORT_LINE 64u
static char *report; /* the same, as lines of a file; or NULL */

static void read_plan(const char *text)
{
    plan_count = 0;
    failures = 0;
    while (text != NULL && *text != '\0' && plan_count < PLANS_MAX) {
        struct plan *plan = &plans[plan_count];
        int result = CUDA_ERROR_OUT_OF_MEMORY;
        memset(plan, 0, sizeof(*plan));
        if (sscanf(text, "%47[^:]:%lu=%d", plan->name, &plan->turn, &result) >= 2) {
            plan->result = (CUresult)result;
            plan_count++;
        }
        text = strchr(text, ',');
        text = text != NULL ? text + 1 : NULL;
    }
}

void fakecuda_fail(const char *plan)
{
    (void)pthread_mutex_lock(&fake.lock);
    read_plan(plan);
    (void)pthread_mutex_unlock(&fake.lock);
}

unsigned long fakecuda_calls(void)
{
    (void)pthread_mutex_lock(&fake.lock);
    unsigned long count = calls;
    (void)pthread_mutex_unlock(&fake.lock);
    return count;
}

unsigned long fakecuda_failures(void)
{
    (void)pthread_mutex_lock(&fake.lock);
    unsigned long count = failures;
    (void)pthread_mutex_unlock(&fake.lock);
    return count;
}

/* "cuMemAlloc_v2" is cuMemAlloc. */
static bool is_called(const char *name, const char *plan)
{
    size_t len = strlen(plan);
    return strcmp(plan, "*") == 0 ||
           (strncmp(name, plan, len) == 0 && (name[len] == '\0' || name[len] == '_'));
}

unsigned long fakecuda_calls_of(const char *name)
{
    unsigned long count = 0;
    (void)pthread_mutex_lock(&fake.lock);
    for (unsigned i = 0; i < NAMES_MAX && counts[i].name != NULL; i++) {
        count += is_called(counts[i].name, name) ? counts[i].count : 0;
    }
    (void)pthread_mutex_unlock(&fake.lock);
    return count;
}

/* name: of a function that stays. */
static void count_call(const char *name)
{
    unsigned i = 0;
    while (i < NAMES_MAX && counts[i].name != NULL && counts[i].name != name) {
        i++;
    }
    if (i < NAMES_MAX) {
        counts[i].name = name;
        counts[i].count++;
        if (report != NULL) {
            char line[REPORT_LINE + 1];
            (void)snprintf(line, sizeof(line), "%-47.47s %15lu\n", name, counts[i].count);
            memcpy(report + i * REPORT_LINE, line, REPORT_LINE);
        }
    }
    calls++;
}

static CUresult planned(const char *name)
{
    CUresult result = CUDA_SUCCESS;
    count_call(name);
    for (unsigned i = 0; i < plan_count; i++) {
        if (is_called(name, plans[i].name) && ++plans[i].seen == plans[i].turn) {
            result = plans[i].result;
            failures++;
        }
    }
    return result;
}

/* By what cuda.h says of each, and the two of hardware (214, 220), after which nothing is sure. */
static bool is_sticky(CUresult result)
{
    static const int codes[] = {214, 220, 226, 700, 702, 709, 710, 714,
                                715, 716, 717, 718, 719, 721, 810, 911};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if ((int)result == codes[i]) {
            return true;
        }
    }
    return false;
}

/* ---- calls that take long ---- */

static struct slow {
    char name[48];
    int64_t ms;
} slows[PLANS_MAX];
static unsigned slow_count;
static unsigned slowed; /* calls that take their time now */

static void read_slow(const char *text)
{
    slow_count = 0;
    while (text != NULL && *text != '\0' && slow_count < PLANS_MAX) {
        struct slow *slow = &slows[slow_count];
        long ms;
        if (sscanf(text, "%47[^=]=%ld", slow->name, &ms) == 2) {
            slow->ms = ms;
            slow_count++;
        }
        text = strchr(text, ',');
        text = text != NULL ? text + 1 : NULL;
    }
}

void fakecuda_slow(const char *plan)
{
    (void)pthread_mutex_lock(&fake.lock);
    read_slow(plan);
    (void)pthread_mutex_unlock(&fake.lock);
}

unsigned fakecuda_slowed(void)
{
    (void)pthread_mutex_lock(&fake.lock);
    unsigned count = slowed;
    (void)pthread_mutex_unlock(&fake.lock);
    return count;
}

/* Lock held, given up meanwhile: other threads' calls go on. */
static void take_time(const char *name)
{
    int64_t ms = 0;
    for (unsigned i = 0; i < slow_count; i++) {
        ms = is_called(name, slows[i].name) ? slows[i].ms : ms;
    }
    if (ms != 0) {
        const struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
        slowed++;
        (void)pthread_mutex_unlock(&fake.lock);
        (void)nanosleep(&ts, NULL);
        (void)pthread_mutex_lock(&fake.lock);
        slowed--;
    }
}

CUcontext fake_current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

void fake_fault(CUcontext context, CUresult result)
{
    if (context->sticky == CUDA_SUCCESS && is_sticky(result)) {
        context->sticky = result;
        while (fake.running == context) { /* The last that runs there. */
            (void)pthread_cond_wait(&fake.changed, &fake.lock);
        }
    }
}

CUresult fake_enter(const char *name, bool needs_context)
{
    (void)pthread_mutex_lock(&fake.lock);
    if (!fake.is_initialised) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (fake_is_in_host_function) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    fake_begin_planned_capture(name);
    CUcontext context = fake_current();
    if (context != NULL && context->sticky != CUDA_SUCCESS) {
        return context->sticky;
    }
    if (slow_count != 0 && strcmp(name, RETAIN) != 0) {
        take_time(name);
    }
    CUresult result = planned(name);
    if (context != NULL) {
        fake_fault(context, result);
    }
    if (result == CUDA_SUCCESS && needs_context && (context == NULL || context->retained == 0)) {
        result = context == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    return result;
}

CUresult fake_enter_unsafe(const char *name)
{
    CUresult result = fake_enter(name, true);
    return result == CUDA_SUCCESS ? fake_unsafe() : result;
}

CUresult fake_leave(CUresult result)
{
    (void)pthread_mutex_unlock(&fake.lock);
    return result;
}

/* ---- the driver ---- */

static size_t read_size(const char *text, size_t otherwise)
{
    if (text == NULL || *text == '\0') {
        return otherwise;
    }
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    const char *units = "KMG";
    const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
    return (size_t)value << (unit != NULL ? 10 * (unit - units + 1) : 0);
}

/* A file that has a line for each function, kept up to date: a process may end in any way. */
static void open_report(const char *prefix)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s.%d", prefix, (int)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, NAMES_MAX * REPORT_LINE) != 0) {
        (void)fprintf(stderr, "fakecuda: no report in %s\n", path);
        abort();
    }
    void *lines = mmap(NULL, NAMES_MAX * REPORT_LINE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    report = lines != MAP_FAILED ? lines : NULL;
}

void fake_environment(void)
{
    fake.devices = (int)read_size(getenv("FAKECUDA_DEVICES"), 2);
    if (fake.devices > FAKE_DEVICES_MAX) {
        fake.devices = FAKE_DEVICES_MAX;
    }
    fake.memory_max = read_size(getenv("FAKECUDA_MEMORY"), 256u << 20);
    fake.delay_ns = (int64_t)read_size(getenv("FAKECUDA_DELAY_US"), 0) * 1000;
    fake.has_peers = read_size(getenv("FAKECUDA_PEER"), 1) != 0;
    fake.is_pageable = read_size(getenv("FAKECUDA_PAGEABLE"), 0) != 0;
    fake.has_ipc = read_size(getenv("FAKECUDA_IPC"), 1) != 0;
    fake_modes_environment();
    fake_machine_open(getenv("FAKECUDA_MACHINE"));
    if (getenv("FAKECUDA_FAIL") != NULL) {
        read_plan(getenv("FAKECUDA_FAIL"));
    }
    if (getenv("FAKECUDA_REPORT") != NULL) {
        open_report(getenv("FAKECUDA_REPORT"));
    }
    if (getenv("FAKECUDA_SLOW") != NULL) {
        read_slow(getenv("FAKECUDA_SLOW"));
    }
}

CUresult cuInit(unsigned int flags)
{
    (void)pthread_mutex_lock(&fake.lock);
    if (!fake.is_initialised) {
        fake_environment();
        for (int i = 0; i < fake.devices; i++) {
            fake.contexts[i].device = i;
            fake.contexts[i].default_stream.context = &fake.contexts[i];
        }
        take_time(__func__);
    }
    if (!fake.is_initialised) { /* Another thread may have been quicker. */
        fake_pools_init();
    }
    CUresult result = flags != 0 ? CUDA_ERROR_INVALID_VALUE : planned("cuInit");
    if (result == CUDA_SUCCESS && fake.devices == 0) {
        result = CUDA_ERROR_NO_DEVICE;
    }
    fake.is_initialised = fake.is_initialised || result == CUDA_SUCCESS;
    return fake_leave(result);
}

CUresult cuDriverGetVersion(int *version)
{
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
    switch ((int)error) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        *text = "CUDA_ERROR_OUT_OF_MEMORY";
        break;
    case CUDA_ERROR_LAUNCH_FAILED:
        *text = "CUDA_ERROR_LAUNCH_FAILED";
        break;
    case CUDA_ERROR_INVALID_CONTEXT:
        *text = "CUDA_ERROR_INVALID_CONTEXT";
        break;
    case CUDA_ERROR_INVALID_VALUE:
        *text = "CUDA_ERROR_INVALID_VALUE";
        break;
    default:
        *text = "CUDA_ERROR";
    }
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "as fakecuda was told";
    return CUDA_SUCCESS;
}

/* ---- devices ---- */

static CUresult known_device(CUdevice device)
{
    return device >= 0 && device < fake.devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetCount(int *count)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS) {
        *count = fake.devices;
    }
    return fake_leave(result);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS) {
        result = known_device(ordinal);
        *device = ordinal;
    }
    return fake_leave(result);
}

CUresult cuDeviceGetPCIBusId(char *id, int len, CUdevice dev)
{
    CUresult result = fake_enter(__func__, false);
    result = result == CUDA_SUCCESS ? known_device(dev) : result;
    if (result == CUDA_SUCCESS) {
        (void)snprintf(id, (size_t)len, "0000:%02x:00.0", (unsigned)fake_machine_number(dev) + 1);
    }
    return fake_leave(result);
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice dev)
{
    CUresult result = fake_enter(__func__, false);
    result = result == CUDA_SUCCESS ? known_device(dev) : result;
    if (result == CUDA_SUCCESS) {
        *bytes = fake.memory_max;
    }
    return fake_leave(result);
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
    CUresult result = fake_enter(__func__, false);
    result = result == CUDA_SUCCESS ? known_device(dev) : result;
    result = result == CUDA_SUCCESS ? known_device(peer) : result;
    if (result == CUDA_SUCCESS) {
        *can = fake.has_peers && dev != peer;
    }
    return fake_leave(result);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    CUresult result = fake_enter(__func__, true);
    if (result == CUDA_SUCCESS) {
        uint32_t bit = UINT32_C(1) << (peer != NULL ? peer->device : 0);
        if (peer == NULL || peer == fake_current() || flags != 0) {
            result = CUDA_ERROR_INVALID_CONTEXT;
        } else if (!fake.has_peers) {
            result = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
        } else if ((fake_current()->peers & bit) != 0) {
            result = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
        } else {
            fake_current()->peers |= bit;
        }
    }
    return fake_leave(result);
}

/* ---- contexts ---- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice dev)
{
    CUresult result = fake_enter(__func__, false);
    result = result == CUDA_SUCCESS ? known_device(dev) : result;
    result = result == CUDA_SUCCESS ? fake_may_use(dev) : result;
    if (result == CUDA_SUCCESS && fake.contexts[dev].retained == 0) {
        take_time(RETAIN);
    }
    if (result == CUDA_SUCCESS) {
        fake.contexts[dev].retained++;
        *context = &fake.contexts[dev];
    }
    return fake_leave(result);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    CUresult result = fake_enter(__func__, false);
    result = result == CUDA_SUCCESS ? known_device(dev) : result;
    if (result == CUDA_SUCCESS) {
        if (fake.contexts[dev].retained == 0) {
            result = CUDA_ERROR_INVALID_CONTEXT;
        } else {
            fake.contexts[dev].retained--;
        }
    }
    return fake_leave(result);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS) {
        depth = depth == 0 ? 1 : depth;
        stack[depth - 1] = context;
        depth = context == NULL ? depth - 1 : depth;
    }
    return fake_leave(result);
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS) {
        *context = fake_current();
    }
    return fake_leave(result);
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS) {
        if (context == NULL || depth == STACK_MAX) {
            result = CUDA_ERROR_INVALID_CONTEXT;
        } else {
            stack[depth++] = context;
        }
    }
    return fake_leave(result);
}

/* Works in a lost context too, as the driver's does, so that code can leave it. */
CUresult cuCtxPopCurrent(CUcontext *context)
{
    CUresult result = fake_enter(__func__, false);
    if (depth == 0) {
        result = CUDA_ERROR_INVALID_CONTEXT;
    } else {
        --depth;
        if (context != NULL) {
            *context = stack[depth];
        }
    }
    return fake_leave(result);
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    CUresult result = fake_enter(__func__, true);
    if (result == CUDA_SUCCESS) {
        *device = fake_current()->device;
    }
    return fake_leave(result);
}

CUresult cuCtxSynchronize(void)
{
    CUresult result = fake_enter_unsafe(__func__);
    if (result == CUDA_SUCCESS) {
        fake_drain_all();
        fake_pools_trim(false);
    }
    return fake_leave(result);
}
