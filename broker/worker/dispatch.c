/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/worker/dispatch.h"

#include "broker/delivery/acks/taker_ack.h"
#include "broker/delivery/reader/deliveries.h"
#include "broker/delivery/reader/lazy.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/ingest/commit.h"
#include "broker/ingest/ingest.h"
#include "broker/ingest/publisher.h"
#include "broker/ingest/publisher_window.h"
#include "broker/session/outgoing.h"
#include "broker/session/retire.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/worker/porter.h"
#include "broker/worker/session_life.h"

#include <stdlib.h>

static enum amb_status dispatch_release_range(struct amb_session *session,
                                              const struct amb_frame *frame)
{
    struct amb_subscription *sub = amb_session_subscription(session, frame->handle);
    if (sub == NULL) {
        session->frames_ignored++; /* Unsubscribed while this was under way. */
        return AMB_OK;
    }
    return amb_subscription_release_range(sub, frame->number, frame->count);
}

/* A TERM and its reason, until that is whole. */
struct term {
    struct amb_frame frame;
    char reason[AMB_ACK_REASON_MAX + 1];
};

static enum amb_status dispatch_term(const struct amb_frame *frame, void **dst, void **cookie)
{
    struct term *term = calloc(1, sizeof(*term)); /* Never in steady state. */
    if (term == NULL) {
        return AMB_ENOMEM;
    }
    term->frame = *frame;
    *dst = term->reason;
    *cookie = (void *)((uintptr_t)term | AMB_COOKIE_OTHER);
    return AMB_OK;
}

static enum amb_status dispatch_term_whole(struct amb_session *session, struct term *term,
                                           enum amb_status status)
{
    if (status == AMB_OK) {
        for (char *c = term->reason; *c != '\0'; c++) {
            *c = *c < ' ' && *c >= 0 ? ' ' : *c;
        }
        status = amb_taker_ack(session, &term->frame, term->reason);
    }
    free(term);
    return status;
}

/* Of what has just come. The entries that were given up for it end before the next frame. */
static inline enum amb_status answer(struct amb_session *session, enum amb_status status)
{
    if (__builtin_expect(!amb_list_is_empty(&session->shard->entries.given_up), 0)) {
        amb_entries_end(session->shard);
    }
    return status;
}

static enum amb_status on_frame(void *arg, const struct amb_frame *frame, void **dst, void **cookie,
                                struct amb_link_mem **mem)
{
    struct amb_session *session = arg;
    switch (frame->type) {
    case AMB_FRAME_BATCH:
        return answer(session, amb_ingest_head(session, frame, dst, cookie, mem));
    case AMB_FRAME_COMMIT:
        return answer(session, amb_ingest_commit(session, frame, dst, cookie, mem));
    case AMB_FRAME_ACK:
        return amb_taker_ack(session, frame, NULL);
    case AMB_FRAME_TERM:
        return dispatch_term(frame, dst, cookie);
    case AMB_FRAME_FETCH:
        return amb_lazy_fetch(session, frame);
    case AMB_FRAME_RELEASE_RANGE:
        return dispatch_release_range(session, frame);
    case AMB_FRAME_SEG_READY:
        amb_retire_or_use(session, frame->segment);
        return AMB_OK;
    case AMB_FRAME_SEG_GONE:
        amb_session_unmapped(session, frame->segment);
        return AMB_OK;
    default:
        return amb_session_broken(session, "a frame that only a broker sends");
    }
}

static enum amb_status on_device(void *arg, const struct amb_frame *frame, const void *meta,
                                 uint64_t len, void **dst, void **cookie)
{
    return answer(arg, amb_ingest_device(arg, frame, meta, len, dst, cookie));
}

static enum amb_status on_body(void *arg, void *cookie, enum amb_status status)
{
    if (__builtin_expect(!amb_ingest_is_batch(cookie), 0)) {
        return dispatch_term_whole(arg, (void *)((uintptr_t)cookie & ~AMB_COOKIE_OTHER), status);
    }
    status = amb_ingest_body(arg, cookie, status);
    if (__builtin_expect(status == AMB_EAGAIN, 0)) {
        status = amb_ingest_copy(arg, cookie);
    }
    return answer(arg, status);
}

static enum amb_status on_flow(void *arg, enum amb_flow_kind kind, uint32_t handle, uint64_t value)
{
    struct amb_session *session = arg;
    if (kind == AMB_FLOW_WANT) {
        struct amb_publisher *publisher = amb_session_publisher(session, handle);
        return publisher == NULL ? AMB_OK : amb_publisher_want(publisher, value);
    }
    if (kind == AMB_FLOW_RELEASE) {
        struct amb_subscription *sub = amb_session_subscription(session, handle);
        return sub == NULL ? AMB_OK : amb_subscription_release(sub, value);
    }
    return amb_session_broken(session, "a flow value that only a broker sends");
}

static void on_sent(void *arg, struct amb_link_tx *tx, enum amb_status status)
{
    (void)status; /* A failed link goes down as a whole; the bytes are free in either case. */
    amb_outgoing_settled(arg, tx);
}

static void on_down(void *arg, enum amb_status why, const char *text)
{
    amb_session_link_down(arg, why, text);
}

static void on_closed(void *arg)
{
    amb_session_link_gone(arg);
}

static void on_waste(void *arg, struct amb_link_waste *waste)
{
    amb_session_take_waste(arg, waste);
}

static void on_connection(void *arg, int fd)
{
    const struct amb_session *session = arg;
    amb_porter_close(session->shard->memory.porter, fd);
}

const struct amb_link_events amb_dispatch_events = {
    .on_frame = on_frame,
    .on_device = on_device,
    .on_body = on_body,
    .on_flow = on_flow,
    .on_sent = on_sent,
    .on_down = on_down,
    .on_closed = on_closed,
    .on_waste = on_waste,
    .on_connection = on_connection,
};
