/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/status_worker.h"

#include "broker/config/config.h"
#include "broker/control/status/paths.h"
#include "broker/control/status/status_private.h"
#include "broker/delivery/acks/queue_life.h"
#include "broker/topic/cursor.h"

#include "broker/control/status/status_spill.h"
#include "broker/delivery/acks/queue.h"
#include "broker/delivery/reader/nearness.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/delivery/spill.h"
#include "broker/memory/bufpool.h"
#include "broker/memory/segment.h"
#include "broker/session/outgoing.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/shard/shard.h"
#include "broker/shard/shard_memory.h"
#include "broker/topic/topic.h"
#include "wire/codec/topic.h"
#include "wire/link/link.h"
#include "wire/link/ucx/ucx_worker.h"

#include <stdio.h>

/* A worker goes through a table of its shard. It looks at so many places in one turn, and a row
 * counts as STATUS_ROW of them: about 120 rows a turn. */
#define STATUS_TURN 2048u
#define STATUS_ROW 16u
#define STATUS_ENTRIES_MAX 1024u /* ... and the entries before them, for GPU memory */
#define STATUS_CURSORS_MAX 1024u /* of one subscription or queue that are looked at */

/* A worker's part of an answer, as far as one turn goes. */
struct amb_status_walk {
    const struct amb_shard *shard;
    const struct amb_status_query *query; /* its view, pattern and last_id do not change */
    struct amb_status_order *order;
    json_t *rows, *spills;
    unsigned cost;
};

/* Rows that the control thread looks up by id stand in an object: it must not search thousands. */
static int rows_put(json_t *rows, uint64_t id, json_t *row)
{
    char key[24];
    (void)snprintf(key, sizeof(key), "%llu", (unsigned long long)id);
    return json_object_set_new(rows, key, row);
}

static const char *priority_name(enum amb_priority priority)
{
    static const char *const names[] = {"normal", "high", "low"};
    return names[priority];
}

/* May one more row be made? */
static bool walk_may(struct amb_status_walk *walk)
{
    if (walk->order->row_budget == 0) {
        walk->order->omitted++;
        return false;
    }
    walk->order->row_budget--;
    walk->cost += STATUS_ROW;
    return true;
}

static void topic_row(struct amb_status_walk *walk, const struct amb_topic *t)
{
    json_t *row = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "topic",
        amb_topic_shown(t->name), "priority", priority_name(t->priority), "worker",
        amb_status_num(t->home), "subscriptions", amb_status_num(t->audience.matched), "messages",
        amb_status_num(t->counts.msgs_in), "bytes", amb_status_num(t->counts.bytes_in),
        "log_messages", amb_status_num(t->log.msgs), "log_bytes", amb_status_num(t->log.bytes),
        "last_seq", amb_status_num(t->log.next_seq - 1 + t->log.above), "rejected",
        amb_status_num(t->counts.msgs_rejected), "dropped", amb_status_num(t->counts.msgs_dropped));
    amb_status_spill_put(row, t);
    (void)json_array_append_new(walk->rows, row);
}

static uint64_t topics_at(struct amb_status_walk *walk, uint64_t at)
{
    const struct amb_topic *t = walk->shard->topics.at[at];
    const struct amb_status_query *query = walk->query;
    if (t == NULL ||
        (query->pattern_len != 0 &&
         !amb_pattern_matches(query->pattern, query->pattern_len, t->name, t->name_len))) {
        return at + 1;
    }
    if (!amb_topic_is_home(t)) {
        if (amb_status_has_spills(t)) {
            walk->cost += STATUS_ROW;
            amb_status_spill_note(walk->spills, t);
        }
    } else if (walk_may(walk)) {
        topic_row(walk, t);
    }
    return at + 1;
}

/* The messages that wait in the logs for the cursors of one owner: of the first so many. */
struct backlog {
    uint64_t bytes, spilled_bytes;
    uint64_t gpu_bytes; /* of `bytes`, those in GPU memory, as far as entries are looked at */
    bool is_part;
};

/* Bytes in GPU memory from that position on: of the first so many entries. */
static uint64_t gpu_bytes_from(const struct amb_log *log, uint64_t position, unsigned *budget)
{
    uint64_t bytes = 0;
    for (; position<log->hi && * budget> 0; position++, --*budget) {
        const struct amb_entry *entry = amb_log_at(log, position);
        bytes += entry->segment->gpu != NULL ? amb_entry_charge(entry) : 0;
    }
    return bytes;
}

static struct backlog backlog_of(struct amb_status_walk *walk, const struct amb_list_node *cursors)
{
    struct backlog backlog = {0};
    unsigned count = 0, entries = walk->shard->memory.gpus == NULL ? 0 : STATUS_ENTRIES_MAX;
    AMB_LIST_FOR_EACH (node, cursors) {
        const struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_sub);
        if (count++ == STATUS_CURSORS_MAX) {
            backlog.is_part = true;
            break;
        }
        const struct amb_log *log =
            &cursor->topic->log; /* It may be trimmed past a parked reader. */
        uint64_t position = cursor->position < log->lo ? log->lo : cursor->position;
        backlog.bytes += amb_log_bytes_from(log, position);
        backlog.gpu_bytes += gpu_bytes_from(log, position, &entries);
        backlog.spilled_bytes += cursor->sub == NULL ? 0 : amb_spill_waiting(cursor);
    }
    walk->cost += count;
    return backlog;
}

static void backlog_put(json_t *row, const struct backlog *backlog)
{
    if (backlog->is_part) {
        (void)json_object_set_new(row, "pending_topics", json_integer(STATUS_CURSORS_MAX));
    }
}

/* By kind of memory: what was delivered out of it, what is held in place, what waits. */
static void kinds_put(json_t *row, const struct amb_subscription *sub,
                      const struct backlog *backlog)
{
    const struct {
        const char *name;
        uint64_t value;
    } more[] = {{"gpu_delivered", sub->gpu_msgs},
                {"gpu_bytes", sub->gpu_bytes},
                {"held_host_bytes", sub->held_bytes},
                {"held_gpu_bytes", sub->held_gpu_bytes},
                {"pending_gpu_bytes", backlog->gpu_bytes}};
    for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++) {
        (void)json_object_set_new(row, more[i].name, json_integer(amb_status_num(more[i].value)));
    }
}

static uint64_t subs_at(struct amb_status_walk *walk, uint64_t at)
{
    const struct amb_session *s = walk->shard->sessions.at[at / AMB_HANDLES_MAX];
    if (s == NULL || amb_list_is_empty(&s->subscription_list)) {
        return (at / AMB_HANDLES_MAX + 1) * AMB_HANDLES_MAX;
    }
    if (s->handles[at % AMB_HANDLES_MAX / AMB_HANDLES_EACH] == NULL) {
        return (at / AMB_HANDLES_EACH + 1) * AMB_HANDLES_EACH;
    }
    const struct amb_subscription *sub = amb_session_subscription(s, at % AMB_HANDLES_MAX);
    if (sub == NULL || sub->id > walk->query->last_id || !walk_may(walk)) {
        return at + 1;
    }
    struct backlog backlog = backlog_of(walk, &sub->cursors);
    json_t *row = json_pack(
        "{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "id",
        amb_status_num(sub->id), "nearness", amb_nearness_name(amb_nearness_of(sub)), "delivered",
        amb_status_num(sub->msgs), "bytes", amb_status_num(sub->bytes), "lost",
        amb_status_num(sub->lost), "lost_slow", amb_status_num(sub->lost_by[AMB_LOSS_SLOW]),
        "lost_trimmed", amb_status_num(sub->lost_by[AMB_LOSS_TRIMMED]), "lost_expired",
        amb_status_num(sub->lost_by[AMB_LOSS_EXPIRED]), "outstanding",
        amb_status_num(amb_subscription_out(sub)), "outstanding_bytes",
        amb_status_num(sub->bytes_out), "credit_bytes", amb_status_num(sub->options.credit_bytes),
        "pending_bytes", amb_status_num(backlog.bytes), "spilled", amb_status_num(sub->spilled),
        "spilled_waiting_bytes", amb_status_num(backlog.spilled_bytes));
    kinds_put(row, sub, &backlog);
    backlog_put(row, &backlog);
    (void)rows_put(walk->rows, sub->id, row);
    return at + 1;
}

static uint64_t queues_at(struct amb_status_walk *walk, uint64_t at)
{
    for (struct amb_idmap_node *node = walk->shard->queues.known.buckets[at]; node != NULL;
         node = node->next) {
        const struct amb_queue *q = AMB_CONTAINER_OF(node, struct amb_queue, known);
        if (q->id > walk->query->last_id || !walk_may(walk)) {
            continue;
        }
        struct backlog backlog = backlog_of(walk, &q->cursors);
        json_t *row = json_pack(
            "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "id", amb_status_num(q->id),
            "delivered", amb_status_num(q->given), "delivered_remote",
            amb_status_num(q->given_remote), "pending", amb_status_num(amb_queue_out(q)),
            "pending_limit", amb_status_num(q->credit_msgs), "to_redeliver",
            amb_status_num(q->kept_msgs), "redelivered", amb_status_num(q->redelivered), "dead",
            amb_status_num(q->dead), "lost", amb_status_num(q->lost), "waiting_bytes",
            amb_status_num(backlog.bytes));
        backlog_put(row, &backlog);
        (void)rows_put(walk->rows, q->id, row);
    }
    return at + 1;
}

static uint64_t paths_at(struct amb_status_walk *walk, uint64_t at)
{
    const struct amb_session *s = walk->shard->sessions.at[at];
    if (s != NULL && s->client_id <= walk->query->last_id && walk_may(walk)) {
        (void)rows_put(walk->rows, s->client_id, amb_paths_of(s));
    }
    return at + 1;
}

static uint64_t sessions_at(struct amb_status_walk *walk, uint64_t at)
{
    const struct amb_session *s = walk->shard->sessions.at[at];
    if (s == NULL || s->client_id > walk->query->last_id || !walk_may(walk)) {
        return at + 1;
    }
    char lanes[160] = "none";
    if (s->link != NULL) {
        amb_link_describe(s->link, lanes, sizeof(lanes));
    }
    (void)rows_put(
        walk->rows, s->client_id,
        json_pack(
            "{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I,"
            " s:I, s:I, s:I}",
            "id", amb_status_num(s->client_id), "lanes", lanes, "messages_in",
            amb_status_num(amb_paths_msgs(&s->paths.in)), "bytes_in",
            amb_status_num(amb_paths_bytes(&s->paths.in)), "messages_out",
            amb_status_num(s->msgs_out), "bytes_out", amb_status_num(s->bytes_out), "mapped_bytes",
            amb_status_num(s->mapped_bytes), "mapped_limit_bytes",
            amb_status_num(s->mapped_host_max < s->mapped_max ? s->mapped_host_max : s->mapped_max),
            "leased_bytes", amb_status_num(s->book.bytes), "commits",
            amb_status_num(s->book.committed), "queued_frames",
            amb_status_num(s->link == NULL ? 0 : s->link->queued), "ignored_frames",
            amb_status_num(s->frames_ignored), "heap_bytes", amb_status_num(amb_outgoing_heap(s)),
            "heap_peak_bytes", amb_status_num(s->heap.peak), "heap_limit_bytes",
            amb_status_num(s->heap.limit), "heap_refused", amb_status_num(s->heap.refused)));
    return at + 1;
}

json_t *amb_status_shard_worker(const struct amb_shard *shard)
{
    const struct amb_shard_stats *st = &shard->stats;
    const struct amb_config_server *server = &shard->config->server;
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I,"
        " s:I, s:I, s:I, s:I, s:I, s:I, s:o}",
        "worker", amb_status_num(shard->index), "turns", amb_status_num(amb_stat_get(&st->turns)),
        "sleeps", amb_status_num(amb_stat_get(&st->sleeps)), "messages_in",
        amb_status_num(amb_stat_get(&st->msgs_in)), "bytes_in",
        amb_status_num(amb_stat_get(&st->bytes_in)), "batches_in",
        amb_status_num(amb_stat_get(&st->batches_in)), "messages_out",
        amb_status_num(amb_stat_get(&st->msgs_out)), "bytes_out",
        amb_status_num(amb_stat_get(&st->bytes_out)), "maps",
        amb_status_num(amb_stat_get(&st->maps)), "copies",
        amb_status_num(amb_stat_get(&st->copies)), "dropped",
        amb_status_num(amb_stat_get(&st->msgs_dropped)), "rejected",
        amb_status_num(amb_stat_get(&st->msgs_rejected)), "commits",
        amb_status_num(amb_stat_get(&st->commits_in)), "fetches",
        amb_status_num(amb_stat_get(&st->fetches)), "fetched_bytes",
        amb_status_num(amb_stat_get(&st->fetched_bytes)), "fetches_stale",
        amb_status_num(amb_stat_get(&st->fetches_stale)), "commits_refused",
        amb_status_num(amb_stat_get(&st->commits_refused)), "leases_refused",
        amb_status_num(amb_stat_get(&st->leases_refused)), "longest_turn_ns",
        amb_status_num(amb_stat_get(&st->longest_turn_ns)), "foreign_frames",
        amb_status_num(shard->ucx.worker == NULL ? 0 : amb_ucx_worker_foreign(shard->ucx.worker)),
        "spilled", amb_status_num(amb_stat_get(&st->spilled)), "spilled_bytes",
        amb_status_num(amb_stat_get(&st->spilled_bytes)), "mails",
        amb_status_num(amb_stat_get(&st->mails)), "bells", amb_status_num(amb_stat_get(&st->bells)),
        "processor",
        shard->index < server->bound ? json_integer(server->cpu[shard->index]) : json_null());
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

/* A row for each trust group that the shard has memory of. */
static json_t *group_rows(const struct amb_shard *shard)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < shard->memory.pool_count; i++) {
        const struct amb_bufpool *pool = shard->memory.pools[i];
        const struct amb_trust_group *group = pool->options.group;
        struct pool_sums sums = {0};
        sums_add(&sums, pool);
        (void)json_array_append_new(
            rows,
            json_pack("{s:I, s:s, s:s, s:I, s:I, s:I, s:I}", "worker", amb_status_num(shard->index),
                      "kind", "group", "group",
                      amb_trust_group_is_private(group)
                          ? "private"
                          : shard->config->trust_groups.names[group->index],
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
    const struct amb_shard_stats *st = &shard->stats;
    return json_pack(
        "{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I,"
        " s:I, s:I, s:o}",
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
        amb_status_num(shard->entries.max), "reserved_bytes", amb_status_num(sums.reserved),
        "granted_refused", amb_status_num(amb_stat_get(&st->granted_refused)), "unreserved_refused",
        amb_status_num(amb_stat_get(&st->unreserved_refused)), "groups", group_rows(shard));
}

static uint64_t topics_end(const struct amb_shard *shard)
{
    return shard->topics.cells;
}

static uint64_t subs_end(const struct amb_shard *shard)
{
    return (uint64_t)shard->sessions.cells * AMB_HANDLES_MAX;
}

static uint64_t queues_end(const struct amb_shard *shard)
{
    return shard->queues.known.count > 0 ? shard->queues.known.mask + 1 : 0;
}

static uint64_t sessions_end(const struct amb_shard *shard)
{
    return shard->sessions.cells;
}

const struct amb_status_table amb_status_topics = {"topics", true, topics_end, topics_at},
                              amb_status_subs = {"subs", false, subs_end, subs_at},
                              amb_status_queues = {"queues", false, queues_end, queues_at},
                              amb_status_sessions = {"sessions", false, sessions_end, sessions_at},
                              amb_status_session_paths = {"sessions", false, sessions_end,
                                                          paths_at};

/* As far as one turn goes: rows of all topics would hold the worker up for as long as it makes
 * them. Tables may grow and change between two turns; a row is then missing, or there twice. */
static void collect_table(struct amb_status_walk *walk, const struct amb_status_table *table,
                          json_t *json)
{
    struct amb_status_order *order = walk->order;
    uint64_t end = table->end(walk->shard), at = order->at;
    walk->rows = table->is_array ? json_array() : json_object();
    walk->spills = json_object();
    while (at < end && walk->cost < STATUS_TURN) {
        walk->cost++;
        at = table->at(walk, at);
    }
    order->at = at;
    order->is_done = at >= end;
    (void)json_object_set_new(json, table->list, walk->rows);
    (void)json_object_set_new(json, "spills", walk->spills);
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
