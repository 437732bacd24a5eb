/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fakecuda: what UCX's CUDA modules call, and hardly anybody of ours, and is answered. With it and
 * refused.c UCX has cuda_copy.
 */
#include "tests/fakecuda/internal.h"

#include <stdlib.h>

CUresult cuDeviceGetAttribute(int *out, CUdevice_attribute name, CUdevice device)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS && (device < 0 || device >= fake.devices)) {
        result = CUDA_ERROR_INVALID_DEVICE;
    }
    if (result == CUDA_SUCCESS) {
        *out = name == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING                    ? 1
               : name == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED              ? 1
               : name == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ? 1
               : name == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID                          ? device + 1
               : name == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR            ? 9
                                                                      : fake_mode_attribute(name);
    }
    return fake_leave(result);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS) {
        *flags = 0;
        *active = device >= 0 && device < fake.devices && fake.contexts[device].retained != 0;
    }
    return fake_leave(result);
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute name, CUdeviceptr pointer)
{
    (void)value;
    (void)name;
    (void)pointer;
    return fake_leave(fake_enter(__func__, false));
}

/* UCX asks so to be woken when the work on a stream of its own has passed. */
struct callback {
    CUstreamCallback fn;
    CUstream stream;
    void *arg;
};

static void CUDA_CB call_back(void *arg)
{
    struct callback *callback = arg;
    callback->fn(callback->stream, CUDA_SUCCESS, callback->arg);
    free(callback);
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback fn, void *arg, unsigned int flags)
{
    CUresult result = fake_enter(__func__, stream == NULL);
    (void)flags;
    if (result == CUDA_SUCCESS) {
        struct callback *callback = malloc(sizeof(*callback));
        const struct fake_op op = {.what = FAKE_CALL, .fn = call_back, .arg = callback};
        if (callback == NULL) {
            return fake_leave(CUDA_ERROR_OUT_OF_MEMORY);
        }
        *callback = (struct callback){.fn = fn, .stream = stream, .arg = arg};
        result = fake_push(stream, &op);
        if (result != CUDA_SUCCESS) {
            free(callback);
        }
    }
    return fake_leave(result);
}
