/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/ingest/publisher_reserve.h"

#include "broker/base/fault.h"
#include "broker/ingest/publisher.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/purse.h"
#include "broker/shard/shard.h"

/* ... a worker, that windows may stand open; more if that is a 64th, less if it is an eighth. */
#define WINDOWS_MAX (UINT64_C(64) << 20)

void amb_publisher_set_reserved(struct amb_publisher *publisher, uint64_t bytes, uint64_t wide)
{
    struct amb_purse *purse = publisher->session->purse;
    if (purse != NULL) {
        uint64_t before = amb_purse_cost(publisher->reserved), after = amb_purse_cost(bytes);
        if (after > before) {
            amb_purse_hold(purse, after - before);
        } else {
            amb_purse_let_go(purse, before - after);
        }
    }
    publisher->session->reserved += bytes - publisher->reserved;
    publisher->reserved = bytes;
    publisher->reserved_wide = wide;
}

/* Does its user's quota leave so much? */
static bool quota_has_room(const struct amb_publisher *publisher, uint64_t bytes)
{
    const struct amb_purse *purse = publisher->session->purse;
    return purse == NULL || amb_purse_has_room(purse, amb_purse_cost(bytes));
}

static bool publisher_reserve(struct amb_publisher *publisher, uint64_t bytes, bool wide)
{
    if (!quota_has_room(publisher, bytes)) {
        return false;
    }
    if (!AMB_FAULT(GRANT_UNRESERVED)) {
        if (!amb_bufpool_reserve(publisher->pool, bytes, wide)) {
            return false;
        }
        amb_publisher_set_reserved(publisher, publisher->reserved + bytes,
                                   publisher->reserved_wide + (wide ? bytes : 0));
    }
    return true;
}

void amb_publisher_unreserve(struct amb_publisher *publisher, uint64_t bytes)
{
    bytes = bytes < publisher->reserved ? bytes : publisher->reserved;
    uint64_t left = publisher->reserved - bytes;
    uint64_t wide = publisher->reserved_wide < left ? publisher->reserved_wide : left;
    amb_bufpool_unreserve(publisher->pool, bytes, publisher->reserved_wide - wide);
    amb_publisher_set_reserved(publisher, left, wide);
}

uint64_t amb_publisher_windows_max(struct amb_shard *shard)
{
    if (shard->windows.max == 0) {
        uint64_t mine = shard->memory.bufpool.options.budget->max / shard->peer_count;
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
    struct amb_bufpool *pool = publisher->pool;
    uint64_t open = publisher->window - publisher->received;
    if (open < publisher->reserved) {
        amb_publisher_unreserve(publisher, publisher->reserved - open);
        return;
    }
    uint64_t max = amb_publisher_windows_max(shard), in_session = publisher->session->reserved;
    uint64_t most = open < pool->window_max ? open : pool->window_max;
    uint64_t left = in_session < max / 2 ? max / 2 - in_session : 0;
    uint64_t more = most > publisher->reserved ? most - publisher->reserved : 0;
    more = more < left ? more : left;
    if (more > 0) {
        (void)publisher_reserve(publisher, more, more > AMB_BATCH_BYTES);
    }
}

bool amb_publisher_reserve_upto(struct amb_publisher *publisher, uint64_t window)
{
    bool wide = window - publisher->received > AMB_BATCH_BYTES;
    return amb_publisher_entries_room(publisher) > 0 &&
           publisher_reserve(publisher, window - publisher->window, wide);
}

bool amb_publisher_reserve_growing(struct amb_publisher *publisher, uint64_t window)
{
    struct amb_bufpool *pool = publisher->pool;
    const struct amb_membudget *budget = pool->options.budget;
    while (!amb_publisher_reserve_upto(publisher, window)) {
        if (!quota_has_room(publisher, window - publisher->window) ||
            amb_publisher_entries_room(publisher) == 0) {
            return false; /* More segments would not help. */
        }
        uint64_t used = atomic_load_explicit(&budget->used, memory_order_relaxed);
        if (used + amb_bufpool_more_bytes(pool) > budget->max / 4 * 3 ||
            amb_bufpool_more(pool) != AMB_OK) {
            return false;
        }
    }
    return true;
}

void amb_publisher_open_window(struct amb_publisher *publisher, uint64_t window)
{
    if (window <= publisher->window) {
        return;
    }
    publisher->window = window;
    amb_publisher_entries_open(publisher);
    if (publisher->session->link != NULL) {
        amb_session_flow(publisher->session, AMB_FLOW_WINDOW, publisher->handle, window);
    }
}
