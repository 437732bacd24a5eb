/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The beginning that the programs on the fake driver share. A check that fails ends them.
 * Threads: one. Memory: none.
 */
#pragma once

#include <amb/amb.h>
#include <cuda.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* The first device is this thread's from here on. Returns a stream there. */
static inline CUstream start_cuda(void)
{
    CUcontext context;
    CUstream stream;
    CHECK(cuInit(0) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    return stream;
}

/* To $AMB_URL. */
static inline struct amb_conn *connect_to(void)
{
    struct amb_error error;
    struct amb_conn *conn;
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        (void)fprintf(stderr, "%s: %s\n", program_invocation_short_name, error.text);
        exit(1);
    }
    return conn;
}
