/* SPDX-License-Identifier: Apache-2.0 */
#include "client/message/release.h"

#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN UINT64_C(64)
#define RANGE_MAX UINT64_C(65536)

enum cell_state {
    HELD,
    BACK,
    REPORTED
};

void amb_release_init(struct amb_release *release, uint64_t credit_msgs, uint64_t credit_bytes)
{
    *release = (struct amb_release){.limit_msgs = credit_msgs / 8, .limit_bytes = credit_bytes / 8};
}

void amb_release_fini(struct amb_release *release)
{
    free(release->cells);
    memset(release, 0, sizeof(*release));
}

static struct amb_release_cell *cell_of(struct amb_release *release, uint64_t number)
{
    return &release->cells[number & release->mask];
}

static enum amb_status grow(struct amb_release *release)
{
    uint64_t capacity = release->cells == NULL ? CAPACITY_MIN : (release->mask + 1) * 2;
    struct amb_release_cell *cells = calloc(capacity, sizeof(*cells));
    if (cells == NULL) {
        return AMB_ENOMEM;
    }
    for (uint64_t n = release->upto + 1; n <= release->last; n++) {
        cells[n & (capacity - 1)] = *cell_of(release, n);
    }
    free(release->cells);
    release->cells = cells;
    release->mask = capacity - 1;
    return AMB_OK;
}

enum amb_status amb_release_arrived(struct amb_release *release, uint32_t msgs, uint64_t bytes)
{
    if (release->cells == NULL || release->last - release->upto > release->mask) {
        enum amb_status status = grow(release);
        if (status != AMB_OK) {
            return status;
        }
    }
    release->last++;
    *cell_of(release, release->last) =
        (struct amb_release_cell){.bytes = bytes, .msgs = msgs, .state = HELD};
    return AMB_OK;
}

bool amb_release_back(struct amb_release *release, uint64_t number)
{
    amb_assert(number > release->upto && number <= release->last);
    struct amb_release_cell *cell = cell_of(release, number);
    amb_assert(cell->state == HELD);
    cell->state = BACK;
    release->stuck_msgs += cell->msgs;
    release->stuck_bytes += cell->bytes;
    if (number != release->upto + 1) {
        return false;
    }
    while (release->upto < release->last) {
        cell = cell_of(release, release->upto + 1);
        if (cell->state == HELD) {
            break;
        }
        if (cell->state == BACK) {
            release->stuck_msgs -= cell->msgs;
            release->stuck_bytes -= cell->bytes;
        }
        release->upto++;
    }
    return true;
}

bool amb_release_range(struct amb_release *release, uint64_t *first, uint64_t *count)
{
    if (release->scan == 0) {
        if (release->stuck_msgs <= release->limit_msgs &&
            release->stuck_bytes <= release->limit_bytes) {
            return false;
        }
        release->scan = release->upto + 1;
    }
    if (release->scan <= release->upto) {
        release->scan = release->upto + 1;
    }
    uint64_t n = release->scan;
    while (n <= release->last && cell_of(release, n)->state != BACK) {
        n++;
    }
    uint64_t start = n;
    while (n <= release->last && n - start < RANGE_MAX && cell_of(release, n)->state == BACK) {
        struct amb_release_cell *cell = cell_of(release, n);
        cell->state = REPORTED;
        release->stuck_msgs -= cell->msgs;
        release->stuck_bytes -= cell->bytes;
        n++;
    }
    if (n == start) {
        release->scan = 0;
        return false;
    }
    release->scan = n;
    *first = start;
    *count = n - start;
    return true;
}
