/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/ingest/publisher.h"

#include "broker/base/fault.h"
#include "broker/config/config.h"
#include "broker/ingest/publisher_buffer.h"
#include "broker/ingest/publisher_reserve.h"
#include "broker/ingest/publisher_window.h"
#include "broker/session/outgoing.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/purse.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_memory.h"
#include "broker/shard/tally.h"
#include "wire/base/assert.h"
#include "wire/base/log.h"
#include "wire/link/link.h"

#include <inttypes.h>
#include <stdlib.h>

#define PUBLISHER_HEAP (sizeof(struct amb_publisher) + AMB_HEAP_OVERHEAD)

enum amb_status amb_publisher_create(struct amb_session *session, uint32_t handle, uint32_t topic,
                                     unsigned home, bool wants_settled,
                                     const struct amb_trust_group *group,
                                     struct amb_publisher **out)
{
    amb_assert(handle < AMB_HANDLES_MAX && amb_session_publisher(session, handle) == NULL);
    struct amb_past *past = amb_session_past(session, handle);
    if (past != NULL && !amb_heap_charge(&session->heap, PUBLISHER_HEAP)) {
        return AMB_ELIMIT;
    }
    struct amb_publisher *publisher = past == NULL ? NULL : calloc(1, sizeof(*publisher));
    if (publisher == NULL) {
        if (past != NULL) {
            amb_heap_give(&session->heap, PUBLISHER_HEAP);
        }
        return AMB_ENOMEM;
    }
    publisher->session = session;
    publisher->handle = handle;
    publisher->opened = ++session->openings;
    publisher->topic = topic;
    publisher->pool = amb_shard_pool(session->shard, group);
    publisher->group = group;
    publisher->home = home;
    publisher->wants_settled = wants_settled;
    publisher->batches = past->batches;
    publisher->accepted = past->batches;
    publisher->received = past->bytes;
    publisher->freed = past->bytes;
    publisher->widened_at = past->bytes;
    /* Told, and perhaps only heard of now. */
    publisher->window = past->bytes < past->window ? past->window : past->bytes;
    amb_publisher_reserve_open(publisher);
    amb_publisher_open_first(publisher);
    amb_publisher_entries_begin(publisher);
    amb_list_init(&publisher->pending);
    amb_list_init(&publisher->starving);
    amb_list_init(&publisher->preparing);
    amb_list_push_back(&session->publisher_list, &publisher->node);
    amb_session_set_publisher(session, handle, publisher);
    *out = publisher;
    return AMB_OK;
}

void amb_publisher_destroy(struct amb_publisher **publisher)
{
    struct amb_publisher *p = *publisher;
    if (p == NULL) {
        return;
    }
    *publisher = NULL;
    struct amb_list_node *node;
    while ((node = amb_list_pop_front(&p->pending)) != NULL) {
        struct amb_entry *entry = AMB_CONTAINER_OF(node, struct amb_entry, pending);
        if (entry->is_whole) { /* waited behind one that is not */
            amb_entry_unref(entry, p->session->shard);
        }
    }
    amb_publisher_unprepare(p);
    amb_publisher_unreserve(p, p->reserved); /* Nothing comes while it is closed. */
    amb_publisher_entries_close(p);
    amb_list_remove(&p->starving);
    amb_list_remove(&p->node);
    amb_session_set_publisher(p->session, p->handle, NULL);
    *amb_session_past(p->session, p->handle) = (struct amb_past){
        .batches = p->batches,
        .bytes = p->received,
        .window = p->window,
        .delivered = amb_session_past(p->session, p->handle)->delivered,
    };
    amb_heap_give(&p->session->heap, PUBLISHER_HEAP);
    void (*gone)(void *arg) = p->gone;
    void *gone_arg = p->gone_arg;
    free(p);
    if (gone != NULL) {
        gone(gone_arg);
    }
}

void amb_publisher_routed(struct amb_publisher *publisher)
{
    amb_assert(amb_list_is_empty(&publisher->pending));
    if (publisher->is_ending && publisher->batches >= publisher->last) {
        amb_publisher_destroy(&publisher);
    }
}

void amb_publisher_end(struct amb_publisher *publisher, uint64_t last, void (*gone)(void *arg),
                       void *arg)
{
    amb_assert(!publisher->is_ending);
    publisher->is_ending = true;
    publisher->last = last;
    publisher->gone = gone;
    publisher->gone_arg = arg;
    if (amb_list_is_empty(&publisher->pending)) {
        amb_publisher_routed(publisher);
    }
}

static enum amb_status publisher_expects(const struct amb_publisher *publisher,
                                         const struct amb_frame *frame)
{
    if (frame->seq == publisher->batches + 1) {
        return AMB_OK;
    }
    amb_warn("client %" PRIu64 ": publisher %u sent batch %" PRIu64 ", %" PRIu64 " was expected",
             publisher->session->client_id, publisher->handle, frame->seq, publisher->batches + 1);
    return amb_session_broken(publisher->session, "a batch out of turn");
}

enum amb_status amb_publisher_admit_commit(struct amb_publisher *publisher,
                                           const struct amb_frame *frame)
{
    enum amb_status status = publisher_expects(publisher, frame);
    if (status == AMB_OK) {
        if (publisher->session->purse != NULL) {
            amb_purse_note(publisher->session->purse, frame->count,
                           frame->data_len + frame->meta_len);
        }
        publisher->batches++;
        publisher->entries.batches++; /* It says nothing of the batches in its window. */
        amb_publisher_entries_take(publisher);
    }
    return status;
}

/* Of several messages, each may be small. */
static uint64_t largest_data(const struct amb_publisher *publisher, uint32_t count)
{
    uint64_t max = publisher->session->shard->config->server.max_message;
    return AMB_PAYLOAD_PAD + (count > 1 && max < AMB_BATCH_BYTES ? AMB_BATCH_BYTES : max);
}

bool amb_publisher_may_send(const struct amb_publisher *publisher, const struct amb_frame *frame)
{
    return frame->seq == publisher->batches + 1 &&
           frame->data_len + frame->meta_len <= publisher->window - publisher->received &&
           frame->data_len <= largest_data(publisher, frame->count);
}

enum amb_status amb_publisher_admit(struct amb_publisher *publisher, const struct amb_frame *frame)
{
    uint64_t len = frame->data_len + frame->meta_len;
    uint64_t client = publisher->session->client_id;
    if (publisher_expects(publisher, frame) != AMB_OK) {
        return AMB_EPROTO;
    }
    if (len > publisher->window - publisher->received) {
        amb_warn("client %" PRIu64 ": publisher %u sent past its window", client,
                 publisher->handle);
        return amb_session_broken(publisher->session, "the client sends past its window");
    }
    if (frame->data_len > largest_data(publisher, frame->count)) {
        amb_warn("client %" PRIu64 ": publisher %u sent a message that is too large", client,
                 publisher->handle);
        return amb_session_broken(publisher->session, "a message that is too large");
    }
    publisher->batches++;
    publisher->received += len;
    if (publisher->session->purse != NULL) {
        amb_purse_note(publisher->session->purse, frame->count, len);
    }
    publisher->is_short = publisher->reserved < len && !AMB_FAULT(GRANT_UNRESERVED);
    amb_publisher_unreserve(publisher, len);
    amb_publisher_entries_take(publisher);
    return AMB_OK;
}

static void publisher_accept(struct amb_publisher *publisher)
{
    /* Counters overtake frames: nothing is accepted past a refusal that is not sent. */
    if (publisher->refusals == 0) {
        amb_session_flow(publisher->session, AMB_FLOW_ACCEPTED, publisher->handle,
                         publisher->accepted);
    }
}

static void refusal_settled(struct amb_session *session, uint32_t handle, uint32_t opened)
{
    struct amb_publisher *publisher = amb_session_publisher(session, handle);
    if (publisher == NULL || publisher->opened != opened || session->is_link_down) {
        return;
    }
    publisher->refusals--;
    publisher_accept(publisher);
}

/* More waits for the client than it may leave unread for long. */
static bool is_deaf(struct amb_session *session)
{
    int64_t now = session->shard->now_ns;
    /* It has moved whenever less has waited meanwhile. */
    if (session->settled != session->settled_seen || session->settled_ns == 0) {
        session->settled_seen = session->settled;
        session->settled_ns = now;
    }
    return session->link->queued >= AMB_SESSION_RECEIPTS_BURST ||
           now - session->settled_ns >= AMB_SESSION_DEAF_NS;
}

/* May one more frame wait for the client? */
static bool publisher_may_tell(const struct amb_publisher *publisher)
{
    struct amb_session *session = publisher->session;
    if (!amb_session_is_up(session)) {
        return false;
    }
    if (__builtin_expect(session->link->queued < AMB_SESSION_RECEIPTS_MAX, 1)) {
        return true;
    }
    if (amb_outgoing_heap(session) > session->heap.limit) {
        amb_session_end_heap(session);
        return false;
    }
    if (is_deaf(session)) {
        session->shard->upcalls->session_ended(session->shard, session->client_id, AMB_ELIMIT,
                                               "the client publishes and does not read");
        return false;
    }
    return true;
}

void amb_publisher_confirmed(struct amb_publisher *publisher, const struct amb_tally *tally)
{
    if (!publisher_may_tell(publisher)) {
        return;
    }
    const struct amb_frame frame = {
        .type = AMB_FRAME_SETTLED,
        .handle = publisher->handle,
        .seq = tally->origin.batch,
        .number = tally->first_seq,
        .above = tally->above,
        .count = tally->readers,
        .lost = amb_tally_dropped(tally),
    };
    enum amb_status status =
        amb_outgoing_send_watched(publisher->session, &frame, publisher->opened, NULL);
    if (status == AMB_ENOMEM) {
        publisher->session->shard->upcalls->session_ended(publisher->session->shard,
                                                          publisher->session->client_id, status,
                                                          "no memory for a confirmation");
    }
}

void amb_publisher_receipt(struct amb_publisher *publisher, const struct amb_entry *entry)
{
    struct amb_session *session = publisher->session;
    if (__builtin_expect(entry->status == AMB_ECLOSED && publisher->seq != NULL, 0)) {
        publisher->is_mute = true; /* From here on: an answer would settle those before, too. */
    }
    if (publisher->is_mute || !publisher_may_tell(publisher)) {
        return;
    }
    publisher->accepted = entry->origin.batch;
    if (entry->status != AMB_OK || (publisher->wants_settled && !publisher->confirms)) {
        const struct amb_frame frame = {
            .type = AMB_FRAME_SETTLED,
            .handle = publisher->handle,
            .seq = entry->origin.batch,
            .number = entry->status == AMB_OK ? entry->first_seq + entry->above : 0,
            .above = entry->status == AMB_OK ? entry->above : 0,
            .count = entry->matched,
            .status = (int32_t)entry->status,
        };
        enum amb_status status = amb_outgoing_send_watched(
            session, &frame, publisher->opened, entry->status == AMB_OK ? NULL : refusal_settled);
        if (AMB_FAULT(SETTLED_TWICE) && entry->origin.batch % 8 == 0) {
            status = amb_outgoing_send_watched(session, &frame, publisher->opened, NULL);
        }
        if (status == AMB_EAGAIN && entry->status != AMB_OK) {
            publisher->refusals++;
        } else if (status != AMB_OK && status != AMB_EAGAIN) {
            return; /* The link is down and says so itself. */
        }
    }
    publisher_accept(publisher);
}
