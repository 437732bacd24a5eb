/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DLPack's structures, version 1: what array libraries hand each other. Their layout is the
 * standard's; programs have them from <dlpack/dlpack.h>, which libamb does not need.
 */
#pragma once

#include <stdint.h>

#define AMB_DL_MAJOR 1u
#define AMB_DL_MINOR 0u
#define AMB_DL_READ_ONLY UINT64_C(1)

#define AMB_DL_CPU 1
#define AMB_DL_CUDA 2
#define AMB_DL_CUDA_HOST 3
#define AMB_DL_CUDA_MANAGED 13

/* "DLTensor". */
struct amb_dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: C order */
    uint64_t byte_offset;
};
_Static_assert(sizeof(struct amb_dl_tensor) == 48, "the standard's layout");

struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    struct amb_dl_tensor dl_tensor;
};
