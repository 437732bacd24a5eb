/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/delivery/forward.h"

#include "broker/base/fault.h"
#include "broker/config/config.h"
#include "broker/delivery/acks/queue.h"
#include "broker/delivery/lend.h"
#include "broker/delivery/reader/deliver.h"
#include "broker/delivery/reader/lazy.h"
#include "broker/delivery/reader/pick.h"
#include "broker/delivery/reader/recall.h"
#include "broker/delivery/reader/sift.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/delivery/spill.h"
#include "broker/ingest/route.h"
#include "broker/memory/segment.h"
#include "broker/session/outgoing.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/slice.h"
#include "broker/shard/tally.h"
#include "broker/topic/history.h"
#include "broker/topic/log/prelude.h"
#include "broker/topic/priority.h"
#include "broker/topic/topic.h"
#include "broker/topic/twin.h"
#include "wire/base/assert.h"
#include "wire/base/clock.h"

#define SETTLE_LOOKS 32u /* looks in forward_settle are cheap: so many count as one */

/* From here on it may hold publishers back for so long. */
static void cursor_behind(struct amb_cursor *cursor)
{
    struct amb_shard *shard = cursor->topic->shard;
    if (amb_cursor_is_holding(cursor) && cursor->behind_since_ns == 0) {
        cursor->behind_since_ns = shard->now_ns;
        if (cursor->block_limit_ns != INT64_MAX && amb_list_is_empty(&cursor->blocked)) {
            amb_list_push_back(&shard->blocked, &cursor->blocked);
        }
    }
}

/* The cursor does not go on now, for whatever reason. */
static void cursor_wait(struct amb_cursor *cursor)
{
    if (cursor->is_replaying && amb_lend_is_near(cursor->topic, cursor->position)) {
        cursor->is_replaying = false;
        amb_topic_reader_changed(cursor->topic, &cursor->position);
    }
    cursor_behind(cursor);
}

/* Its owner goes, and it with it: it holds nobody back meanwhile. */
static void cursor_give_up(struct amb_cursor *cursor)
{
    amb_prelude_free(&cursor->prelude, cursor->topic->shard);
    cursor->position = cursor->topic->log.hi;
    cursor->within = 0;
    cursor->behind_since_ns = 0;
    amb_list_remove(&cursor->blocked);
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
    cursor_wait(cursor);
}

/* It has taken something: its time limit begins anew. */
static void cursor_went_on(struct amb_cursor *cursor)
{
    cursor->behind_since_ns = 0;
    amb_list_remove(&cursor->blocked);
}

static bool cursor_name_topic(struct amb_cursor *cursor)
{
    struct amb_topic *topic = cursor->topic->namesake;
    topic = topic != NULL ? topic : cursor->topic;
    const struct amb_frame frame = {
        .type = AMB_FRAME_TOPIC,
        .handle = cursor->sub->handle,
        .topic = topic->id,
        .count = topic->priority,
        .data_len = topic->name_len,
    };
    enum amb_status status =
        amb_outgoing_send_name(cursor->sub->session, &frame, topic->name, &topic->naming);
    cursor->is_named = status == AMB_OK;
    return cursor->is_named;
}

/* What one delivery gives of an entry: `count` messages, from index `first` of `total` on. */
struct forward_piece {
    uint8_t type;
    uint32_t flags;
    uint32_t total, first, count, meta_len;
    uint64_t seq, data_len;
    const uint8_t *data, *meta; /* of a body on the link */
};

/* Room in the link, credit, and a client that knows the topic's name. */
static bool cursor_is_ready(struct amb_cursor *cursor, uint32_t msgs, uint64_t bytes)
{
    return amb_session_has_room(cursor->sub->session) &&
           amb_subscription_has_credit(cursor->sub, msgs, bytes) &&
           (cursor->is_named || cursor_name_topic(cursor));
}

/* What was noted last counts for whoever published it. */
static void cursor_tally(const struct amb_cursor *cursor, const struct amb_entry *entry)
{
    struct amb_subscription *sub = cursor->sub;
    struct amb_tally *tally = amb_tally_of(entry, cursor->counts_from);
    if (tally != NULL) {
        sub->deliveries[sub->delivered & sub->mask].tally = tally;
        tally->open++;
        sub->session->tallies++;
        amb_heap_take(&sub->session->heap, sizeof(*tally));
    }
}

static void cursor_send(struct amb_session *session, const struct amb_frame *frame,
                        const uint8_t *data, const uint8_t *meta, struct amb_entry *entry)
{
    if (amb_outgoing_send(session, frame, data, meta, entry) == AMB_ENOMEM) {
        /* A number was given and is missing: only the end of the session repairs that. */
        session->shard->session_ended(session->shard, session->client_id, AMB_ENOMEM,
                                      "no memory for a delivery");
    }
}

/* May a reader hold another tally? One it always may. */
static inline bool session_may_count(const struct amb_session *session,
                                     const struct amb_entry *entry)
{
    return __builtin_expect(entry->tally == NULL, 1) || session->tallies == 0 ||
           amb_heap_has_room(&session->heap, sizeof(struct amb_tally));
}

/* One delivery, for which the cursor is ready. False: not now. */
static bool cursor_deliver(struct amb_cursor *cursor, struct amb_entry *entry,
                           const struct forward_piece *piece)
{
    struct amb_subscription *sub = cursor->sub;
    struct amb_session *session = sub->session;
    bool is_map = piece->type != AMB_FRAME_DELIVER;
    if (!session_may_count(session, entry) ||
        amb_subscription_deliver(sub, piece->count, piece->data_len + piece->meta_len,
                                 is_map ? entry : NULL) != AMB_OK) {
        return false;
    }
    if (__builtin_expect(entry->tally != NULL, 0)) {
        cursor_tally(cursor, entry);
    }
    struct amb_gap gap = {0};
    if (piece->seq > cursor->expected_seq) {
        amb_pick_gap(cursor, piece->seq, &gap);
    }
    const struct amb_frame frame = {
        .type = piece->type,
        .flags = piece->flags,
        .handle = sub->handle,
        .topic = cursor->topic->id,
        .count = piece->total,
        .first = piece->first,
        .rest = piece->total - piece->first - piece->count,
        .meta_len = piece->meta_len,
        .data_len = piece->data_len,
        .seq = piece->seq,
        .number = sub->delivered,
        .lost = gap.lost,
        .status = (int32_t)gap.why,
        .time_ns = entry->time_ns,
        .above = entry->above,
        .segment = is_map ? entry->segment->id : 0,
        .offset = piece->type == AMB_FRAME_MAP ? (uint64_t)(entry->data - entry->segment->base) : 0,
    };
    cursor_send(session, &frame, piece->data, piece->meta, piece->meta == NULL ? NULL : entry);
    amb_deliver_count(session, !is_map, piece->count, piece->data_len + piece->meta_len);
    cursor->expected_seq = piece->seq + piece->count;
    return true;
}

/*
 * A leased batch by copy. Its payloads lie apart, so each message is a delivery of its own,
 * straight from its slot. False: not all of them now; it goes on at cursor->within.
 */
static bool cursor_deliver_singles(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t end)
{
    bool is_far = entry->segment->gpu != NULL; /* The link fetches it from there. */
    struct amb_body_iter iter;
    struct amb_message_view view;
    const uint8_t *single = entry->singles;
    amb_body_iter_init_leased(&iter, entry->data, entry->meta, entry->count);
    for (uint32_t i = 0; i < end && amb_body_iter_next(&iter, &view); i++) {
        struct forward_piece piece = {
            .type = AMB_FRAME_DELIVER,
            .flags = is_far ? AMB_FRAME_FLAG_DEVICE : AMB_FRAME_FLAG_NONE,
            .total = 1,
            .count = 1,
            .meta_len = (uint32_t)sizeof(struct amb_record) + amb_props_padded(view.props_len),
            .seq = entry->first_seq + i,
            .data_len = amb_payload_padded(view.len),
            .data = view.payload,
            .meta = single != NULL ? single : entry->meta + i * sizeof(struct amb_record),
        };
        single = single != NULL ? single + piece.meta_len : NULL;
        if (i < cursor->within) {
            continue;
        }
        if (!cursor_is_ready(cursor, 1, piece.data_len + piece.meta_len) ||
            !cursor_deliver(cursor, entry, &piece)) {
            return false;
        }
        cursor->within++;
    }
    return true;
}

/* Messages of an entry from index `first` on, as a frame of that type has them. */
static struct forward_piece piece_of(const struct amb_entry *entry, uint8_t type, uint32_t first,
                                     uint32_t count)
{
    return (struct forward_piece){
        .type = type,
        .total = entry->count,
        .first = first,
        .count = count,
        .meta_len = entry->meta_len,
        .seq = entry->first_seq + first,
        .data_len = entry->data_len,
        .data = type == AMB_FRAME_DELIVER ? entry->data : NULL,
        .meta = type != AMB_FRAME_MAP ? entry->meta : NULL,
    };
}

/* Less than half of a batch by copy, for which the cursor is ready: cut out, so that the rest does
 * not go over the link with it. Without memory for that it does. */
static bool cursor_deliver_slice(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t count)
{
    struct amb_entry *slice = amb_slice_copy(cursor->topic->shard, entry, cursor->within, count);
    if (slice == NULL) {
        const struct forward_piece whole =
            piece_of(entry, AMB_FRAME_DELIVER, cursor->within, count);
        return cursor_deliver(cursor, entry, &whole);
    }
    slice->tally = entry->tally; /* Of this log; looked at here alone. */
    const struct forward_piece piece = piece_of(slice, AMB_FRAME_DELIVER, 0, count);
    bool is_delivered = cursor_deliver(cursor, slice, &piece);
    amb_entry_unref(slice, cursor->topic->shard);
    return is_delivered;
}

static bool cursor_take(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t end);

/* A batch in GPU memory: there, for those who want and may; else its copy in host memory. */
static bool cursor_take_gpu(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t end)
{
    struct amb_session *session = cursor->sub->session;
    const struct forward_piece piece =
        piece_of(entry, AMB_FRAME_MAP_LEASED, cursor->within, end - cursor->within);
    enum amb_mem mem = cursor->sub->options.mem;
    enum amb_mapping_state state = AMB_MAPPING_REFUSED;
    if ((mem == AMB_MEM_CUDA || mem == AMB_MEM_AS_SENT) && amb_deliver_may_keep(session, entry)) {
        state = amb_session_mapping_of(session, entry->segment);
    }
    if (state == AMB_MAPPING_READY) {
        return cursor_is_ready(cursor, piece.count, amb_entry_bytes(entry)) &&
               cursor_deliver(cursor, entry, &piece);
    }
    if (state == AMB_MAPPING_ASKED) {
        return false;
    }
    if (cursor->sub->options.by_link && amb_deliver_may_by_link(session, entry)) {
        return cursor_deliver_singles(cursor, entry, end);
    }
    struct amb_entry *twin = amb_twin_get(session->shard, entry);
    if (twin != NULL) {
        twin->tally = entry->tally; /* Of this log; looked at here alone. */
        return cursor_take(cursor, twin, end);
    }
    /* Failed: its next delivery tells the gap. */
    return entry->twin_state >= AMB_TWIN_FAILED;
}

/* Delivers the messages from cursor->within to `end`. False: not all of them now. */
static bool cursor_take(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t end)
{
    if (entry->is_leased && entry->segment->gpu != NULL) {
        return cursor_take_gpu(cursor, entry, end);
    }
    if (cursor->within > 0 && entry->is_leased &&
        amb_deliver_way(cursor->sub, entry) == AMB_DELIVER_COPY) {
        return cursor_deliver_singles(cursor, entry, end); /* begun, and so finished */
    }
    if (!cursor_is_ready(cursor, end - cursor->within, amb_entry_bytes(entry))) {
        return false;
    }
    uint32_t count = end - cursor->within;
    uint8_t type = entry->is_leased ? AMB_FRAME_MAP_LEASED : AMB_FRAME_MAP;
    switch (amb_deliver_way(cursor->sub, entry)) {
    case AMB_DELIVER_WAIT:
        return false;
    case AMB_DELIVER_MAP:
        break;
    case AMB_DELIVER_COPY:
        if (entry->is_leased) {
            return cursor_deliver_singles(cursor, entry, end);
        }
        if (__builtin_expect(count * 2 < entry->count, 0)) {
            return cursor_deliver_slice(cursor, entry, count);
        }
        type = AMB_FRAME_DELIVER;
        break;
    }
    const struct forward_piece piece = piece_of(entry, type, cursor->within, count);
    return cursor_deliver(cursor, entry, &piece);
}

/* The same for a reader that asks for payloads if it wants them. */
static bool cursor_take_lazy(struct amb_cursor *cursor, struct amb_entry *entry, uint32_t end)
{
    struct amb_subscription *sub = cursor->sub;
    uint32_t first = cursor->within, count = end - first;
    struct amb_frame frame = {
        .handle = sub->handle,
        .topic = cursor->topic->id,
        .seq = entry->first_seq + first,
        .time_ns = entry->time_ns,
        .above = entry->above,
    };
    const uint8_t *meta;
    amb_lazy_cut(entry, first, count, &frame, &meta);
    uint64_t bytes = frame.meta_len + (sub->options.lazy == AMB_LAZY_PIN ? frame.data_len : 0);
    if (!cursor_is_ready(cursor, count, amb_lazy_bytes(sub, entry)) ||
        !amb_lazy_has_room(sub, entry) || !session_may_count(sub->session, entry) ||
        amb_lazy_deliver(sub, entry, first, count, bytes) != AMB_OK) {
        return false;
    }
    if (entry->tally != NULL) {
        cursor_tally(cursor, entry);
    }
    struct amb_gap gap = {0};
    if (frame.seq > cursor->expected_seq) {
        amb_pick_gap(cursor, frame.seq, &gap);
    }
    frame.number = sub->delivered;
    frame.lost = gap.lost;
    frame.status = (int32_t)gap.why;
    cursor_send(sub->session, &frame, NULL, meta, entry);
    amb_deliver_count(sub->session, true, count, frame.meta_len);
    cursor->expected_seq = frame.seq + count;
    return true;
}

static void cursor_next_entry(struct amb_cursor *cursor)
{
    cursor->position++;
    if (AMB_FAULT(CURSOR_SKIPS) && cursor->position % 16 == 0 &&
        cursor->position < cursor->topic->log.hi) {
        cursor->position++;
    }
    cursor->within = 0;
    cursor_went_on(cursor);
}

static void cursor_caught_up(struct amb_cursor *cursor)
{
    cursor_went_on(cursor);
    if (__builtin_expect(cursor->is_dropping | cursor->is_replaying, 0)) {
        cursor->is_dropping = cursor->is_replaying = false;
        amb_topic_reader_changed(cursor->topic, &cursor->position);
    }
}

/* The log has gone on without it. False: it shall not go on either. */
static bool cursor_jump(struct amb_topic *topic, struct amb_cursor *cursor)
{
    cursor->position = topic->log.lo;
    cursor->within = 0;
    if (cursor->slow == AMB_SLOW_DISCONNECT) {
        amb_pick_disconnect(cursor);
        return false;
    }
    return true;
}

static void picky_next_entry(struct amb_cursor *cursor)
{
    amb_cursor_advance(cursor);
    cursor_went_on(cursor);
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
        cursor_wait(cursor);
        return false;
    }
    return true;
}

/* A reader that may leave messages out, or a log in which some expire. */
static void forward_picky(struct amb_topic *topic, struct amb_cursor *cursor)
{
    bool is_lazy = cursor->sub->options.lazy != AMB_LAZY_OFF;
    unsigned left = AMB_FORWARD_RUN;
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
            cursor_wait(cursor);
            return;
        }
        bool is_prelude = cursor->prelude != NULL; /* All of that is given. */
        if (cursor->slow == AMB_SLOW_LATEST && !is_prelude &&
            amb_pick_latest(cursor, entry, &end)) {
            continue;
        }
        struct amb_pace *pace = cursor->sub->pace;
        uint32_t first = cursor->within;
        if (pace != NULL && !amb_pace_ask(pace, cursor, entry, &end)) {
            amb_recall_let_go(cursor);
            cursor_wait(cursor);
            return;
        }
        if (!(is_lazy ? cursor_take_lazy : cursor_take)(cursor, entry, end)) {
            if (pace != NULL) {
                amb_pace_spend(pace, entry, first, cursor->within);
            }
            if (entry->twin_state == AMB_TWIN_COMING && !is_lazy) {
                return;
            }
            if (is_prelude || cursor->slow != AMB_SLOW_DROP_NEWEST ||
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
    cursor_caught_up(cursor);
}

/* A queue's: whoever it gives the messages to. */
static void forward_queue(struct amb_cursor *cursor)
{
    uint64_t position = cursor->position;
    uint32_t within = cursor->within;
    bool has_caught_up = amb_queue_feed(cursor);
    if (cursor->position != position || cursor->within != within) {
        cursor_went_on(cursor);
    }
    if (has_caught_up) {
        cursor_caught_up(cursor);
    } else {
        cursor_wait(cursor);
    }
}

/* What gives way does not keep what has expired meanwhile. */
static void pass_expired(struct amb_topic *topic, struct amb_cursor *cursor)
{
    while (cursor->prelude == NULL && amb_cursor_has_next(cursor) &&
           amb_pick_run(cursor, amb_cursor_entry(cursor), topic->shard->now_ns) == 0) {
        picky_next_entry(cursor);
    }
}

/* Not simply one that takes all, in a log where nothing expires. */
static void forward_special(struct amb_topic *topic, struct amb_cursor *cursor)
{
    bool has_kin = !amb_list_is_empty(&cursor->kin);
    if (has_kin && !AMB_FAULT(PRIORITY_IGNORED) && amb_priority_is_outranked(cursor)) {
        if (topic->has_ttl && cursor->queue == NULL && cursor->filter == NULL) {
            pass_expired(topic, cursor);
        }
        if (amb_cursor_has_next(cursor)) {
            amb_recall_let_go(cursor);
            cursor_wait(cursor);
        } else {
            cursor_caught_up(cursor);
        }
        return;
    }
    if (cursor->filter != NULL) {
        amb_list_remove(&cursor->stalled); /* It may have waited for steps, and waits no more. */
    }
    if (cursor->queue != NULL ? cursor->queue->is_closed : cursor->sub->is_sweeping) {
        cursor_give_up(cursor);
    } else if (cursor->queue != NULL) {
        forward_queue(cursor);
    } else {
        forward_picky(topic, cursor);
    }
    if (has_kin && !amb_cursor_has_next(cursor)) {
        amb_cursor_pass_on(cursor);
    }
}

static void forward_cursor(struct amb_topic *topic, struct amb_cursor *cursor)
{
    if (cursor->position < topic->log.lo && !cursor_jump(topic, cursor)) {
        return;
    }
    if (__builtin_expect(cursor->is_picky | topic->has_ttl, 0)) {
        forward_special(topic, cursor);
        return;
    }
    uint64_t upto = topic->log.hi;
    if (upto - cursor->position > AMB_FORWARD_RUN) {
        upto = cursor->position + AMB_FORWARD_RUN;
    }
    while (cursor->position < upto) {
        struct amb_entry *entry = amb_log_at(&topic->log, cursor->position);
        /* What was lent on its way when this reader came is older than its subscription. */
        bool is_its = entry->first_seq + cursor->within >= cursor->expected_seq ||
                      amb_pick_enter(cursor, entry);
        if (is_its && !cursor_take(cursor, entry, entry->count)) {
            if (entry->twin_state != AMB_TWIN_COMING) { /* Else the topic is walked again then. */
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
    cursor_caught_up(cursor);
}

/* Deliveries and looks at readers so far. */
static inline uint64_t forward_done(const struct amb_shard *shard)
{
    return amb_stat_get(&shard->stats.batches_out) + shard->forward_looks;
}

/* This turn's, or this priority's, are used up. */
static inline bool forward_is_over(const struct amb_shard *shard)
{
    return forward_done(shard) >= shard->forward_upto;
}

/* The topic's slice of them begins. */
static inline void forward_begin_slice(struct amb_shard *shard)
{
    uint64_t upto = forward_done(shard) + AMB_FORWARD_SLICE;
    shard->forward_slice = upto < shard->forward_upto ? upto : shard->forward_upto;
}

/* The walk is cut short at that reader, who is the first when it goes on, over `left` readers. A
 * mark that came meanwhile makes it a walk over all. */
static void walk_cut(struct amb_walk *walk, struct amb_list_node *at, uint32_t left)
{
    amb_list_remove(&walk->due);
    amb_list_insert_before(at, &walk->due);
    walk->unwalked = walk->unwalked == AMB_WALK_ALL ? AMB_WALK_ALL : left;
}

/* Has it used up its credit, or has its link no room? Then its session wakes it: no message is
 * small enough for it meanwhile. */
static bool cursor_may_park(const struct amb_cursor *cursor)
{
    if (amb_list_is_empty(&cursor->stalled) || cursor->is_picky || cursor->topic->has_ttl ||
        cursor->slow == AMB_SLOW_DISCONNECT || cursor->spills || cursor->is_replaying) {
        return false;
    }
    return !amb_session_has_room(cursor->sub->session) ||
           !amb_subscription_has_credit(cursor->sub, 1, 1);
}

/* A slice of the walk. False: some are left. */
static bool forward_walk(struct amb_topic *topic, struct amb_walk *walk)
{
    struct amb_shard *shard = topic->shard;
    uint32_t left = walk->unwalked == AMB_WALK_NONE  ? 0
                    : walk->unwalked == AMB_WALK_ALL ? walk->count
                                                     : walk->unwalked;
    walk->unwalked = AMB_WALK_NONE;
    struct amb_list_node *next;
    for (struct amb_list_node *node = walk->due.next; node != &walk->due && left > 0; node = next) {
        if (__builtin_expect(forward_done(shard) >= shard->forward_slice, 0)) {
            walk_cut(walk, node, left);
            return false;
        }
        left--;
        shard->forward_looks++;
        struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, due);
        forward_cursor(topic, cursor);
        next = node->next;
        if (cursor_may_park(cursor)) {
            amb_cursor_park(cursor);
        } else {
            amb_cursor_sort(cursor, amb_cursor_has_next(cursor));
        }
    }
    return true;
}

/* This turn's number: a turn is counted when it ends. */
static inline uint64_t forward_turn(const struct amb_shard *shard)
{
    return amb_stat_get(&shard->stats.turns) + 1;
}

/* What follows from how far the readers have come. It may look at each of them once more, and is
 * charged as if it did; so not after each slice. */
static void forward_settle(struct amb_topic *topic)
{
    topic->settled_turn = forward_turn(topic->shard);
    topic->shard->forward_looks += 1 + topic->cursor_count / SETTLE_LOOKS;
    if (amb_topic_is_home(topic)) {
        amb_lend_walk(topic);
        if (__builtin_expect(topic->spillers != 0, 0)) {
            amb_spill_walk(topic);
        }
        amb_route_grants(topic);
        amb_topic_trim(topic);
        if (topic->retains) {
            amb_history_settle(topic);
        }
    } else {
        if (__builtin_expect(topic->spillers != 0, 0)) {
            amb_spill_walk(topic);
        }
        amb_topic_trim(topic);
        amb_lend_report(topic);
    }
}

/* Slices of both walks. False: some of its readers are left, and its caller puts it back into a
 * list. */
static bool forward_topic(struct amb_topic *topic)
{
    bool is_kept_whole = forward_walk(topic, &topic->keeping_up);
    forward_begin_slice(topic->shard);
    bool is_whole = forward_walk(topic, &topic->behind) && is_kept_whole;
    if (is_whole || topic->settled_turn != forward_turn(topic->shard)) {
        forward_settle(topic);
    }
    return is_whole;
}

/* One of its readers has waited for steps of its filter. */
static void forward_sifted(struct amb_topic *topic)
{
    topic->keeping_up.unwalked = topic->behind.unwalked = AMB_WALK_ALL;
    topic->shard->forward_slice = topic->shard->forward_upto;
    if (!forward_topic(topic) && amb_list_is_empty(&topic->dirty)) {
        amb_list_push_back(topic->dirty_topics, &topic->dirty);
    }
}

/* The topics of one priority, slice by slice: those with few readers do not wait for those with
 * many. Those left are the first of it in the next turn. */
static unsigned forward_marked(struct amb_shard *shard, struct amb_list_node *marked)
{
    unsigned done = 0;
    struct amb_list_node *node;
    while (!forward_is_over(shard) && (node = amb_list_pop_front(marked)) != NULL) {
        struct amb_topic *topic = AMB_CONTAINER_OF(node, struct amb_topic, dirty);
        forward_begin_slice(shard);
        if (!forward_topic(topic)) {
            amb_list_remove(&topic->dirty);
            amb_list_push_back(marked, &topic->dirty);
        }
        done++;
    }
    while (!amb_list_is_empty(marked)) {
        struct amb_topic *topic = AMB_CONTAINER_OF(marked->prev, struct amb_topic, dirty);
        amb_list_remove(&topic->dirty);
        amb_list_push_front(topic->dirty_topics, &topic->dirty);
    }
    return done;
}

/* High ones first. They leave a part of the turn to each lower priority that has topics to walk:
 * else readers that are always behind in high ones would stop the topics of strangers. */
static unsigned forward_all(struct amb_shard *shard)
{
    struct amb_list_node marked[AMB_PRIORITIES];
    unsigned done = 0, lower = 0;
    for (unsigned rank = 0; rank < AMB_PRIORITIES; rank++) {
        /* Topics marked during the walk are the next walk's. */
        amb_list_init(&marked[rank]);
        amb_list_move(&shard->dirty_topics[rank], &marked[rank]);
        lower += !amb_list_is_empty(&marked[rank]);
    }
    uint64_t end = forward_done(shard) + AMB_FORWARD_TURN;
    for (unsigned rank = 0; rank < AMB_PRIORITIES; rank++) {
        if (amb_list_is_empty(&marked[rank])) {
            continue;
        }
        lower--;
        /* One reader may go past what was left, so each begins with its part, whatever was done. */
        uint64_t least = forward_done(shard) + AMB_FORWARD_PART;
        shard->forward_upto = end - (uint64_t)lower * AMB_FORWARD_PART;
        shard->forward_upto = shard->forward_upto < least ? least : shard->forward_upto;
        done += forward_marked(shard, &marked[rank]);
    }
    return done;
}

unsigned amb_forward_run(struct amb_shard *shard)
{
    amb_sift_begin(shard);
    shard->forward_looks = 0;
    unsigned done = forward_all(shard);
    if (__builtin_expect(!amb_list_is_empty(&shard->sift.waiting), 0)) {
        shard->forward_upto = forward_done(shard) + AMB_FORWARD_PART; /* Whatever others had. */
        done += amb_sift_serve(shard, forward_sifted);
    }
    return done;
}

int64_t amb_forward_expire(struct amb_shard *shard)
{
    int64_t next_ns = INT64_MAX;
    AMB_LIST_FOR_EACH_SAFE (node, &shard->blocked) {
        struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, blocked);
        int64_t deadline_ns = amb_deadline_ns(cursor->behind_since_ns, cursor->block_limit_ns);
        if (deadline_ns <= shard->now_ns) {
            cursor->is_dropping = true;
            amb_topic_reader_changed(cursor->topic, &cursor->position);
            amb_list_remove(&cursor->blocked);
            amb_topic_mark(cursor->topic);
        } else if (deadline_ns < next_ns) {
            next_ns = deadline_ns;
        }
    }
    return next_ns;
}
