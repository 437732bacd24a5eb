/* SPDX-License-Identifier: Apache-2.0 */
/* Publishes an array from GPU memory, and receives it into GPU memory. */
#include <amb/amb.h>
#include <cuda.h>
#include <stdio.h>

enum {
    ROWS = 512,
    COLUMNS = 512
};
#define BYTES ((size_t)ROWS * COLUMNS * sizeof(float))

int main(void)
{
    struct amb_conn *conn;
    struct amb_pub *pub;
    struct amb_sub *sub;
    struct amb_msg *msg;
    CUcontext context;
    CUstream produce, consume;
    CUdeviceptr weights, copy;
    float first = 0;
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS ||
        cuStreamCreate(&produce, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        cuStreamCreate(&consume, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        cuMemAlloc(&weights, BYTES) != CUDA_SUCCESS || cuMemAlloc(&copy, BYTES) != CUDA_SUCCESS) {
        (void)fprintf(stderr, "no GPU\n");
        return 1;
    }
    struct amb_error error = {0};
    if (amb_connect(NULL, AMB_OPTIONS(.error = &error), &conn) != AMB_OK) {
        (void)fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    if (amb_subscribe(conn, "weights", AMB_SUB(.mem = AMB_MEM_CUDA, .device = 0), &sub) != AMB_OK ||
        amb_pub_open(conn, "weights", NULL, &pub) != AMB_OK) {
        (void)fprintf(stderr, "%s\n", amb_last_error(conn).text);
        (void)amb_close(conn, AMB_NOWAIT);
        return 1;
    }

    /* Publish what the work queued on `produce` will have made. */
    (void)cuMemsetD32Async(weights, 0x3f800000, (size_t)ROWS * COLUMNS, produce);
    const struct amb_tensor tensor = {
        .code = 2, .bits = 32, .lanes = 1, .ndim = 2, .shape = {ROWS, COLUMNS}};
    enum amb_status status = amb_pub_post(
        pub,
        AMB_OUT(.data = (const void *)weights, .len = BYTES, .tensor = &tensor, .stream = produce),
        5 * AMB_SEC, NULL);

    /* The pointer is only given out for a stream, and given back on one. */
    if (status == AMB_OK && (status = amb_next(sub, 5 * AMB_SEC, &msg)) == AMB_OK) {
        const void *device = amb_msg_data_on(msg, consume);
        (void)cuMemcpyDtoDAsync(copy, (CUdeviceptr)device, amb_msg_size(msg), consume);
        const struct amb_tensor *shape = amb_msg_tensor(msg);
        printf("rank %u on device %d, %s\n", shape != NULL ? shape->ndim : 0, amb_msg_device(msg),
               amb_msg_path(msg));
        amb_msg_release_on(msg, consume); /* When the copy has run, not now. */
        (void)cuStreamSynchronize(consume);
        (void)cuMemcpyDtoH(&first, copy, sizeof(first));
        printf("first %g\n", (double)first);
    }
    if (status != AMB_OK) {
        (void)fprintf(stderr, "%s\n", amb_last_error(conn).text);
    }
    (void)amb_close(conn, 5 * AMB_SEC);
    return status != AMB_OK;
}
