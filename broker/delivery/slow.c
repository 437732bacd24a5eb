/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/slow.h"

#include "broker/delivery/reader/losses.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/delivery/spill.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"
#include "wire/base/clock.h"

/* Of credit that is a handful of messages all of it is always used. */
#define SLOW_CREDIT_MIN UINT64_C(16)
/* The same subscription's losses are told at most so often. */
#define SLOW_LOST_EVERY_NS AMB_NS_PER_SEC

static bool cursor_is_waited_for(const struct amb_cursor *cursor)
{
    return !amb_list_is_empty(&cursor->stalled) && cursor->position < cursor->topic->log.hi;
}

/* Goes on with the look at its cursors, each of which goes to the end of the list. True: it has
 * come to all of them. *gap: of all, where that took one call; else none, for what was seen in an
 * earlier tick may be told by now. Returned in *missed: how many. */
static bool sub_look(struct amb_subscription *sub, unsigned *budget, struct amb_losses_gap *gap,
                     uint64_t *missed)
{
    struct amb_slow_look *look = &sub->look;
    bool is_whole = !look->is_begun;
    uint64_t sum = 0;
    if (is_whole) {
        *look = (struct amb_slow_look){.number = look->number + 1, .is_begun = true};
    }
    *missed = 0;
    while (!amb_list_is_empty(&sub->cursors)) {
        struct amb_cursor *cursor = AMB_CONTAINER_OF(sub->cursors.next, struct amb_cursor, of_sub);
        if (cursor->loss.looked == look->number) {
            break;
        }
        if (*budget == 0) {
            return false;
        }
        --*budget;
        cursor->loss.looked = look->number;
        amb_list_remove(&cursor->of_sub);
        amb_list_push_back(&sub->cursors, &cursor->of_sub);
        sum += amb_losses_gap_add(gap, cursor);
        look->is_waited_for = look->is_waited_for || cursor_is_waited_for(cursor);
        look->is_spilling = look->is_spilling || amb_spill_is_on(cursor);
    }
    look->is_begun = false;
    if (is_whole) {
        *missed = sum;
    } else {
        *gap = (struct amb_losses_gap){{0}};
    }
    return true;
}

static bool sub_uses(const struct amb_subscription *sub, uint64_t quarters)
{
    return (sub->options.credit_msgs >= SLOW_CREDIT_MIN &&
            sub->msgs_out >= sub->options.credit_msgs / 4 * quarters) ||
           sub->bytes_out >= sub->options.credit_bytes / 4 * quarters;
}

static struct amb_note note_of(const struct amb_subscription *sub, enum amb_note_kind kind)
{
    return (struct amb_note){
        .kind = kind,
        .client_id = sub->session->client_id,
        .sub = sub->id,
        .handle = sub->handle,
        .msgs_out = sub->msgs_out,
        .bytes_out = sub->bytes_out,
        .spilled = sub->spilled,
    };
}

/* Latest has no queue to fall behind with: what it skips is told as lost. */
static unsigned slow_look_at_use(struct amb_subscription *sub)
{
    bool is_waited_for = sub->look.is_waited_for && sub->options.slow != AMB_SLOW_LATEST;
    if (!sub->is_slow && !is_waited_for && !sub_uses(sub, 3)) {
        return 0;
    }
    if (sub->is_slow && (is_waited_for || sub_uses(sub, 2))) {
        return 0;
    }
    sub->is_slow = !sub->is_slow;
    struct amb_note note = note_of(sub, sub->is_slow ? AMB_NOTE_SLOW : AMB_NOTE_RECOVERED);
    sub->session->shard->upcalls->noted(sub->session->shard, &note);
    return 1;
}

static unsigned slow_look_at_spill(struct amb_subscription *sub)
{
    bool is_spilling = sub->look.is_spilling;
    if (is_spilling == sub->is_spilling) {
        return 0;
    }
    sub->is_spilling = is_spilling;
    struct amb_note note = note_of(sub, is_spilling ? AMB_NOTE_SPILL_BEGIN : AMB_NOTE_SPILL_END);
    sub->session->shard->upcalls->noted(sub->session->shard, &note);
    return 1;
}

/* The reason of all that it has lost; slow is said only where there is no other. */
static enum amb_loss lost_by(const struct amb_subscription *sub)
{
    static const enum amb_loss reasons[] = {AMB_LOSS_EXPIRED, AMB_LOSS_TRIMMED, AMB_LOSS_PURGED};
    enum amb_loss why = sub->lost_by[AMB_LOSS_MIXED] > 0 ? AMB_LOSS_MIXED : AMB_LOSS_SLOW;
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (sub->lost_by[reasons[i]] > 0) {
            why = why == AMB_LOSS_SLOW ? reasons[i] : AMB_LOSS_MIXED;
        }
    }
    return why;
}

static unsigned slow_look_at_loss(struct amb_subscription *sub, uint64_t gap, int64_t now_ns)
{
    uint64_t lost = sub->lost + gap;
    if (lost <= sub->lost_told || now_ns < sub->lost_told_ns) {
        return 0;
    }
    struct amb_note note = note_of(sub, AMB_NOTE_LOST);
    note.count = lost - sub->lost_told;
    note.total = lost;
    note.why = lost_by(sub);
    sub->lost_told = lost;
    sub->lost_told_ns = amb_deadline_ns(now_ns, SLOW_LOST_EVERY_NS);
    sub->session->shard->upcalls->noted(sub->session->shard, &note);
    return 1;
}

static bool sub_is_of_interest(const struct amb_subscription *sub)
{
    return sub->is_slow || sub->is_spilling || sub->lost > sub->lost_told || sub->look.is_begun;
}

/* At its subscriptions in turn, as far as so many cursors go. Returns how many notes that gave, of
 * which `max` may be exceeded by the last one's. */
static unsigned session_look(struct amb_session *session, unsigned max)
{
    unsigned budget = AMB_SLOW_CURSORS, notes = 0;
    int64_t now_ns = session->shard->now_ns;
    const struct amb_list_node *last = session->subscription_list.prev;
    struct amb_list_node *node = NULL;
    while (node != last && notes < max && !amb_list_is_empty(&session->subscription_list)) {
        node = session->subscription_list.next;
        struct amb_subscription *sub = AMB_CONTAINER_OF(node, struct amb_subscription, node);
        struct amb_losses_gap gap = {{0}};
        uint64_t missed = 0;
        bool is_over = sub->has_ended || sub_look(sub, &budget, &gap, &missed);
        if (is_over && !sub->has_ended) {
            amb_losses_note(sub, &gap);
            notes += slow_look_at_use(sub) + slow_look_at_loss(sub, missed, now_ns) +
                     slow_look_at_spill(sub);
        }
        amb_list_remove(&sub->node);
        amb_list_push_back(&session->subscription_list, &sub->node);
        if (budget == 0) {
            break;
        }
    }
    return notes;
}

int64_t amb_slow_tick(struct amb_shard *shard)
{
    if (shard->now_ns < shard->slow.due_ns || shard->upcalls->noted == NULL) {
        return shard->upcalls->noted == NULL ? INT64_MAX : shard->slow.due_ns;
    }
    unsigned notes = 0;
    bool is_of_interest = false;
    AMB_LIST_FOR_EACH (node, &shard->sessions.live) {
        struct amb_session *session = AMB_CONTAINER_OF(node, struct amb_session, live);
        notes += session_look(session, notes < AMB_SLOW_NOTES_MAX ? AMB_SLOW_NOTES_MAX - notes : 0);
        AMB_LIST_FOR_EACH (sub_node, &session->subscription_list) {
            const struct amb_subscription *sub =
                AMB_CONTAINER_OF(sub_node, struct amb_subscription, node);
            is_of_interest = is_of_interest || sub_is_of_interest(sub);
        }
    }
    uint64_t moved = amb_stat_get(&shard->stats->msgs_out) + amb_stat_get(&shard->stats->msgs_in);
    bool is_quiet = moved == shard->slow.moved && notes == 0 && !is_of_interest;
    shard->slow.moved = moved;
    shard->slow.due_ns = is_quiet ? INT64_MAX : amb_deadline_ns(shard->now_ns, AMB_SLOW_TICK_NS);
    return shard->slow.due_ns;
}
