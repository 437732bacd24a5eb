/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/append.h"

#include "broker/base/fault.h"
#include "broker/config/config.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/cursor.h"
#include "broker/topic/log/keys.h"
#include "broker/topic/topic_tail.h"
#include "broker/topic/trim.h"
#include "wire/base/clock.h"
#include "wire/codec/frame.h"

static bool topic_is_full(const struct amb_topic *topic, const struct amb_entry *entry)
{
    const struct amb_log *log = &topic->log;
    if (log->lo == log->hi) {
        return false; /* One entry always fits, however large. */
    }
    return log->bytes + amb_entry_charge(entry) > topic->rule->max_bytes ||
           (topic->rule->max_messages != 0 &&
            log->msgs + entry->count > topic->rule->max_messages) ||
           log->hi - log->lo >= AMB_LOG_ENTRIES_MAX;
}

/* Beside what readers that spill alone want, has the log no room for another entry? */
static bool topic_is_full_beside(const struct amb_topic *topic, const struct amb_topic_tail *tail,
                                 const struct amb_entry *entry)
{
    const struct amb_topic_rule *rule = topic->rule;
    uint64_t bytes =
        amb_log_bytes_from(&topic->log, topic->log.lo) - amb_topic_tail_bytes(topic, tail);
    uint64_t msgs = amb_topic_msgs_from(topic, topic->log.lo) -
                    amb_topic_msgs_from(topic, tail->from) + amb_topic_msgs_from(topic, tail->upto);
    return bytes != 0 && (bytes + amb_entry_charge(entry) > rule->max_bytes ||
                          (rule->max_messages != 0 && msgs + entry->count > rule->max_messages));
}

/* Some readers spill. The walk sees to their excess, and to that of the others (spill.c). */
static enum amb_status topic_make_room_beside(struct amb_topic *topic,
                                              const struct amb_entry *entry)
{
    const struct amb_log *log = &topic->log;
    bool may_reject = topic->rule->full == AMB_FULL_REJECT && amb_topic_is_home(topic);
    uint64_t held = amb_topic_holding_from(topic), wanted = amb_topic_read_from(topic);
    uint64_t upto = topic->rule->full == AMB_FULL_DROP_OLDEST ? log->hi : held;
    struct amb_topic_tail tail;
    amb_topic_tail(topic, &tail);
    while (log->hi - log->lo >= AMB_LOG_ENTRIES_MAX && amb_trim_may_drop(topic, upto)) {
        amb_trim_beside(topic, &tail, wanted);
    }
    if (log->hi - log->lo >= AMB_LOG_ENTRIES_MAX) {
        return may_reject ? AMB_EREJECTED : AMB_ELIMIT;
    }
    amb_topic_tail(topic, &tail);
    while (topic_is_full_beside(topic, &tail, entry) && amb_trim_may_drop(topic, tail.from)) {
        amb_trim_oldest(topic, wanted);
    }
    return may_reject && held <= tail.upto && topic_is_full_beside(topic, &tail, entry)
               ? AMB_EREJECTED
               : AMB_OK;
}

/* Makes room as the rule says. EREJECTED: there is none and the topic rejects. */
static enum amb_status topic_make_room(struct amb_topic *topic, const struct amb_entry *entry)
{
    if (topic->spill.readers != 0 && !AMB_FAULT(SPILL_COUNTS)) {
        amb_topic_trim(topic);
        return topic_make_room_beside(topic, entry);
    }
    uint64_t wanted = amb_topic_read_from(topic);
    amb_trim_to(topic, wanted);
    uint64_t held = amb_topic_holding_from(topic);
    while (topic_is_full(topic, entry) && amb_trim_may_drop(topic, held)) {
        amb_trim_oldest(topic, wanted);
    }
    if (!topic_is_full(topic, entry)) {
        return AMB_OK;
    }
    if (!amb_topic_is_home(topic) && topic->rule->full == AMB_FULL_REJECT) {
        return AMB_OK; /* Home has taken it; here only what is lent at a time is bounded. */
    }
    switch (topic->rule->full) {
    case AMB_FULL_BLOCK:
        /* The window blocks: a granted batch is taken. */
        return topic->log.hi - topic->log.lo < AMB_LOG_ENTRIES_MAX ? AMB_OK : AMB_ELIMIT;
    case AMB_FULL_DROP_OLDEST:
        while (topic_is_full(topic, entry) && amb_trim_may_drop(topic, topic->log.hi)) {
            amb_trim_oldest(topic, wanted);
        }
        return AMB_OK;
    case AMB_FULL_REJECT:
        return AMB_EREJECTED;
    }
    return AMB_EINTERNAL;
}

/* At home: when the first of its messages expires. */
static void topic_set_expiry(const struct amb_topic *topic, struct amb_entry *entry)
{
    const struct amb_record *records = amb_entry_records(entry);
    int64_t ttl_ns = topic->rule->ttl_ns;
    for (uint32_t i = 0; entry->has_ttl && i < entry->count; i++) {
        int64_t own_ns = (int64_t)records[i].ttl_ms * AMB_NS_PER_MS;
        ttl_ns = own_ns != 0 && own_ns < ttl_ns ? own_ns : ttl_ns;
    }
    if (ttl_ns != AMB_CONFIG_TIME_FOREVER && !AMB_FAULT(TTL_IGNORED)) {
        entry->arrived_ns -= AMB_FAULT(TTL_EARLY) ? ttl_ns / 2 : 0;
        entry->expires_ns = amb_deadline_ns(entry->arrived_ns, ttl_ns);
    }
}

void amb_topic_watch(struct amb_topic *topic)
{
    struct amb_shard *shard = topic->shard;
    if (amb_list_is_empty(&topic->history.timed)) {
        amb_list_push_back(&shard->history.timed, &topic->history.timed);
    }
    if (shard->history.due_ns == INT64_MAX) {
        shard->history.due_ns = amb_deadline_ns(shard->now_ns, AMB_TOPIC_TICK_NS);
    }
}

/* Something that goes by age, or may be history. */
static void topic_note_age(struct amb_topic *topic, struct amb_entry *entry)
{
    if (entry->has_ttl && !topic->has_ttl) {
        topic->has_ttl = true;
        amb_cursor_unpark_all(topic);
    }
    if (topic->has_ttl && amb_topic_is_home(topic)) {
        topic_set_expiry(topic, entry);
    }
    if (topic->has_ttl || topic->rule->retain.age_ns != 0) {
        amb_topic_watch(topic);
    }
}

/* Tells the table of keys and the other priorities of the entry, which has its number now. */
static void topic_note_special(struct amb_topic *topic, struct amb_entry *entry)
{
    if (topic->keys != NULL) {
        amb_keys_note(topic->keys, entry);
    }
    if (topic->kin.counts) {
        AMB_LIST_FOR_EACH (node, &topic->kin.ring) {
            AMB_CONTAINER_OF(node, struct amb_topic, kin.ring)->log.above += entry->count;
        }
    }
}

enum amb_status amb_topic_append(struct amb_topic *topic, struct amb_entry *entry,
                                 uint64_t first_seq)
{
    if (topic_is_full(topic, entry)) {
        enum amb_status status = topic_make_room(topic, entry);
        if (status != AMB_OK) {
            topic->counts.msgs_rejected += entry->count;
            return status;
        }
    }
    if (amb_topic_is_home(topic)) {
        entry->arrived_ns = topic->shard->now_ns;
    }
    bool is_special = entry->has_ttl | topic->has_ttl | topic->history.retains |
                      (topic->keys != NULL) | topic->kin.counts;
    if (__builtin_expect(is_special, 0)) {
        topic_note_age(topic, entry);
    }
    enum amb_status status = amb_log_append(&topic->log, entry, first_seq);
    if (__builtin_expect(is_special, 0) && status == AMB_OK) {
        topic_note_special(topic, entry);
    }
    if (status == AMB_OK) {
        topic->counts.msgs_in += entry->count;
        topic->counts.bytes_in += amb_entry_bytes(entry);
        if (__builtin_expect(entry->tally != NULL, 0)) {
            amb_trim_tally(topic, entry);
        }
        amb_topic_mark(topic);
    }
    return status;
}
