/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options structs as they come from a program compiled against another version of the header:
 * copied into one of our size, checked, defaults filled in.
 * Threads: any. Memory: none.
 */
#pragma once

#include "wire/base/status.h"

#include <amb/amb.h>
#include <stdint.h>

#define AMB_MEMORY_MAX (UINT64_C(1) << 30)
#define AMB_SEND_MEMORY_MAX (UINT64_C(128) << 20) /* a default window, held in full batches */
#define AMB_PUB_LINGER_NS INT64_C(50000)
#define AMB_PUB_WINDOW_MSGS UINT64_C(65536)
#define AMB_PUB_WINDOW_BYTES (UINT64_C(64) << 20)
#define AMB_PUB_NAME_MAX 64u
#define AMB_SUB_CREDIT_MSGS UINT64_C(65536)
#define AMB_SUB_CREDIT_MSGS_ACKED UINT64_C(1000)
#define AMB_SUB_BACKOFF_MAX 16u
#define AMB_SUB_NAME_MAX 64u
#define AMB_SUB_ALLOCATORS_MAX 4u /* HOST, PINNED, CUDA, CUDA_MANAGED */
#define AMB_SUB_CREDIT_BYTES (UINT64_C(64) << 20)

struct amb_client_config;

/* One sentence about what is wrong. */
struct amb_complaint {
    char text[160];
};

/*
 * Each: `from` may be NULL (all defaults), which amb_options_read leaves 0. EINVAL: its size is
 * nonsense, or a field beyond what this library knows is set, or a value is out of range. ENOTSUP:
 * a field of a later release is set. *complaint names the field.
 */
AMB_MUST_CHECK enum amb_status amb_options_read(const struct amb_options *from,
                                                struct amb_options *to,
                                                struct amb_complaint *complaint);
/* Fields that are 0 take what file, environment and defaults say. Texts are those of `config`. */
void amb_options_complete(struct amb_options *options, const struct amb_client_config *config);
AMB_MUST_CHECK enum amb_status amb_pub_options_read(const struct amb_pub_options *from,
                                                    struct amb_pub_options *to,
                                                    struct amb_complaint *complaint);
AMB_MUST_CHECK enum amb_status amb_sub_options_read(const struct amb_sub_options *from,
                                                    struct amb_sub_options *to,
                                                    struct amb_complaint *complaint);
/* The subscription's allocator (zeros: it has none); to->mem is the kind that it wants. */
AMB_MUST_CHECK enum amb_status amb_allocator_read(const struct amb_sub_options *options,
                                                  struct amb_allocator *to,
                                                  struct amb_complaint *complaint);
/* The subscription's allocators, in the order of enum amb_mem from HOST on (zeros: it has none of
 * that kind). */
AMB_MUST_CHECK enum amb_status amb_allocators_read(const struct amb_sub_options *options,
                                                   struct amb_allocator to[AMB_SUB_ALLOCATORS_MAX],
                                                   struct amb_complaint *complaint);
AMB_MUST_CHECK enum amb_status amb_out_read(const struct amb_out *from, struct amb_out *to,
                                            struct amb_complaint *complaint);
/* The same of a message whose payload is a lease. */
AMB_MUST_CHECK enum amb_status amb_commit_out_read(const struct amb_out *from, struct amb_out *to,
                                                   struct amb_complaint *complaint);
