/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a counters file (layout.h), of a broker that runs, hangs or has been killed. Nothing in the
 * file is trusted: each length and place is checked against what is there. It is copied, never
 * mapped, so nobody can cut it off under the reader.
 *
 * An image is also what a broker has of its own file. Slots are then read while others write them.
 *
 * Threads: any; an image that was read is its reader's. Memory: the copy of the file.
 */
#pragma once

#include "wire/base/status.h"
#include "wire/counters/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMB_COUNTERS_WHY_MAX 128u

struct amb_counters_image {
    const uint8_t *base;
    uint8_t *owned; /* the copy; NULL: the broker's own mapping */
    const struct amb_counters_header *header;
    const struct amb_counters_metric *metrics;
    uint32_t torn; /* slots that were being written, and are left out */
};

/* Reads the file. EFORBIDDEN: it may not be read. ENOTFOUND: it cannot be opened. EPROTO: it is
 * none, is cut, or of another layout. ENOMEM. `why` has a sentence. */
AMB_MUST_CHECK enum amb_status amb_counters_load(const char *path, struct amb_counters_image *out,
                                                 char why[AMB_COUNTERS_WHY_MAX]);
/* Checks bytes that are there; they stay the caller's. `size` may be more than the file's length.
 * EPROTO. */
AMB_MUST_CHECK enum amb_status amb_counters_check(const void *bytes, size_t size,
                                                  struct amb_counters_image *out,
                                                  char why[AMB_COUNTERS_WHY_MAX]);
/* Harmless on a zeroed one. */
void amb_counters_unload(struct amb_counters_image *image);

/* A word of a block; UINT64_MAX where there is none. block: 0 the broker's, then the workers'. */
uint64_t amb_counters_word(const struct amb_counters_image *image, uint32_t block, uint32_t word);
/* The largest of the last ten seconds, of a metric of kind RECENT. */
uint64_t amb_counters_recent(const struct amb_counters_image *image, uint32_t block,
                             const struct amb_counters_metric *metric, uint64_t now_ns);
/* One of both, as the metric's kind wants it. */
uint64_t amb_counters_figure(const struct amb_counters_image *image, uint32_t block,
                             const struct amb_counters_metric *metric, uint64_t now_ns);
/* Copies a slot as it was at one moment. False: it is free, or somebody writes it again and again,
 * or its writer has died meanwhile. `out` then has words of several moments: free if its kind is
 * 0, else torn. */
bool amb_counters_numbers(const struct amb_counters_image *image, uint32_t slot,
                          uint64_t out[AMB_NUMBERS_WORDS]);
bool amb_counters_texts(const struct amb_counters_image *image, enum amb_counters_scope scope,
                        uint32_t slot, uint64_t out[AMB_TEXTS_WORDS]);
/* How many slots of texts there are for objects of that scope. Scopes without a section of their
 * own share one. */
uint32_t amb_counters_slots(const struct amb_counters_image *image, enum amb_counters_scope scope);
/* The text of that number in a copied slot; "" where there is none. Always ends within the slot. */
const char *amb_counters_text(const uint64_t slot[AMB_TEXTS_WORDS], uint32_t number);

static inline enum amb_counters_scope amb_counters_scope_of(const uint64_t *slot)
{
    return (enum amb_counters_scope)(slot[AMB_SLOT_KIND] & 0xffff);
}
