/* SPDX-License-Identifier: Apache-2.0 */
#include "client/message/tensor.h"

#include "client/message/arrival.h"
#include "client/message/side.h"
#include "wire/codec/props.h"

#include <stdlib.h>
#include <string.h>

#define HEAD 6u

static bool has_strides(const struct amb_tensor *tensor)
{
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->strides[i] != 0) {
            return true;
        }
    }
    return false;
}

/* Elements from the lowest address to the highest, in C order; false: too many. */
static bool span_compact(const struct amb_tensor *tensor, uint64_t *count)
{
    *count = 1;
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        if (__builtin_mul_overflow(*count, (uint64_t)tensor->shape[i], count)) {
            return false;
        }
    }
    return true;
}

/* The same by the strides; *first: how many of them lie below the one with all indices 0. */
static bool span_strided(const struct amb_tensor *tensor, uint64_t *count, uint64_t *first)
{
    int64_t low = 0, high = 0;
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        int64_t span;
        if (__builtin_mul_overflow(tensor->shape[i] - 1, tensor->strides[i], &span)) {
            return false;
        }
        int64_t *end = span < 0 ? &low : &high;
        if (__builtin_add_overflow(*end, span, end)) {
            return false;
        }
    }
    *first = -(uint64_t)low;
    return !__builtin_add_overflow(*first, (uint64_t)high, count) &&
           !__builtin_add_overflow(*count, 1, count);
}

bool amb_tensor_lie(const struct amb_tensor *tensor, struct amb_tensor_extent *out)
{
    uint64_t bits = (uint64_t)tensor->bits * tensor->lanes, count = 0, first = 0;
    if (bits == 0 || tensor->ndim > AMB_TENSOR_DIMS) {
        return false;
    }
    bool is_empty = false;
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] < 0) {
            return false;
        }
        is_empty = is_empty || tensor->shape[i] == 0;
    }
    if (!is_empty && has_strides(tensor)) {
        if (bits % 8 != 0 || !span_strided(tensor, &count, &first)) {
            return false;
        }
    } else if (!is_empty && !span_compact(tensor, &count)) {
        return false;
    }
    if (__builtin_mul_overflow(count, bits, &count) || count > INT64_MAX) {
        return false;
    }
    /* first < count: what fits for that one does for this. */
    *out = (struct amb_tensor_extent){.bytes = (count + 7) / 8, .first = first * (bits / 8)};
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
    struct amb_tensor_extent extent;
    if (!amb_tensor_lie(tensor, &extent)) {
        return AMB_EINVAL;
    }
    bool is_strided = has_strides(tensor);
    out[0] = tensor->code;
    out[1] = tensor->bits;
    out[2] = (uint8_t)tensor->lanes;
    out[3] = (uint8_t)(tensor->lanes >> 8);
    out[4] = (uint8_t)tensor->ndim;
    out[5] = is_strided;
    uint8_t *to = out + HEAD;
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        to = put64(to, tensor->shape[i]);
    }
    for (uint32_t i = 0; is_strided && i < tensor->ndim; i++) {
        to = put64(to, tensor->strides[i]);
    }
    *len = (size_t)(to - out);
    return AMB_OK;
}

enum amb_status amb_tensor_read(const uint8_t *from, size_t len, struct amb_tensor *out)
{
    uint8_t bytes[AMB_TENSOR_BYTES];
    if (len < HEAD || len > sizeof(bytes)) {
        return AMB_EPROTO;
    }
    memcpy(bytes, from, len); /* Looked at twice below, and not ours. */
    if (bytes[4] > AMB_TENSOR_DIMS || bytes[5] > 1) {
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
    struct amb_tensor_extent extent;
    if (!amb_tensor_lie(&tensor, &extent)) {
        return AMB_EPROTO;
    }
    *out = tensor;
    return AMB_OK;
}

enum amb_status amb_tensor_of(const struct amb_msg *msg, struct amb_tensor *out)
{
    struct amb_prop_view view;
    struct amb_tensor_extent extent;
    if (msg->record->props_len == 0 ||
        !amb_props_find(msg->props, msg->record->props_len, AMB_PROP_TENSOR, &view)) {
        return AMB_ENOTFOUND;
    }
    struct amb_tensor tensor;
    if (amb_tensor_read(view.value, view.value_len, &tensor) != AMB_OK ||
        !amb_tensor_lie(&tensor, &extent) || extent.bytes > amb_msg_size(msg)) {
        return AMB_EPROTO;
    }
    *out = tensor;
    return AMB_OK;
}

/* Made when it is asked for, and kept with the message. */
const struct amb_tensor *amb_msg_tensor(const struct amb_msg *msg)
{
    struct amb_tensor tensor;
    if (msg == NULL || amb_tensor_of(msg, &tensor) != AMB_OK) {
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
