/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other side of a link's upcalls, for fuzz targets: what holds of each of them, and a digest of
 * them all.
 * Threads: one. Memory: a body on its way, until fuzz_body_end.
 */
#pragma once

#include "tests/fuzz/fuzz.h"
#include "wire/base/assert.h"
#include "wire/codec/frame.h"
#include "wire/link/link.h"

struct fuzz_target {
    uint8_t *open; /* the body on its way */
    uint64_t open_len, digest;
    unsigned downs;
};

FUZZ_PLAIN static inline void fuzz_note(struct fuzz_target *target, uint64_t value)
{
    target->digest = (target->digest ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    target->digest ^= target->digest >> 29;
}

/* Returns how long its body is. */
FUZZ_PLAIN static inline uint64_t fuzz_note_frame(struct fuzz_target *target,
                                                  const struct amb_frame *frame)
{
    amb_assert(target->downs == 0 && target->open == NULL);
    uint64_t len = amb_frame_body_len(frame);
    fuzz_note(target, frame->type);
    fuzz_note(target, frame->handle);
    fuzz_note(target, len);
    return len;
}

FUZZ_PLAIN static inline void *fuzz_body_begin(struct fuzz_target *target, uint64_t len)
{
    target->open = malloc(len);
    amb_assert(target->open != NULL);
    target->open_len = len;
    return target->open;
}

FUZZ_PLAIN static inline void fuzz_body_end(struct fuzz_target *target)
{
    free(target->open);
    target->open = NULL;
}

FUZZ_PLAIN static inline void fuzz_note_flow(struct fuzz_target *target, enum amb_flow_kind kind,
                                             uint32_t handle, uint64_t value)
{
    amb_assert((unsigned)kind < AMB_FLOW_KINDS && handle < AMB_HANDLES_MAX && target->downs == 0);
    fuzz_note(target, (uint64_t)kind << 32 | handle);
    fuzz_note(target, value);
}

FUZZ_PLAIN static inline void fuzz_note_down(struct fuzz_target *target, enum amb_status why,
                                             const char *text)
{
    amb_assert(why != AMB_OK && text != NULL && target->downs == 0 && target->open == NULL);
    fuzz_note(target, (uint64_t)why);
    target->downs++;
}
