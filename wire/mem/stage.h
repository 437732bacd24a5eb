/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between a device and plain host memory by way of two pinned chunks. While the copy engine
 * works on one, the CPU works on the other.
 *
 *   device ══ copy engine ══► chunk 0 ── memcpy ──► host
 *                             chunk 1
 *
 * Threads: any; one copy at a time, others wait. Blocks until the copy is done.
 * Memory: two chunks of pinned memory, a stream and events of its own.
 */
#pragma once

#include "wire/mem/cuda.h"

#define AMB_STAGE_CHUNK (UINT64_C(1) << 20)

struct amb_stage;

/* chunk 0: AMB_STAGE_CHUNK. ENOMEM, ECUDA. */
AMB_MUST_CHECK enum amb_status amb_stage_create(struct amb_cuda *device, uint64_t chunk,
                                                struct amb_stage **out);
void amb_stage_destroy(struct amb_stage **stage);

/*
 * Device to host, behind the work on the stream `after` so far. NULL: the device's default stream,
 * and so everything that a plain cudaMemcpy would wait for. On failure `to` holds anything. ESTATE:
 * that stream captures a graph.
 */
AMB_MUST_CHECK enum amb_status amb_stage_read(struct amb_stage *stage, void *to, uint64_t from,
                                              uint64_t len, void *after);
/* The same of bytes that nobody writes any more: behind nothing. */
AMB_MUST_CHECK enum amb_status amb_stage_read_whole(struct amb_stage *stage, void *to,
                                                    uint64_t from, uint64_t len);
/* Host to device. */
AMB_MUST_CHECK enum amb_status amb_stage_write(struct amb_stage *stage, uint64_t to,
                                               const void *from, uint64_t len);
