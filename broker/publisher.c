/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/publisher.h"

#include "broker/config.h"
#include "broker/entry.h"
#include "broker/fault.h"
#include "broker/outgoing.h"
#include "broker/reclaim.h"
#include "broker/session.h"
#include "broker/shard.h"
#include "broker/tally.h"
#include "wire/base/assert.h"
#include "wire/base/log.h"
#include "wire/link/link.h"

#include <inttypes.h>
#include <stdlib.h>

#define WINDOW_STEPS 8u

enum amb_status amb_publisher_create(struct amb_session *session, uint32_t handle, uint32_t topic,
                                     unsigned home, bool wants_settled, struct amb_publisher **out)
{
    amb_assert(handle < AMB_HANDLES_MAX && session->publishers[handle] == NULL);
    const struct amb_past *past = amb_session_past(session, handle);
    struct amb_publisher *publisher = past == NULL ? NULL : calloc(1, sizeof(*publisher));
    if (publisher == NULL) {
        return AMB_ENOMEM;
    }
    publisher->session = session;
    publisher->handle = handle;
    publisher->opened = ++session->openings;
    publisher->topic = topic;
    publisher->home = home;
    publisher->wants_settled = wants_settled;
    publisher->window_size = AMB_WINDOW_FIRST;
    publisher->batches = past->batches;
    publisher->accepted = past->batches;
    publisher->received = past->bytes;
    publisher->granted = past->bytes;
    publisher->window = past->bytes + AMB_WINDOW_FIRST;
    if (publisher->window < past->window) {
        publisher->window = past->window; /* Told, and perhaps only heard of now. */
    }
    amb_list_init(&publisher->pending);
    amb_list_init(&publisher->starving);
    amb_list_push_back(&session->publisher_list, &publisher->node);
    session->publishers[handle] = publisher;
    *out = publisher;
    return AMB_OK;
}

/* Somebody else has it from here on. */
static struct amb_buf publisher_take_prepared(struct amb_publisher *publisher)
{
    struct amb_buf buf = publisher->prepared;
    publisher->session->prepared_bytes -= buf.cap;
    publisher->prepared = (struct amb_buf){0};
    return buf;
}

static void publisher_unprepare(struct amb_publisher *publisher)
{
    if (publisher->prepared.data != NULL) {
        struct amb_buf buf = publisher_take_prepared(publisher);
        amb_bufpool_free(&publisher->session->shard->bufpool, &buf);
    }
}

/* Nobody reserves more at a time than the largest message takes, whatever it says it will send. */
static bool session_may_prepare(const struct amb_session *session, uint64_t len)
{
    return session->prepared_bytes == 0 ||
           session->prepared_bytes + len <= session->shard->config->server.max_message;
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
    publisher_unprepare(p);
    amb_list_remove(&p->starving);
    amb_list_remove(&p->node);
    p->session->publishers[p->handle] = NULL;
    *amb_session_past(p->session, p->handle) = (struct amb_past){
        .batches = p->batches,
        .bytes = p->received,
        .window = p->window,
        .delivered = amb_session_past(p->session, p->handle)->delivered,
    };
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

static enum amb_status publisher_due(const struct amb_publisher *publisher,
                                     const struct amb_frame *frame)
{
    if (frame->seq == publisher->batches + 1) {
        return AMB_OK;
    }
    amb_warn("client %" PRIu64 ": publisher %u sent batch %" PRIu64 ", %" PRIu64 " was due",
             publisher->session->client_id, publisher->handle, frame->seq, publisher->batches + 1);
    return amb_session_broken(publisher->session, "a batch out of turn");
}

enum amb_status amb_publisher_admit_commit(struct amb_publisher *publisher,
                                           const struct amb_frame *frame)
{
    enum amb_status status = publisher_due(publisher, frame);
    if (status == AMB_OK) {
        publisher->batches++;
    }
    return status;
}

/* Of several messages, each may be small. */
static uint64_t largest_data(const struct amb_publisher *publisher, uint32_t count)
{
    uint64_t max = publisher->session->shard->config->server.max_message;
    return AMB_PAYLOAD_PAD + (count > 1 && max < AMB_BATCH_BYTES ? AMB_BATCH_BYTES : max);
}

enum amb_status amb_publisher_admit(struct amb_publisher *publisher, const struct amb_frame *frame)
{
    uint64_t len = frame->data_len + frame->meta_len;
    uint64_t client = publisher->session->client_id;
    if (publisher_due(publisher, frame) != AMB_OK) {
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
    return AMB_OK;
}

enum amb_status amb_publisher_buffer(struct amb_publisher *publisher, uint64_t len,
                                     struct amb_buf *out)
{
    /* Not for a fraction of what it was made for: whoever holds that message would hold it all. */
    if (publisher->prepared.data != NULL && publisher->prepared.cap >= len &&
        len > AMB_WINDOW_FIRST && len > publisher->prepared.cap / 4) {
        *out = publisher_take_prepared(publisher);
        return AMB_OK;
    }
    if (publisher->received >= publisher->want) {
        publisher_unprepare(publisher); /* It sent something else in its place. */
    }
    return amb_reclaim_alloc(publisher->session->shard, len, out);
}

static void publisher_open_window(struct amb_publisher *publisher, uint64_t window)
{
    if (window <= publisher->window) {
        return;
    }
    publisher->window = window;
    if (publisher->session->link != NULL) {
        amb_session_flow(publisher->session, AMB_FLOW_WINDOW, publisher->handle, window);
    }
}

/*
 * The message that it waits to send is larger than any standing window: one buffer, when nothing
 * else of this publisher is under way. False if memory is missing, or the session has its share.
 */
static bool publisher_prepare(struct amb_publisher *publisher)
{
    if (publisher->received != publisher->granted) {
        return true; /* Comes again with the next grant. */
    }
    uint64_t len = publisher->want - publisher->received;
    if (publisher->prepared.data != NULL && publisher->prepared.cap < len) {
        publisher_unprepare(publisher);
    }
    if (publisher->prepared.data == NULL) {
        struct amb_session *session = publisher->session;
        if (!session_may_prepare(session, len) ||
            amb_reclaim_alloc_later(session->shard, len, &publisher->prepared) != AMB_OK) {
            return false;
        }
        session->prepared_bytes += publisher->prepared.cap;
    }
    publisher_open_window(publisher, publisher->want);
    return true;
}

/* Gives what the client waits for. False if memory is what is missing. */
static bool publisher_serve(struct amb_publisher *publisher)
{
    uint64_t largest = publisher->session->shard->limits->window;
    if (publisher->want > publisher->window && publisher->window_size < largest) {
        publisher->window_size = largest; /* It uses what it has: worth the whole window. */
    }
    uint64_t window = publisher->granted + publisher->window_size;
    if (publisher->want <= publisher->window) {
        /* Nobody waits: a word to the client, which costs two cores' cache lines, for a fair part
         * of the window only. */
        if (window >= publisher->window + publisher->window_size / WINDOW_STEPS) {
            publisher_open_window(publisher, window);
        }
        return true;
    }
    publisher_open_window(publisher, window);
    if (publisher->want <= publisher->window) {
        return true;
    }
    if (publisher->want - publisher->received <= publisher->window_size) {
        return true; /* Comes with the next grants. */
    }
    return publisher_prepare(publisher);
}

static void publisher_serve_or_starve(struct amb_publisher *publisher)
{
    if (publisher_serve(publisher)) {
        amb_list_remove(&publisher->starving);
    } else if (amb_list_is_empty(&publisher->starving)) {
        amb_list_push_back(&publisher->session->shard->starving, &publisher->starving);
    }
}

void amb_publisher_retry(struct amb_publisher *publisher)
{
    publisher_serve_or_starve(publisher);
}

enum amb_status amb_publisher_want(struct amb_publisher *publisher, uint64_t want)
{
    uint64_t max = publisher->session->shard->config->server.max_message + AMB_META_MAX;
    /* What it has sent and we have not seen yet lies within the window. */
    if (want > publisher->window + max) {
        return amb_session_broken(publisher->session,
                                  "the client wants more than it may ever send");
    }
    if (want < publisher->want) {
        return AMB_OK;
    }
    publisher->want = want;
    publisher_serve_or_starve(publisher);
    return AMB_OK;
}

static void publisher_accept(struct amb_publisher *publisher)
{
    /* Counters overtake frames: nothing is accepted past a refusal that has not left. */
    if (publisher->refusals == 0) {
        amb_session_flow(publisher->session, AMB_FLOW_ACCEPTED, publisher->handle,
                         publisher->accepted);
    }
}

static void refusal_left(struct amb_session *session, uint32_t handle, uint32_t opened)
{
    struct amb_publisher *publisher = session->publishers[handle];
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
    if (session->left != session->left_seen || session->left_ns == 0) {
        session->left_seen = session->left;
        session->left_ns = now;
    }
    return session->link->queued >= AMB_SESSION_RECEIPTS_BURST ||
           now - session->left_ns >= AMB_SESSION_DEAF_NS;
}

/* May one more frame wait for the client? */
static bool publisher_may_tell(const struct amb_publisher *publisher)
{
    struct amb_session *session = publisher->session;
    if (session->link == NULL || session->is_link_down) {
        return false;
    }
    if (__builtin_expect(session->link->queued >= AMB_SESSION_RECEIPTS_MAX, 0) &&
        is_deaf(session)) {
        session->shard->session_ended(session->shard, session->client_id, AMB_ELIMIT,
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
        publisher->session->shard->session_ended(publisher->session->shard,
                                                 publisher->session->client_id, status,
                                                 "no memory for a confirmation");
    }
}

void amb_publisher_receipt(struct amb_publisher *publisher, const struct amb_entry *entry)
{
    struct amb_session *session = publisher->session;
    if (!publisher_may_tell(publisher)) {
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
            session, &frame, publisher->opened, entry->status == AMB_OK ? NULL : refusal_left);
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

void amb_publisher_grant(struct amb_publisher *publisher, uint64_t bytes)
{
    publisher->granted += bytes;
    amb_assert(publisher->granted <= publisher->received);
    publisher_serve_or_starve(publisher);
}
