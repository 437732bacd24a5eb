/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames on their way out, and any active message.
 * Threads: those of the worker (ucx_worker.h). Only this room's files include this.
 */
#pragma once

#include "wire/link/ucx/ucx_state.h"

/* The parts of one active message. */
struct amb_ucx_am_parts {
    bool is_device; /* buffer is a GPU's memory */
    const void *header;
    size_t header_len;
    const void *buffer;
    size_t count; /* bytes, or entries of an iov */
    bool is_iov;
    ucp_mem_h memh;
};

/* NULL: settled, op is the caller's. An error: the same. Else op settles later. */
ucs_status_ptr_t amb_ucx_am_send(struct amb_ucx_op *op, enum amb_ucx_am id,
                                 const struct amb_ucx_am_parts *parts);
/* The link's; see link.h. */
enum amb_status amb_ucx_link_send(struct amb_link *base, struct amb_link_tx *tx);
