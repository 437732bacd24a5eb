/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of many pieces of device memory to plain host memory, by way of two pinned chunks. Pieces
 * lie in a chunk one behind the other, and the caller waits once a chunk. While the copy engine
 * fills one chunk, the CPU empties the other.
 *
 *   device ══ copy engine, a copy a piece ══► chunk 0 ── memcpy a piece ──► host
 *                                             chunk 1
 *
 * Pieces belong to jobs: the pieces of a job are added, then its end. Jobs are over in that order.
 * A job with a piece that failed fails, and the others do not, unless the device is lost.
 *
 * Calls of the driver: one a piece, two a chunk.
 *
 * Threads: one, best bound to the device (amb_cuda_bind). Memory: two chunks of pinned memory, a
 * table of pieces for each, a stream and events.
 */
#pragma once

#include "wire/mem/cuda.h"

#define AMB_GATHER_CHUNK (UINT64_C(1) << 20)

struct amb_gather;

/* A job is over. AMB_OK: all its bytes have come. Nothing may be added from within. */
typedef void (*amb_gather_fn)(void *job, enum amb_status status);
/* The same of any job, before it is told so. */
typedef void (*amb_gather_note_fn)(void *owner, enum amb_status status, uint64_t bytes);

/* chunk 0: AMB_GATHER_CHUNK. note: called with owner. ENOMEM, ECUDA. */
AMB_MUST_CHECK enum amb_status amb_gather_create(struct amb_cuda *device, uint64_t chunk,
                                                 amb_gather_note_fn note, void *owner,
                                                 struct amb_gather **out);
/* Nothing is left to do. */
void amb_gather_destroy(struct amb_gather **gather);

/* A piece of the next job, of bytes that nobody writes any more. `to` stays until the job is over.
 * Waits for the engine where both chunks are full, so earlier jobs may be over then. */
void amb_gather_add(struct amb_gather *gather, void *to, uint64_t from, uint64_t len);
/* The job has all its pieces. fn is called later, by a call of this file's. */
void amb_gather_end(struct amb_gather *gather, void *job, amb_gather_fn fn);
/* Has the engine begin with all that was added. Waits for the chunk before that, or, if nothing was
 * added, for the only one. Returns whether one is left. */
bool amb_gather_turn(struct amb_gather *gather);
/* Reads a byte of the device's, so that a sticky error shows. Nothing is left to do. */
void amb_gather_probe(struct amb_gather *gather, uint64_t from);
