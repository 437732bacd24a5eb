/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work that runs on a device, and when it has run: streams, events, copies.
 */
#include "wire/base/assert.h"
#include "wire/mem/cuda_device.h"

#define CALL(device, call, ...)                                                                    \
    (amb_cuda_is_sound(device) ? amb_cuda_check((device), amb_cuda_api.call(__VA_ARGS__), #call)   \
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
    amb_assert(amb_cuda_is_current(device));
    return CALL(device, cuStreamSynchronize, stream);
}

enum amb_status amb_cuda_foreign_sync(void *stream)
{
    return amb_cuda_api.cuStreamSynchronize(stream) == CUDA_SUCCESS ? AMB_OK : AMB_ECUDA;
}

enum amb_status amb_cuda_event_create(struct amb_cuda *device, void **event)
{
    amb_assert(amb_cuda_is_current(device));
    CUevent own = NULL;
    enum amb_status status = CALL(device, cuEventCreate, &own, CU_EVENT_DISABLE_TIMING);
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

enum amb_status amb_cuda_event_query(struct amb_cuda *device, void *event)
{
    return CALL(device, cuEventQuery, event);
}

enum amb_status amb_cuda_event_sync(struct amb_cuda *device, void *event)
{
    return CALL(device, cuEventSynchronize, event);
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
