/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive doubly linked list. A node embeds struct amb_list_node; a list is a node used as head.
 * A node that is in no list points at itself, so removing it twice is harmless.
 * Threads: owner only. Memory: never allocates.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct amb_list_node {
    struct amb_list_node *next, *prev;
};

#define AMB_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define AMB_LIST_FOR_EACH(node, head)                                                              \
    for (struct amb_list_node *node = (head)->next; node != (head); node = node->next)

/* Safe against removal of the current node. */
#define AMB_LIST_FOR_EACH_SAFE(node, head)                                                         \
    for (struct amb_list_node *node = (head)->next, *node##_next = node->next; node != (head);     \
         node = node##_next, node##_next = node->next)

static inline void amb_list_init(struct amb_list_node *node)
{
    node->next = node->prev = node;
}

static inline bool amb_list_is_empty(const struct amb_list_node *head)
{
    return head->next == head;
}

static inline void amb_list_insert_before(struct amb_list_node *where, struct amb_list_node *node)
{
    node->prev = where->prev;
    node->next = where;
    where->prev->next = node;
    where->prev = node;
}

static inline void amb_list_push_back(struct amb_list_node *head, struct amb_list_node *node)
{
    amb_list_insert_before(head, node);
}

static inline void amb_list_push_front(struct amb_list_node *head, struct amb_list_node *node)
{
    amb_list_insert_before(head->next, node);
}

static inline void amb_list_remove(struct amb_list_node *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    amb_list_init(node);
}

/* All nodes of the list `from` go to the end of `to`. */
static inline void amb_list_move(struct amb_list_node *from, struct amb_list_node *to)
{
    if (!amb_list_is_empty(from)) {
        from->next->prev = to->prev;
        from->prev->next = to;
        to->prev->next = from->next;
        to->prev = from->prev;
        amb_list_init(from);
    }
}

/* First node, removed; NULL if the list is empty. */
static inline struct amb_list_node *amb_list_pop_front(struct amb_list_node *head)
{
    if (amb_list_is_empty(head)) {
        return NULL;
    }
    struct amb_list_node *node = head->next;
    amb_list_remove(node);
    return node;
}
