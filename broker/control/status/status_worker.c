/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/status_worker.h"

#include "broker/base/tenant.h"
#include "broker/config/config.h"
#include "broker/control/status/left.h"
#include "broker/control/status/paths.h"
#include "broker/control/status/status_private.h"
#include "broker/memory/bufpool.h"
#include "broker/memory/segment.h"
#include "broker/session/session.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_memory.h"
#include "wire/link/link.h"

#include <stdio.h>

/* A worker goes through a table of its shard. It looks at so many places in one turn, and a row
 * counts as STATUS_ROW of them: about 120 rows a turn. */
#define STATUS_TURN 2048u
#define STATUS_ROW 16u

/* A worker's part of an answer, as far as one turn goes. */
struct amb_status_walk {
    const struct amb_shard *shard;
    const struct amb_status_query *query; /* its view, pattern and last_id do not change */
    struct amb_status_order *order;
    json_t *rows;
    unsigned cost;
};

/* Rows that the control thread looks up by id stand in an object: it must not search thousands. */
static int rows_put(json_t *rows, uint64_t id, json_t *row)
{
    char key[24];
    (void)snprintf(key, sizeof(key), "%llu", (unsigned long long)id);
    return json_object_set_new(rows, key, row);
}

/* May one more row be made, of that session? Those of other tenants do not count. */
static bool walk_may(struct amb_status_walk *walk, const struct amb_session *session)
{
    const struct amb_status_query *query = walk->query;
    if (session == NULL || session->client_id > query->last_id || walk->order->row_budget == 0 ||
        !amb_tenant_is_asked(query->tenant, session->tenant)) {
        return false;
    }
    walk->order->row_budget--;
    walk->cost += STATUS_ROW;
    return true;
}

static uint64_t paths_at(struct amb_status_walk *walk, uint64_t at)
{
    const struct amb_session *s = walk->shard->sessions.at[at];
    if (walk_may(walk, s)) {
        (void)rows_put(walk->rows, s->client_id, amb_paths_of(s));
    }
    return at + 1;
}

static uint64_t left_at(struct amb_status_walk *walk, uint64_t at)
{
    const struct amb_session *s = walk->shard->sessions.at[at];
    json_t *row = walk_may(walk, s) ? amb_left_of(s, &walk->cost) : NULL;
    if (row != NULL) {
        (void)rows_put(walk->rows, s->client_id, row);
    }
    return at + 1;
}

static uint64_t sessions_at(struct amb_status_walk *walk, uint64_t at)
{
    const struct amb_session *s = walk->shard->sessions.at[at];
    if (!walk_may(walk, s)) {
        return at + 1;
    }
    char lanes[160] = "none";
    if (s->link != NULL) {
        amb_link_describe(s->link, lanes, sizeof(lanes));
    }
    (void)rows_put(walk->rows, s->client_id, json_pack("{s:s}", "lanes", lanes));
    return at + 1;
}

/* Of one pool, or the sum of several. */
struct pool_sums {
    uint64_t segments, segment_bytes, used, reserved, made_here, slabs, sparse_slabs;
};

static void sums_add(struct pool_sums *sums, const struct amb_bufpool *pool)
{
    AMB_LIST_FOR_EACH (node, &pool->segments) {
        sums->segments++;
    }
    sums->segment_bytes += pool->segment_bytes;
    sums->used += amb_bufpool_used(pool);
    sums->reserved += pool->reserved;
    sums->made_here += pool->made_here;
    sums->slabs += pool->live_slabs;
    sums->sparse_slabs += pool->sparse_slabs;
}

/* A row for each trust group that the shard has memory of. Of its tenant a worker knows the number
 * alone. */
static json_t *group_rows(const struct amb_shard *shard)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < shard->memory.pool_count; i++) {
        const struct amb_bufpool *pool = shard->memory.pools[i];
        const struct amb_trust_group *group = pool->options.group;
        bool is_private = amb_trust_group_is_private(group);
        struct pool_sums sums = {0};
        sums_add(&sums, pool);
        (void)json_array_append_new(
            rows,
            json_pack("{s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "worker",
                      amb_status_num(shard->index), "kind", "group", "group",
                      is_private ? "private" : shard->config->trust_groups.names[group->index],
                      "tenant", amb_status_num(is_private ? AMB_TENANT_ANY : group->tenant),
                      "segments", amb_status_num(sums.segments), "segment_bytes",
                      amb_status_num(sums.segment_bytes), "used_bytes", amb_status_num(sums.used),
                      "reserved_bytes", amb_status_num(sums.reserved)));
    }
    return rows;
}

json_t *amb_status_shard_memory(const struct amb_shard *shard)
{
    struct pool_sums sums = {0};
    for (uint32_t i = 0; i < shard->memory.pool_count; i++) {
        sums_add(&sums, shard->memory.pools[i]);
    }
    uint64_t leased = 0;
    AMB_LIST_FOR_EACH (node, &shard->leases.all) {
        leased++;
    }
    const struct amb_shard_stats *st = shard->stats;
    return json_pack(
        "{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I,"
        " s:I, s:I, s:I, s:o}",
        "worker", amb_status_num(shard->index), "kind", "host", "segments",
        amb_status_num(sums.segments), "segment_bytes", amb_status_num(sums.segment_bytes),
        "private_bytes", amb_status_num(shard->memory.private_pool.segment_bytes), "retired_bytes",
        amb_status_num(amb_shard_memory_retired(shard)), "used_bytes", amb_status_num(sums.used),
        "made_late", amb_status_num(sums.made_here), "leased_segments", amb_status_num(leased),
        "leased_bytes", amb_status_num(shard->leases.bytes), "quarantined_bytes",
        amb_status_num(amb_stat_get(&st->quarantined_bytes)), "slabs", amb_status_num(sums.slabs),
        "sparse_slabs", amb_status_num(sums.sparse_slabs), "compacted",
        amb_status_num(amb_stat_get(&st->compacted)), "compacted_bytes",
        amb_status_num(amb_stat_get(&st->compacted_bytes)), "entries",
        amb_status_num(shard->entries.pool.used), "entries_limit",
        amb_status_num(shard->entries.max), "entries_reserved",
        amb_status_num(shard->entries.reserved), "reserved_bytes", amb_status_num(sums.reserved),
        "granted_refused", amb_status_num(amb_stat_get(&st->granted_refused)), "unreserved_refused",
        amb_status_num(amb_stat_get(&st->unreserved_refused)), "groups", group_rows(shard));
}

static uint64_t sessions_end(const struct amb_shard *shard)
{
    return shard->sessions.cells;
}

const struct amb_status_table amb_status_sessions = {"sessions", sessions_end, sessions_at},
                              amb_status_session_paths = {"sessions", sessions_end, paths_at},
                              amb_status_session_left = {"sessions", sessions_end, left_at};

/* As far as one turn goes: rows of all topics would hold the worker up for as long as it makes
 * them. Tables may grow and change between two turns; a row is then missing, or there twice. */
static void collect_table(struct amb_status_walk *walk, const struct amb_status_table *table,
                          json_t *json)
{
    struct amb_status_order *order = walk->order;
    uint64_t end = table->end(walk->shard), at = order->at;
    walk->rows = json_object();
    while (at < end && walk->cost < STATUS_TURN) {
        walk->cost++;
        at = table->at(walk, at);
    }
    order->at = at;
    order->is_done = at >= end;
    (void)json_object_set_new(json, table->list, walk->rows);
}

static void collect(struct amb_shard *shard, struct amb_order *order)
{
    const struct amb_status_query *query = order->context;
    struct amb_status_order *part = AMB_CONTAINER_OF(order, struct amb_status_order, order);
    struct amb_status_walk walk = {.shard = shard, .query = query, .order = part};
    json_t *json = json_object();
    part->json = json;
    part->is_done = true;
    if (query->view->table != NULL) {
        collect_table(&walk, query->view->table, json);
    }
    if (query->view->worker != NULL) {
        (void)json_object_set_new(json, "worker", query->view->worker(shard));
    }
}

const struct amb_order_kind amb_status_collect = {
    .run = collect,
    .size = AMB_ORDER_SIZE(struct amb_status_order),
};
