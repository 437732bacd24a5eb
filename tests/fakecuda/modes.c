/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fakecuda: in which mode the devices are. A device may be for one process alone, for none, shared
 * by MPS, or a part of a GPU (MIG).
 */
#include "tests/fakecuda/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MPS_ENABLED 133 /* CU_DEVICE_ATTRIBUTE_MPS_ENABLED is not in headers before CUDA 12. */

static CUcomputemode mode;
static bool has_mps;
static int instance; /* 0: whole GPUs */

void fake_modes_environment(void)
{
    const char *text = getenv("FAKECUDA_MODE");
    mode = text == NULL                      ? CU_COMPUTEMODE_DEFAULT
           : strcmp(text, "exclusive") == 0  ? CU_COMPUTEMODE_EXCLUSIVE_PROCESS
           : strcmp(text, "prohibited") == 0 ? CU_COMPUTEMODE_PROHIBITED
                                             : CU_COMPUTEMODE_DEFAULT;
    text = getenv("FAKECUDA_MPS");
    has_mps = text != NULL && atoi(text) != 0;
    text = getenv("FAKECUDA_MIG");
    instance = text != NULL ? atoi(text) : 0;
    int named = fake_visible_environment();
    if (instance != 0) { /* A process sees one instance. */
        fake.devices = 1;
        instance = named != 0 ? named : instance;
    }
}

int fake_instance(void)
{
    return instance;
}

int fake_mode_attribute(CUdevice_attribute name)
{
    return name == CU_DEVICE_ATTRIBUTE_COMPUTE_MODE ? (int)mode
           : (int)name == MPS_ENABLED               ? has_mps
                                                    : 0;
}

CUresult fake_may_use(int device)
{
    bool may = mode == CU_COMPUTEMODE_DEFAULT || (mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS &&
                                                  (has_mps || fake_machine_claim(device)));
    return may ? CUDA_SUCCESS : CUDA_ERROR_DEVICE_UNAVAILABLE;
}

static CUresult uuid_of(const char *call, CUuuid *uuid, CUdevice device, int part)
{
    CUresult result = fake_enter(call, false);
    if (result == CUDA_SUCCESS && (device < 0 || device >= fake.devices)) {
        result = CUDA_ERROR_INVALID_DEVICE;
    }
    if (result == CUDA_SUCCESS) {
        memset(uuid->bytes, part != 0 ? 0xfb : 0xfa, sizeof(uuid->bytes));
        uuid->bytes[15] = (char)(part != 0 ? part : fake_machine_number(device));
    }
    return fake_leave(result);
}

/* Since 11.4: an instance has a UUID of its own, ... */
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    return uuid_of(__func__, uuid, device, instance);
}

/* ... and the first one tells the GPU's. */
#undef cuDeviceGetUuid
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return uuid_of(__func__, uuid, device, 0);
}

CUresult cuDeviceGetName(char *name, int len, CUdevice device)
{
    CUresult result = fake_enter(__func__, false);
    if (result == CUDA_SUCCESS && (device < 0 || device >= fake.devices)) {
        result = CUDA_ERROR_INVALID_DEVICE;
    }
    if (result == CUDA_SUCCESS) {
        (void)snprintf(name, (size_t)len, "fakecuda device %d%s", fake_machine_number(device),
                       instance != 0 ? " MIG 1g.5gb" : "");
    }
    return fake_leave(result);
}
