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

/* To $AMB_URL; a lost session is followed by so many attempts (0: any number, AMB_NONE: none). */
static inline struct amb_conn *connect_with_attempts(uint32_t attempts)
{
    struct amb_error error;
    struct amb_conn *conn;
    const struct amb_options *options =
        AMB_OPTIONS(.error = &error, .reconnect_attempts = attempts);
    if (amb_connect(NULL, options, &conn) != AMB_OK) {
        (void)fprintf(stderr, "%s: %s\n", program_invocation_short_name, error.text);
        exit(1);
    }
    return conn;
}

static inline struct amb_conn *connect_to(void)
{
    return connect_with_attempts(0);
}
