/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/watch.h"

#include "wire/base/assert.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define WATCHES_FIRST 64u

enum amb_status amb_watches_init(struct amb_watches *watches)
{
    memset(watches, 0, sizeof(*watches));
    watches->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return watches->epoll_fd < 0 ? amb_status_from_errno(errno) : AMB_OK;
}

void amb_watches_fini(struct amb_watches *watches)
{
    if (watches->epoll_fd >= 0) {
        (void)close(watches->epoll_fd);
        watches->epoll_fd = -1;
    }
    free(watches->cells);
    watches->cells = NULL;
    watches->cell_count = watches->first_free = watches->last_free = 0;
}

/* At the end of the line: a cell comes again as late as possible. */
static void cell_give(struct amb_watches *watches, uint32_t place)
{
    watches->cells[place - 1].watch = NULL;
    watches->cells[place - 1].next_free = 0;
    if (watches->last_free != 0) {
        watches->cells[watches->last_free - 1].next_free = place;
    } else {
        watches->first_free = place;
    }
    watches->last_free = place;
}

static bool cells_grow(struct amb_watches *watches)
{
    uint32_t count = watches->cell_count == 0 ? WATCHES_FIRST : watches->cell_count * 2;
    struct amb_watch_cell *cells = realloc(watches->cells, count * sizeof(*cells));
    if (cells == NULL) {
        return false;
    }
    uint32_t first = watches->cell_count;
    memset(cells + first, 0, (count - first) * sizeof(*cells));
    watches->cells = cells;
    watches->cell_count = count;
    for (uint32_t i = first; i < count; i++) {
        cell_give(watches, i + 1);
    }
    return true;
}

/* A place for the watch; 0: no memory. */
static uint32_t cell_take(struct amb_watches *watches, struct amb_watch *watch)
{
    if (watches->first_free == 0 && !cells_grow(watches)) {
        return 0;
    }
    uint32_t place = watches->first_free;
    struct amb_watch_cell *cell = &watches->cells[place - 1];
    watches->first_free = cell->next_free;
    if (watches->first_free == 0) {
        watches->last_free = 0;
    }
    cell->watch = watch;
    cell->generation++;
    return place;
}

static struct epoll_event event_of(const struct amb_watches *watches, const struct amb_watch *watch,
                                   uint32_t events)
{
    uint64_t index = watch->place - 1;
    return (struct epoll_event){.events = events,
                                .data.u64 = index << 32 | watches->cells[index].generation};
}

enum amb_status amb_watch_add(struct amb_watches *watches, struct amb_watch *watch, int fd,
                              uint32_t events)
{
    amb_assert(watch->place == 0);
    uint32_t place = cell_take(watches, watch);
    if (place == 0) {
        return AMB_ENOMEM;
    }
    watch->place = place;
    struct epoll_event event = event_of(watches, watch, events);
    if (epoll_ctl(watches->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        enum amb_status status = amb_status_from_errno(errno);
        watch->place = 0;
        cell_give(watches, place);
        return status;
    }
    return AMB_OK;
}

void amb_watch_change(struct amb_watches *watches, struct amb_watch *watch, int fd, uint32_t events)
{
    if (watch->place != 0) {
        struct epoll_event event = event_of(watches, watch, events);
        (void)epoll_ctl(watches->epoll_fd, EPOLL_CTL_MOD, fd, &event);
    }
}

void amb_watch_remove(struct amb_watches *watches, struct amb_watch *watch, int fd)
{
    if (watch->place == 0) {
        return;
    }
    (void)epoll_ctl(watches->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    cell_give(watches, watch->place);
    watch->place = 0;
}

void amb_watches_tell(struct amb_watches *watches, const struct epoll_event *event)
{
    uint64_t index = event->data.u64 >> 32;
    amb_assert(index < watches->cell_count);
    const struct amb_watch_cell *cell = &watches->cells[index];
    if (cell->watch == NULL || cell->generation != (uint32_t)event->data.u64) {
        watches->stale_events++;
        return;
    }
    cell->watch->fn(cell->watch, event->events);
}
