/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Array descriptions as they travel: the property "$tensor", little-endian and byte by byte.
 *
 *   u8 code, u8 bits, u16 lanes, u8 ndim, u8 has_strides, i64 shape[ndim], i64 strides[ndim]?
 * Threads: any. Memory: the caller's.
 */
#pragma once

#include "wire/base/status.h"

#include <amb/amb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_TENSOR_DIMS 8u
#define AMB_TENSOR_BYTES (6u + 2u * 8u * AMB_TENSOR_DIMS)

struct amb_msg;

/* The place of an array's elements: so many bytes from the lowest address on. Where strides are
 * negative, `first` bytes are below the element with all indices 0. */
struct amb_tensor_extent {
    uint64_t bytes, first;
};
/* False: it is none (no bits, more than 8 dimensions, a negative one, strides of elements that are
 * no whole bytes), or larger than 2^63. */
bool amb_tensor_lie(const struct amb_tensor *tensor, struct amb_tensor_extent *out);
/* EINVAL for what amb_tensor_lie says is none. *len is written. */
AMB_MUST_CHECK enum amb_status amb_tensor_write(const struct amb_tensor *tensor,
                                                uint8_t out[AMB_TENSOR_BYTES], size_t *len);
/* EPROTO: malformed, or amb_tensor_lie says that it is none. */
AMB_MUST_CHECK enum amb_status amb_tensor_read(const uint8_t *bytes, size_t len,
                                               struct amb_tensor *out);
/* That of a message, all of whose elements lie in its payload. ENOTFOUND: none is described;
 * EPROTO: the description is of none, or of one that does not lie there. */
AMB_MUST_CHECK enum amb_status amb_tensor_of(const struct amb_msg *msg, struct amb_tensor *out);
