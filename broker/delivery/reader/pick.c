/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/reader/pick.h"

#include "broker/base/fault.h"
#include "broker/config/config.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/delivery/reader/lazy.h"
#include "broker/delivery/reader/sift.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/slice.h"
#include "broker/topic/cursor.h"
#include "broker/topic/log/keys.h"
#include "broker/topic/topic.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/codec/frame.h"

#include <stdio.h>

bool amb_pick_enter(struct amb_cursor *cursor, const struct amb_entry *entry)
{
    if (entry->first_seq + cursor->within < cursor->loss.expected_seq) {
        uint64_t older = cursor->loss.expected_seq - entry->first_seq;
        cursor->within = older < entry->count ? (uint32_t)older : entry->count;
    }
    return cursor->within < entry->count;
}

/* Blobs lie one behind the other; a cursor asks for them in order. */
static const uint8_t *blob_of(struct amb_cursor *cursor, const struct amb_entry *entry,
                              uint32_t index)
{
    const struct amb_record *records = amb_entry_records(entry);
    struct amb_cursor_blob *blob = &cursor->pick.blob;
    if (blob->of_seq != entry->first_seq || blob->index > index) {
        *blob = (struct amb_cursor_blob){.of_seq = entry->first_seq};
    }
    for (; blob->index < index; blob->index++) {
        blob->at += amb_props_padded(records[blob->index].props_len);
    }
    return amb_slice_blobs(entry) + blob->at;
}

static bool message_is_over(const struct amb_cursor *cursor, const struct amb_entry *entry,
                            uint32_t index, int64_t now_ns)
{
    const struct amb_record *records = amb_entry_records(entry);
    int64_t ttl_ns = cursor->topic->rule->ttl_ns;
    if (entry->has_ttl && records[index].ttl_ms != 0) {
        int64_t own_ns = (int64_t)records[index].ttl_ms * AMB_NS_PER_MS;
        ttl_ns = own_ns < ttl_ns ? own_ns : ttl_ns;
    }
    return ttl_ns != AMB_CONFIG_TIME_FOREVER && now_ns - entry->arrived_ns >= ttl_ns;
}

bool amb_pick_chooses(const struct amb_cursor *cursor)
{
    return cursor->topic->has_ttl || cursor->pick.filter != NULL;
}

enum verdict {
    GIVEN,
    UNWANTED,
    OVER,
    UNKNOWN /* its filter has no steps left */
};

static enum verdict judge(struct amb_cursor *cursor, const struct amb_entry *entry, uint32_t index,
                          int64_t now_ns)
{
    if (cursor->pick.filter != NULL) {
        if (!amb_sift_may(cursor)) {
            return UNKNOWN;
        }
        if (!amb_sift_match(cursor, entry, index, blob_of(cursor, entry, index))) {
            return UNWANTED;
        }
    }
    bool may_be_over = entry->expires_ns != 0 && now_ns >= entry->expires_ns;
    return may_be_over && message_is_over(cursor, entry, index, now_ns) ? OVER : GIVEN;
}

uint32_t amb_pick_run(struct amb_cursor *cursor, const struct amb_entry *entry, int64_t now_ns)
{
    if (!amb_pick_enter(cursor, entry)) {
        return 0;
    }
    bool may_be_over = entry->expires_ns != 0 && now_ns >= entry->expires_ns;
    if (!may_be_over && cursor->pick.filter == NULL) {
        return entry->count;
    }
    uint64_t seq = entry->first_seq + cursor->within;
    if (!may_be_over && cursor->pick.blob.run_seq == seq &&
        cursor->pick.blob.of_seq == entry->first_seq) {
        return cursor->pick.blob.run_end; /* It waits, and is asked for once more. */
    }
    enum verdict verdict;
    while (cursor->within < entry->count &&
           (verdict = judge(cursor, entry, cursor->within, now_ns)) != GIVEN) {
        if (verdict == UNKNOWN) {
            amb_sift_wait(cursor);
            return AMB_PICK_LATER;
        }
        cursor->within++;
        /* An unwanted message is not missing: the messages before it are as far away as ever. */
        cursor->loss.expired += verdict == OVER;
        cursor->loss.expected_seq += verdict == UNWANTED;
    }
    if (cursor->within == entry->count) {
        return 0;
    }
    /* Without steps the run is a shorter one, and the messages behind it are asked for next. */
    uint32_t end = cursor->within + 1;
    while (end < entry->count && judge(cursor, entry, end, now_ns) == GIVEN) {
        end++;
    }
    cursor->pick.blob.run_seq = entry->first_seq + cursor->within;
    cursor->pick.blob.run_end = end;
    return end;
}

/* The messages that the subscription is given at once are within its credit, also where nothing is
 * outstanding: but for one message. */
static bool latest_fits(const struct amb_cursor *cursor, uint32_t msgs, uint64_t bytes)
{
    const struct amb_subscription *sub = cursor->sub;
    return (msgs == 1 || sub->msgs_out + msgs <= sub->options.credit_msgs) &&
           amb_subscription_has_credit(sub, msgs, bytes);
}

/* Has its key a newer message, or, without one, the topic? */
static bool is_superseded(struct amb_cursor *cursor, const struct amb_entry *entry)
{
    const struct amb_record *records = amb_entry_records(entry);
    const struct amb_topic *topic = cursor->topic;
    return records[cursor->within].key_hash != 0
               ? amb_keys_is_superseded(topic->keys, entry, cursor->within,
                                        blob_of(cursor, entry, cursor->within))
               : entry->first_seq + cursor->within + 1 < topic->log.next_seq;
}

bool amb_pick_latest(struct amb_cursor *cursor, const struct amb_entry *entry, uint32_t *end)
{
    if (latest_fits(cursor, *end - cursor->within, amb_lazy_bytes(cursor->sub, entry))) {
        return false;
    }
    const struct amb_topic *topic = cursor->topic;
    if (topic->keys != NULL) {
        if (is_superseded(cursor, entry)) {
            if (++cursor->within == entry->count) {
                amb_cursor_advance(cursor);
            }
            return true;
        }
        *end = cursor->within + 1; /* It is given, whatever comes behind it. */
        return false;
    }
    const struct amb_log *log = &topic->log;
    const struct amb_entry *newest = amb_log_at(log, log->hi - 1);
    if (cursor->position != log->hi - 1 || cursor->within != newest->count - 1) {
        cursor->position = log->hi - 1;
        cursor->within = newest->count - 1;
        return true;
    }
    return false;
}

bool amb_pick_is_dropped(const struct amb_cursor *cursor, const struct amb_entry *entry,
                         uint32_t end)
{
    return !amb_subscription_has_credit(cursor->sub, end - cursor->within,
                                        amb_lazy_bytes(cursor->sub, entry));
}

void amb_pick_disconnect(struct amb_cursor *cursor)
{
    struct amb_session *session = cursor->sub->session;
    if (cursor->sub->is_sweeping) {
        return; /* It goes already. */
    }
    char text[AMB_TOPIC_MAX + 64];
    (void)snprintf(text, sizeof(text), "too slow for %s, and its policy is to disconnect",
                   cursor->topic->name);
    session->shard->upcalls->session_ended(session->shard, session->client_id, AMB_EKICKED, text);
    cursor->hold.slow = AMB_SLOW_DROP_OLDEST; /* Said once; until the session is closed it loses. */
}

void amb_pick_loss(struct amb_cursor *cursor, uint64_t seq, struct amb_gap *out)
{
    amb_gap_look(cursor, seq, out);
    if (cursor->loss.is_unknown) {
        *out = (struct amb_gap){
            .lost = UINT64_MAX,
            .why = cursor->loss.is_late ? AMB_LOSS_TRIMMED : AMB_LOSS_BROKER_RESTART,
            .other = out->other,
        };
        cursor->loss.is_unknown = false;
    }
    cursor->loss.expired = 0; /* They were of that gap, and are not of the next one. */
    cursor->loss.is_late = false;
}

void amb_pick_gap(struct amb_cursor *cursor, uint64_t seq, struct amb_gap *out)
{
    struct amb_subscription *sub = cursor->sub;
    amb_pick_loss(cursor, seq, out);
    if (out->lost == UINT64_MAX) {
        return;
    }
    uint64_t others = amb_gap_others(out);
    sub->lost += out->lost;
    sub->lost_by[AMB_LOSS_EXPIRED] += out->expired;
    sub->lost_by[AMB_LOSS_PURGED] += out->purged;
    sub->lost_by[out->other] += others;
    amb_stat_lost(sub->session->shard->stats, others, out->expired, out->purged,
                  out->other == AMB_LOSS_SLOW);
    if (cursor->hold.slow == AMB_SLOW_DISCONNECT && others > 0) {
        amb_pick_disconnect(cursor);
    }
}
