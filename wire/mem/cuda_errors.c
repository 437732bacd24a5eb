/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sticky errors, by what cuda.h of CUDA 13 says; it is silent about some. By number, since a
 * driver may be newer than the header of this build. Everything else is an error of its call alone:
 * CUDA_ERROR_UNKNOWN (999) too, which drivers also answer where they refuse something.
 */
#include "wire/mem/cuda_errors.h"

#include <stddef.h>
#include <stdint.h>

static const uint16_t sticky[] = {
    /* "The process must be terminated and relaunched." */
    226, /* CONTAINED: the GPU's error containment, peer memory over NVLink */
    700, /* ILLEGAL_ADDRESS */
    702, /* LAUNCH_TIMEOUT */
    714, /* HARDWARE_STACK_ERROR */
    715, /* ILLEGAL_INSTRUCTION */
    716, /* MISALIGNED_ADDRESS */
    717, /* INVALID_ADDRESS_SPACE */
    718, /* INVALID_PC */
    719, /* LAUNCH_FAILED */
    721, /* TENSOR_MEMORY_LEAK */
    810, /* MPS_CLIENT_TERMINATED */
    911, /* EXTERNAL_DEVICE */
    /* The context cannot be used any more, and its memory is gone. Of 709 the header says only
     * that a context is destroyed, which is our primary one. */
    709, /* CONTEXT_IS_DESTROYED */
    710, /* ASSERT */
    /* The header is silent. Memory has changed by itself, so nothing of it is passed on. */
    214, /* ECC_UNCORRECTABLE */
    220, /* NVLINK_UNCORRECTABLE */
};

bool amb_cuda_is_sticky(CUresult result)
{
    for (size_t i = 0; i < sizeof(sticky) / sizeof(sticky[0]); i++) {
        if ((int)result == sticky[i]) {
            return true;
        }
    }
    return false;
}
