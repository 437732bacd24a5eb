/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indices count for ever and are masked on use; 64 bits do not wrap in the life of a process.
 * tail - head is the number of items, so a queue of `capacity` holds exactly that many.
 */
#include "wire/base/spsc.h"
#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>

enum amb_status amb_spsc_init(struct amb_spsc *queue, size_t capacity)
{
    amb_assert(capacity > 0 && (capacity & (capacity - 1)) == 0);
    void **slots = calloc(capacity, sizeof(*slots));
    if (slots == NULL) {
        return AMB_ENOMEM;
    }
    atomic_init(&queue->tail, 0);
    atomic_init(&queue->head, 0);
    queue->head_seen = 0;
    queue->tail_seen = 0;
    queue->slots = slots;
    queue->mask = capacity - 1;
    return AMB_OK;
}

void amb_spsc_fini(struct amb_spsc *queue)
{
    free(queue->slots);
    queue->slots = NULL;
    queue->mask = 0;
}

bool amb_spsc_push(struct amb_spsc *queue, void *item)
{
    amb_debug_assert(item != NULL);
    uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    if (tail - queue->head_seen > queue->mask) {
        /* Acquire: pairs with the release in amb_spsc_pop; the slot has been read. */
        queue->head_seen = atomic_load_explicit(&queue->head, memory_order_acquire);
        if (tail - queue->head_seen > queue->mask) {
            return false;
        }
    }
    queue->slots[tail & queue->mask] = item;
    /* Release: pairs with the acquire in amb_spsc_pop; the slot and what it points to are whole. */
    atomic_store_explicit(&queue->tail, tail + 1, memory_order_release);
    return true;
}

void *amb_spsc_pop(struct amb_spsc *queue)
{
    uint64_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);
    if (head == queue->tail_seen) {
        /* Acquire: pairs with the release in amb_spsc_push. */
        queue->tail_seen = atomic_load_explicit(&queue->tail, memory_order_acquire);
        if (head == queue->tail_seen) {
            return NULL;
        }
    }
    void *item = queue->slots[head & queue->mask];
    /* Release: pairs with the acquire in amb_spsc_push. */
    atomic_store_explicit(&queue->head, head + 1, memory_order_release);
    return item;
}

bool amb_spsc_is_empty(const struct amb_spsc *queue)
{
    /* Acquire: pairs with the release in amb_spsc_push, for a consumer that looks before it
     * sleeps. */
    uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire);
    return atomic_load_explicit(&queue->head, memory_order_relaxed) == tail;
}
