/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/ingest/publisher_buffer.h"

#include "broker/base/party.h"
#include "broker/config/config.h"
#include "broker/ingest/publisher.h"
#include "broker/ingest/publisher_reserve.h"
#include "broker/memory/bufpool_cut.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/topic/reclaim.h"
#include "wire/base/log.h"

#include <inttypes.h>

/* A wish for no more than this may be one for several batches. */
#define PIECES_MAX (4 * (uint64_t)AMB_BATCH_BYTES)

/* In the books of its session, its party and all. */
static void count_prepared(struct amb_publisher *publisher, uint64_t bytes)
{
    struct amb_session *session = publisher->session;
    session->prepared_bytes += bytes;
    (void)atomic_fetch_add_explicit(&session->shard->memory.bufpool.options.budget->prepared, bytes,
                                    memory_order_relaxed);
    if (session->party != NULL) {
        (void)atomic_fetch_add_explicit(&session->party->prepared, bytes, memory_order_relaxed);
    }
}

/* In order of their time: one that was replaced is as old as it was. */
static void enter_preparing(struct amb_publisher *publisher)
{
    struct amb_list_node *list = &publisher->session->shard->windows.preparing,
                         *before = list->prev;
    while (before != list &&
           AMB_CONTAINER_OF(before, struct amb_publisher, preparing)->prepared_since_ns >
               publisher->prepared_since_ns) {
        before = before->prev;
    }
    amb_list_push_front(before, &publisher->preparing); /* Behind that one. */
}

/* Somebody else has it from here on. */
static struct amb_buf publisher_take_prepared(struct amb_publisher *publisher)
{
    struct amb_buf buf = publisher->prepared;
    count_prepared(publisher, -buf.cap);
    amb_list_remove(&publisher->preparing);
    publisher->prepared = (struct amb_buf){0};
    return buf;
}

void amb_publisher_unprepare(struct amb_publisher *publisher)
{
    if (publisher->prepared.data != NULL) {
        struct amb_buf buf = publisher_take_prepared(publisher);
        amb_buf_free(&buf);
    }
}

/* It was prepared for lately, and has not used that. */
static bool session_has_lapsed(const struct amb_session *session)
{
    int64_t lapsed_ns = session->lapsed_ns;
    if (session->party != NULL) {
        int64_t its_ns = atomic_load_explicit(&session->party->lapsed_ns, memory_order_relaxed);
        lapsed_ns = its_ns > lapsed_ns ? its_ns : lapsed_ns;
    }
    return lapsed_ns != 0 && session->shard->now_ns - lapsed_ns < AMB_PREPARED_PAUSE_NS;
}

bool amb_publisher_may_prepare(const struct amb_session *session, uint64_t len)
{
    const struct amb_membudget *budget = session->shard->memory.bufpool.options.budget;
    uint64_t own = session->party == NULL
                       ? session->prepared_bytes
                       : atomic_load_explicit(&session->party->prepared, memory_order_relaxed);
    uint64_t all = atomic_load_explicit(&budget->prepared, memory_order_relaxed);
    return !session_has_lapsed(session) &&
           (own == 0 || own + len <= session->shard->config->server.max_message) &&
           (all == 0 || all + len <= budget->max / 2);
}

void amb_publishers_unprepare(struct amb_shard *shard)
{
    while (!amb_list_is_empty(&shard->windows.preparing)) {
        struct amb_publisher *publisher =
            AMB_CONTAINER_OF(shard->windows.preparing.next, struct amb_publisher, preparing);
        amb_publisher_unprepare(publisher);
        amb_publisher_reserve_open(publisher);
    }
}

void amb_publishers_take_back(struct amb_shard *shard)
{
    while (!amb_list_is_empty(&shard->windows.preparing)) {
        struct amb_publisher *publisher =
            AMB_CONTAINER_OF(shard->windows.preparing.next, struct amb_publisher, preparing);
        struct amb_session *session = publisher->session;
        if (shard->now_ns - publisher->prepared_since_ns < AMB_PREPARED_NS) {
            return;
        }
        amb_info("client %" PRIu64 ": what was prepared for its message is taken back: %" PRIu64
                 " bytes, unused for 5 s",
                 session->client_id, publisher->prepared.cap);
        amb_stat_add(&shard->stats->prepared_lapsed, 1);
        session->lapsed_ns = shard->now_ns;
        if (session->party != NULL) {
            atomic_store_explicit(&session->party->lapsed_ns, shard->now_ns, memory_order_relaxed);
        }
        amb_publisher_unprepare(publisher);
        amb_publisher_reserve_open(publisher);
    }
}

/* For bytes that nothing was reserved for: others keep as much as those who need it most leave. */
static enum amb_status alloc_short(struct amb_publisher *publisher, uint64_t len,
                                   struct amb_buf *out)
{
    struct amb_bufpool *pool = publisher->pool;
    const struct amb_entry_claim claim = amb_publisher_entries_claim(publisher);
    pool->is_pressed = true;
    enum amb_status status =
        amb_reclaim_alloc_short(publisher->session->shard, pool, len, &claim, out);
    pool->is_pressed = false;
    return status;
}

/*
 * The prepared buffer is for this batch. The wish may have been for several. Then this one gets its
 * part, and the rest stays prepared for those that its window still lets come. ENOMEM: too many
 * entries, or a whole segment for a fraction of it.
 */
static enum amb_status publisher_use_prepared(struct amb_publisher *publisher, uint64_t len,
                                              struct amb_buf *out)
{
    const struct amb_entry_claim claim = amb_publisher_entries_claim(publisher);
    struct amb_buf *prepared = &publisher->prepared;
    uint64_t cap = prepared->cap;
    if (amb_entry_share_is_used_up(publisher->session->shard, &claim)) {
        return AMB_ENOMEM;
    }
    if (amb_bufpool_cut(prepared, len, out)) {
        count_prepared(publisher, prepared->cap - cap);
        return AMB_OK;
    }
    if (len <= cap / 4 && !amb_bufpool_is_small(prepared)) {
        return AMB_ENOMEM;
    }
    *out = publisher_take_prepared(publisher);
    amb_publisher_reserve_open(publisher);
    return AMB_OK;
}

static enum amb_status publisher_buffer(struct amb_publisher *publisher, uint64_t len,
                                        struct amb_buf *out)
{
    struct amb_shard *shard = publisher->session->shard;
    bool is_short = publisher->is_short;
    if (publisher->prepared.data != NULL) {
        /* Batches that were under way before the wish are in front of it. */
        bool is_beyond = publisher->received > publisher->prepared_from;
        bool fits = publisher->prepared.cap >= len;
        /* Not all of it for a fraction: a reader that holds that message would hold the rest,
         * too. */
        bool is_fraction = len <= publisher->prepared.cap / 4;
        if (fits && !is_fraction && (is_beyond || is_short)) {
            return publisher_use_prepared(publisher, len, out);
        }
        bool is_piece = fits && is_fraction && amb_bufpool_may_cut(&publisher->prepared);
        if (is_beyond && is_piece) { /* The others need no buffer where they can be reserved for. */
            uint64_t open = publisher->window - publisher->received;
            uint64_t most = publisher->pool->window_max;
            amb_publisher_reserve_open(publisher);
            is_piece = publisher->reserved < (open < most ? open : most);
        }
        if (is_beyond && !is_piece) { /* It sends something else in its place. */
            amb_publisher_unprepare(publisher);
            amb_publisher_reserve_open(publisher);
            is_short = false;
        }
    }
    const struct amb_entry_claim claim = amb_publisher_entries_claim(publisher);
    enum amb_status status =
        is_short ? alloc_short(publisher, len, out)
                 : amb_reclaim_alloc_granted(shard, publisher->pool, len, &claim, out);
    if (status == AMB_ENOMEM && publisher->prepared.data != NULL &&
        publisher->prepared.cap >= len) { /* Nothing else is left: later messages may wait. */
        status = publisher_use_prepared(publisher, len, out);
    }
    if (status == AMB_ENOMEM) {
        amb_stat_add(is_short ? &shard->stats->unreserved_refused : &shard->stats->granted_refused,
                     1);
    }
    return status;
}

enum amb_status amb_publisher_buffer(struct amb_publisher *publisher, uint64_t len,
                                     struct amb_buf *out)
{
    enum amb_status status = publisher_buffer(publisher, len, out);
    if (publisher->window == publisher->received) {
        amb_publisher_unprepare(publisher); /* Nothing can come that it would be for. */
    }
    return status;
}

/* The buffer, beside what is reserved for this publisher; if there is no room for both, in place of
 * it. EAGAIN or ENOMEM. */
static enum amb_status publisher_find_buffer(struct amb_publisher *publisher, uint64_t len)
{
    struct amb_shard *shard = publisher->session->shard;
    struct amb_bufpool *pool = publisher->pool;
    if (amb_list_is_empty(&publisher->starving) && !amb_list_is_empty(&shard->windows.starving)) {
        return AMB_EAGAIN; /* Others wait already: it is tried after them, this turn. */
    }
    uint64_t reserved = publisher->reserved, reserved_wide = publisher->reserved_wide;
    publisher->prepared_from = publisher->window;
    pool->is_pressed = shard->windows.is_pressed;
    bool has_entry = amb_publisher_entries_room(publisher) > 0;
    enum amb_status status =
        has_entry ? amb_bufpool_alloc_later(pool, len, &publisher->prepared) : AMB_ENOMEM;
    if (status == AMB_ENOMEM && reserved > 0 && has_entry) {
        amb_publisher_unreserve(publisher, reserved);
        status = amb_bufpool_alloc_later(pool, len, &publisher->prepared);
        if (status != AMB_OK) { /* Nobody has had it meanwhile. */
            amb_bufpool_reserve_anyway(pool, reserved, reserved_wide);
            amb_publisher_set_reserved(publisher, reserved, reserved_wide);
        }
    }
    if (status == AMB_ENOMEM) {
        const struct amb_entry_claim claim = amb_publisher_entries_claim(publisher);
        status = amb_reclaim_alloc_some(shard, pool, len, &claim, &publisher->prepared);
    }
    pool->is_pressed = false;
    return status;
}

/*
 * Bytes of the buffer for a wish. If that may come in pieces, each has a size class: a quarter
 * more. A small wish may. Of a larger one a part may be under way: messages that a former buffer
 * was for, and that the wish has overtaken.
 */
static uint64_t bytes_to_prepare(const struct amb_publisher *publisher, uint64_t len)
{
    uint64_t most = publisher->pool->options.segment_bytes / 2, cut = len + len / 4;
    if (len <= PIECES_MAX) {
        return cut;
    }
    bool is_overtaken = publisher->window - publisher->received > publisher->reserved;
    if (!is_overtaken || len > most) { /* A whole segment is not cut. */
        return len;
    }
    return cut < most ? cut : most;
}

bool amb_publisher_prepare(struct amb_publisher *publisher)
{
    if (publisher->received != publisher->freed) {
        return true; /* Comes again with the next grant. */
    }
    struct amb_shard *shard = publisher->session->shard;
    uint64_t len = publisher->want - publisher->received;
    uint64_t cut = bytes_to_prepare(publisher, len);
    struct amb_buf old = {0};
    if (publisher->prepared.data != NULL) {
        if (shard->now_ns - publisher->prepared_ns < AMB_STARVING_NS) {
            publisher->is_rationed = true; /* The message for that is on its way, and comes
                                            * first. */
            return false;
        }
        old = publisher_take_prepared(publisher); /* The client has thought better of it. */
    }
    uint64_t old_from = publisher->prepared_from;
    publisher->is_rationed = !amb_publisher_may_prepare(publisher->session, cut);
    enum amb_status status =
        publisher->is_rationed ? AMB_EAGAIN : publisher_find_buffer(publisher, cut);
    if (status == AMB_ENOMEM && cut > len) {
        status = publisher_find_buffer(publisher, len);
    }
    bool is_found = status == AMB_OK;
    if (!is_found) { /* It has been told of the old one. */
        publisher->prepared = old;
        publisher->prepared_from = old_from;
    } else {
        publisher->prepared_ns = shard->now_ns;
        if (old.data == NULL) {
            publisher->prepared_since_ns = shard->now_ns;
        }
        if (old.data != NULL) {
            amb_buf_free(&old);
        }
    }
    if (publisher->prepared.data != NULL) {
        count_prepared(publisher, publisher->prepared.cap);
        enter_preparing(publisher);
    }
    if (!is_found) {
        return false;
    }
    amb_publisher_open_window(publisher, publisher->want);
    return true;
}
