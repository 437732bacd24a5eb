/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fakecuda: graph capture, as far as it forbids things. Work on a capturing stream never runs;
 * there is no graph to launch.
 *
 * Rules, of cuThreadExchangeStreamCaptureMode and the stream calls in CUDA's reference:
 *   - a call that may wait for something unseen is refused (900), and breaks the capture. That is
 *     so if its thread captures (but in RELAXED mode), or any thread does so in GLOBAL mode. A
 *     thread of mode RELAXED is let through; THREAD_LOCAL sees the thread's own captures alone
 *   - waiting for a capturing stream, or asking it, breaks its capture in any mode (900)
 *   - an event that was recorded on a capturing stream has no end to ask for (907)
 *   - the legacy stream waits for streams that block: using it while one of those captures breaks
 *     that capture (906)
 */
#include "tests/fakecuda/internal.h"

#include <stdio.h>
#include <string.h>

static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static void break_capture(struct CUstream_st *stream)
{
    if (stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        stream->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    }
}

/* Does that capture forbid this thread's calls? */
static bool forbids(const struct CUstream_st *stream)
{
    if (stream->capture != CU_STREAM_CAPTURE_STATUS_ACTIVE ||
        stream->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
        thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
        return false;
    }
    return pthread_equal(stream->capturer, pthread_self()) ||
           (stream->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
            thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult fake_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;
    for (struct CUstream_st *stream = fake.streams; stream != NULL; stream = stream->next) {
        if (forbids(stream)) {
            break_capture(stream);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

static bool is_legacy(const struct CUstream_st *stream)
{
    return stream == &stream->context->default_stream;
}

/* Breaks the captures that a use of the legacy stream would have to wait for. */
static CUresult implicit(const struct CUstream_st *legacy, bool breaks)
{
    CUresult result = CUDA_SUCCESS;
    for (struct CUstream_st *stream = fake.streams; stream != NULL; stream = stream->next) {
        if (stream->context == legacy->context && stream->is_blocking &&
            stream->capture != CU_STREAM_CAPTURE_STATUS_NONE) {
            if (breaks) {
                break_capture(stream);
            }
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    return result;
}

CUresult fake_may_wait(struct CUstream_st *stream)
{
    if (stream->capture != CU_STREAM_CAPTURE_STATUS_NONE) {
        break_capture(stream);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return is_legacy(stream) ? implicit(stream, true) : CUDA_SUCCESS;
}

CUresult fake_captured(struct CUstream_st *stream, bool *is_captured)
{
    *is_captured = stream->capture != CU_STREAM_CAPTURE_STATUS_NONE;
    if (stream->capture == CU_STREAM_CAPTURE_STATUS_INVALIDATED) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    return is_legacy(stream) ? implicit(stream, true) : CUDA_SUCCESS;
}

CUresult fake_join(struct CUstream_st *stream, struct CUstream_st *capturing)
{
    if (is_legacy(stream)) {
        break_capture(capturing);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    stream->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    stream->mode = capturing->mode;
    stream->capturer = capturing->capturer;
    stream->origin = capturing->origin;
    return CUDA_SUCCESS;
}

static char planned_call[48];
static struct CUstream_st *planned_stream;

void fakecuda_capture_before(const char *call, void *stream)
{
    (void)pthread_mutex_lock(&fake.lock);
    (void)snprintf(planned_call, sizeof(planned_call), "%s", call);
    planned_stream = stream;
    (void)pthread_mutex_unlock(&fake.lock);
}

void fake_begin_planned_capture(const char *call)
{
    struct CUstream_st *stream = planned_stream;
    size_t len = strlen(planned_call);
    if (stream != NULL && strncmp(call, planned_call, len) == 0 &&
        (call[len] == '\0' || call[len] == '_')) {
        planned_stream = NULL;
        stream->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        stream->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        stream->origin = stream;
    }
}

/* The capture that began there ends, on all streams that have joined it. */
static void end_capture(const struct CUstream_st *origin)
{
    for (struct CUstream_st *stream = fake.streams; stream != NULL; stream = stream->next) {
        if (stream->origin == origin) {
            stream->capture = CU_STREAM_CAPTURE_STATUS_NONE;
            stream->origin = NULL;
        }
    }
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS) {
        CUstreamCaptureMode before = thread_mode;
        thread_mode = *mode;
        *mode = before;
    }
    return fake_leave(result);
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    CUresult result = fake_enter(__func__, true);
    if (result != CUDA_SUCCESS) {
        return fake_leave(result);
    }
    stream = fake_stream(stream);
    if (is_legacy(stream)) {
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    } else if (stream->capture != CU_STREAM_CAPTURE_STATUS_NONE) {
        result = CUDA_ERROR_ILLEGAL_STATE;
    }
    if (result == CUDA_SUCCESS) {
        stream->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        stream->mode = mode;
        stream->capturer = pthread_self();
        stream->origin = stream;
    }
    return fake_leave(result);
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    CUresult result = fake_enter(__func__, true);
    if (result == CUDA_SUCCESS) {
        stream = fake_stream(stream);
        if (stream->capture == CU_STREAM_CAPTURE_STATUS_NONE) {
            result = CUDA_ERROR_ILLEGAL_STATE;
        } else if (stream->origin != stream) {
            result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
        } else {
            result = stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE
                         ? CUDA_SUCCESS
                         : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
            end_capture(stream);
        }
        *graph = NULL;
    }
    return fake_leave(result);
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    CUresult result = fake_enter(__func__, fake_needs_context(stream));
    if (result == CUDA_SUCCESS) {
        stream = fake_stream(stream);
        *status = stream->capture;
        result = is_legacy(stream) ? implicit(stream, false) : CUDA_SUCCESS;
    }
    return fake_leave(result);
}
