/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments without memfd: one takes a millisecond to make, and a seed shall not take longer. A
 * freed one's first bytes are spoilt, so that a reader that still reads it is found out.
 */
#include "broker/memory/segment.h"
#include "tests/sim/sim.h"
#include "wire/base/assert.h"
#include "wire/base/list.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIVE_MAX 64u
#define KEPT_MAX 16u
#define SPOILT_BYTES 65536u

static struct amb_segment *live[LIVE_MAX];
static uint8_t *kept[KEPT_MAX]; /* of AMB_SEGMENT_ALIGN bytes each */
static unsigned live_count, kept_count;
static int nothing_fd = -1;

static void segment_destroy(struct amb_segment *segment)
{
    for (unsigned i = 0; i < live_count; i++) {
        if (live[i] == segment) {
            live[i] = live[--live_count];
            break;
        }
    }
    memset(segment->base, 0xdb, SPOILT_BYTES);
    if (segment->size == AMB_SEGMENT_ALIGN && kept_count < KEPT_MAX) {
        kept[kept_count++] = segment->base;
    } else {
        free(segment->base);
    }
    free(segment);
}

enum amb_status sim_segment_create(uint64_t id, uint64_t size, struct amb_segment **out)
{
    if (nothing_fd < 0) {
        nothing_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    amb_assert(live_count < LIVE_MAX);
    struct amb_segment *segment = calloc(1, sizeof(*segment));
    amb_assert(segment != NULL);
    segment->id = id;
    segment->size = size;
    segment->base = size == AMB_SEGMENT_ALIGN && kept_count > 0 ? kept[--kept_count]
                                                                : aligned_alloc(4096, size);
    amb_assert(segment->base != NULL);
    segment->fd_ro = nothing_fd;
    segment->fd_rw = -1;
    segment->destroy = segment_destroy;
    amb_list_init(&segment->node);
    live[live_count++] = segment;
    *out = segment;
    return AMB_OK;
}

uint8_t *sim_segment_base(uint64_t id, uint64_t *size)
{
    for (unsigned i = 0; i < live_count; i++) {
        if (live[i]->id == id) {
            *size = live[i]->size;
            return live[i]->base;
        }
    }
    return NULL;
}

void sim_segments_fini(void)
{
    while (kept_count > 0) {
        free(kept[--kept_count]);
    }
    if (nothing_fd >= 0) {
        (void)close(nothing_fd);
        nothing_fd = -1;
    }
}
