/* SPDX-License-Identifier: Apache-2.0 */
#include "client/batch/settle.h"

#include "wire/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN UINT64_C(16)

void amb_settle_init(struct amb_settle *settle, bool keeps_ranges, uint64_t former, uint64_t bytes)
{
    *settle = (struct amb_settle){
        .keeps_ranges = keeps_ranges,
        .former = former,
        .settled = former,
        .last = former,
        .settled_bytes = bytes,
    };
}

void amb_settle_fini(struct amb_settle *settle)
{
    free(settle->batches);
    memset(settle, 0, sizeof(*settle));
}

static struct amb_settle_batch *slot_of(const struct amb_settle *settle, uint64_t number)
{
    return &settle->batches[number & settle->mask];
}

uint64_t amb_settle_last_seq(const struct amb_settle *settle, uint64_t batch)
{
    amb_assert(batch > settle->settled && batch <= settle->last);
    return slot_of(settle, batch)->last_seq;
}

uint64_t amb_settle_first_seq(const struct amb_settle *settle, uint64_t batch)
{
    return batch == settle->settled + 1 ? settle->settled_seq + 1
                                        : amb_settle_last_seq(settle, batch - 1) + 1;
}

enum amb_status amb_settle_reserve(struct amb_settle *settle)
{
    if (settle->batches != NULL && settle->last - settle->settled <= settle->mask) {
        return AMB_OK;
    }
    uint64_t capacity = settle->batches == NULL ? CAPACITY_MIN : (settle->mask + 1) * 2;
    struct amb_settle_batch *batches = calloc(capacity, sizeof(*batches));
    if (batches == NULL) {
        return AMB_ENOMEM;
    }
    for (uint64_t n = settle->settled + 1; n <= settle->last; n++) {
        batches[n & (capacity - 1)] = *slot_of(settle, n);
    }
    free(settle->batches);
    settle->batches = batches;
    settle->mask = capacity - 1;
    return AMB_OK;
}

void amb_settle_sent(struct amb_settle *settle, uint64_t last_seq, uint64_t bytes)
{
    settle->last++;
    *slot_of(settle, settle->last) =
        (struct amb_settle_batch){.last_seq = last_seq, .bytes = bytes, .status = AMB_OK};
}

enum amb_status amb_settle_frame(struct amb_settle *settle, uint64_t batch,
                                 const struct amb_settle_range *said)
{
    if (batch == 0 || batch > settle->last) {
        return AMB_EPROTO;
    }
    if (batch <= settle->former) {
        return AMB_OK; /* The handle's last owner has heard already that the fate is not known. */
    }
    if (batch <= settle->settled) {
        /* A counter has overtaken the frame: late, but not lost. */
        if (said->status != AMB_OK && settle->failure == AMB_OK) {
            settle->failure = said->status;
        }
        return AMB_OK;
    }
    struct amb_settle_batch *slot = slot_of(settle, batch);
    slot->status = (int32_t)said->status;
    slot->log_seq = said->log_seq;
    slot->matched = said->matched;
    slot->dropped = said->dropped;
    slot->has_frame = true;
    return AMB_OK;
}

/* Does b continue a, with the same result? log_seq stays that of the first message. Deliveries and
 * drops are counted for each that matched, so there these must agree, too. */
static bool joins(const struct amb_settle *settle, const struct amb_settle_range *a,
                  const struct amb_settle_range *b)
{
    return a->status == b->status && a->last + 1 == b->first &&
           (!settle->awaits_delivery || a->matched == b->matched);
}

static void add_range(struct amb_settle *settle, const struct amb_settle_range *range)
{
    if (!settle->keeps_ranges || range->last < range->first) {
        return;
    }
    if (settle->range_count != 0) {
        struct amb_settle_range *newest =
            &settle
                 ->ranges[(settle->range_first + settle->range_count - 1) % AMB_SETTLE_RANGES_MAX];
        bool is_full = settle->range_count == AMB_SETTLE_RANGES_MAX;
        if (joins(settle, newest, range) || is_full) {
            if (newest->status == AMB_OK) {
                newest->status =
                    range->status; /* Full: no thread polls, and one range must hold the failure. */
            }
            newest->last = range->last;
            newest->matched = range->matched;
            newest->delivered += range->delivered;
            newest->dropped += range->dropped;
            return;
        }
    }
    settle->ranges[(settle->range_first + settle->range_count) % AMB_SETTLE_RANGES_MAX] = *range;
    settle->range_count++;
}

static void settle_range(struct amb_settle *settle, const struct amb_settle_range *range)
{
    if (range->status != AMB_OK) {
        settle->failed += range->last - range->first + 1;
        if (settle->failure == AMB_OK) {
            settle->failure = range->status;
        }
    }
    add_range(settle, range);
    settle->settled_seq = range->last;
}

enum amb_status amb_settle_upto(struct amb_settle *settle, uint64_t batch, bool wait_frames)
{
    if (batch > settle->last) {
        return AMB_EPROTO;
    }
    while (settle->settled < batch) {
        const struct amb_settle_batch *slot = slot_of(settle, settle->settled + 1);
        if (wait_frames && !slot->has_frame) {
            break;
        }
        struct amb_settle_range range = {.first = settle->settled_seq + 1,
                                         .last = slot->last_seq,
                                         .log_seq = slot->log_seq,
                                         .matched = slot->matched,
                                         .dropped = slot->dropped,
                                         .status = (enum amb_status)slot->status};
        if (settle->awaits_delivery && slot->status == AMB_OK) {
            uint64_t all = (range.last - range.first + 1) * range.matched;
            range.delivered = range.dropped < all ? all - range.dropped : 0;
        }
        settle->settled_bytes += slot->bytes;
        settle_range(settle, &range);
        settle->settled++;
    }
    return AMB_OK;
}

void amb_settle_rest(struct amb_settle *settle, uint64_t last_seq, enum amb_status why)
{
    while (settle->settled < settle->last) {
        settle->settled_bytes += slot_of(settle, ++settle->settled)->bytes;
    }
    if (last_seq > settle->settled_seq) {
        struct amb_settle_range range = {
            .first = settle->settled_seq + 1, .last = last_seq, .status = why};
        settle_range(settle, &range);
    }
}

uint64_t amb_settle_sent_seq(const struct amb_settle *settle)
{
    return settle->last > settle->settled ? amb_settle_last_seq(settle, settle->last)
                                          : settle->settled_seq;
}

void amb_settle_unsent(struct amb_settle *settle)
{
    amb_assert(settle->last > settle->settled);
    settle->last--;
}

void amb_settle_restart(struct amb_settle *settle)
{
    settle->former = settle->settled = settle->last = 0;
    settle->settled_bytes = 0;
}

bool amb_settle_take(struct amb_settle *settle, struct amb_settle_range *out)
{
    if (settle->range_count == 0) {
        return false;
    }
    *out = settle->ranges[settle->range_first];
    settle->range_first = (settle->range_first + 1) % AMB_SETTLE_RANGES_MAX;
    settle->range_count--;
    return true;
}
