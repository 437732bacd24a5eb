/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/advance.h"

#include "broker/base/fault.h"
#include "broker/delivery/acks/queue.h"
#include "broker/delivery/hold.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/delivery/reader/give.h"
#include "broker/delivery/reader/pace.h"
#include "broker/delivery/reader/pick.h"
#include "broker/delivery/reader/recall.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/session/outgoing.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/cursor.h"
#include "broker/topic/log/prelude.h"
#include "broker/topic/priority.h"
#include "broker/topic/topic.h"
#include "broker/topic/twin.h"

/* Its owner goes, and it with it: it holds nobody back meanwhile. */
static void cursor_give_up(struct amb_cursor *cursor)
{
    amb_prelude_free(&cursor->recall.prelude, cursor->topic->shard);
    cursor->position = cursor->topic->log.hi;
    cursor->within = 0;
    cursor->hold.since_ns = 0;
    amb_list_remove(&cursor->hold.blocked);
    amb_list_remove(&cursor->stalled);
}

/* It cannot go on: it is walked again when its session gets credit or room. */
static void cursor_stall(struct amb_cursor *cursor)
{
    struct amb_session *session = cursor->sub->session;
    if (cursor->sub->is_sweeping) {
        cursor_give_up(cursor);
        return;
    }
    if (!amb_session_has_room(session)) {
        amb_recall_keep(cursor, &session->prelude);
    } else {
        amb_recall_let_go(cursor);
    }
    if (amb_list_is_empty(&cursor->stalled)) {
        amb_list_push_back(&cursor->sub->session->stalled, &cursor->stalled);
    }
    amb_hold_wait(cursor);
}

static void cursor_next_entry(struct amb_cursor *cursor)
{
    cursor->position++;
    if (AMB_FAULT(CURSOR_SKIPS) && cursor->position % 16 == 0 &&
        cursor->position < cursor->topic->log.hi) {
        cursor->position++;
    }
    cursor->within = 0;
    amb_hold_went_on(cursor);
}

/* The log has gone on without it. False: it shall not go on either. */
static bool cursor_jump(struct amb_topic *topic, struct amb_cursor *cursor)
{
    cursor->position = topic->log.lo;
    cursor->within = 0;
    if (cursor->hold.slow == AMB_SLOW_DISCONNECT) {
        amb_pick_disconnect(cursor);
        return false;
    }
    return true;
}

static void picky_next_entry(struct amb_cursor *cursor)
{
    amb_cursor_advance(cursor);
    amb_hold_went_on(cursor);
}

/* Its prelude has no entry. False: it waits, for credit or for the entry. */
static bool picky_fetch(struct amb_cursor *cursor)
{
    if (!amb_subscription_has_credit(cursor->sub, 1, 0)) {
        cursor_stall(cursor);
        return false;
    }
    const struct amb_subscription *sub = cursor->sub;
    uint64_t left =
        sub->options.credit_msgs > sub->msgs_out ? sub->options.credit_msgs - sub->msgs_out : 1;
    if (!amb_recall(cursor, left)) {
        amb_hold_wait(cursor);
        return false;
    }
    return true;
}

/* A reader that may leave messages out, or a log in which some expire. */
static void advance_picky(struct amb_topic *topic, struct amb_cursor *cursor)
{
    bool is_lazy = cursor->sub->options.lazy != AMB_LAZY_OFF;
    unsigned left = AMB_ADVANCE_RUN;
    while (amb_cursor_has_next(cursor)) {
        if (left-- == 0) {
            amb_topic_mark(topic); /* Its share of this walk is over. */
            return;
        }
        struct amb_entry *entry = amb_cursor_entry(cursor);
        if (entry == NULL && picky_fetch(cursor)) {
            continue;
        }
        if (entry == NULL) {
            return;
        }
        uint32_t end = amb_pick_run(cursor, entry, topic->shard->now_ns);
        if (end == 0) {
            picky_next_entry(cursor);
            continue;
        }
        if (end == AMB_PICK_LATER) {
            amb_hold_wait(cursor);
            return;
        }
        bool is_prelude = cursor->recall.prelude != NULL; /* All of that is given. */
        if (cursor->hold.slow == AMB_SLOW_LATEST && !is_prelude &&
            amb_pick_latest(cursor, entry, &end)) {
            continue;
        }
        struct amb_pace *pace = cursor->sub->pace;
        uint32_t first = cursor->within;
        if (pace != NULL && !amb_pace_ask(pace, cursor, entry, &end)) {
            amb_recall_let_go(cursor);
            amb_hold_wait(cursor);
            return;
        }
        if (!(is_lazy ? amb_give_lazy : amb_give)(cursor, entry, end)) {
            if (pace != NULL) {
                amb_pace_spend(pace, entry, first, cursor->within);
            }
            if (entry->twin_state == AMB_TWIN_COMING && !is_lazy) {
                return;
            }
            if (is_prelude || cursor->hold.slow != AMB_SLOW_DROP_NEWEST ||
                !amb_pick_is_dropped(cursor, entry, end)) {
                cursor_stall(cursor);
                return;
            }
        }
        if (pace != NULL) {
            amb_pace_spend(pace, entry, first, end);
        }
        cursor->within = end;
        if (end == entry->count) {
            picky_next_entry(cursor);
        }
    }
    amb_hold_caught_up(cursor);
}

/* A queue's: any member may get the messages. */
static void advance_queue(struct amb_cursor *cursor)
{
    uint64_t position = cursor->position;
    uint32_t within = cursor->within;
    bool has_caught_up = amb_queue_feed(cursor);
    if (cursor->position != position || cursor->within != within) {
        amb_hold_went_on(cursor);
    }
    if (has_caught_up) {
        amb_hold_caught_up(cursor);
    } else {
        amb_hold_wait(cursor);
    }
}

/* A reader that gives way does not keep messages that have expired meanwhile. */
static void pass_expired(struct amb_topic *topic, struct amb_cursor *cursor)
{
    while (cursor->recall.prelude == NULL && amb_cursor_has_next(cursor) &&
           amb_pick_run(cursor, amb_cursor_entry(cursor), topic->shard->now_ns) == 0) {
        picky_next_entry(cursor);
    }
}

/* Not simply one that takes all, in a log where nothing expires. */
static void advance_special(struct amb_topic *topic, struct amb_cursor *cursor)
{
    bool has_kin = !amb_list_is_empty(&cursor->kin);
    if (has_kin && !AMB_FAULT(PRIORITY_IGNORED) && amb_priority_is_outranked(cursor)) {
        if (topic->has_ttl && cursor->queue == NULL && cursor->pick.filter == NULL) {
            pass_expired(topic, cursor);
        }
        if (amb_cursor_has_next(cursor)) {
            amb_recall_let_go(cursor);
            amb_hold_wait(cursor);
        } else {
            amb_hold_caught_up(cursor);
        }
        return;
    }
    if (cursor->pick.filter != NULL) {
        amb_list_remove(&cursor->stalled); /* It may have waited for steps, and waits no more. */
    }
    if (cursor->queue != NULL ? cursor->queue->is_closed : cursor->sub->is_sweeping) {
        cursor_give_up(cursor);
    } else if (cursor->queue != NULL) {
        advance_queue(cursor);
    } else {
        advance_picky(topic, cursor);
    }
    if (has_kin && !amb_cursor_has_next(cursor)) {
        amb_cursor_pass_on(cursor);
    }
}

/* The next batches are copied with the one that the reader waits for, as many as it may be given.
 * Without credit none is: the copies would take memory, and nobody would have them. */
static void ask_ahead(const struct amb_cursor *cursor, const struct amb_entry *entry)
{
    const struct amb_subscription *sub = cursor->sub;
    uint64_t msgs = sub->msgs_out + entry->count, bytes = sub->bytes_out + entry->data_len;
    if (msgs < sub->options.credit_msgs && bytes < sub->options.credit_bytes) {
        amb_twin_ahead(cursor->topic, cursor->position, sub->options.credit_msgs - msgs,
                       sub->options.credit_bytes - bytes);
    }
}

void amb_advance(struct amb_topic *topic, struct amb_cursor *cursor)
{
    if (cursor->position < topic->log.lo && !cursor_jump(topic, cursor)) {
        return;
    }
    if (__builtin_expect(cursor->is_picky | topic->has_ttl, 0)) {
        advance_special(topic, cursor);
        return;
    }
    uint64_t upto = topic->log.hi;
    if (upto - cursor->position > AMB_ADVANCE_RUN) {
        upto = cursor->position + AMB_ADVANCE_RUN;
    }
    while (cursor->position < upto) {
        struct amb_entry *entry = amb_log_at(&topic->log, cursor->position);
        /* An entry that was on its way when this reader came is older than its subscription. */
        bool is_its = entry->first_seq + cursor->within >= cursor->loss.expected_seq ||
                      amb_pick_enter(cursor, entry);
        if (is_its && !amb_give(cursor, entry, entry->count)) {
            if (entry->twin_state == AMB_TWIN_COMING) { /* The topic is walked again then. */
                ask_ahead(cursor, entry);
            } else {
                cursor_stall(cursor);
            }
            return;
        }
        cursor_next_entry(cursor);
    }
    if (upto < topic->log.hi) {
        amb_topic_mark(topic); /* Its share of this walk is over. */
        return;
    }
    amb_hold_caught_up(cursor);
}
