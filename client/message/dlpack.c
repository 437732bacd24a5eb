/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages as arrays of other libraries, and their arrays as messages: views, no copies.
 */
#include "client/message/message.h"
#include "client/message/tensor.h"

#include <amb/compat/dlpack/dlpack.h>
#include <stdlib.h>
#include <string.h>

/* The hold of a consumer on a message. */
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
        /* Cannot overflow where the array is not empty; an empty one has no elements to find. */
        stride = (int64_t)((uint64_t)stride * (uint64_t)(shape[i - 1] != 0 ? shape[i - 1] : 1));
    }
}

static DLDeviceType type_of(enum amb_mem mem)
{
    return mem == AMB_MEM_CUDA           ? kDLCUDA
           : mem == AMB_MEM_CUDA_MANAGED ? kDLCUDAManaged
           : mem == AMB_MEM_PINNED       ? kDLCUDAHost
                                         : kDLCPU;
}

static void give_back(struct DLManagedTensorVersioned *managed)
{
    struct loan *loan = (struct loan *)managed;
    if (amb_msg_mem(loan->msg) != AMB_MEM_HOST) {
        amb_msg_release_when_free(loan->msg, loan->stream);
    } else {
        amb_msg_release(loan->msg);
    }
    free(loan);
}

/* Fields that the tensor alone describes. NULL: no memory. */
static struct loan *lend(const struct amb_tensor *tensor)
{
    struct loan *loan = calloc(1, sizeof(*loan));
    if (loan == NULL) {
        return NULL;
    }
    bool has_strides = false;
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        loan->shape[i] = tensor->shape[i];
        loan->strides[i] = tensor->strides[i];
        has_strides = has_strides || tensor->strides[i] != 0;
    }
    if (!has_strides) {
        c_order(tensor->ndim, loan->shape, loan->strides);
    }
    loan->managed = (DLManagedTensorVersioned){
        .version = {.major = DLPACK_MAJOR_VERSION, .minor = DLPACK_MINOR_VERSION},
        .deleter = give_back,
        .flags = DLPACK_FLAG_BITMASK_READ_ONLY,
        .dl_tensor = {.ndim = (int32_t)tensor->ndim,
                      .dtype = {.code = tensor->code, .bits = tensor->bits, .lanes = tensor->lanes},
                      .shape = loan->shape,
                      .strides = loan->strides},
    };
    return loan;
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
    struct amb_tensor tensor = {.code = kDLUInt, .bits = 8, .lanes = 1, .ndim = 1};
    struct amb_tensor_extent extent;
    tensor.shape[0] = (int64_t)len;
    enum amb_status status = amb_tensor_of(msg, &tensor);
    if ((status != AMB_OK && status != AMB_ENOTFOUND) || !amb_tensor_lie(&tensor, &extent)) {
        return AMB_EINVAL;
    }
    bool is_device = amb_msg_device(msg) >= 0;
    const void *data = is_device ? amb_msg_data_on(msg, stream) : amb_msg_data(msg);
    if (data == NULL && len != 0) {
        return AMB_ESTATE; /* Lazy, and not fetched. */
    }
    struct loan *loan = lend(&tensor);
    if (loan == NULL) {
        return AMB_ENOMEM;
    }
    loan->msg = amb_msg_ref(msg);
    loan->stream = stream;
    DLTensor *dl = &loan->managed.dl_tensor;
    dl->data = len != 0 ? (void *)(uintptr_t)data : NULL;
    dl->byte_offset = extent.first;
    dl->device.device_type = type_of(amb_msg_mem(msg));
    dl->device.device_id = is_device ? amb_msg_device(msg) : 0;
    *out = &loan->managed;
    return AMB_OK;
}

static bool is_c_order(const struct amb_tensor *tensor, const int64_t *strides)
{
    int64_t expected[AMB_TENSOR_DIMS];
    c_order(tensor->ndim, tensor->shape, expected);
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] == 0) {
            return true; /* It has no elements. */
        }
    }
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] != 1 && strides[i] != expected[i]) {
            return false;
        }
    }
    return true;
}

/* False: strides that cannot be said, for 0 in all of them means C order. */
static bool take_strides(struct amb_tensor *tensor, const int64_t *strides)
{
    if (strides == NULL || is_c_order(tensor, strides)) {
        return true;
    }
    bool is_one_element = true;
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        tensor->strides[i] = strides[i];
        is_one_element = is_one_element && strides[i] == 0;
    }
    return !is_one_element;
}

static bool kind_of(DLDeviceType device_type, enum amb_mem *out)
{
    switch ((int)device_type) {
    case kDLCPU:
        *out = AMB_MEM_HOST;
        return true;
    case kDLCUDA:
        *out = AMB_MEM_CUDA;
        return true;
    case kDLCUDAHost:
        *out = AMB_MEM_PINNED;
        return true;
    case kDLCUDAManaged:
        *out = AMB_MEM_CUDA_MANAGED;
        return true;
    default:
        return false;
    }
}

enum amb_status amb_out_dlpack(struct amb_out *out, struct amb_tensor *tensor,
                               const void *dl_tensor)
{
    const DLTensor *dl = dl_tensor;
    if (out == NULL || tensor == NULL || dl == NULL || dl->ndim < 0 ||
        (uint32_t)dl->ndim > AMB_TENSOR_DIMS || (dl->shape == NULL && dl->ndim != 0)) {
        return AMB_EINVAL;
    }
    struct amb_tensor own = {.code = dl->dtype.code,
                             .bits = dl->dtype.bits,
                             .lanes = dl->dtype.lanes,
                             .ndim = (uint32_t)dl->ndim};
    for (int32_t i = 0; i < dl->ndim; i++) {
        own.shape[i] = dl->shape[i];
    }
    enum amb_mem mem;
    struct amb_tensor_extent extent;
    if (!take_strides(&own, dl->strides) || !amb_tensor_lie(&own, &extent) ||
        (dl->data == NULL && extent.bytes != 0)) {
        return AMB_EINVAL;
    }
    if (!kind_of(dl->device.device_type, &mem)) {
        return AMB_EKIND;
    }
    *tensor = own;
    out->mem = mem;
    out->data =
        dl->data != NULL ? (const uint8_t *)dl->data + dl->byte_offset - extent.first : NULL;
    out->len = extent.bytes;
    out->tensor = tensor;
    return AMB_OK;
}
