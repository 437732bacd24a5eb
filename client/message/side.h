/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The side of a message: memory that its payload was brought to, or fetched into, and an array's
 * description. Few messages have one. A delivery has a side for each message once one is asked for.
 *
 * Threads: any that has the message. Memory: one block a delivery, freed when that is used again.
 */
#pragma once

#include "client/message/arrival.h"

/* Does the driver write there? */
static inline bool amb_mem_is_on_gpu(enum amb_mem mem)
{
    return mem == AMB_MEM_CUDA || mem == AMB_MEM_CUDA_MANAGED;
}

/* A message's side, made when it is first asked for. NULL: no memory. */
struct amb_side *amb_side_of(const struct amb_msg *msg);
/* The GPU whose memory the payload was brought to; NULL: none. */
struct amb_gpu *amb_side_gpu(const struct amb_msg *msg);
/* The payload as the CPU can read it, wherever it was brought. NULL: it is on a GPU only. */
const void *amb_msg_bytes(const struct amb_msg *msg);
