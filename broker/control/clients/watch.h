/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches of the control thread's epoll. A watch is embedded in the object that it speaks for. A
 * table stands between epoll and the watches: epoll is given an index of the table and a
 * generation, never a pointer.
 *
 * The reason: an item of epoll belongs to an open file, not to a descriptor. A client may hold the
 * same file: then closing our descriptor leaves the item behind, and the item fires as long as the
 * client likes. So an item is removed before its descriptor is closed. The event of an item that
 * was left behind all the same names nothing.
 *
 * Threads: the control thread. Memory: a table that doubles, one cell for each descriptor.
 */
#pragma once

#include "wire/base/status.h"

#include <stdint.h>

struct epoll_event;

struct amb_watch {
    void (*fn)(struct amb_watch *watch, uint32_t events);
    uint32_t place; /* cell of the table plus one; 0: not watched */
};

struct amb_watch_cell {
    struct amb_watch *watch; /* NULL: free */
    uint32_t generation;     /* of the watch that has it, or had it last */
    uint32_t next_free;      /* cell plus one; 0: the last one */
};

struct amb_watches {
    int epoll_fd; /* -1: none */
    struct amb_watch_cell *cells;
    uint32_t cell_count;
    uint32_t first_free, last_free; /* cells plus one; 0: none */
    uint64_t stale_events;          /* events that named nothing any more */
};

/* ELIMIT without descriptors. */
AMB_MUST_CHECK enum amb_status amb_watches_init(struct amb_watches *watches);
/* Objects that are still watched are not touched. Harmless twice, and on zeros with epoll_fd -1. */
void amb_watches_fini(struct amb_watches *watches);
/* ENOMEM, ELIMIT. The watch must not be in the table yet. */
AMB_MUST_CHECK enum amb_status amb_watch_add(struct amb_watches *watches, struct amb_watch *watch,
                                             int fd, uint32_t events);
/* Other events from here on; 0 leaves the item, and errors and hang-ups are reported still. */
void amb_watch_change(struct amb_watches *watches, struct amb_watch *watch, int fd,
                      uint32_t events);
/* To be called before fd is closed or given away. Harmless twice. */
void amb_watch_remove(struct amb_watches *watches, struct amb_watch *watch, int fd);
/* Calls the event's watch, if it is still in the table. */
void amb_watches_tell(struct amb_watches *watches, const struct epoll_event *event);
