/* SPDX-License-Identifier: Apache-2.0 */
#include "client/message/release.h"

#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN UINT64_C(64)
#define RANGE_MAX UINT64_C(65536)

enum slot_state {
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
    free(release->slots);
    memset(release, 0, sizeof(*release));
}

static struct amb_release_slot *slot_of(struct amb_release *release, uint64_t number)
{
    return &release->slots[number & release->mask];
}

static enum amb_status grow(struct amb_release *release)
{
    uint64_t capacity = release->slots == NULL ? CAPACITY_MIN : (release->mask + 1) * 2;
    struct amb_release_slot *slots = calloc(capacity, sizeof(*slots));
    if (slots == NULL) {
        return AMB_ENOMEM;
    }
    for (uint64_t n = release->upto + 1; n <= release->last; n++) {
        slots[n & (capacity - 1)] = *slot_of(release, n);
    }
    free(release->slots);
    release->slots = slots;
    release->mask = capacity - 1;
    return AMB_OK;
}

enum amb_status amb_release_arrived(struct amb_release *release, uint32_t msgs, uint64_t bytes)
{
    if (release->slots == NULL || release->last - release->upto > release->mask) {
        enum amb_status status = grow(release);
        if (status != AMB_OK) {
            return status;
        }
    }
    release->last++;
    *slot_of(release, release->last) =
        (struct amb_release_slot){.bytes = bytes, .msgs = msgs, .state = HELD};
    return AMB_OK;
}

bool amb_release_back(struct amb_release *release, uint64_t number)
{
    amb_assert(number > release->upto && number <= release->last);
    struct amb_release_slot *slot = slot_of(release, number);
    amb_assert(slot->state == HELD);
    slot->state = BACK;
    release->stuck_msgs += slot->msgs;
    release->stuck_bytes += slot->bytes;
    if (number != release->upto + 1) {
        return false;
    }
    while (release->upto < release->last) {
        slot = slot_of(release, release->upto + 1);
        if (slot->state == HELD) {
            break;
        }
        if (slot->state == BACK) {
            release->stuck_msgs -= slot->msgs;
            release->stuck_bytes -= slot->bytes;
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
    while (n <= release->last && slot_of(release, n)->state != BACK) {
        n++;
    }
    uint64_t start = n;
    while (n <= release->last && n - start < RANGE_MAX && slot_of(release, n)->state == BACK) {
        struct amb_release_slot *slot = slot_of(release, n);
        slot->state = REPORTED;
        release->stuck_msgs -= slot->msgs;
        release->stuck_bytes -= slot->bytes;
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
