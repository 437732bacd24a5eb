/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/ingest/publisher_window.h"

#include "broker/base/fault.h"
#include "broker/base/party.h"
#include "broker/config/config.h"
#include "broker/ingest/publisher.h"
#include "broker/memory/bufpool_cut.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "broker/topic/reclaim.h"
#include "wire/base/assert.h"
#include "wire/base/log.h"
#include "wire/link/link.h"

#include <inttypes.h>

#define WINDOW_STEPS 8u
/* A wish for no more than this may be one for several batches. */
#define PIECES_MAX (4 * (uint64_t)AMB_BATCH_BYTES)
/* A window may stand open so far while those of a shard have not twice their share. */
#define WINDOW_LEAST (UINT64_C(256) << 10)
#define WINDOW_GROWTH 4u
/* ... a worker, that windows may stand open; more if that is a 64th, less if it is an eighth. */
#define WINDOWS_MAX (UINT64_C(64) << 20)
#define WINDOW_FIRST_OF_MANY (UINT64_C(4) << 10)
/* A publisher that waits gets so much beside what it waits for, if there is as much. */
#define WINDOW_AHEAD (4 * (uint64_t)AMB_BATCH_BYTES)

/*
 * Memory is reserved when it is granted. The open part of a window that has not been used,
 * `reserved`, is room in this shard's segments (amb_bufpool_reserve). Or it is the buffer that was
 * prepared. A client's window cannot be taken back. So windows that stand open although nobody
 * waits are kept within a share. All of a shard's are within shard_windows_max, and one publisher
 * has half of the part that others leave of that. Past that it is WINDOW_LEAST each, up to twice as
 * much in all. As each has what it uses, those that are in use become the same. A publisher that
 * waits gets at least the bytes that it waits for, as soon as there is memory.
 */

static struct amb_bufpool *publisher_pool(const struct amb_publisher *publisher)
{
    return publisher->pool;
}

/* Has a publisher's reservation, made or given up, in the books. */
static void publisher_set_reserved(struct amb_publisher *publisher, uint64_t bytes, uint64_t wide)
{
    publisher->session->reserved += bytes - publisher->reserved;
    publisher->reserved = bytes;
    publisher->reserved_wide = wide;
}

static bool publisher_reserve(struct amb_publisher *publisher, uint64_t bytes, bool wide)
{
    if (!AMB_FAULT(GRANT_UNRESERVED)) {
        if (!amb_bufpool_reserve(publisher_pool(publisher), bytes, wide)) {
            return false;
        }
        publisher_set_reserved(publisher, publisher->reserved + bytes,
                               publisher->reserved_wide + (wide ? bytes : 0));
    }
    return true;
}

/* Less of it is still to come. */
void amb_publisher_unreserve(struct amb_publisher *publisher, uint64_t bytes)
{
    bytes = bytes < publisher->reserved ? bytes : publisher->reserved;
    uint64_t left = publisher->reserved - bytes;
    uint64_t wide = publisher->reserved_wide < left ? publisher->reserved_wide : left;
    amb_bufpool_unreserve(publisher_pool(publisher), bytes, publisher->reserved_wide - wide);
    publisher_set_reserved(publisher, left, wide);
}

/* Bytes that windows of this shard may stand open. */
static uint64_t shard_windows_max(struct amb_shard *shard)
{
    if (shard->windows.max == 0) {
        uint64_t mine = shard->bufpool.options.budget->max / shard->peer_count;
        uint64_t most = mine / 64 > WINDOWS_MAX ? mine / 64 : WINDOWS_MAX;
        shard->windows.max = mine / 8 < most ? mine / 8 : most;
    }
    return shard->windows.max;
}

/*
 * The open part of its window is to be reserved from here on. It was told long ago, and backed by a
 * buffer, or by nothing while the handle was closed. If there is room; and in this way nobody gets
 * more than a window, no session more than half of what all windows may have. The rest has no place
 * for certain: its publisher does not use it as it said.
 */
void amb_publisher_reserve_open(struct amb_publisher *publisher)
{
    struct amb_shard *shard = publisher->session->shard;
    struct amb_bufpool *pool = publisher_pool(publisher);
    uint64_t open = publisher->window - publisher->received;
    if (open < publisher->reserved) {
        amb_publisher_unreserve(publisher, publisher->reserved - open);
        return;
    }
    uint64_t max = shard_windows_max(shard), in_session = publisher->session->reserved;
    uint64_t most = open < pool->window_max ? open : pool->window_max;
    uint64_t left = in_session < max / 2 ? max / 2 - in_session : 0;
    uint64_t more = most > publisher->reserved ? most - publisher->reserved : 0;
    more = more < left ? more : left;
    if (more > 0) {
        (void)publisher_reserve(publisher, more, more > AMB_BATCH_BYTES);
    }
}

/* Room for its window up to there, if there is any. */
static bool publisher_reserve_upto(struct amb_publisher *publisher, uint64_t window)
{
    bool wide = window - publisher->received > AMB_BATCH_BYTES;
    return publisher_reserve(publisher, window - publisher->window, wide);
}

/* The same while segments may be made; the last quarter is for those who need it now. */
static bool publisher_reserve_growing(struct amb_publisher *publisher, uint64_t window)
{
    struct amb_bufpool *pool = publisher_pool(publisher);
    const struct amb_membudget *budget = pool->options.budget;
    while (!publisher_reserve_upto(publisher, window)) {
        uint64_t used = atomic_load_explicit(&budget->used, memory_order_relaxed);
        if (used + pool->options.segment_bytes > budget->max / 4 * 3 ||
            amb_bufpool_more(pool) != AMB_OK) {
            return false;
        }
    }
    return true;
}

/*
 * The first window of a new publisher. Most of thousands say little and keep their open windows for
 * as long as they live, so there the first is small. Where there are few it is not.
 */
void amb_publisher_open_first(struct amb_publisher *publisher)
{
    struct amb_shard *shard = publisher->session->shard;
    struct amb_bufpool *pool = publisher_pool(publisher);
    uint64_t max = shard_windows_max(shard);
    uint64_t size = pool->reserved < max / 8 ? AMB_WINDOW_FIRST : WINDOW_FIRST_OF_MANY;
    uint64_t first = publisher->received + size;
    publisher->window_size = size;
    if (first > publisher->window && pool->reserved + size <= max / 4 * 3 &&
        publisher_reserve_growing(publisher, first)) { /* Else it says when it wants more. */
        publisher->window = first;
    }
}

/* In the books of its session, its party and all. */
static void count_prepared(struct amb_publisher *publisher, uint64_t bytes)
{
    struct amb_session *session = publisher->session;
    session->prepared_bytes += bytes;
    (void)atomic_fetch_add_explicit(&session->shard->bufpool.options.budget->prepared, bytes,
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
        amb_bufpool_free(publisher_pool(publisher), &buf);
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

/*
 * No process reserves more at a time than the largest message takes, whatever it says it will send.
 * All together reserve half of the memory: the rest is for messages that do come.
 */
static bool session_may_prepare(const struct amb_session *session, uint64_t len)
{
    const struct amb_membudget *budget = session->shard->bufpool.options.budget;
    uint64_t own = session->party == NULL
                       ? session->prepared_bytes
                       : atomic_load_explicit(&session->party->prepared, memory_order_relaxed);
    uint64_t all = atomic_load_explicit(&budget->prepared, memory_order_relaxed);
    return !session_has_lapsed(session) &&
           (own == 0 || own + len <= session->shard->config->server.max_message) &&
           (all == 0 || all + len <= budget->max / 2);
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
        amb_stat_add(&shard->stats.prepared_lapsed, 1);
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
    struct amb_bufpool *pool = publisher_pool(publisher);
    pool->is_pressed = true;
    enum amb_status status = amb_reclaim_alloc(publisher->session->shard, pool, len, out);
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
    const struct amb_shard *shard = publisher->session->shard;
    struct amb_buf *prepared = &publisher->prepared;
    uint64_t cap = prepared->cap;
    if (shard->entries.used > shard->entries_max) {
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
            uint64_t most = publisher_pool(publisher)->window_max;
            amb_publisher_reserve_open(publisher);
            is_piece = publisher->reserved < (open < most ? open : most);
        }
        if (is_beyond && !is_piece) { /* It sends something else in its place. */
            amb_publisher_unprepare(publisher);
            amb_publisher_reserve_open(publisher);
            is_short = false;
        }
    }
    enum amb_status status =
        is_short ? alloc_short(publisher, len, out)
                 : amb_reclaim_alloc_granted(shard, publisher_pool(publisher), len, out);
    if (status == AMB_ENOMEM && publisher->prepared.data != NULL &&
        publisher->prepared.cap >= len) { /* Nothing else is left: later messages may wait. */
        status = publisher_use_prepared(publisher, len, out);
    }
    if (status == AMB_ENOMEM) {
        amb_stat_add(is_short ? &shard->stats.unreserved_refused : &shard->stats.granted_refused,
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

static bool publisher_raise(struct amb_publisher *publisher, uint64_t window)
{
    if (!publisher_reserve_upto(publisher, window)) {
        return false;
    }
    publisher_open_window(publisher, window);
    return true;
}

static bool publisher_raise_growing(struct amb_publisher *publisher, uint64_t window)
{
    if (!publisher_reserve_growing(publisher, window)) {
        return false;
    }
    publisher_open_window(publisher, window);
    return true;
}

/* It has waited for long. The open windows of others may never be used. That there is room for the
 * worst of it then counts for less, here and with the other shards. */
static bool publisher_is_pressed(const struct amb_publisher *publisher)
{
    return !amb_list_is_empty(&publisher->starving) && !publisher->is_rationed &&
           publisher->session->shard->now_ns - publisher->starving_since_ns > AMB_STARVING_NS;
}

/* The buffer, beside what is reserved for this publisher; if there is no room for both, in place of
 * it. EAGAIN or ENOMEM. */
static enum amb_status publisher_find_buffer(struct amb_publisher *publisher, uint64_t len)
{
    struct amb_shard *shard = publisher->session->shard;
    struct amb_bufpool *pool = publisher_pool(publisher);
    if (amb_list_is_empty(&publisher->starving) && !amb_list_is_empty(&shard->windows.starving)) {
        return AMB_EAGAIN; /* Others wait already: it is tried after them, this turn. */
    }
    uint64_t reserved = publisher->reserved, reserved_wide = publisher->reserved_wide;
    publisher->prepared_from = publisher->window;
    pool->is_pressed = shard->windows.is_pressed;
    enum amb_status status = amb_bufpool_alloc_later(pool, len, &publisher->prepared);
    if (status == AMB_ENOMEM && reserved > 0) {
        amb_publisher_unreserve(publisher, reserved);
        status = amb_bufpool_alloc_later(pool, len, &publisher->prepared);
        if (status != AMB_OK) { /* Nobody has had it meanwhile. */
            amb_bufpool_reserve_anyway(pool, reserved, reserved_wide);
            publisher_set_reserved(publisher, reserved, reserved_wide);
        }
    }
    if (status == AMB_ENOMEM) {
        status = amb_reclaim_alloc_some(shard, pool, len, &publisher->prepared);
    }
    pool->is_pressed = false;
    return status;
}

/*
 * A buffer for the message that it waits to send, when nothing else of this publisher is under way.
 * It is for a message that is larger than any standing window, and for one that there is no other
 * room for. False if memory is missing, or the session has its share.
 */
static bool publisher_prepare(struct amb_publisher *publisher)
{
    if (publisher->received != publisher->granted) {
        return true; /* Comes again with the next grant. */
    }
    struct amb_shard *shard = publisher->session->shard;
    uint64_t len = publisher->want - publisher->received;
    /* It may come in pieces, of which each has a size class. */
    uint64_t cut = len <= PIECES_MAX ? len + len / 4 : len;
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
    publisher->is_rationed = !session_may_prepare(publisher->session, cut);
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
            amb_bufpool_free(publisher_pool(publisher), &old);
        }
    }
    if (publisher->prepared.data != NULL) {
        count_prepared(publisher, publisher->prepared.cap);
        enter_preparing(publisher);
    }
    if (!is_found) {
        return false;
    }
    publisher_open_window(publisher, publisher->want);
    return true;
}

/* There is no room for as much as it should have, or wants: a batch, if it has none. */
static void publisher_raise_some(struct amb_publisher *publisher)
{
    uint64_t window = publisher->received + AMB_BATCH_BYTES;
    if (window >= publisher->window + AMB_BATCH_BYTES / 2) {
        (void)publisher_raise(publisher, window);
    }
}

/* How far its window may stand open, though nobody waits. */
static uint64_t publisher_share(const struct amb_publisher *publisher)
{
    struct amb_shard *shard = publisher->session->shard;
    uint64_t max = shard_windows_max(shard),
             others = publisher_pool(publisher)->reserved - publisher->reserved;
    uint64_t share = others < max ? (max - others) / 2 : 0;
    if (share < WINDOW_LEAST && others + WINDOW_LEAST <= 2 * max) {
        share = WINDOW_LEAST; /* Others may be idle for good, and a batch at a time is slow. */
    }
    return share < publisher->window_size ? share : publisher->window_size;
}

/* Has somebody else waited for memory before? */
static bool is_behind_others(const struct amb_publisher *publisher)
{
    const struct amb_list_node *line = &publisher->session->shard->windows.starving;
    return !amb_list_is_empty(line) && line->next != &publisher->starving;
}

/* The client waits for a batch, for which its share or nothing of it would have room. False: there
 * is no memory. */
static bool publisher_serve_waiting(struct amb_publisher *publisher, uint64_t window)
{
    struct amb_shard *shard = publisher->session->shard;
    uint64_t want = publisher->want,
             ahead = want + WINDOW_AHEAD < window ? want + WINDOW_AHEAD : window;
    if (is_behind_others(publisher)) {
        window = ahead; /* Or who has much to send has again what has just come back. */
    }
    if (publisher_raise_growing(publisher, window) ||
        (ahead < window && publisher_raise(publisher, ahead)) || publisher_raise(publisher, want)) {
        return true;
    }
    bool wide = want - publisher->received > AMB_BATCH_BYTES;
    uint64_t bytes = want - publisher->window;
    if (wide && publisher->received == publisher->granted &&
        session_may_prepare(publisher->session, want - publisher->received)) {
        return publisher_prepare(publisher); /* Takes less than what is to be certain beforehand. */
    }
    if (amb_reclaim_reserve(shard, publisher_pool(publisher), bytes, wide)) {
        publisher_set_reserved(publisher, publisher->reserved + bytes,
                               publisher->reserved_wide + (wide ? bytes : 0));
        publisher_open_window(publisher, want);
        return true;
    }
    if (publisher->received == publisher->granted && publisher_prepare(publisher)) {
        return true;
    }
    publisher->is_rationed = false;
    return false;
}

/* It waits, so it uses what it has: worth the whole window. Where many want some, it is to have
 * used it indeed, or to wait for more than that, and it gets more step by step. */
static void publisher_widen(struct amb_publisher *publisher, uint64_t largest)
{
    struct amb_shard *shard = publisher->session->shard;
    uint64_t size = publisher->window_size, used = publisher->received - publisher->widened_at;
    bool is_crowded = publisher_pool(publisher)->reserved >= shard_windows_max(shard) / 4;
    if (is_crowded && used < size / 2 && publisher->want - publisher->received <= size) {
        return;
    }
    uint64_t want = publisher->want - publisher->received;
    size = (want > size ? want : size) * WINDOW_GROWTH;
    size = is_crowded && size < largest ? size : largest;
    publisher->window_size = size;
    publisher->widened_at = publisher->received;
}

/* Gives what the client waits for. False if memory is what is missing. */
static bool publisher_serve(struct amb_publisher *publisher)
{
    const struct amb_shard *shard = publisher->session->shard;
    const struct amb_bufpool *pool = publisher_pool(publisher);
    uint64_t largest = shard->limits->window;
    largest = largest < pool->window_max ? largest : pool->window_max;
    if (publisher->want > publisher->window && publisher->window_size < largest) {
        publisher_widen(publisher, largest);
    }
    uint64_t size = publisher_share(publisher), window = publisher->granted + size;
    if (publisher->want <= publisher->window) {
        /* Nobody waits: a word to the client, which costs two cores' cache lines, for a fair part
         * of the window only. */
        if (size > 0 && window >= publisher->window + size / WINDOW_STEPS &&
            amb_list_is_empty(&shard->windows.starving) &&
            !publisher_raise_growing(publisher, window)) {
            publisher_raise_some(publisher);
        }
        return true;
    }
    uint64_t len = publisher->want - publisher->received;
    /* A batch at a time is everybody's, whatever the share. */
    uint64_t least = publisher->granted + AMB_BATCH_BYTES;
    if (publisher->want > window && publisher->want <= least) {
        window = publisher->want;
    }
    if (publisher->want <= window) {
        return publisher_serve_waiting(publisher, window);
    }
    if (len <= size || len <= AMB_BATCH_BYTES) {
        return true; /* Comes with the next grants. */
    }
    if (publisher_prepare(publisher)) {
        return true;
    }
    publisher_raise_some(publisher); /* For what it sends meanwhile, or instead. */
    return false;
}

static void publisher_serve_or_starve(struct amb_publisher *publisher)
{
    struct amb_shard *shard = publisher->session->shard;
    shard->windows.is_pressed = publisher_is_pressed(publisher);
    bool was_rationed = publisher->is_rationed;
    publisher->is_rationed = false;
    if (publisher_serve(publisher)) {
        amb_list_remove(&publisher->starving);
        publisher->is_rationed = false;
    } else if (amb_list_is_empty(&publisher->starving) || was_rationed != publisher->is_rationed) {
        amb_list_remove(&publisher->starving);
        amb_list_push_back(publisher->is_rationed ? &shard->windows.rationed
                                                  : &shard->windows.starving,
                           &publisher->starving);
        publisher->starving_since_ns = shard->now_ns;
    }
    shard->windows.is_pressed = false;
}

void amb_publisher_retry(struct amb_publisher *publisher)
{
    publisher_serve_or_starve(publisher);
}

enum amb_status amb_publisher_want(struct amb_publisher *publisher, uint64_t want)
{
    uint64_t max = publisher->session->shard->config->server.max_message + AMB_META_MAX;
    /* Batches that it has sent and we have not seen yet lie within the window. */
    if (want > publisher->window + max) {
        return amb_session_broken(publisher->session,
                                  "the client wants more than it may ever send");
    }
    publisher->want = want;
    /* A publisher that waits already is tried in its turn, at the end of this one. */
    if (amb_list_is_empty(&publisher->starving) || publisher->is_rationed) {
        publisher_serve_or_starve(publisher);
    }
    return AMB_OK;
}

void amb_publisher_grant(struct amb_publisher *publisher, uint64_t bytes)
{
    publisher->granted += bytes;
    amb_assert(publisher->granted <= publisher->received);
    if (__builtin_expect(publisher->window - publisher->received > publisher->reserved, 0) &&
        publisher->prepared.data == NULL) {
        amb_publisher_reserve_open(publisher);
    }
    publisher_serve_or_starve(publisher);
}
