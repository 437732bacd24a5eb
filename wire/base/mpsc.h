/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unbounded intrusive stack with many producers and one consumer that takes everything at once:
 * it cannot be full, and pushing is one compare-and-swap. Used for returns and commands.
 * Threads: push from any; take_all from the consumer. Memory: never allocates.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct amb_mpsc_node {
    struct amb_mpsc_node *next;
};

struct amb_mpsc {
    _Atomic(struct amb_mpsc_node *) head;
};

static inline void amb_mpsc_init(struct amb_mpsc *stack)
{
    atomic_init(&stack->head, NULL);
}

/* True if the stack was empty before: the producer that must wake the consumer. */
static inline bool amb_mpsc_push(struct amb_mpsc *stack, struct amb_mpsc_node *node)
{
    struct amb_mpsc_node *head = atomic_load_explicit(&stack->head, memory_order_relaxed);
    do {
        node->next = head;
        /* Release: pairs with the acquire in amb_mpsc_take_all. seq_cst so that a consumer about
         * to sleep and a producer about to look at its sleeping flag cannot miss each other. */
    } while (!atomic_compare_exchange_weak_explicit(&stack->head, &head, node, memory_order_seq_cst,
                                                    memory_order_relaxed));
    return head == NULL;
}

/* Everything pushed so far, oldest first; NULL if empty. */
static inline struct amb_mpsc_node *amb_mpsc_take_all(struct amb_mpsc *stack)
{
    if (atomic_load_explicit(&stack->head, memory_order_relaxed) == NULL) {
        return NULL;
    }
    struct amb_mpsc_node *node = atomic_exchange_explicit(&stack->head, NULL, memory_order_acquire);
    struct amb_mpsc_node *reversed = NULL;
    while (node != NULL) {
        struct amb_mpsc_node *next = node->next;
        node->next = reversed;
        reversed = node;
        node = next;
    }
    return reversed;
}

static inline bool amb_mpsc_is_empty(struct amb_mpsc *stack)
{
    return atomic_load_explicit(&stack->head, memory_order_seq_cst) == NULL;
}
