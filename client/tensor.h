/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Array descriptions as they travel: the property "$tensor", little-endian and byte by byte:
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

/* Bytes of a compact array of it; false: it is none, or larger than 2^63. */
bool amb_tensor_size(const struct amb_tensor *tensor, uint64_t *out);
/* EINVAL for what cannot be: no bits, more than 8 dimensions, a negative one. *len is written. */
AMB_MUST_CHECK enum amb_status amb_tensor_write(const struct amb_tensor *tensor,
                                                uint8_t out[AMB_TENSOR_BYTES], size_t *len);
/* EPROTO: malformed. */
AMB_MUST_CHECK enum amb_status amb_tensor_read(const uint8_t *bytes, size_t len,
                                               struct amb_tensor *out);
