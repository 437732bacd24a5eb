/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/gap.h"

#include "broker/base/fault.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"
#include "wire/base/assert.h"

/* Of the numbers first .. end-1 so many were in a log that was emptied. */
static uint64_t purged_between(const struct amb_topic_purge *purge, uint64_t first, uint64_t end)
{
    uint64_t from = first > purge->from ? first : purge->from;
    uint64_t upto = end < purge->upto ? end : purge->upto;
    return from < upto ? upto - from : 0;
}

static enum amb_loss loss_of(const struct amb_gap *gap)
{
    int kinds = (amb_gap_others(gap) > 0) + (gap->expired > 0) + (gap->purged > 0);
    return kinds > 1          ? AMB_LOSS_MIXED
           : gap->purged > 0  ? AMB_LOSS_PURGED
           : gap->expired > 0 ? AMB_LOSS_EXPIRED
                              : gap->other;
}

void amb_gap_look(const struct amb_cursor *cursor, uint64_t seq, struct amb_gap *out)
{
    amb_assert(seq > cursor->loss.expected_seq);
    *out = (struct amb_gap){.other = cursor->hold.holds || cursor->loss.is_late ? AMB_LOSS_TRIMMED
                                                                                : AMB_LOSS_SLOW};
    uint64_t purged = purged_between(&cursor->topic->purge, cursor->loss.expected_seq, seq);
    out->lost = seq - cursor->loss.expected_seq - AMB_FAULT(LOSS_NOT_COUNTED);
    out->expired = cursor->loss.expired < out->lost ? cursor->loss.expired : out->lost;
    out->purged = purged < out->lost - out->expired ? purged : out->lost - out->expired;
    out->why = loss_of(out);
}
