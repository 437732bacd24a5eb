/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device as the files of this module see it.
 * Threads: any; fields that change are atomic or under `lock`.
 */
#pragma once

#include "wire/mem/cuda.h"
#include "wire/mem/cuda_api.h"
#include "wire/mem/cuda_errors.h"

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>

struct amb_cuda {
    struct amb_cuda_info info;
    CUdevice handle;
    CUcontext context;        /* NULL until retained */
    _Atomic uint32_t refused; /* the driver's answer when it was last not retained, and not full */
    _Atomic bool is_fenced;   /* a sticky error was seen */
    pthread_mutex_t lock;
    char failure[200];
    _Atomic uint64_t let_reach; /* devices, by index: amb_cuda_let_reach was called */
};

/* No capture forbids this thread's calls from here on, to amb_cuda_capture_restore. Nests. */
void amb_cuda_capture_relax(void);
void amb_cuda_capture_restore(void);
/* Has anybody in this process a primary context there? Makes none. */
bool amb_cuda_has_context(uint32_t index);
/* Does that answer to a wait end it, for good or ill? All others leave everything open. */
bool amb_cuda_is_final(CUresult result);
/* Before the driver is asked again, which has refused to do what it could. */
void amb_cuda_pause(void);
/* The device answered a wait for something of ours with that. EAGAIN: nothing is known yet. ECUDA:
 * nothing will ever be known, and the device is fenced. */
enum amb_status amb_cuda_check_wait(struct amb_cuda *device, CUresult result, const char *call);

/* Is it current here, by enter or bind? */
bool amb_cuda_is_current(const struct amb_cuda *device);
/* The meaning of a driver call's answer; keeps its text, and fences the device if it is sticky. */
enum amb_status amb_cuda_check(struct amb_cuda *device, CUresult result, const char *call);
