/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/ingest/publisher_window.h"

#include "broker/base/fault.h"
#include "broker/config/config.h"
#include "broker/ingest/publisher.h"
#include "broker/ingest/publisher_buffer.h"
#include "broker/ingest/publisher_reserve.h"
#include "broker/session/session.h"
#include "broker/shard/purse.h"
#include "broker/shard/shard.h"
#include "broker/topic/reclaim.h"

#define WINDOW_STEPS 8u
/* A window may stand open so far while those of a shard have not twice their share. */
#define WINDOW_LEAST (UINT64_C(256) << 10)
#define WINDOW_GROWTH 4u
#define WINDOW_FIRST_OF_MANY (UINT64_C(4) << 10)
/* A publisher that waits gets so much beside what it waits for, if there is as much. */
#define WINDOW_AHEAD (4 * (uint64_t)AMB_BATCH_BYTES)
/* Publishers whose windows a quota keeps shut: so many are asked at a time. The next ones are asked
 * after the pause. One user may have thousands, and others need the worker. */
#define SHUT_RETRIES 64u
#define SHUT_PAUSE_NS (200 * AMB_NS_PER_US)

/*
 * Memory is reserved when it is granted. The open part of a window that has not been used,
 * `reserved`, is room in this shard's segments (amb_bufpool_reserve). Or it is the buffer that was
 * prepared. A client's window cannot be taken back. So windows that stand open although nobody
 * waits are kept within a share. All of a shard's are within amb_publisher_windows_max, and one
 * publisher has half of the part that others leave of that. Past that it is WINDOW_LEAST each, up
 * to twice as much in all. As each has what it uses, those that are in use become the same. A
 * publisher that waits gets at least the bytes that it waits for, as soon as there is memory.
 */

/*
 * The first window of a new publisher. Most of thousands say little and keep their open windows for
 * as long as they live, so there the first is small. Where there are few it is not.
 */
void amb_publisher_open_first(struct amb_publisher *publisher)
{
    struct amb_shard *shard = publisher->session->shard;
    struct amb_bufpool *pool = publisher->pool;
    uint64_t max = amb_publisher_windows_max(shard);
    uint64_t size = pool->reserved < max / 8 ? AMB_WINDOW_FIRST : WINDOW_FIRST_OF_MANY;
    uint64_t first = publisher->received + size;
    publisher->window_size = size;
    struct amb_purse *purse = publisher->session->purse;
    bool may_open =
        purse == NULL || amb_purse_obstacle(purse, size, shard->now_ns) == AMB_QUOTA_COUNT;
    if (may_open && first > publisher->window && pool->reserved + size <= max / 4 * 3 &&
        amb_publisher_reserve_growing(publisher, first)) { /* Else it says when it wants more. */
        publisher->window = first;
    }
}

static bool publisher_raise(struct amb_publisher *publisher, uint64_t window)
{
    if (!amb_publisher_reserve_upto(publisher, window)) {
        return false;
    }
    amb_publisher_open_window(publisher, window);
    return true;
}

static bool publisher_raise_growing(struct amb_publisher *publisher, uint64_t window)
{
    if (!amb_publisher_reserve_growing(publisher, window)) {
        return false;
    }
    amb_publisher_open_window(publisher, window);
    return true;
}

/* It has waited for long. The open windows of others may never be used. That there is room for the
 * worst of it then counts for less, here and with the other shards. */
static bool publisher_is_pressed(const struct amb_publisher *publisher)
{
    return !amb_list_is_empty(&publisher->starving) && !publisher->is_rationed &&
           !publisher->is_shut &&
           publisher->session->shard->now_ns - publisher->starving_since_ns > AMB_STARVING_NS;
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
    uint64_t max = amb_publisher_windows_max(shard),
             others = publisher->pool->reserved - publisher->reserved;
    uint64_t share = others < max ? (max - others) / 2 : 0;
    if (share < WINDOW_LEAST && others + WINDOW_LEAST <= 2 * max) {
        share = WINDOW_LEAST; /* Others may be idle for good, and a batch at a time is slow. */
    }
    share = share < publisher->window_size ? share : publisher->window_size;
    return amb_publisher_entries_window(publisher, share);
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
    if (wide && publisher->received == publisher->freed &&
        amb_publisher_may_prepare(publisher->session, want - publisher->received)) {
        return amb_publisher_prepare(
            publisher); /* Takes less than what is to be certain beforehand. */
    }
    const struct amb_entry_claim claim = amb_publisher_entries_claim(publisher);
    if (amb_reclaim_reserve(shard, publisher->pool, bytes, wide, &claim)) {
        amb_publisher_set_reserved(publisher, publisher->reserved + bytes,
                                   publisher->reserved_wide + (wide ? bytes : 0));
        amb_publisher_open_window(publisher, want);
        return true;
    }
    if (publisher->received == publisher->freed && amb_publisher_prepare(publisher)) {
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
    bool is_crowded = publisher->pool->reserved >= amb_publisher_windows_max(shard) / 4;
    if (is_crowded && used < size / 2 && publisher->want - publisher->received <= size) {
        return;
    }
    uint64_t want = publisher->want - publisher->received;
    size = (want > size ? want : size) * WINDOW_GROWTH;
    size = is_crowded && size < largest ? size : largest;
    publisher->window_size = size;
    publisher->widened_at = publisher->received;
}

void amb_publisher_tell_audience(struct amb_publisher *publisher)
{
    amb_session_flow(publisher->session, AMB_FLOW_SUBSCRIBERS, publisher->handle,
                     publisher->subscribers | (publisher->is_blocked ? AMB_FLOW_BLOCKED : 0));
}

/* Does its user's quota keep the window shut? The client is told when that changes. */
static bool is_blocked(struct amb_publisher *publisher)
{
    struct amb_session *session = publisher->session;
    bool waits = publisher->want > publisher->window;
    uint64_t bytes = waits ? publisher->want - publisher->window : 0;
    enum amb_quota row = amb_purse_obstacle(session->purse, bytes, session->shard->now_ns);
    bool is_shut = row != AMB_QUOTA_COUNT;
    if ((waits && is_shut) != publisher->is_blocked && session->link != NULL) {
        publisher->is_blocked = waits && is_shut;
        if (publisher->is_blocked) {
            amb_purse_note_blocked(session->purse, row, session->shard->now_ns);
        }
        amb_publisher_tell_audience(publisher);
    }
    return is_shut;
}

/* Gives what the client waits for. False if memory is what is missing. */
static bool publisher_serve(struct amb_publisher *publisher)
{
    const struct amb_shard *shard = publisher->session->shard;
    const struct amb_bufpool *pool = publisher->pool;
    if (__builtin_expect(publisher->session->purse != NULL, 0) && is_blocked(publisher)) {
        publisher->is_shut = true; /* It is asked again soon, and takes nobody's memory. */
        return publisher->want <= publisher->window;
    }
    uint64_t largest = shard->limits->window;
    largest = largest < pool->window_max ? largest : pool->window_max;
    if (__builtin_expect(publisher->session->purse != NULL, 0)) {
        largest = amb_purse_window(publisher->session->purse, largest);
        publisher->window_size =
            publisher->window_size < largest ? publisher->window_size : largest;
    }
    if (publisher->want > publisher->window && publisher->window_size < largest) {
        publisher_widen(publisher, largest);
    }
    uint64_t size = publisher_share(publisher), window = publisher->freed + size;
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
    uint64_t least = publisher->freed + AMB_BATCH_BYTES;
    if (publisher->want > window && publisher->want <= least) {
        window = publisher->want;
    }
    if (publisher->want <= window) {
        return publisher_serve_waiting(publisher, window);
    }
    if (len <= size || len <= AMB_BATCH_BYTES) {
        return true; /* Comes with the next grants. */
    }
    if (amb_publisher_prepare(publisher)) {
        return true;
    }
    publisher_raise_some(publisher); /* For what it sends meanwhile, or instead. */
    return false;
}

/* Has its party its share of the entries? Others may find some still. */
static bool is_at_share(const struct amb_publisher *publisher)
{
    const struct amb_session *session = publisher->session;
    return amb_entry_share_left(session->shard, session->entry_share) == 0;
}

static void publisher_serve_or_starve(struct amb_publisher *publisher)
{
    struct amb_shard *shard = publisher->session->shard;
    shard->windows.is_pressed = publisher_is_pressed(publisher);
    bool was_rationed = publisher->is_rationed, was_shut = publisher->is_shut;
    publisher->is_rationed = publisher->is_shut = false;
    bool is_served = publisher_serve(publisher);
    publisher->is_shut |= !is_served && is_at_share(publisher); /* Nobody waits behind it. */
    if (is_served) {
        amb_list_remove(&publisher->starving);
        publisher->is_rationed = publisher->is_shut = false;
    } else if (amb_list_is_empty(&publisher->starving) || was_rationed != publisher->is_rationed ||
               was_shut != publisher->is_shut) {
        amb_list_remove(&publisher->starving);
        amb_list_push_back(publisher->is_shut       ? &shard->windows.shut
                           : publisher->is_rationed ? &shard->windows.rationed
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
    bool is_quick = publisher->is_rationed || (publisher->is_shut && !is_at_share(publisher));
    if (amb_list_is_empty(&publisher->starving) || is_quick) {
        publisher_serve_or_starve(publisher);
    }
    return AMB_OK;
}

void amb_publisher_grant(struct amb_publisher *publisher, uint64_t bytes)
{
    publisher->freed += bytes;
    amb_assert(publisher->freed <= publisher->received);
    if (__builtin_expect(publisher->window - publisher->received > publisher->reserved, 0) &&
        publisher->prepared.data == NULL) {
        amb_publisher_reserve_open(publisher);
    }
    publisher_serve_or_starve(publisher);
}

void amb_publishers_retry_shut(struct amb_shard *shard)
{
    struct amb_list_node *shut = &shard->windows.shut, *last = shut->prev;
    bool was_last = false;
    for (unsigned i = 0; i < SHUT_RETRIES && !was_last && !amb_list_is_empty(shut); i++) {
        struct amb_publisher *publisher =
            AMB_CONTAINER_OF(shut->next, struct amb_publisher, starving);
        was_last = &publisher->starving == last;
        publisher_serve_or_starve(publisher);
        if (publisher->is_shut) {
            amb_list_remove(&publisher->starving);
            amb_list_push_back(shut, &publisher->starving);
        }
    }
    shard->windows.shut_due_ns = shard->now_ns + (was_last ? AMB_RECLAIM_PAUSE_NS : SHUT_PAUSE_NS);
}

int64_t amb_publishers_due(struct amb_shard *shard)
{
    bool is_wanted = !amb_list_is_empty(&shard->windows.starving) ||
                     !amb_list_is_empty(&shard->windows.rationed);
    int64_t due_ns = is_wanted ? shard->now_ns + AMB_RECLAIM_PAUSE_NS : INT64_MAX;
    bool is_sooner =
        !amb_list_is_empty(&shard->windows.shut) && shard->windows.shut_due_ns < due_ns;
    return is_sooner ? shard->windows.shut_due_ns : due_ns;
}
