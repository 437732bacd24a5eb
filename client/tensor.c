/* SPDX-License-Identifier: Apache-2.0 */
#include "client/tensor.h"

#include "client/delivery.h"
#include "wire/codec/props.h"

#include <stdlib.h>
#include <string.h>

#define HEAD 6u

bool amb_tensor_size(const struct amb_tensor *tensor, uint64_t *out)
{
    uint64_t bits = (uint64_t)tensor->bits * tensor->lanes;
    uint64_t count = 1;
    bool is_empty = false;
    if (bits == 0 || tensor->ndim > AMB_TENSOR_DIMS) {
        return false;
    }
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] < 0) {
            return false;
        }
        is_empty = is_empty || tensor->shape[i] == 0;
    }
    for (uint32_t i = 0; !is_empty && i < tensor->ndim; i++) {
        if (__builtin_mul_overflow(count, (uint64_t)tensor->shape[i], &count)) {
            return false;
        }
    }
    if (is_empty) {
        count = 0;
    }
    if (__builtin_mul_overflow(count, bits, &bits) || bits > INT64_MAX) {
        return false;
    }
    *out = (bits + 7) / 8;
    return true;
}

static uint8_t *put64(uint8_t *to, int64_t value)
{
    for (unsigned i = 0; i < 8; i++) {
        to[i] = (uint8_t)((uint64_t)value >> (8 * i));
    }
    return to + 8;
}

static int64_t get64(const uint8_t *from)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++) {
        value |= (uint64_t)from[i] << (8 * i);
    }
    return (int64_t)value;
}

enum amb_status amb_tensor_write(const struct amb_tensor *tensor, uint8_t out[AMB_TENSOR_BYTES],
                                 size_t *len)
{
    uint64_t size;
    if (!amb_tensor_size(tensor, &size)) {
        return AMB_EINVAL;
    }
    bool has_strides = false;
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        has_strides = has_strides || tensor->strides[i] != 0;
    }
    out[0] = tensor->code;
    out[1] = tensor->bits;
    out[2] = (uint8_t)tensor->lanes;
    out[3] = (uint8_t)(tensor->lanes >> 8);
    out[4] = (uint8_t)tensor->ndim;
    out[5] = has_strides;
    uint8_t *to = out + HEAD;
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        to = put64(to, tensor->shape[i]);
    }
    for (uint32_t i = 0; has_strides && i < tensor->ndim; i++) {
        to = put64(to, tensor->strides[i]);
    }
    *len = (size_t)(to - out);
    return AMB_OK;
}

enum amb_status amb_tensor_read(const uint8_t *bytes, size_t len, struct amb_tensor *out)
{
    if (len < HEAD || bytes[4] > AMB_TENSOR_DIMS || bytes[5] > 1) {
        return AMB_EPROTO;
    }
    struct amb_tensor tensor = {
        .code = bytes[0],
        .bits = bytes[1],
        .lanes = (uint16_t)(bytes[2] | bytes[3] << 8),
        .ndim = bytes[4],
    };
    size_t dims = (size_t)8 * tensor.ndim;
    if (len != HEAD + dims * (1u + bytes[5])) {
        return AMB_EPROTO;
    }
    for (uint32_t i = 0; i < tensor.ndim; i++) {
        tensor.shape[i] = get64(bytes + HEAD + (size_t)8 * i);
        tensor.strides[i] = bytes[5] != 0 ? get64(bytes + HEAD + dims + (size_t)8 * i) : 0;
    }
    uint64_t size;
    if (!amb_tensor_size(&tensor, &size)) {
        return AMB_EPROTO;
    }
    *out = tensor;
    return AMB_OK;
}

/* Made when it is asked for, and kept with the message. */
const struct amb_tensor *amb_msg_tensor(const struct amb_msg *msg)
{
    struct amb_prop_view view;
    struct amb_tensor tensor;
    if (msg->record->props_len == 0 ||
        !amb_props_find(msg->props, msg->record->props_len, AMB_PROP_TENSOR, &view) ||
        amb_tensor_read(view.value, view.value_len, &tensor) != AMB_OK) {
        return NULL;
    }
    struct amb_side *side = amb_side_of(msg);
    if (side == NULL) {
        return NULL;
    }
    struct amb_tensor *known = atomic_load_explicit(&side->tensor, memory_order_acquire);
    if (known == NULL) {
        struct amb_tensor *own = malloc(sizeof(*own));
        if (own == NULL) {
            return NULL;
        }
        *own = tensor;
        if (atomic_compare_exchange_strong(&side->tensor, &known, own)) {
            return own;
        }
        free(own);
    }
    return known;
}
