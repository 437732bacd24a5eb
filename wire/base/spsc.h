/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded queue of pointers between exactly one producer and one consumer thread.
 * Each side keeps a private copy of the other's index and reloads it only when it seems full or
 * empty, so the shared lines move once a batch and not once an item.
 * Threads: push from the producer, pop from the consumer. Memory: one allocation at init.
 */
#pragma once

#include "wire/base/status.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct amb_spsc {
    alignas(128) _Atomic uint64_t tail; /* producer's, read by the consumer */
    uint64_t head_seen;                 /* producer's copy of head */
    alignas(128) _Atomic uint64_t head; /* consumer's, read by the producer */
    uint64_t tail_seen;                 /* consumer's copy of tail */
    alignas(128) void **slots;
    uint64_t mask;
};

/* capacity: a power of two. ENOMEM. */
AMB_MUST_CHECK enum amb_status amb_spsc_init(struct amb_spsc *queue, size_t capacity);
void amb_spsc_fini(struct amb_spsc *queue);
/* False if full. */
bool amb_spsc_push(struct amb_spsc *queue, void *item);
/* NULL if empty. */
void *amb_spsc_pop(struct amb_spsc *queue);
/* A snapshot, exact for the consumer. */
bool amb_spsc_is_empty(const struct amb_spsc *queue);
