/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/begin.h"

#include "broker/shard/entry.h"
#include "broker/topic/log/keys.h"
#include "broker/topic/log/prelude.h"
#include "broker/topic/log/retain.h"
#include "broker/topic/topic.h"

/* The first entry whose messages are not all before seq; hi: there is none. The numbers are those
 * within the log, or all_kin: of the topic with all its priorities. */
static uint64_t find_seq(const struct amb_log *log, uint64_t seq, bool all_kin)
{
    uint64_t lo = log->lo, hi = log->hi;
    while (lo < hi) {
        uint64_t middle = lo + (hi - lo) / 2;
        const struct amb_entry *entry = amb_log_at(log, middle);
        if (entry->first_seq + (all_kin ? entry->above : 0) + entry->count <= seq) {
            lo = middle + 1;
        } else {
            hi = middle;
        }
    }
    return lo;
}

/* The number within its log of the first message whose number in the topic is not below that.
 * *is_unknown: of what is gone nobody knows how much there was of this priority since. */
static uint64_t own_seq(const struct amb_topic *topic, uint64_t number, bool *is_unknown)
{
    const struct amb_log *log = &topic->log;
    uint64_t at = find_seq(log, number, true);
    if (at == log->hi && topic->kin.counts) {
        *is_unknown = log->lo == log->hi && log->next_seq > 1 &&
                      number < log->next_seq + log->above; /* All that it had is gone. */
        return log->next_seq; /* Nobody knows whose the numbers to come will be. */
    }
    uint64_t seq = at < log->hi ? amb_log_at(log, at)->first_seq : log->next_seq;
    uint64_t above = at < log->hi ? amb_log_at(log, at)->above : log->above;
    if (above == 0 || number >= seq + above) {
        return number - above; /* Within that entry; or all before it were of this priority. */
    }
    *is_unknown = at == log->lo && seq > 1;
    return seq;
}

/* The first entry that came at that time or later. Times of entries do not go back by more than the
 * clock of the day does. */
static uint64_t find_time(const struct amb_log *log, int64_t time_ns)
{
    uint64_t lo = log->lo, hi = log->hi;
    while (lo < hi) {
        uint64_t middle = lo + (hi - lo) / 2;
        if (amb_log_at(log, middle)->time_ns < time_ns) {
            lo = middle + 1;
        } else {
            hi = middle;
        }
    }
    return lo;
}

static uint64_t last_n(const struct amb_topic *topic, uint64_t n)
{
    uint64_t next = topic->log.next_seq + topic->log.above;
    bool is_unknown = false;
    return own_seq(topic, n < next ? next - n : 1, &is_unknown);
}

/* The number of the first message wanted, before it is asked what there is. */
static uint64_t wanted_seq(const struct amb_topic *topic, const struct amb_begin *begin,
                           bool *is_unknown)
{
    const struct amb_log *log = &topic->log;
    uint64_t at = begin->at > 0 ? begin->at : 1;
    switch (begin->start) {
    case AMB_START_NEW:
    case AMB_START_POSITION:
        break;
    case AMB_START_LAST:
        return last_n(topic, 1);
    case AMB_START_LAST_N:
        return last_n(topic, begin->at);
    case AMB_START_FIRST:
        return 1;
    case AMB_START_SEQ:
        return begin->is_own ? at : own_seq(topic, at, is_unknown);
    case AMB_START_TIME: {
        int64_t time_ns = begin->at < INT64_MAX ? (int64_t)begin->at : INT64_MAX;
        uint64_t position = find_time(log, time_ns);
        return position < log->hi ? amb_log_at(log, position)->first_seq : log->next_seq;
    }
    }
    return log->next_seq;
}

/* Without memory for the prelude the reader is told that an unknown number was lost. */
static void begin_with_keys(const struct amb_topic *topic, struct amb_begun *out)
{
    if (amb_keys_count(topic->keys) == 0) {
        return;
    }
    out->prelude = amb_prelude_create(topic->log.next_seq);
    if (out->prelude == NULL) {
        out->is_late = out->is_unknown = true;
        out->seq--;
    }
}

void amb_begin_find(const struct amb_topic *topic, const struct amb_begin *begin,
                    struct amb_begun *out)
{
    const struct amb_log *log = &topic->log;
    *out = (struct amb_begun){.position = log->hi, .seq = log->next_seq};
    if (begin == NULL) {
        return;
    }
    if (begin->start == AMB_START_LAST && topic->keys != NULL && !begin->is_unknown) {
        begin_with_keys(topic, out);
        return;
    }
    bool is_unknown = false;
    uint64_t seq = wanted_seq(topic, begin, &is_unknown),
             floor = amb_retain_floor(log, topic->rule);
    if (begin->start != AMB_START_SEQ && seq < floor) {
        seq = floor;
    }
    out->seq = seq;
    out->position = find_seq(log, seq, false);
    uint64_t first =
        out->position < log->hi ? amb_log_at(log, out->position)->first_seq : log->next_seq;
    out->is_late = seq < first || is_unknown;
    if (begin->is_unknown || is_unknown) {
        out->is_unknown = true;
        out->seq = (first < seq ? seq : first) - 1; /* A gap before whatever comes first. */
    }
}
