/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/lend.h"

#include "broker/base/fault.h"
#include "broker/config/config.h"
#include "broker/shard/entry.h"
#include "broker/shard/entry_share.h"
#include "broker/shard/shard.h"
#include "broker/shard/tally.h"
#include "broker/topic/append.h"
#include "broker/topic/cursor.h"
#include "broker/topic/replay.h"
#include "broker/topic/topic.h"

bool amb_lend_is_near(const struct amb_topic *topic, uint64_t position)
{
    return amb_log_bytes_from(&topic->log, position) <= amb_topic_depth(topic);
}

/* At the borrower: the shadow log's next entry. */
static void entry_lent(struct amb_mail *mail, void *owner)
{
    struct amb_shard *shard = owner;
    struct amb_entry *entry = AMB_CONTAINER_OF(mail, struct amb_entry, mail);
    struct amb_topic *topic = entry->lent_to; /* Announced before it is lent to, forgotten after. */
    topic->lending.lent += amb_entry_charge(entry);
    if (amb_topic_append(topic, entry, entry->first_seq) != AMB_OK) {
        amb_topic_mark(topic);
        if (entry->tally != NULL) {
            amb_tally_settle(shard, entry->tally, 0);
        }
        amb_entry_unref(entry, shard); /* The next entry's sequence number shows the gap. */
    }
}

static bool lend_entry(struct amb_topic *topic, const struct amb_lend *lend, unsigned borrower,
                       struct amb_entry *entry)
{
    struct amb_shard *shard = topic->shard;
    struct amb_entry *shadow = amb_entry_lend(entry, shard);
    if (shadow == NULL) {
        return false;
    }
    shadow->lent_to = lend->shadow;
    if (__builtin_expect(entry->tally != NULL, 0) &&
        amb_tally_of(entry, lend->counts_from) != NULL) {
        amb_tally_lend(shard, entry, shadow);
    }
    amb_mail_post(&shard->peers[borrower]->inbox, &shadow->mail, entry_lent);
    return true;
}

/* May the entry go while the borrower has so many bytes that are not read? Of a party that has its
 * share of the entries here it goes alone, so its readers go on. Those that spill are to have all.
 */
static bool is_due(const struct amb_shard *shard, const struct amb_entry *entry, uint64_t unread,
                   uint64_t depth)
{
    bool is_over = unread > 0 && depth != UINT64_MAX && amb_entry_share_is_over(shard, entry);
    return unread <= depth && !is_over;
}

/* depth: bytes that may be there and not read. */
static void lend_to(struct amb_topic *topic, struct amb_lend *lend, unsigned borrower,
                    uint64_t depth)
{
    if (lend->position < topic->log.lo) {
        lend->position = topic->log.lo;
    }
    /* Partner: the store in amb_lend_report. */
    uint64_t consumed = atomic_load_explicit(&lend->shadow->shadow.consumed, memory_order_acquire);
    while (lend->position < topic->log.hi) {
        struct amb_entry *entry = amb_log_at(&topic->log, lend->position);
        if (!is_due(topic->shard, entry, lend->lent - consumed, depth)) {
            return;
        }
        if (AMB_FAULT(LEND_SKIPS) && lend->position % 16 == 15) {
            lend->position++;
            continue;
        }
        if (!lend_entry(topic, lend, borrower, entry)) {
            return;
        }
        lend->lent += amb_entry_charge(entry);
        lend->position++;
    }
}

/* Messages that readers that spill are behind lie there, unless somebody there holds up
 * publishers. */
static uint64_t lend_depth(const struct amb_topic *topic, const struct amb_lend *lend)
{
    bool is_held = lend->holding > 0 && topic->rule->full != AMB_FULL_DROP_OLDEST;
    return lend->spilling > 0 && !is_held ? UINT64_MAX : amb_topic_depth(topic);
}

static void lend_replay(struct amb_topic *topic, struct amb_replay *replay)
{
    lend_to(topic, &replay->lend, replay->borrower,
            replay->is_near ? lend_depth(topic, &replay->lend) : amb_topic_depth(topic));
    if (!replay->is_near && amb_lend_is_near(topic, replay->lend.position)) {
        replay->is_near = true;
        amb_topic_reader_changed(topic, &replay->lend.position);
    }
}

void amb_lend_walk(struct amb_topic *topic)
{
    for (unsigned i = 0; i < topic->lending.count; i++) {
        struct amb_lend *lend = &topic->lending.lends[i];
        if (lend->subs > 0) {
            lend_to(topic, lend, i, lend_depth(topic, lend));
        }
    }
    AMB_LIST_FOR_EACH (node, &topic->lending.replays) {
        lend_replay(topic, AMB_CONTAINER_OF(node, struct amb_replay, node));
    }
}

static void shadow_kicked(struct amb_mail *mail, void *owner)
{
    struct amb_topic *shadow = AMB_CONTAINER_OF(mail, struct amb_topic, shadow.kick);
    uint32_t id = shadow->id;
    /* From here on the shadow's worker may post it again. */
    atomic_store_explicit(&shadow->shadow.is_kicked, 0, memory_order_seq_cst);
    struct amb_topic *topic = amb_shard_topic(owner, id);
    if (topic != NULL) { /* else it has been removed; nobody reads it any more */
        amb_topic_mark(topic);
    }
}

/* The reader of a private shadow was given its time, and holds nobody back any more. */
static bool shadow_is_dropping(const struct amb_topic *shadow)
{
    return !amb_list_is_empty(&shadow->cursors) &&
           AMB_CONTAINER_OF(shadow->cursors.next, struct amb_cursor, of_topic)->hold.is_dropping;
}

void amb_lend_report(struct amb_topic *shadow)
{
    uint64_t from = amb_topic_holding_from(shadow);
    if (shadow->privates.namesake != NULL && !shadow_is_dropping(shadow)) {
        from = amb_topic_read_from(shadow); /* Of its one reader alone: at that one's pace. */
    }
    uint64_t held = amb_log_bytes_from(&shadow->log, from);
    uint64_t consumed = shadow->lending.lent - held;
    if (consumed == atomic_load_explicit(&shadow->shadow.consumed, memory_order_relaxed)) {
        return;
    }
    atomic_store_explicit(&shadow->shadow.consumed, consumed, memory_order_seq_cst);
    amb_lend_kick(shadow);
}

void amb_lend_kick(struct amb_topic *shadow)
{
    if (atomic_exchange(&shadow->shadow.is_kicked, 1) == 0) {
        amb_mail_post(&shadow->shard->peers[shadow->home]->inbox, &shadow->shadow.kick,
                      shadow_kicked);
    }
}
