/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/topic/topic.h"

#include "broker/base/fault.h"
#include "broker/config/config.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/tally.h"
#include "broker/topic/log/keys.h"
#include "broker/topic/log/prelude.h"
#include "broker/topic/log/retain.h"
#include "broker/topic/topic_tail.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"
#include "wire/codec/frame.h"

#include <stdlib.h>
#include <string.h>

#define SHED_LOOKS 4u /* at readers, for what an entry that is dropped takes */

enum amb_status amb_topic_create(struct amb_shard *shard, uint32_t id, unsigned home,
                                 const char *name, size_t name_len, struct amb_topic **out)
{
    amb_assert(name_len <= AMB_TOPIC_MAX);
    struct amb_topic *topic = calloc(1, sizeof(*topic));
    if (topic == NULL) {
        return AMB_ENOMEM;
    }
    if (home == shard->index) {
        topic->lends = calloc(shard->peer_count, sizeof(struct amb_lend));
        topic->lend_count = shard->peer_count;
        if (topic->lends == NULL) {
            free(topic);
            return AMB_ENOMEM;
        }
    }
    topic->id = id;
    topic->home = home;
    topic->shard = shard;
    topic->name_len = (uint32_t)name_len;
    memcpy(topic->name, name, name_len);
    topic->rule = amb_config_topic(shard->config, topic->name);
    topic->has_ttl = topic->rule->ttl_ns != AMB_CONFIG_TIME_FOREVER;
    topic->retains = home == shard->index && amb_topic_rule_retains(topic->rule);
    uint32_t keys = topic->rule->retain.keys;
    if (keys != 0 && amb_keys_create(shard, keys, topic->rule->max_bytes, home == shard->index,
                                     &topic->keys) != AMB_OK) {
        free(topic->lends);
        free(topic);
        return AMB_ENOMEM;
    }
    topic->has_keys = topic->keys != NULL;
    amb_list_init(&topic->timed);
    amb_list_init(&topic->replays);
    amb_list_init(&topic->privates);
    amb_list_init(&topic->of_namesake);
    amb_log_init(&topic->log);
    amb_list_init(&topic->cursors);
    amb_list_init(&topic->keeping_up.due);
    amb_list_init(&topic->behind.due);
    amb_list_init(&topic->dirty);
    amb_list_init(&topic->kin);
    amb_list_init(&topic->held);
    amb_topic_set_priority(topic, AMB_PRIORITY_NORMAL);
    amb_list_init(&topic->spill.node);
    *out = topic;
    return AMB_OK;
}

void amb_topic_set_priority(struct amb_topic *topic, enum amb_priority priority)
{
    topic->priority = priority;
    topic->dirty_topics = &topic->shard->dirty_topics[amb_priority_rank(priority)];
}

/* The log's newest entry: its tally is open until all readers have passed it. */
static void topic_tally(struct amb_topic *topic, struct amb_entry *entry)
{
    if (topic->tallies++ == 0) {
        topic->tallied = topic->log.hi - 1;
    }
    if (amb_topic_is_home(topic)) {
        uint32_t readers = 0;
        AMB_LIST_FOR_EACH (node, &topic->cursors) {
            readers++;
        }
        for (unsigned i = 0; i < topic->lend_count; i++) {
            readers += topic->lends[i].subs;
        }
        AMB_LIST_FOR_EACH (node, &topic->replays) {
            readers++;
        }
        amb_tally_begin(entry, readers);
    }
}

static void topic_untally(struct amb_topic *topic, struct amb_entry *entry)
{
    struct amb_tally *tally = entry->tally;
    topic->tallies--;
    entry->tally = NULL;
    amb_tally_settle(topic->shard, tally, 0);
}

/* Readers have gone on. */
static void topic_tally_passed(struct amb_topic *topic)
{
    uint64_t from = amb_topic_read_from(topic);
    uint64_t position = topic->tallied > topic->log.lo ? topic->tallied : topic->log.lo;
    for (; position < from && topic->tallies > 0; position++) {
        struct amb_entry *entry = amb_log_at(&topic->log, position);
        if (entry->tally != NULL) {
            topic_untally(topic, entry);
        }
    }
    topic->tallied = position;
}

/* The oldest entry leaves the log. */
static void topic_pop(struct amb_topic *topic)
{
    struct amb_entry *entry = amb_log_pop(&topic->log);
    if (__builtin_expect(entry->tally != NULL, 0)) {
        topic_untally(topic, entry);
    }
    if (__builtin_expect(topic->has_keys, 0)) {
        amb_keys_left(topic->keys, entry);
    }
    amb_entry_unref(entry, topic->shard);
}

void amb_topic_clear(struct amb_topic *topic)
{
    amb_assert(amb_list_is_empty(&topic->cursors));
    topic->has_keys = false;
    amb_keys_destroy(&topic->keys);
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&topic->held)) != NULL) {
        amb_entry_unref(AMB_CONTAINER_OF(node, struct amb_entry, pending), topic->shard);
    }
    while (topic->log.lo < topic->log.hi) {
        topic_pop(topic);
    }
    amb_list_remove(&topic->dirty);
    amb_list_remove(&topic->timed);
    amb_list_remove(&topic->spill.node);
    amb_list_remove(&topic->of_namesake);
    amb_list_remove(&topic->kin);
}

void amb_topic_destroy(struct amb_topic **topic)
{
    struct amb_topic *t = *topic;
    if (t == NULL) {
        return;
    }
    *topic = NULL;
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&t->replays)) != NULL) { /* Workers have ended. */
        struct amb_replay *replay = AMB_CONTAINER_OF(node, struct amb_replay, node);
        amb_topic_destroy(&replay->lend.shadow);
        free(replay);
    }
    amb_topic_clear(t);
    amb_log_fini(&t->log);
    free(t->lends);
    free(t);
}

bool amb_topic_is_home(const struct amb_topic *topic)
{
    return topic->home == topic->shard->index;
}

void amb_topic_mark_all(struct amb_topic *topic)
{
    amb_topic_mark(topic);
    AMB_LIST_FOR_EACH (node, &topic->privates) {
        amb_topic_mark(AMB_CONTAINER_OF(node, struct amb_topic, of_namesake));
    }
}

void amb_topic_mark(struct amb_topic *topic)
{
    topic->keeping_up.unwalked = topic->behind.unwalked = AMB_WALK_ALL;
    if (amb_list_is_empty(&topic->dirty)) {
        amb_list_push_back(topic->dirty_topics, &topic->dirty);
    }
}

/* Whom there was no memory for was never counted. */
static uint32_t changed(uint32_t count, int32_t by)
{
    return by < 0 && count < (uint32_t)-by ? 0 : count + (uint32_t)by;
}

void amb_topic_count_lent(struct amb_topic *topic, struct amb_lend *lend, int32_t subs,
                          int32_t holding, int32_t spilling)
{
    uint32_t spilled = lend->spilling;
    lend->subs = changed(lend->subs, subs);
    lend->holding = changed(lend->holding, holding);
    lend->spilling = changed(lend->spilling, spilling);
    topic->spillers += lend->spilling - spilled;
    amb_topic_reader_changed(topic, &lend->position);
    if (lend->position < topic->log.hi) { /* Else it has held nothing back, and has nothing due. */
        amb_topic_mark(topic);
    }
}

static struct amb_slowest topic_find_slowest(const struct amb_topic *topic, bool holding_only)
{
    struct amb_slowest found = {.is_known = true};
    AMB_LIST_FOR_EACH (node, &topic->cursors) {
        const struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_topic);
        if (!holding_only || amb_cursor_is_holding(cursor)) {
            amb_slowest_look(&found, &cursor->position);
        }
    }
    for (unsigned i = 0; i < topic->lend_count; i++) {
        const struct amb_lend *lend = &topic->lends[i];
        if (lend->subs > 0 && (!holding_only || lend->holding > 0)) {
            amb_slowest_look(&found, &lend->position);
        }
    }
    AMB_LIST_FOR_EACH (node, &topic->replays) {
        const struct amb_replay *replay = AMB_CONTAINER_OF(node, struct amb_replay, node);
        if (!holding_only || amb_replay_is_holding(replay)) {
            amb_slowest_look(&found, &replay->lend.position);
        }
    }
    return found;
}

static uint64_t topic_slowest(struct amb_topic *topic, bool holding_only)
{
    struct amb_slowest *slowest = holding_only ? &topic->slowest_holding : &topic->slowest;
    if (!amb_slowest_is_known(slowest)) {
        *slowest = topic_find_slowest(topic, holding_only);
    }
    uint64_t position = slowest->where == NULL ? topic->log.hi : slowest->position;
    return position < topic->log.lo ? topic->log.lo : position;
}

uint64_t amb_topic_held_from(struct amb_topic *topic)
{
    return topic_slowest(topic, true);
}

uint64_t amb_topic_read_from(struct amb_topic *topic)
{
    return topic_slowest(topic, false);
}

static void check_slowest(const struct amb_topic *topic, const struct amb_slowest *slowest,
                          bool holding_only)
{
    const struct amb_slowest found = topic_find_slowest(topic, holding_only);
    amb_assert(!amb_slowest_is_known(slowest) || (slowest->where == NULL) == (found.where == NULL));
    amb_assert(!amb_slowest_is_known(slowest) || slowest->where == NULL ||
               slowest->position == found.position);
}

void amb_topic_assert(const struct amb_topic *topic)
{
    amb_log_check(&topic->log);
    check_slowest(topic, &topic->slowest, false);
    check_slowest(topic, &topic->slowest_holding, true);
}

void amb_topic_reader_came(struct amb_topic *topic, uint64_t position)
{
    if (!AMB_FAULT(SLOWEST_KEPT)) {
        amb_slowest_came(&topic->slowest, position);
        amb_slowest_came(&topic->slowest_holding, position);
    }
}

void amb_topic_reader_went(struct amb_topic *topic, const uint64_t *position)
{
    amb_slowest_went(&topic->slowest, position);
    amb_slowest_went(&topic->slowest_holding, position);
}

void amb_topic_reader_changed(struct amb_topic *topic, const uint64_t *position)
{
    amb_topic_reader_went(topic, position);
    amb_topic_reader_came(topic, *position);
}

/* wanted: the position from which on somebody wants to read. */
static void topic_drop_oldest(struct amb_topic *topic, uint64_t wanted)
{
    if (topic->log.lo >= wanted) {
        const struct amb_entry *entry = amb_log_at(&topic->log, topic->log.lo);
        topic->msgs_dropped += entry->count;
        amb_stat_add(&topic->shard->stats.msgs_dropped, entry->count);
    }
    topic_pop(topic);
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

static void topic_trim(struct amb_topic *topic, uint64_t wanted)
{
    if (__builtin_expect(topic->tallies != 0, 0)) {
        topic_tally_passed(topic);
    }
    uint64_t keep = topic_needed_from(topic, wanted);
    if (__builtin_expect(topic->retains, 0)) {
        if (topic->has_keys) {
            amb_keys_expire(topic->keys, topic->shard->now_ns, topic->rule->ttl_ns);
        }
        while (topic->log.lo < keep && amb_retain_is_over(&topic->log, topic->rule, topic->shard)) {
            topic_pop(topic);
        }
        return;
    }
    while (topic->log.lo < keep) {
        if (AMB_FAULT(REFERENCE_LEAKED) && topic->log.lo % 16 == 0) {
            amb_entry_ref(amb_log_at(&topic->log, topic->log.lo));
        }
        topic_pop(topic);
    }
}

void amb_topic_trim(struct amb_topic *topic)
{
    topic_trim(topic, amb_topic_read_from(topic));
}

static bool topic_may_drop(const struct amb_topic *topic, uint64_t before)
{
    return topic->log.lo < before &&
           (!amb_topic_is_home(topic) || topic->log.lo < topic->ungranted);
}

/* The same where readers spill, whose tail that was before anything went. */
static void topic_drop_beside(struct amb_topic *topic, const struct amb_topic_tail *tail,
                              uint64_t wanted)
{
    uint64_t oldest = topic->log.lo;
    if (oldest >= tail->from && oldest < tail->upto) {
        topic->spill.lost += amb_log_at(&topic->log, oldest)->count;
    }
    topic_drop_oldest(topic, wanted);
}

void amb_topic_forget(struct amb_topic *topic, uint64_t upto)
{
    struct amb_topic_tail tail = {0, 0};
    uint64_t wanted = amb_topic_read_from(topic);
    if (topic->spillers != 0) {
        amb_topic_tail(topic, &tail);
    }
    while (topic_may_drop(topic, upto)) {
        topic_drop_beside(topic, &tail, wanted);
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
        uint64_t upto = amb_topic_held_from(topic);
        upto = topic->spillers != 0 ? topic_shed_some(topic, upto) : upto;
        amb_topic_forget(topic, upto < before + most ? upto : before + most);
    }
    bool is_shed = topic->log.lo > before;
    uint64_t used = topic->log.lo - before + topic->cursor_count / SHED_LOOKS + 1;
    if (budget != NULL) {
        *budget -= used < *budget ? (uint32_t)used : *budget;
    }
    return (topic->has_keys && amb_keys_shed(topic->keys, (uint32_t)most)) || is_shed;
}

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

/* Some readers spill. What the others have too much, and they themselves, is seen to in the walk
 * (spill.c). */
static enum amb_status topic_make_room_beside(struct amb_topic *topic,
                                              const struct amb_entry *entry)
{
    const struct amb_log *log = &topic->log;
    bool may_reject = topic->rule->full == AMB_FULL_REJECT && amb_topic_is_home(topic);
    uint64_t held = amb_topic_held_from(topic), wanted = amb_topic_read_from(topic);
    uint64_t upto = topic->rule->full == AMB_FULL_DROP_OLDEST ? log->hi : held;
    struct amb_topic_tail tail;
    amb_topic_tail(topic, &tail);
    while (log->hi - log->lo >= AMB_LOG_ENTRIES_MAX && topic_may_drop(topic, upto)) {
        topic_drop_beside(topic, &tail, wanted);
    }
    if (log->hi - log->lo >= AMB_LOG_ENTRIES_MAX) {
        return may_reject ? AMB_EREJECTED : AMB_ELIMIT;
    }
    amb_topic_tail(topic, &tail);
    while (topic_is_full_beside(topic, &tail, entry) && topic_may_drop(topic, tail.from)) {
        topic_drop_oldest(topic, wanted);
    }
    return may_reject && held <= tail.upto && topic_is_full_beside(topic, &tail, entry)
               ? AMB_EREJECTED
               : AMB_OK;
}

/* Makes room as the rule says. EREJECTED: there is none and the topic rejects. */
static enum amb_status topic_make_room(struct amb_topic *topic, const struct amb_entry *entry)
{
    if (topic->spillers != 0 && !AMB_FAULT(SPILL_COUNTS)) {
        amb_topic_trim(topic);
        return topic_make_room_beside(topic, entry);
    }
    uint64_t wanted = amb_topic_read_from(topic);
    topic_trim(topic, wanted);
    uint64_t held = amb_topic_held_from(topic);
    while (topic_is_full(topic, entry) && topic_may_drop(topic, held)) {
        topic_drop_oldest(topic, wanted);
    }
    if (!topic_is_full(topic, entry)) {
        return AMB_OK;
    }
    if (!amb_topic_is_home(topic) && topic->rule->full == AMB_FULL_REJECT) {
        return AMB_OK; /* Home has taken it; here only what is lent at a time is bounded. */
    }
    switch (topic->rule->full) {
    case AMB_FULL_BLOCK:
        /* The window is what blocks: what was granted is taken. */
        return topic->log.hi - topic->log.lo < AMB_LOG_ENTRIES_MAX ? AMB_OK : AMB_ELIMIT;
    case AMB_FULL_DROP_OLDEST:
        while (topic_is_full(topic, entry) && topic_may_drop(topic, topic->log.hi)) {
            topic_drop_oldest(topic, wanted);
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
        entry->arrived_ns = topic->shard->now_ns - (AMB_FAULT(TTL_EARLY) ? ttl_ns / 2 : 0);
        entry->expires_ns = amb_deadline_ns(entry->arrived_ns, ttl_ns);
    }
}

static struct amb_walk *walk_of(const struct amb_cursor *cursor)
{
    return cursor->is_behind ? &cursor->topic->behind : &cursor->topic->keeping_up;
}

void amb_cursor_park(struct amb_cursor *cursor)
{
    amb_list_remove(&cursor->due);
    walk_of(cursor)->count--;
}

static void cursor_enter(struct amb_cursor *cursor, bool is_behind)
{
    cursor->is_behind = is_behind;
    amb_list_push_back(&walk_of(cursor)->due, &cursor->due);
    walk_of(cursor)->count++;
}

void amb_cursor_sort(struct amb_cursor *cursor, bool is_behind)
{
    if (__builtin_expect(cursor->is_behind != is_behind, 0)) {
        amb_cursor_park(cursor);
        cursor_enter(cursor, is_behind);
    }
}

static void cursor_unpark(struct amb_cursor *cursor)
{
    if (amb_list_is_empty(&cursor->due)) {
        cursor_enter(cursor, true);
    }
}

void amb_cursor_wake(struct amb_cursor *cursor)
{
    cursor_unpark(cursor);
    amb_topic_mark(cursor->topic);
}

/* Walks are to come to all of them from here on. */
static void topic_unpark(struct amb_topic *topic)
{
    AMB_LIST_FOR_EACH (node, &topic->cursors) {
        cursor_unpark(AMB_CONTAINER_OF(node, struct amb_cursor, of_topic));
    }
}

static void topic_watch(struct amb_topic *topic)
{
    struct amb_shard *shard = topic->shard;
    if (amb_list_is_empty(&topic->timed)) {
        amb_list_push_back(&shard->timed, &topic->timed);
    }
    if (shard->timed_ns == INT64_MAX) {
        shard->timed_ns = amb_deadline_ns(shard->now_ns, AMB_TOPIC_TICK_NS);
    }
}

/* Something that goes by age, or may be history. */
static void topic_note_age(struct amb_topic *topic, struct amb_entry *entry)
{
    if (entry->has_ttl && !topic->has_ttl) {
        topic->has_ttl = true;
        topic_unpark(topic);
    }
    if (topic->has_ttl && amb_topic_is_home(topic)) {
        topic_set_expiry(topic, entry);
    }
    if (topic->has_ttl || topic->rule->retain.age_ns != 0) {
        topic_watch(topic);
    }
}

/* What others shall know of it, now that it has its number. */
static void topic_note_special(struct amb_topic *topic, struct amb_entry *entry)
{
    if (topic->has_keys) {
        amb_keys_note(topic->keys, entry);
    }
    if (topic->counts_kin) {
        AMB_LIST_FOR_EACH (node, &topic->kin) {
            AMB_CONTAINER_OF(node, struct amb_topic, kin)->log.above += entry->count;
        }
    }
}

enum amb_status amb_topic_append(struct amb_topic *topic, struct amb_entry *entry,
                                 uint64_t first_seq)
{
    if (topic_is_full(topic, entry)) {
        enum amb_status status = topic_make_room(topic, entry);
        if (status != AMB_OK) {
            topic->msgs_rejected += entry->count;
            return status;
        }
    }
    bool is_special =
        entry->has_ttl | topic->has_ttl | topic->retains | topic->has_keys | topic->counts_kin;
    if (__builtin_expect(is_special, 0)) {
        topic_note_age(topic, entry);
    }
    enum amb_status status = amb_log_append(&topic->log, entry, first_seq);
    if (__builtin_expect(is_special, 0) && status == AMB_OK) {
        topic_note_special(topic, entry);
    }
    if (status == AMB_OK) {
        topic->msgs_in += entry->count;
        topic->bytes_in += amb_entry_bytes(entry);
        if (__builtin_expect(entry->tally != NULL, 0)) {
            topic_tally(topic, entry);
        }
        amb_topic_mark(topic);
    }
    return status;
}

uint64_t amb_topic_depth(const struct amb_topic *topic)
{
    return topic->rule->max_bytes < AMB_TOPIC_DEPTH ? topic->rule->max_bytes : AMB_TOPIC_DEPTH;
}

/* Do more entries or bytes follow that position than publishers may be ahead? */
static bool topic_is_deep(const struct amb_topic *topic, uint64_t position)
{
    uint64_t behind = topic->log.hi - position;
    return behind > 1 && (behind > AMB_TOPIC_DEPTH_ENTRIES ||
                          amb_log_bytes_from(&topic->log, position) > amb_topic_depth(topic));
}

bool amb_topic_next_grant(struct amb_topic *topic, struct amb_entry **out)
{
    if (topic->ungranted >= topic->log.hi) {
        return false;
    }
    amb_assert(topic->ungranted >= topic->log.lo);
    /* Readers are looked at only where the whole log is deep. */
    if (topic->rule->full == AMB_FULL_BLOCK && topic_is_deep(topic, topic->log.lo) &&
        topic_is_deep(topic, amb_topic_held_from(topic))) {
        return false;
    }
    *out = amb_log_at(&topic->log, topic->ungranted);
    topic->ungranted++;
    if (AMB_FAULT(GRANT_LOST) && topic->ungranted % 16 == 0) {
        return false;
    }
    return true;
}

void amb_cursor_attach(struct amb_cursor *cursor, struct amb_topic *topic,
                       struct amb_subscription *sub, enum amb_slow slow, int64_t block_limit_ns,
                       const struct amb_begun *begun)
{
    cursor->topic = topic;
    cursor->sub = sub;
    cursor->slow = slow;
    cursor->holds = slow == AMB_SLOW_BLOCK || (AMB_FAULT(SPILL_HOLDS) && slow == AMB_SLOW_SPILL);
    cursor->is_picky = slow == AMB_SLOW_LATEST || slow == AMB_SLOW_DROP_NEWEST;
    cursor->block_limit_ns = block_limit_ns;
    cursor->position = amb_topic_is_home(topic) ? begun->position : topic->log.hi;
    cursor->expected_seq = begun->seq;
    cursor->counts_from = amb_topic_is_home(topic) ? topic->log.next_seq : 0;
    cursor->is_late = begun->is_late;
    cursor->is_unknown = begun->is_unknown;
    cursor->is_replaying = cursor->position < topic->log.hi;
    cursor->prelude = begun->prelude;
    if (cursor->prelude != NULL) {
        cursor->prelude_end = begun->seq;
        cursor->expected_seq = 0; /* Until its first message is there. */
        cursor->is_picky = true;
    }
    amb_list_init(&cursor->stalled);
    amb_list_init(&cursor->blocked);
    amb_list_init(&cursor->kin);
    amb_list_push_back(&topic->cursors, &cursor->of_topic);
    topic->cursor_count++;
    amb_topic_reader_came(topic, cursor->position);
    amb_list_init(&cursor->due);
    cursor_unpark(cursor);
    amb_cursor_spill(cursor, slow == AMB_SLOW_SPILL);
    if (cursor->is_replaying || cursor->prelude != NULL) {
        amb_topic_mark(topic);
    }
}

void amb_cursor_spill(struct amb_cursor *cursor, bool spills)
{
    cursor->topic->spillers += (uint32_t)spills - (uint32_t)cursor->spills;
    cursor->spills = spills;
}

struct amb_entry *amb_cursor_entry(const struct amb_cursor *cursor)
{
    return cursor->prelude != NULL ? amb_prelude_entry(cursor->prelude)
                                   : amb_log_at(&cursor->topic->log, cursor->position);
}

void amb_cursor_advance(struct amb_cursor *cursor)
{
    cursor->within = 0;
    if (cursor->prelude == NULL) {
        cursor->position++;
        return;
    }
    amb_prelude_advance(cursor->prelude, cursor->topic->shard);
    if (amb_prelude_entry(cursor->prelude) != NULL) {
        cursor->expected_seq = amb_prelude_seq(cursor->prelude);
    }
}

void amb_cursor_pass_on(const struct amb_cursor *cursor)
{
    unsigned rank = amb_priority_rank(cursor->topic->priority);
    AMB_LIST_FOR_EACH (node, &cursor->kin) {
        const struct amb_cursor *other = AMB_CONTAINER_OF(node, struct amb_cursor, kin);
        if (amb_priority_rank(other->topic->priority) > rank && amb_cursor_has_next(other)) {
            amb_topic_mark(other->topic);
        }
    }
}

void amb_cursor_detach(struct amb_cursor *cursor)
{
    if (cursor->topic == NULL) {
        return;
    }
    if (__builtin_expect(!amb_list_is_empty(&cursor->kin), 0)) {
        amb_cursor_pass_on(cursor);
        amb_list_remove(&cursor->kin);
    }
    amb_list_remove(&cursor->of_topic);
    cursor->topic->cursor_count--;
    amb_topic_reader_went(cursor->topic, &cursor->position);
    if (!amb_list_is_empty(&cursor->due)) {
        amb_cursor_park(cursor);
    }
    amb_list_remove(&cursor->of_sub);
    amb_list_remove(&cursor->stalled);
    amb_list_remove(&cursor->blocked);
    bool has_next = amb_cursor_has_next(cursor);
    amb_prelude_free(&cursor->prelude, cursor->topic->shard);
    amb_cursor_spill(cursor, false);
    if (has_next) {
        amb_topic_mark(cursor->topic); /* What it held back may go. */
    }
    cursor->topic = NULL;
}
