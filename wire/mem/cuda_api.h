/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver's functions, by one table that is filled at run time. The names are those of the
 * headers' macros (cuMemAlloc is cuMemAlloc_v2), which drivers keep for ever.
 * Threads: any, once amb_cuda_load or amb_cuda_is_live has said yes.
 */
#pragma once

#include "wire/mem/cuda.h"

#include <cuda.h>

/* ADD(name): one line a function; all of them are in every driver since CUDA 11.4. */
#define AMB_CUDA_API(ADD)                                                                          \
    ADD(cuCtxEnablePeerAccess)                                                                     \
    ADD(cuCtxGetCurrent)                                                                           \
    ADD(cuCtxPopCurrent)                                                                           \
    ADD(cuCtxPushCurrent)                                                                          \
    ADD(cuCtxSetCurrent)                                                                           \
    ADD(cuDeviceCanAccessPeer)                                                                     \
    ADD(cuDeviceGet)                                                                               \
    ADD(cuDeviceGetAttribute)                                                                      \
    ADD(cuDeviceGetCount)                                                                          \
    ADD(cuDeviceGetName)                                                                           \
    ADD(cuDeviceGetPCIBusId)                                                                       \
    ADD(cuDeviceGetUuid)                                                                           \
    ADD(cuDevicePrimaryCtxGetState)                                                                \
    ADD(cuDevicePrimaryCtxRetain)                                                                  \
    ADD(cuDeviceTotalMem)                                                                          \
    ADD(cuEventCreate)                                                                             \
    ADD(cuEventDestroy)                                                                            \
    ADD(cuEventQuery)                                                                              \
    ADD(cuEventRecord)                                                                             \
    ADD(cuEventSynchronize)                                                                        \
    ADD(cuGetErrorName)                                                                            \
    ADD(cuGetErrorString)                                                                          \
    ADD(cuInit)                                                                                    \
    ADD(cuIpcCloseMemHandle)                                                                       \
    ADD(cuIpcGetMemHandle)                                                                         \
    ADD(cuIpcOpenMemHandle)                                                                        \
    ADD(cuMemAlloc)                                                                                \
    ADD(cuMemAllocManaged)                                                                         \
    ADD(cuMemFree)                                                                                 \
    ADD(cuMemFreeHost)                                                                             \
    ADD(cuMemHostAlloc)                                                                            \
    ADD(cuMemHostGetDevicePointer)                                                                 \
    ADD(cuMemHostRegister)                                                                         \
    ADD(cuMemHostUnregister)                                                                       \
    ADD(cuMemcpyAsync)                                                                             \
    ADD(cuMemcpyPeerAsync)                                                                         \
    ADD(cuPointerGetAttributes)                                                                    \
    ADD(cuStreamCreate)                                                                            \
    ADD(cuStreamDestroy)                                                                           \
    ADD(cuStreamGetCtx)                                                                            \
    ADD(cuStreamIsCapturing)                                                                       \
    ADD(cuStreamQuery)                                                                             \
    ADD(cuStreamSynchronize)                                                                       \
    ADD(cuStreamWaitEvent)                                                                         \
    ADD(cuThreadExchangeStreamCaptureMode)

struct amb_cuda_api {
#define AMB_CUDA_MEMBER(name) __typeof__(&name) name;
    AMB_CUDA_API(AMB_CUDA_MEMBER)
#undef AMB_CUDA_MEMBER
};

extern struct amb_cuda_api amb_cuda_api;
/* The UUID of the whole GPU, also where the device is a part of it. The header's macro hides this
 * first form of cuDeviceGetUuid. NULL: the driver has none. */
extern CUresult (*amb_cuda_gpu_uuid)(CUuuid *uuid, CUdevice device);

/* Loads the library if the process has not done so. False: there is none that fits. */
bool amb_cuda_load(void);
/* For a child of fork that must not call it: amb_cuda_load and amb_cuda_is_live say no. */
void amb_cuda_disown(void);
/* Why amb_cuda_load said no; static or made once. */
const char *amb_cuda_load_error(void);
