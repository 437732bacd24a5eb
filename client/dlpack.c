/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages as arrays of other libraries, and their arrays as messages: views, no copies.
 */
#include "client/dlpack_abi.h"
#include "client/tensor.h"

#include <stdlib.h>
#include <string.h>

/* What a consumer of a message holds. */
struct loan {
    struct DLManagedTensorVersioned managed; /* first: what the consumer has a pointer to */
    struct amb_msg *msg;
    void *stream;
    int64_t shape[AMB_TENSOR_DIMS], strides[AMB_TENSOR_DIMS];
};

static void c_order(uint32_t ndim, const int64_t *shape, int64_t *strides)
{
    int64_t stride = 1;
    for (uint32_t i = ndim; i > 0; i--) {
        strides[i - 1] = stride;
        /* Cannot overflow where the array is not empty; what is empty has no elements to find. */
        stride = (int64_t)((uint64_t)stride * (uint64_t)(shape[i - 1] != 0 ? shape[i - 1] : 1));
    }
}

static bool has_strides(const struct amb_tensor *tensor)
{
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->strides[i] != 0) {
            return true;
        }
    }
    return false;
}

/* Do all elements lie within len bytes? The description is a peer's word. */
static bool lies_within(const struct amb_tensor *tensor, const int64_t *strides, uint64_t len)
{
    int64_t last = 0;
    uint64_t bits = (uint64_t)tensor->bits * tensor->lanes;
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        int64_t span;
        if (tensor->shape[i] == 0) {
            return true;
        }
        if (strides[i] < 0 || __builtin_mul_overflow(tensor->shape[i] - 1, strides[i], &span) ||
            __builtin_add_overflow(last, span, &last)) {
            return false;
        }
    }
    uint64_t need;
    return !__builtin_mul_overflow((uint64_t)last + 1, bits, &need) && need <= UINT64_MAX - 7 &&
           (need + 7) / 8 <= len;
}

static int32_t type_of(enum amb_mem mem)
{
    return mem == AMB_MEM_CUDA           ? AMB_DL_CUDA
           : mem == AMB_MEM_CUDA_MANAGED ? AMB_DL_CUDA_MANAGED
           : mem == AMB_MEM_PINNED       ? AMB_DL_CUDA_HOST
                                         : AMB_DL_CPU;
}

static void give_back(struct DLManagedTensorVersioned *managed)
{
    struct loan *loan = (struct loan *)managed;
    if (amb_msg_mem(loan->msg) != AMB_MEM_HOST) {
        amb_msg_release_on(loan->msg, loan->stream);
    } else {
        amb_msg_release(loan->msg);
    }
    free(loan);
}

enum amb_status amb_msg_dlpack(struct amb_msg *msg, void *stream,
                               struct DLManagedTensorVersioned **out)
{
    if (out == NULL) {
        return AMB_EINVAL;
    }
    *out = NULL;
    if (msg == NULL) {
        return AMB_EINVAL;
    }
    uint64_t len = amb_msg_size(msg);
    const struct amb_tensor bytes = {
        .code = 1, .bits = 8, .lanes = 1, .ndim = 1, .shape = {(int64_t)len}};
    const struct amb_tensor *tensor = amb_msg_tensor(msg);
    tensor = tensor != NULL ? tensor : &bytes;
    struct loan *loan = calloc(1, sizeof(*loan));
    if (loan == NULL) {
        return AMB_ENOMEM;
    }
    memcpy(loan->shape, tensor->shape, sizeof(loan->shape));
    if (has_strides(tensor)) {
        memcpy(loan->strides, tensor->strides, sizeof(loan->strides));
    } else {
        c_order(tensor->ndim, loan->shape, loan->strides);
    }
    if (!lies_within(tensor, loan->strides, len)) {
        free(loan);
        return AMB_EINVAL;
    }
    bool is_device = amb_msg_device(msg) >= 0;
    const void *data = is_device ? amb_msg_data_on(msg, stream) : amb_msg_data(msg);
    if (data == NULL && len != 0) {
        free(loan);
        return AMB_ESTATE; /* Lazy, and not fetched. */
    }
    loan->msg = amb_msg_ref(msg);
    loan->stream = stream;
    loan->managed = (struct DLManagedTensorVersioned){
        .major = AMB_DL_MAJOR,
        .minor = AMB_DL_MINOR,
        .deleter = give_back,
        .flags = AMB_DL_READ_ONLY,
        .dl_tensor = {.data = len != 0 ? (void *)(uintptr_t)data : NULL,
                      .device_type = type_of(amb_msg_mem(msg)),
                      .device_id = is_device ? amb_msg_device(msg) : 0,
                      .ndim = (int32_t)tensor->ndim,
                      .code = tensor->code,
                      .bits = tensor->bits,
                      .lanes = tensor->lanes,
                      .shape = loan->shape,
                      .strides = loan->strides},
    };
    *out = &loan->managed;
    return AMB_OK;
}

static bool is_compact(const struct amb_dl_tensor *dl)
{
    int64_t expected[AMB_TENSOR_DIMS];
    if (dl->strides == NULL) {
        return true;
    }
    c_order((uint32_t)dl->ndim, dl->shape, expected);
    for (int32_t i = 0; i < dl->ndim; i++) {
        if (dl->shape[i] == 0) {
            return true; /* It has no elements. */
        }
    }
    for (int32_t i = 0; i < dl->ndim; i++) {
        if (dl->shape[i] != 1 && dl->strides[i] != expected[i]) {
            return false;
        }
    }
    return true;
}

static bool kind_of(int32_t device_type, enum amb_mem *out)
{
    switch (device_type) {
    case AMB_DL_CPU:
        *out = AMB_MEM_HOST;
        return true;
    case AMB_DL_CUDA:
        *out = AMB_MEM_CUDA;
        return true;
    case AMB_DL_CUDA_HOST:
        *out = AMB_MEM_PINNED;
        return true;
    case AMB_DL_CUDA_MANAGED:
        *out = AMB_MEM_CUDA_MANAGED;
        return true;
    default:
        return false;
    }
}

enum amb_status amb_out_dlpack(struct amb_out *out, struct amb_tensor *tensor,
                               const void *dl_tensor)
{
    const struct amb_dl_tensor *dl = dl_tensor;
    if (out == NULL || tensor == NULL || dl == NULL || dl->ndim < 0 ||
        (uint32_t)dl->ndim > AMB_TENSOR_DIMS || (dl->shape == NULL && dl->ndim != 0)) {
        return AMB_EINVAL;
    }
    struct amb_tensor own = {
        .code = dl->code, .bits = dl->bits, .lanes = dl->lanes, .ndim = (uint32_t)dl->ndim};
    for (int32_t i = 0; i < dl->ndim; i++) {
        own.shape[i] = dl->shape[i];
    }
    enum amb_mem mem;
    uint64_t len;
    if (!amb_tensor_size(&own, &len) || !is_compact(dl) || (dl->data == NULL && len != 0)) {
        return AMB_EINVAL;
    }
    if (!kind_of(dl->device_type, &mem)) {
        return AMB_EKIND;
    }
    *tensor = own;
    out->mem = mem;
    out->data = dl->data != NULL ? (const uint8_t *)dl->data + dl->byte_offset : NULL;
    out->len = len;
    out->tensor = tensor;
    return AMB_OK;
}
