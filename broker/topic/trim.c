/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/trim.h"

#include "broker/base/fault.h"
#include "broker/config/config.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/tally.h"
#include "broker/shard/trace.h"
#include "broker/topic/log/keys.h"
#include "broker/topic/log/retain.h"
#include "broker/topic/topic_tail.h"

#define SHED_LOOKS 4u /* at readers, for what an entry that is dropped takes */

void amb_trim_tally(struct amb_topic *topic, struct amb_entry *entry)
{
    if (topic->tally.count++ == 0) {
        topic->tally.from = topic->log.hi - 1;
    }
    if (amb_topic_is_home(topic)) {
        uint32_t readers = 0;
        AMB_LIST_FOR_EACH (node, &topic->cursors) {
            readers++;
        }
        for (unsigned i = 0; i < topic->lending.count; i++) {
            readers += topic->lending.lends[i].subs;
        }
        AMB_LIST_FOR_EACH (node, &topic->lending.replays) {
            readers++;
        }
        amb_tally_begin(entry, readers);
    }
    if (entry->tally->ticket != 0) {
        amb_trace_appended(topic, topic->shard, entry, topic->log.hi - 1, amb_topic_is_home(topic));
    }
}

static __attribute__((noinline)) void topic_untally(struct amb_topic *topic,
                                                    struct amb_entry *entry, uint64_t position)
{
    struct amb_tally *tally = entry->tally;
    if (tally->ticket != 0) {
        topic->shard->trace.end(topic, entry, position);
    }
    topic->tally.count--;
    entry->tally = NULL;
    amb_tally_settle(topic->shard, tally, 0);
}

/* Readers have gone on. */
static void topic_tally_passed(struct amb_topic *topic)
{
    uint64_t from = amb_topic_read_from(topic);
    uint64_t position = topic->tally.from > topic->log.lo ? topic->tally.from : topic->log.lo;
    for (; position < from && topic->tally.count > 0; position++) {
        struct amb_entry *entry = amb_log_at(&topic->log, position);
        if (entry->tally != NULL) {
            topic_untally(topic, entry, position);
        }
    }
    topic->tally.from = position;
}

void amb_trim_pop(struct amb_topic *topic)
{
    struct amb_entry *entry = amb_log_pop(&topic->log);
    if (__builtin_expect(entry->tally != NULL, 0)) {
        topic_untally(topic, entry, topic->log.lo - 1);
    }
    if (__builtin_expect(topic->keys != NULL, 0)) {
        amb_keys_gone(topic->keys, entry);
    }
    amb_entry_unref(entry, topic->shard);
}

void amb_trim_oldest(struct amb_topic *topic, uint64_t wanted)
{
    if (topic->log.lo >= wanted) {
        const struct amb_entry *entry = amb_log_at(&topic->log, topic->log.lo);
        topic->counts.msgs_dropped += entry->count;
        amb_stat_add(&topic->shard->stats->msgs_dropped, entry->count);
    }
    amb_trim_pop(topic);
}

/* wanted: by the slowest reader. */
static uint64_t topic_needed_from(const struct amb_topic *topic, uint64_t wanted)
{
    /* An entry whose window is not given back yet stays: its receipt needs it. */
    return amb_topic_is_home(topic) && topic->ungranted < wanted ? topic->ungranted : wanted;
}

uint64_t amb_topic_needed_from(struct amb_topic *topic)
{
    return topic_needed_from(topic, amb_topic_read_from(topic));
}

uint64_t amb_topic_unread(struct amb_topic *topic)
{
    uint64_t from = amb_topic_needed_from(topic);
    return from < topic->log.hi ? topic->log.next_seq - amb_log_at(&topic->log, from)->first_seq
                                : 0;
}

void amb_trim_to(struct amb_topic *topic, uint64_t wanted)
{
    if (__builtin_expect(topic->tally.count != 0, 0)) {
        topic_tally_passed(topic);
    }
    uint64_t keep = topic_needed_from(topic, wanted);
    if (__builtin_expect(topic->history.retains, 0)) {
        if (topic->keys != NULL) {
            amb_keys_expire(topic->keys, topic->shard->now_ns, topic->rule->ttl_ns);
        }
        while (topic->log.lo < keep && amb_retain_is_over(&topic->log, topic->rule, topic->shard)) {
            amb_trim_pop(topic);
        }
        return;
    }
    while (topic->log.lo < keep) {
        if (AMB_FAULT(REFERENCE_LEAKED) && topic->log.lo % 16 == 0) {
            amb_entry_ref(amb_log_at(&topic->log, topic->log.lo));
        }
        amb_trim_pop(topic);
    }
}

void amb_topic_trim(struct amb_topic *topic)
{
    amb_trim_to(topic, amb_topic_read_from(topic));
}

bool amb_trim_may_drop(const struct amb_topic *topic, uint64_t before)
{
    return topic->log.lo < before &&
           (!amb_topic_is_home(topic) || topic->log.lo < topic->ungranted);
}

void amb_trim_beside(struct amb_topic *topic, const struct amb_topic_tail *tail, uint64_t wanted)
{
    uint64_t oldest = topic->log.lo;
    if (oldest >= tail->from && oldest < tail->upto) {
        topic->spill.lost += amb_log_at(&topic->log, oldest)->count;
    }
    amb_trim_oldest(topic, wanted);
}

void amb_topic_forget(struct amb_topic *topic, uint64_t upto)
{
    struct amb_topic_tail tail = {0, 0};
    uint64_t wanted = amb_topic_read_from(topic);
    if (topic->spill.readers != 0) {
        amb_topic_tail(topic, &tail);
    }
    while (amb_trim_may_drop(topic, upto)) {
        amb_trim_beside(topic, &tail, wanted);
    }
}

/* Readers that spill have wished to keep what they can: a quarter of it goes at a time. */
static uint64_t topic_shed_some(const struct amb_topic *topic, uint64_t upto)
{
    struct amb_topic_tail tail;
    amb_topic_tail(topic, &tail);
    uint64_t some = tail.from + (tail.upto - tail.from + 3) / 4;
    return tail.from < tail.upto && some < upto ? some : upto;
}

bool amb_topic_shed(struct amb_topic *topic, uint32_t *budget)
{
    uint64_t before = topic->log.lo;
    uint64_t most = budget == NULL ? UINT32_MAX : *budget;
    if (most == 0) {
        return false;
    }
    if (topic->log.lo < topic->log.hi) {
        uint64_t upto = amb_topic_holding_from(topic);
        upto = topic->spill.readers != 0 ? topic_shed_some(topic, upto) : upto;
        amb_topic_forget(topic, upto < before + most ? upto : before + most);
    }
    bool is_shed = topic->log.lo > before;
    uint64_t used = topic->log.lo - before + topic->cursor_count / SHED_LOOKS + 1;
    if (budget != NULL) {
        *budget -= used < *budget ? (uint32_t)used : *budget;
    }
    return (topic->keys != NULL && amb_keys_shed(topic->keys, (uint32_t)most)) || is_shed;
}
