/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts of this host that decide how payloads can travel, for the doctor. They are about the
 * GPU driver, UCX and its modules, RDMA devices, MPS, modes of devices, GPUDirect. Nothing is
 * loaded. Threads: that of doctor_files.h, or the main one before a start; amb_doctor_device is
 * for the control thread. Blocks for the file system. Memory: JSON, the caller's.
 */
#pragma once

#include "wire/link/ucxlib/ucx_find.h"
#include "wire/mem/cuda.h"

#include <jansson.h>
#include <stdbool.h>

#define AMB_DOCTOR_UCX_WHY_MAX 256u /* bytes of a sentence about UCX, with its NUL */

enum amb_ucx_cuda {
    AMB_UCX_CUDA_UNLOADED, /* no UCX in this process */
    AMB_UCX_CUDA_NONE,     /* a UCX without CUDA modules */
    AMB_UCX_CUDA_THERE,
};

struct amb_doctor_host {
    const char *root; /* "", or, in tests, a folder that has dev, proc and sys */
    bool has_pools;   /* the broker has GPU memory */
    bool has_rdma;    /* it uses RDMA devices */
    enum amb_ucx_cuda ucx;
    const struct amb_ucx_library *library; /* that is loaded; NULL: none is */
    const struct amb_ucx_libraries *found; /* without one: those there are; NULL: nobody looked */
    const char *ucx_why; /* ucx links are wanted, and UCX cannot be had: why; else NULL */
    enum amb_cuda_mps mps;
    const char *mps_folder; /* of its pipes (CUDA_MPS_PIPE_DIRECTORY); NULL: the usual one */
    const char *left_out;   /* UCX is told to do without cuda_ipc because; NULL: it is not */
};

/* Driver, MPS, UCX, GPUDirect. */
void amb_doctor_host(const struct amb_doctor_host *look, json_t *rows);
/* A device on which the broker has memory: its mode, and whether it is a part of a GPU. */
void amb_doctor_device(const struct amb_cuda_info *info, json_t *rows);
/* Of the UCX that this process has. */
enum amb_ucx_cuda amb_doctor_ucx(void);
