/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices of this process. All are listed when the driver is started. A primary context costs
 * hundreds of MB of device and host memory, so it is retained only where somebody asks for one.
 */
#include "wire/mem/cuda_device.h"

#include "wire/base/assert.h"
#include "wire/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static struct {
    pthread_mutex_t lock;
    bool is_started;
    _Atomic bool is_begun;     /* the driver is being started, or has been */
    _Atomic bool is_inherited; /* ... by the parent of this process, so it is of no use here */
    enum amb_status status;
    char why_not[320];
    uint32_t count;
    struct amb_cuda devices[AMB_CUDA_DEVICES_MAX];
} driver = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The context that this thread has current; the driver knows it too, but asking costs a call. */
static _Thread_local struct amb_cuda *current;
/* The thread's capture mode. It is to be RELAXED `depth` times over; `before` is the program's. */
static _Thread_local struct {
    unsigned depth;
    bool is_relaxed, is_ours; /* ours: it stays relaxed */
    CUstreamCaptureMode before;
} captures;

/* ---- errors ---- */

static enum amb_status status_of(CUresult result)
{
    switch ((int)result) {
    case CUDA_SUCCESS:
        return AMB_OK;
    case CUDA_ERROR_NOT_READY:
        return AMB_EAGAIN;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return AMB_ENOMEM;
    case CUDA_ERROR_NOT_SUPPORTED:
        return AMB_ENOTSUP;
    case CUDA_ERROR_NOT_PERMITTED: /* in a host function of a stream */
        return AMB_ESTATE;
    default:
        return AMB_ECUDA;
    }
}

static void describe(CUresult result, const char *call, char *text, size_t size)
{
    const char *name = NULL;
    const char *what = NULL;
    (void)amb_cuda_api.cuGetErrorName(result, &name);
    (void)amb_cuda_api.cuGetErrorString(result, &what);
    (void)snprintf(text, size, "%s: %s (%s)", call, what != NULL ? what : "unknown error",
                   name != NULL ? name : "?");
}

/* Keeps the text of a failure; is_final: the device is of no use any more. */
static enum amb_status fail(struct amb_cuda *device, CUresult result, const char *call,
                            bool is_final)
{
    (void)pthread_mutex_lock(&device->lock);
    describe(result, call, device->failure, sizeof(device->failure));
    (void)pthread_mutex_unlock(&device->lock);
    if (is_final && !atomic_exchange(&device->is_fenced, true)) {
        amb_error("GPU %d is out of use until this process ends: %s", device->info.index,
                  device->failure);
    }
    return status_of(result);
}

enum amb_status amb_cuda_check(struct amb_cuda *device, CUresult result, const char *call)
{
    if (__builtin_expect(result == CUDA_SUCCESS, 1)) {
        return AMB_OK;
    }
    return result == CUDA_ERROR_NOT_READY ? AMB_EAGAIN
                                          : fail(device, result, call, amb_cuda_is_sticky(result));
}

bool amb_cuda_is_final(CUresult result)
{
    switch ((int)result) {
    case CUDA_ERROR_DEINITIALIZED:         /* the process ends */
    case CUDA_ERROR_INVALID_CONTEXT:       /* somebody has reset the device, */
    case CUDA_ERROR_INVALID_HANDLE:        /* and our handles went with it */
    case CUDA_ERROR_SYSTEM_NOT_READY:      /* a daemon of the driver's has gone, */
    case CUDA_ERROR_MPS_CONNECTION_FAILED: /* or MPS has */
        return true;
    default:
        return amb_cuda_is_sticky(result);
    }
}

enum amb_status amb_cuda_check_wait(struct amb_cuda *device, CUresult result, const char *call)
{
    if (__builtin_expect(result == CUDA_SUCCESS, 1)) {
        return AMB_OK;
    }
    if (result == CUDA_ERROR_NOT_READY) {
        return AMB_EAGAIN;
    }
    if (result == CUDA_ERROR_CAPTURED_EVENT) {
        return AMB_ESTATE;
    }
    bool is_final = amb_cuda_is_final(result);
    (void)fail(device, result, call, is_final);
    return is_final ? AMB_ECUDA : AMB_EAGAIN;
}

bool amb_cuda_is_sound(const struct amb_cuda *device)
{
    return !atomic_load_explicit(&device->is_fenced, memory_order_relaxed);
}

void amb_cuda_failure(struct amb_cuda *device, char *text, size_t size)
{
    amb_assert(size != 0);
    (void)pthread_mutex_lock(&device->lock);
    (void)snprintf(text, size, "%s", device->failure);
    (void)pthread_mutex_unlock(&device->lock);
}

/* ---- start ---- */

#define MPS_ENABLED ((CUdevice_attribute)133) /* Its name is not in headers before CUDA 12. */

/* A part of a GPU (MIG) has a UUID of its own since 11.4, and says so in its name. */
static bool is_part(const struct amb_cuda *device, const CUuuid *own)
{
    CUuuid whole;
    return strstr(device->info.name, " MIG ") != NULL ||
           (amb_cuda_gpu_uuid != NULL &&
            amb_cuda_gpu_uuid(&whole, device->handle) == CUDA_SUCCESS &&
            memcmp(whole.bytes, own->bytes, sizeof(whole.bytes)) != 0);
}

/* A driver that does not say leaves the defaults. */
static void ask_modes(CUdevice device, struct amb_cuda_info *info)
{
    int value = 0;
    if (amb_cuda_api.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, device) ==
        CUDA_SUCCESS) {
        info->mode = value == CU_COMPUTEMODE_EXCLUSIVE_PROCESS ? AMB_CUDA_MODE_EXCLUSIVE
                     : value == CU_COMPUTEMODE_PROHIBITED      ? AMB_CUDA_MODE_PROHIBITED
                                                               : AMB_CUDA_MODE_DEFAULT;
    }
    if (amb_cuda_api.cuDeviceGetAttribute(&value, MPS_ENABLED, device) == CUDA_SUCCESS) {
        info->mps = value != 0 ? AMB_CUDA_MPS_YES : AMB_CUDA_MPS_NO;
    }
}

static void write_uuid(const CUuuid *uuid, bool is_mig, char out[48])
{
    char *to = out + sprintf(out, is_mig ? "MIG-" : "GPU-");
    for (unsigned i = 0; i < sizeof(uuid->bytes); i++) {
        const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        to += sprintf(to, "%s%02x", dash, (unsigned)(unsigned char)uuid->bytes[i]);
    }
}

static CUresult describe_device(int index, struct amb_cuda *device, const char **call)
{
    struct amb_cuda_info *info = &device->info;
    info->index = index;
    *call = "cuDeviceGet";
    CUresult result = amb_cuda_api.cuDeviceGet(&device->handle, index);
    CUuuid uuid;
    if (result == CUDA_SUCCESS) {
        *call = "cuDeviceGetUuid";
        result = amb_cuda_api.cuDeviceGetUuid(&uuid, device->handle);
    }
    if (result == CUDA_SUCCESS) {
        *call = "cuDeviceGetPCIBusId";
        result =
            amb_cuda_api.cuDeviceGetPCIBusId(info->pci, (int)sizeof(info->pci), device->handle);
    }
    if (result == CUDA_SUCCESS) {
        *call = "cuDeviceGetName";
        result = amb_cuda_api.cuDeviceGetName(info->name, (int)sizeof(info->name), device->handle);
    }
    size_t memory = 0;
    if (result == CUDA_SUCCESS) {
        *call = "cuDeviceTotalMem";
        result = amb_cuda_api.cuDeviceTotalMem(&memory, device->handle);
        info->memory = memory;
    }
    if (result == CUDA_SUCCESS) {
        info->is_mig = is_part(device, &uuid);
        write_uuid(&uuid, info->is_mig, info->uuid);
        ask_modes(device->handle, info);
    }
    return result;
}

static enum amb_status list_devices(void)
{
    const char *call = "cuInit";
    int count = 0;
    CUresult result = amb_cuda_api.cuInit(0);
    if (result == CUDA_SUCCESS) {
        call = "cuDeviceGetCount";
        result = amb_cuda_api.cuDeviceGetCount(&count);
    }
    if (result == CUDA_SUCCESS && count <= 0) {
        (void)snprintf(driver.why_not, sizeof(driver.why_not), "the CUDA driver shows no device");
        return AMB_ENOTSUP;
    }
    count = count < (int)AMB_CUDA_DEVICES_MAX ? count : (int)AMB_CUDA_DEVICES_MAX;
    for (int i = 0; result == CUDA_SUCCESS && i < count; i++) {
        (void)pthread_mutex_init(&driver.devices[i].lock, NULL);
        result = describe_device(i, &driver.devices[i], &call);
    }
    if (result != CUDA_SUCCESS) {
        describe(result, call, driver.why_not, sizeof(driver.why_not));
        return AMB_ENOTSUP;
    }
    driver.count = (uint32_t)count;
    return AMB_OK;
}

/* A thread that the child has not may hold the lock for seconds, in the driver. The parent's
 * contexts are none of the child's, and the driver has locks of its own. */
static void after_fork_child(void)
{
    (void)pthread_mutex_init(&driver.lock, NULL);
    if (atomic_load_explicit(&driver.is_begun, memory_order_relaxed)) {
        atomic_store_explicit(&driver.is_inherited, true, memory_order_relaxed);
        amb_cuda_disown();
    }
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, after_fork_child);
}

static bool is_inherited(void)
{
    return atomic_load_explicit(&driver.is_inherited, memory_order_relaxed);
}

static void start(void)
{
    atomic_store_explicit(&driver.is_begun, true, memory_order_relaxed);
    if (amb_cuda_load()) {
        driver.status = list_devices();
    } else {
        driver.status = AMB_ENOTSUP;
        (void)snprintf(driver.why_not, sizeof(driver.why_not), "%s", amb_cuda_load_error());
    }
    driver.is_started = true;
    /* A child learns from our answer why there is none. */
    atomic_store_explicit(&driver.is_begun, driver.status == AMB_OK, memory_order_relaxed);
}

enum amb_status amb_cuda_start(void)
{
    static pthread_once_t watch_once = PTHREAD_ONCE_INIT;
    if (is_inherited()) {
        return AMB_ENOTSUP;
    }
    (void)pthread_once(&watch_once, watch_forks);
    (void)pthread_mutex_lock(&driver.lock);
    if (!driver.is_started) {
        start();
    }
    enum amb_status status = driver.status;
    (void)pthread_mutex_unlock(&driver.lock);
    return status;
}

const char *amb_cuda_why_not(void)
{
    if (is_inherited()) {
        return "CUDA does not survive fork, and the parent of this process had begun with it";
    }
    (void)pthread_mutex_lock(&driver.lock);
    const char *text = driver.why_not; /* Written once, before is_started is seen. */
    (void)pthread_mutex_unlock(&driver.lock);
    return text;
}

uint32_t amb_cuda_count(void)
{
    return amb_cuda_start() == AMB_OK ? driver.count : 0;
}

/* ---- devices ---- */

/* The device's mode as a reason for a context that was refused; NULL: it is none. */
static const char *refusal_of(const struct amb_cuda *device)
{
    switch (device->info.mode) {
    case AMB_CUDA_MODE_EXCLUSIVE:
        return "that GPU is one process's (EXCLUSIVE_PROCESS mode), and another one has it";
    case AMB_CUDA_MODE_PROHIBITED:
        return "that GPU takes no process (PROHIBITED mode)";
    case AMB_CUDA_MODE_DEFAULT:
        break;
    }
    return NULL;
}

static enum amb_status retain(struct amb_cuda *device)
{
    (void)pthread_mutex_lock(&driver.lock);
    CUresult result = CUDA_SUCCESS;
    if (device->context == NULL) {
        CUcontext context = NULL;
        amb_cuda_capture_relax();
        result = amb_cuda_api.cuDevicePrimaryCtxRetain(&context, device->handle);
        amb_cuda_capture_restore();
        device->context = result == CUDA_SUCCESS ? context : NULL;
    }
    (void)pthread_mutex_unlock(&driver.lock);
    enum amb_status status = amb_cuda_check(device, result, "cuDevicePrimaryCtxRetain");
    const char *mode = result == CUDA_ERROR_DEVICE_UNAVAILABLE ? refusal_of(device) : NULL;
    if (mode != NULL) {
        (void)pthread_mutex_lock(&device->lock);
        (void)snprintf(device->failure, sizeof(device->failure), "%s", mode);
        (void)pthread_mutex_unlock(&device->lock);
    }
    /* A full device, and one that has failed so, may be asked again and again. */
    if (status == AMB_OK) {
        atomic_store(&device->refused, 0);
    }
    bool is_news = status != AMB_OK && status != AMB_ENOMEM &&
                   atomic_exchange(&device->refused, (uint32_t)result) != (uint32_t)result;
    if (is_news) {
        char text[sizeof(device->failure)];
        amb_cuda_failure(device, text, sizeof(text));
        amb_error("GPU %d cannot be used: %s", device->info.index, text);
    }
    return status;
}

bool amb_cuda_has_context(uint32_t index)
{
    unsigned int flags;
    int active = 0;
    return amb_cuda_api.cuDevicePrimaryCtxGetState(driver.devices[index].handle, &flags, &active) ==
               CUDA_SUCCESS &&
           active != 0;
}

enum amb_status amb_cuda_at(int index, struct amb_cuda **out)
{
    enum amb_status status = amb_cuda_start();
    if (status != AMB_OK) {
        return status;
    }
    if (index < 0 || (uint32_t)index >= driver.count) {
        return AMB_ENOTFOUND;
    }
    status = retain(&driver.devices[index]);
    if (status == AMB_OK || status == AMB_ENOMEM) {
        *out = &driver.devices[index];
    }
    return status;
}

/* "MIG-GPU-UUID/13/0" is how drivers before 470 named a part of a GPU, and later ones take it in
 * CUDA_VISIBLE_DEVICES still. They tell neither number of a device, but they show a process one
 * part: that of the first entry. */
static bool is_first_visible(const char *name)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    size_t len = strlen(name);
    return amb_cuda_is_old_part(name) && visible != NULL && strncasecmp(visible, name, len) == 0 &&
           (visible[len] == ',' || visible[len] == '\0');
}

struct amb_cuda *amb_cuda_seen(const char *name)
{
    uint32_t count = amb_cuda_count();
    char *end;
    unsigned long index = strtoul(name, &end, 10);
    if (name[0] >= '0' && name[0] <= '9' && *end == '\0') {
        return index < count ? &driver.devices[index] : NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct amb_cuda_info *info = &driver.devices[i].info;
        if (strcasecmp(name, info->uuid) == 0 || strcasecmp(name, info->pci) == 0 ||
            (info->is_mig && is_first_visible(name))) {
            return &driver.devices[i];
        }
    }
    return NULL;
}

enum amb_status amb_cuda_find(const char *name, struct amb_cuda **out)
{
    enum amb_status status = amb_cuda_start();
    if (status != AMB_OK) {
        return status;
    }
    const struct amb_cuda *device = amb_cuda_seen(name);
    return device != NULL ? amb_cuda_at(device->info.index, out) : AMB_ENOTFOUND;
}

const char *amb_cuda_mode_alone(const struct amb_cuda_info *info)
{
    switch (info->mode) {
    case AMB_CUDA_MODE_EXCLUSIVE:
        return info->mps == AMB_CUDA_MPS_NO ? "EXCLUSIVE_PROCESS" : NULL;
    case AMB_CUDA_MODE_PROHIBITED:
        return "PROHIBITED";
    case AMB_CUDA_MODE_DEFAULT:
        break;
    }
    return NULL;
}

const char *amb_cuda_refusal(const struct amb_cuda *device)
{
    return atomic_load(&device->refused) == CUDA_ERROR_DEVICE_UNAVAILABLE ? refusal_of(device)
                                                                          : NULL;
}

struct amb_cuda_info amb_cuda_now(const struct amb_cuda *device)
{
    struct amb_cuda_info info = device->info;
    ask_modes(device->handle, &info);
    return info;
}

const struct amb_cuda_info *amb_cuda_info(const struct amb_cuda *device)
{
    return &device->info;
}

bool amb_cuda_can_reach(const struct amb_cuda *device, const struct amb_cuda *other)
{
    int can = 0;
    return device == other || (amb_cuda_api.cuDeviceCanAccessPeer(&can, device->handle,
                                                                  other->handle) == CUDA_SUCCESS &&
                               can != 0);
}

void amb_cuda_let_reach(struct amb_cuda *device, struct amb_cuda *other)
{
    uint64_t bit = UINT64_C(1) << other->info.index;
    struct amb_cuda_scope scope;
    if (device == other || (atomic_load(&device->let_reach) & bit) != 0 ||
        amb_cuda_enter(device, &scope) != AMB_OK) {
        return;
    }
    if (amb_cuda_can_reach(device,
                           other)) { /* Else, and where it is refused, copies go all the same. */
        (void)amb_cuda_api.cuCtxEnablePeerAccess(other->context, 0);
    }
    (void)atomic_fetch_or(&device->let_reach, bit);
    amb_cuda_leave(&scope);
}

void amb_cuda_pause(void)
{
    const struct timespec ts = {.tv_nsec = 100000};
    (void)nanosleep(&ts, NULL);
}

/* ---- captures ---- */

void amb_cuda_capture_relax(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    captures.depth++;
    if (!captures.is_relaxed &&
        amb_cuda_api.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS) {
        captures.is_relaxed = true;
        captures.before = mode;
    }
}

/* Where the driver refuses it, the next one tries again. */
void amb_cuda_capture_restore(void)
{
    CUstreamCaptureMode mode = captures.before;
    amb_assert(captures.depth > 0);
    if (--captures.depth == 0 && captures.is_relaxed && !captures.is_ours &&
        amb_cuda_api.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS) {
        captures.is_relaxed = false;
    }
}

void amb_cuda_row_begin(void)
{
    amb_cuda_capture_relax();
}

void amb_cuda_row_end(void)
{
    amb_cuda_capture_restore();
}

void amb_cuda_own_thread(void)
{
    captures.is_ours = true;
}

/* ---- contexts ---- */

bool amb_cuda_is_current(const struct amb_cuda *device)
{
    return current == device;
}

enum amb_status amb_cuda_enter(struct amb_cuda *device, struct amb_cuda_scope *scope)
{
    *scope = (struct amb_cuda_scope){.device = NULL, .outer = current};
    if (!amb_cuda_is_sound(device)) {
        return AMB_ECUDA;
    }
    if (current != device) {
        CUresult result = amb_cuda_api.cuCtxPushCurrent(device->context);
        if (result != CUDA_SUCCESS) {
            return amb_cuda_check(device, result, "cuCtxPushCurrent");
        }
        scope->device = device;
        current = device;
    }
    amb_cuda_capture_relax();
    scope->is_relaxed = true;
    return AMB_OK;
}

void amb_cuda_leave(struct amb_cuda_scope *scope)
{
    if (scope->device != NULL) {
        amb_assert(current == scope->device);
        CUcontext popped;
        (void)amb_cuda_check(scope->device, amb_cuda_api.cuCtxPopCurrent(&popped),
                             "cuCtxPopCurrent");
        current = scope->outer;
        scope->device = NULL;
    }
    if (scope->is_relaxed) { /* In the program's context, for ours may be lost. */
        amb_cuda_capture_restore();
        scope->is_relaxed = false;
    }
}

enum amb_status amb_cuda_enter_to_wait(struct amb_cuda *device, struct amb_cuda_scope *scope)
{
    enum amb_status status;
    while ((status = amb_cuda_enter(device, scope)) != AMB_OK && status != AMB_ESTATE) {
        if (!amb_cuda_is_sound(device)) {
            return AMB_ECUDA;
        }
        amb_cuda_pause();
    }
    return status;
}

enum amb_status amb_cuda_bind(struct amb_cuda *device)
{
    if (current == device) {
        return amb_cuda_is_sound(device) ? AMB_OK : AMB_ECUDA;
    }
    enum amb_status status =
        amb_cuda_check(device, amb_cuda_api.cuCtxSetCurrent(device->context), "cuCtxSetCurrent");
    if (status == AMB_OK) {
        amb_cuda_capture_relax(); /* It stays so. */
        current = device;
    }
    return status;
}
