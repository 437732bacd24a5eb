/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work that runs on a device, and when it has run: streams, events, copies.
 */
#include "wire/base/assert.h"
#include "wire/mem/cuda_device.h"

#define CALL(device, call, ...)                                                                    \
    (amb_cuda_is_sound(device) ? amb_cuda_check((device), amb_cuda_api.call(__VA_ARGS__), #call)   \
                               : AMB_ECUDA)

#define WAIT(device, call, ...)                                                                    \
    (amb_cuda_is_sound(device)                                                                     \
         ? amb_cuda_check_wait((device), amb_cuda_api.call(__VA_ARGS__), #call)                    \
         : AMB_ECUDA)

enum amb_status amb_cuda_stream_create(struct amb_cuda *device, void **stream)
{
    amb_assert(amb_cuda_is_current(device));
    CUstream own = NULL;
    enum amb_status status = CALL(device, cuStreamCreate, &own, CU_STREAM_NON_BLOCKING);
    if (status == AMB_OK) {
        *stream = own;
    }
    return status;
}

void amb_cuda_stream_destroy(struct amb_cuda *device, void *stream)
{
    if (stream != NULL) {
        (void)CALL(device, cuStreamDestroy, stream);
    }
}

enum amb_status amb_cuda_stream_sync(struct amb_cuda *device, void *stream)
{
    enum amb_status status;
    amb_assert(amb_cuda_is_current(device));
    while ((status = WAIT(device, cuStreamSynchronize, stream)) == AMB_EAGAIN) {
        amb_cuda_pause();
    }
    return status;
}

/* ---- streams of the program ---- */

const char amb_cuda_captures[] =
    "the stream captures a graph, which runs later, and as often as the program likes: publish and "
    "release outside of the capture, and of host functions of streams";

/* NULL (the default one), the legacy one, the thread's own: each context has its own. */
static bool is_default_stream(void *stream)
{
    return stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

/* Using the legacy stream while a stream that blocks captures would break that capture. */
static bool is_capturing(void *stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = amb_cuda_api.cuStreamIsCapturing(stream, &status);
    return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

/* Is it of another context than the device's? */
static bool is_elsewhere(const struct amb_cuda *device, void *stream)
{
    CUcontext context = NULL;
    return !is_default_stream(stream) &&
           amb_cuda_api.cuStreamGetCtx(stream, &context) == CUDA_SUCCESS &&
           context != device->context;
}

enum amb_cuda_stream_kind amb_cuda_stream_classify(struct amb_cuda *device, void *stream)
{
    amb_assert(amb_cuda_is_current(device));
    if (!amb_cuda_is_sound(device)) {
        return AMB_CUDA_STREAM_HERE; /* The next call says so. */
    }
    if (is_capturing(stream)) {
        return AMB_CUDA_STREAM_CAPTURING;
    }
    return is_elsewhere(device, stream) ? AMB_CUDA_STREAM_ELSEWHERE : AMB_CUDA_STREAM_HERE;
}

/* Waits in the current context. An answer that is not final leaves the work running, so the driver
 * is asked again. */
static enum amb_status sync_here(void *stream)
{
    for (;;) {
        if (is_capturing(stream)) {
            return AMB_ESTATE;
        }
        CUresult result = amb_cuda_api.cuStreamSynchronize(stream);
        if (result == CUDA_SUCCESS || amb_cuda_is_final(result)) {
            return result == CUDA_SUCCESS ? AMB_OK : AMB_ECUDA;
        }
        if (result == CUDA_ERROR_NOT_PERMITTED) {
            return AMB_ESTATE;
        }
        amb_cuda_pause();
    }
}

#define RETAIN_TRIES 1000u /* a context that is there is only counted */

static bool enter_used(uint32_t index, struct amb_cuda_scope *scope)
{
    struct amb_cuda *device = NULL;
    enum amb_status status = amb_cuda_at((int)index, &device);
    for (unsigned i = 0; i < RETAIN_TRIES && status != AMB_OK; i++) {
        amb_cuda_pause();
        status = amb_cuda_at((int)index, &device);
    }
    return status == AMB_OK && amb_cuda_enter_to_wait(device, scope) == AMB_OK;
}

/* In each context that there is, for the handle is of one of them. */
static enum amb_status sync_everywhere(void *stream)
{
    enum amb_status status = AMB_OK;
    for (uint32_t i = 0; i < amb_cuda_count(); i++) {
        struct amb_cuda_scope scope;
        if (!amb_cuda_has_context(i) || !enter_used(i, &scope)) {
            continue; /* Nothing runs there, or the device is lost. */
        }
        enum amb_status here = sync_here(stream);
        status = status == AMB_OK ? here : status;
        amb_cuda_leave(&scope);
    }
    return status;
}

/* A stream that is no default one, in its context. A stream that captures is asked for nothing
 * else, which might break the capture. */
static enum amb_status sync_there(void *stream)
{
    CUcontext context = NULL;
    for (;;) {
        if (is_capturing(stream)) {
            return AMB_ESTATE;
        }
        CUresult result = amb_cuda_api.cuStreamGetCtx(stream, &context);
        result = result == CUDA_SUCCESS ? amb_cuda_api.cuCtxPushCurrent(context) : result;
        if (result == CUDA_SUCCESS) {
            enum amb_status status = sync_here(stream);
            (void)amb_cuda_api.cuCtxPopCurrent(&context);
            return status;
        }
        if (amb_cuda_is_final(result)) {
            return AMB_ECUDA;
        }
        if (result == CUDA_ERROR_NOT_PERMITTED) {
            return AMB_ESTATE;
        }
        amb_cuda_pause();
    }
}

enum amb_status amb_cuda_program_sync(void *stream)
{
    CUcontext context = NULL;
    CUresult result = CUDA_SUCCESS;
    enum amb_status status;
    amb_cuda_capture_relax();
    if (!is_default_stream(stream)) {
        status = sync_there(stream);
    } else if ((result = amb_cuda_api.cuCtxGetCurrent(&context)) == CUDA_SUCCESS &&
               context != NULL) {
        status = sync_here(stream);
    } else {
        status = result == CUDA_ERROR_NOT_PERMITTED ? AMB_ESTATE : sync_everywhere(stream);
    }
    amb_cuda_capture_restore();
    return status;
}

static enum amb_status query_here(void *stream)
{
    if (is_capturing(stream)) {
        return AMB_ESTATE;
    }
    CUresult result = amb_cuda_api.cuStreamQuery(stream);
    return result == CUDA_SUCCESS ? AMB_OK : amb_cuda_is_final(result) ? AMB_ECUDA : AMB_EAGAIN;
}

/* In each context that there is. One that has not run says so for all. */
static enum amb_status query_everywhere(void *stream)
{
    enum amb_status status = AMB_OK;
    for (uint32_t i = 0; i < amb_cuda_count(); i++) {
        struct amb_cuda_scope scope;
        if (!amb_cuda_has_context(i) || !enter_used(i, &scope)) {
            continue; /* Nothing runs there, or the device is lost. */
        }
        enum amb_status here = query_here(stream);
        amb_cuda_leave(&scope);
        if (here == AMB_EAGAIN || here == AMB_ESTATE) {
            return here;
        }
        status = status == AMB_OK ? here : status;
    }
    return status;
}

static enum amb_status query_there(void *stream)
{
    CUcontext context = NULL;
    if (is_capturing(stream)) {
        return AMB_ESTATE;
    }
    CUresult result = amb_cuda_api.cuStreamGetCtx(stream, &context);
    result = result == CUDA_SUCCESS ? amb_cuda_api.cuCtxPushCurrent(context) : result;
    if (result == CUDA_SUCCESS) {
        enum amb_status status = query_here(stream);
        (void)amb_cuda_api.cuCtxPopCurrent(&context);
        return status;
    }
    return amb_cuda_is_final(result) ? AMB_ECUDA : AMB_EAGAIN;
}

enum amb_status amb_cuda_program_query(void *stream)
{
    CUcontext context = NULL;
    enum amb_status status;
    amb_cuda_capture_relax();
    if (!is_default_stream(stream)) {
        status = query_there(stream);
    } else if (amb_cuda_api.cuCtxGetCurrent(&context) != CUDA_SUCCESS) {
        status = AMB_EAGAIN;
    } else {
        status = context != NULL ? query_here(stream) : query_everywhere(stream);
    }
    amb_cuda_capture_restore();
    return status;
}

/* ---- events ---- */

enum amb_status amb_cuda_event_create(struct amb_cuda *device, void **event)
{
    amb_assert(amb_cuda_is_current(device));
    CUevent own = NULL;
    enum amb_status status =
        CALL(device, cuEventCreate, &own, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
    if (status == AMB_OK) {
        *event = own;
    }
    return status;
}

void amb_cuda_event_destroy(struct amb_cuda *device, void *event)
{
    if (event != NULL) {
        (void)CALL(device, cuEventDestroy, event);
    }
}

enum amb_status amb_cuda_event_record(struct amb_cuda *device, void *event, void *stream)
{
    amb_assert(amb_cuda_is_current(device));
    return CALL(device, cuEventRecord, event, stream);
}

enum amb_status amb_cuda_event_follow(struct amb_cuda *device, void *event, void *stream)
{
    amb_assert(amb_cuda_is_current(device));
    if (!amb_cuda_is_sound(device)) {
        return AMB_ECUDA;
    }
    if (is_capturing(stream)) {
        return AMB_ESTATE;
    }
    /* Tried first: a stream is seldom another context's. Then nothing is recorded, and the answer
     * is no failure that anybody should read of. */
    CUresult result = amb_cuda_api.cuEventRecord(event, stream);
    if (result != CUDA_SUCCESS && !amb_cuda_is_sticky(result) && is_elsewhere(device, stream)) {
        return AMB_ENOTSUP;
    }
    return amb_cuda_check(device, result, "cuEventRecord");
}

enum amb_status amb_cuda_event_query(struct amb_cuda *device, void *event)
{
    amb_cuda_capture_relax();
    enum amb_status status = WAIT(device, cuEventQuery, event);
    amb_cuda_capture_restore();
    return status;
}

enum amb_status amb_cuda_event_sync(struct amb_cuda *device, void *event)
{
    enum amb_status status;
    amb_assert(amb_cuda_is_current(device));
    while ((status = WAIT(device, cuEventSynchronize, event)) == AMB_EAGAIN) {
        amb_cuda_pause();
    }
    return status;
}

enum amb_status amb_cuda_stream_wait(struct amb_cuda *device, void *stream, void *event)
{
    amb_assert(amb_cuda_is_current(device));
    return CALL(device, cuStreamWaitEvent, stream, event, 0);
}

enum amb_status amb_cuda_copy(struct amb_cuda *device, uint64_t to, uint64_t from, uint64_t len,
                              void *stream)
{
    amb_assert(amb_cuda_is_current(device));
    return CALL(device, cuMemcpyAsync, to, from, len, stream);
}

enum amb_status amb_cuda_copy_peer(struct amb_cuda *device, uint64_t to, struct amb_cuda *source,
                                   uint64_t from, uint64_t len, void *stream)
{
    amb_assert(amb_cuda_is_current(device));
    return CALL(device, cuMemcpyPeerAsync, to, device->context, from, source->context, len, stream);
}
