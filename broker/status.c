/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/status.h"

#include "broker/bufpool.h"
#include "broker/client.h"
#include "broker/config.h"
#include "broker/control.h"
#include "broker/outgoing.h"
#include "broker/queues.h"
#include "broker/segment.h"
#include "broker/session.h"
#include "broker/shard.h"
#include "broker/spill.h"
#include "broker/status_gpu.h"
#include "broker/status_spill.h"
#include "broker/subscription.h"
#include "broker/topic.h"
#include "broker/user.h"
#include "wire/codec/topic.h"
#include "wire/link/link.h"
#include "wire/link/ucx.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATUS_PIECE 60000u                               /* bytes of JSON in one frame */
#define STATUS_MAX ((unsigned)AMB_CLIENT_OUT_MAX / 8 * 7) /* what may be queued for a client */

/* What a worker does in one turn, in places of a table: a row costs as much as STATUS_ROW of them.
 */
#define STATUS_TURN 2048u
#define STATUS_ROW 16u
#define STATUS_CURSORS_MAX 1024u /* of one subscription or queue that are looked at */

static const char *const status_queries[] = {
    "status", "topics", "subs", "queues", "clients", "workers", "memory", "transports", "doctor",
};

/* One question under way. */
struct status_query {
    struct amb_client *client;
    uint64_t id;
    const char *name;
    char pattern[AMB_TOPIC_MAX + 1]; /* of topics; "": all */
    size_t pattern_len;
    unsigned waiting;
    uint64_t left_out; /* rows */
    json_t **shards;   /* what each worker answered */
};

/* A worker's part of an answer, as far as one turn goes. */
struct walk {
    const struct amb_shard *shard;
    const struct status_query *query; /* its name and pattern do not change */
    struct amb_order *order;
    json_t *rows, *spills;
    unsigned cost;
};

/* On the worker ------------------------------------------------------------------------------- */

static json_int_t num(uint64_t value)
{
    return (json_int_t)value;
}

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
static bool walk_may(struct walk *walk)
{
    if (walk->order->u.snapshot.rows_left == 0) {
        walk->order->u.snapshot.left_out++;
        return false;
    }
    walk->order->u.snapshot.rows_left--;
    walk->cost += STATUS_ROW;
    return true;
}

static void topic_row(struct walk *walk, const struct amb_topic *t)
{
    json_t *row =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "topic",
                  amb_topic_shown(t->name), "priority", priority_name(t->priority), "worker",
                  num(t->home), "subscriptions", num(t->matched), "messages", num(t->msgs_in),
                  "bytes", num(t->bytes_in), "log_messages", num(t->log.msgs), "log_bytes",
                  num(t->log.bytes), "last_seq", num(t->log.next_seq - 1 + t->log.above),
                  "rejected", num(t->msgs_rejected), "dropped", num(t->msgs_dropped));
    amb_status_spill_put(row, t);
    (void)json_array_append_new(walk->rows, row);
}

/* Of the place `at` in a table of the shard, as all of the functions below. Returns the next. */
static uint64_t topics_at(struct walk *walk, uint64_t at)
{
    const struct amb_topic *t = walk->shard->topics[at];
    const struct status_query *query = walk->query;
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

/* What waits in the logs for the cursors of one owner: of the first so many. */
struct backlog {
    uint64_t bytes, spilled_bytes;
    bool is_part;
};

static struct backlog backlog_of(struct walk *walk, const struct amb_list_node *cursors)
{
    struct backlog backlog = {0};
    unsigned count = 0;
    AMB_LIST_FOR_EACH (node, cursors) {
        const struct amb_cursor *cursor = AMB_CONTAINER_OF(node, struct amb_cursor, of_sub);
        if (count++ == STATUS_CURSORS_MAX) {
            backlog.is_part = true;
            break;
        }
        backlog.bytes += amb_log_bytes_from(&cursor->topic->log, cursor->position);
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

static uint64_t subs_at(struct walk *walk, uint64_t at)
{
    const struct amb_session *s = walk->shard->sessions[at / AMB_HANDLES_MAX];
    if (s == NULL || amb_list_is_empty(&s->subscription_list)) {
        return (at / AMB_HANDLES_MAX + 1) * AMB_HANDLES_MAX;
    }
    const struct amb_subscription *sub = s->subscriptions[at % AMB_HANDLES_MAX];
    if (sub == NULL || !walk_may(walk)) {
        return at + 1;
    }
    struct backlog backlog = backlog_of(walk, &sub->cursors);
    json_t *row = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "id", num(sub->id),
        "delivered", num(sub->msgs), "bytes", num(sub->bytes), "lost", num(sub->lost), "lost_slow",
        num(sub->lost_by[AMB_LOSS_SLOW]), "lost_trimmed", num(sub->lost_by[AMB_LOSS_TRIMMED]),
        "lost_expired", num(sub->lost_by[AMB_LOSS_EXPIRED]), "outstanding",
        num(amb_subscription_out(sub)), "outstanding_bytes", num(sub->bytes_out), "credit_bytes",
        num(sub->options.credit_bytes), "pending_bytes", num(backlog.bytes), "spilled",
        num(sub->spilled), "spilled_waiting_bytes", num(backlog.spilled_bytes));
    backlog_put(row, &backlog);
    (void)rows_put(walk->rows, sub->id, row);
    return at + 1;
}

static uint64_t queues_at(struct walk *walk, uint64_t at)
{
    for (struct amb_idmap_node *node = walk->shard->queues.buckets[at]; node != NULL;
         node = node->next) {
        const struct amb_queue *q = AMB_CONTAINER_OF(node, struct amb_queue, known);
        if (!walk_may(walk)) {
            continue;
        }
        struct backlog backlog = backlog_of(walk, &q->cursors);
        json_t *row = json_pack(
            "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "id", num(q->id), "delivered",
            num(q->given), "pending", num(amb_queue_out(q)), "pending_limit", num(q->credit_msgs),
            "to_redeliver", num(q->kept_msgs), "redelivered", num(q->redelivered), "dead",
            num(q->dead), "lost", num(q->lost), "waiting_bytes", num(backlog.bytes));
        backlog_put(row, &backlog);
        (void)rows_put(walk->rows, q->id, row);
    }
    return at + 1;
}

static uint64_t sessions_at(struct walk *walk, uint64_t at)
{
    const struct amb_session *s = walk->shard->sessions[at];
    if (s == NULL || !walk_may(walk)) {
        return at + 1;
    }
    char lanes[160] = "none";
    if (s->link != NULL) {
        amb_link_describe(s->link, lanes, sizeof(lanes));
    }
    (void)rows_put(
        walk->rows, s->client_id,
        json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I,"
                  " s:I, s:I, s:I}",
                  "id", num(s->client_id), "lanes", lanes, "messages_in", num(s->msgs_in),
                  "bytes_in", num(s->bytes_in), "messages_out", num(s->msgs_out), "bytes_out",
                  num(s->bytes_out), "mapped_bytes", num(s->mapped_bytes), "mapped_limit_bytes",
                  num(s->mapped_host_max < s->mapped_max ? s->mapped_host_max : s->mapped_max),
                  "leased_bytes", num(s->book.bytes), "commits", num(s->book.committed),
                  "queued_frames", num(s->link == NULL ? 0 : s->link->queued), "ignored_frames",
                  num(s->frames_ignored), "heap_bytes", num(amb_outgoing_heap(s)),
                  "heap_peak_bytes", num(s->heap.peak), "heap_limit_bytes", num(s->heap.limit),
                  "heap_refused", num(s->heap.refused)));
    return at + 1;
}

static json_t *shard_worker(const struct amb_shard *shard)
{
    const struct amb_shard_stats *st = &shard->stats;
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I,"
        " s:I, s:I, s:I, s:I}",
        "worker", num(shard->index), "turns", num(amb_stat_get(&st->turns)), "sleeps",
        num(amb_stat_get(&st->sleeps)), "messages_in", num(amb_stat_get(&st->msgs_in)), "bytes_in",
        num(amb_stat_get(&st->bytes_in)), "batches_in", num(amb_stat_get(&st->batches_in)),
        "messages_out", num(amb_stat_get(&st->msgs_out)), "bytes_out",
        num(amb_stat_get(&st->bytes_out)), "maps", num(amb_stat_get(&st->maps)), "copies",
        num(amb_stat_get(&st->copies)), "dropped", num(amb_stat_get(&st->msgs_dropped)), "rejected",
        num(amb_stat_get(&st->msgs_rejected)), "commits", num(amb_stat_get(&st->commits_in)),
        "fetches", num(amb_stat_get(&st->fetches)), "fetched_bytes",
        num(amb_stat_get(&st->fetched_bytes)), "fetches_stale",
        num(amb_stat_get(&st->fetches_stale)), "commits_refused",
        num(amb_stat_get(&st->commits_refused)), "leases_refused",
        num(amb_stat_get(&st->leases_refused)), "longest_turn_ns",
        num(amb_stat_get(&st->longest_turn_ns)), "foreign_frames",
        num(shard->ucx_worker == NULL ? 0 : amb_ucx_worker_foreign(shard->ucx_worker)), "spilled",
        num(amb_stat_get(&st->spilled)), "spilled_bytes", num(amb_stat_get(&st->spilled_bytes)));
}

static json_t *shard_memory(const struct amb_shard *shard)
{
    const struct amb_bufpool *pool = &shard->bufpool, *private = &shard->private_pool;
    uint64_t segments = 0;
    AMB_LIST_FOR_EACH (node, &pool->segments) {
        segments++;
    }
    AMB_LIST_FOR_EACH (node, &private->segments) {
        segments++;
    }
    uint64_t leased = 0;
    AMB_LIST_FOR_EACH (node, &shard->leases) {
        leased++;
    }
    const struct amb_shard_stats *st = &shard->stats;
    return json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I,"
                     " s:I, s:I, s:I, s:I}",
                     "worker", num(shard->index), "kind", "host", "segments", num(segments),
                     "segment_bytes", num(pool->segment_bytes + private->segment_bytes),
                     "private_bytes", num(private->segment_bytes), "used_bytes",
                     num(amb_bufpool_used(pool) + amb_bufpool_used(private)), "made_late",
                     num(pool->made_here + private->made_here), "leased_segments", num(leased),
                     "leased_bytes", num(shard->leased_bytes), "quarantined_bytes",
                     num(amb_stat_get(&st->quarantined_bytes)), "slabs",
                     num(pool->live_slabs + private->live_slabs), "sparse_slabs",
                     num(pool->sparse_slabs + private->sparse_slabs), "compacted",
                     num(amb_stat_get(&st->compacted)), "compacted_bytes",
                     num(amb_stat_get(&st->compacted_bytes)), "entries", num(shard->entries.used),
                     "entries_limit", num(shard->entries_max), "reserved_bytes",
                     num(pool->reserved + private->reserved), "granted_refused",
                     num(amb_stat_get(&st->granted_refused)), "unreserved_refused",
                     num(amb_stat_get(&st->unreserved_refused)));
}

/* Which table of a shard a question is about. */
static const struct table {
    const char *query, *list;
    bool is_array;
    uint64_t (*at)(struct walk *walk, uint64_t at);
} tables[] = {
    {"topics", "topics", true, topics_at},          {"subs", "subs", false, subs_at},
    {"queues", "queues", false, queues_at},         {"clients", "sessions", false, sessions_at},
    {"transports", "sessions", false, sessions_at},
};

static uint64_t table_end(const struct table *table, const struct amb_shard *shard)
{
    if (table->at == topics_at) {
        return shard->topic_slots;
    }
    if (table->at == queues_at) {
        return shard->queues.count > 0 ? shard->queues.mask + 1 : 0;
    }
    return (uint64_t)shard->session_slots * (table->at == subs_at ? AMB_HANDLES_MAX : 1);
}

/* As far as one turn goes: rows of all topics would hold the worker up for as long as it makes
 * them. Tables may grow and change between two turns; a row is then missing, or there twice. */
static void collect_table(struct walk *walk, const struct table *table, json_t *json)
{
    struct amb_order *order = walk->order;
    uint64_t end = table_end(table, walk->shard), at = order->u.snapshot.at;
    walk->rows = table->is_array ? json_array() : json_object();
    walk->spills = json_object();
    while (at < end && walk->cost < STATUS_TURN) {
        walk->cost++;
        at = table->at(walk, at);
    }
    order->u.snapshot.at = at;
    order->u.snapshot.is_done = at >= end;
    (void)json_object_set_new(json, table->list, walk->rows);
    (void)json_object_set_new(json, "spills", walk->spills);
}

/* Only what the question is about. */
static void status_collect(struct amb_shard *shard, struct amb_order *order)
{
    const struct status_query *query = order->context;
    struct walk walk = {.shard = shard, .query = query, .order = order};
    json_t *json = json_object();
    order->u.snapshot.json = json;
    order->u.snapshot.is_done = true;
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        if (strcmp(query->name, tables[i].query) == 0) {
            collect_table(&walk, &tables[i], json);
        }
    }
    if (strcmp(query->name, "workers") == 0) {
        (void)json_object_set_new(json, "worker", shard_worker(shard));
    } else if (strcmp(query->name, "memory") == 0) {
        (void)json_object_set_new(json, "memory", shard_memory(shard));
    }
}

/* On the control thread ----------------------------------------------------------------------- */

static const json_t *find_by_id(const struct status_query *query, unsigned shard, const char *list,
                                uint64_t id)
{
    char key[24];
    (void)snprintf(key, sizeof(key), "%llu", (unsigned long long)id);
    return json_object_get(json_object_get(query->shards[shard], list), key);
}

/* May the answer have one more row? */
static bool query_may(struct status_query *query, const json_t *rows)
{
    if (json_array_size(rows) < AMB_STATUS_ROWS_MAX) {
        return true;
    }
    query->left_out++;
    return false;
}

/* All shards' rows of a list, as they are. */
static json_t *gather(const struct status_query *query, unsigned shard_count, const char *list,
                      bool is_list)
{
    json_t *rows = json_array();
    for (unsigned i = 0; i < shard_count; i++) {
        json_t *part = json_object_get(query->shards[i], list);
        if (is_list) {
            (void)json_array_extend(rows, part);
        } else if (part != NULL) {
            (void)json_array_append(rows, part);
        }
    }
    return rows;
}

static json_t *gather_subs(struct status_query *query, struct amb_control *control)
{
    json_t *rows = json_array();
    AMB_LIST_FOR_EACH (node, &control->directory.subs) {
        const struct amb_dir_sub *sub = AMB_CONTAINER_OF(node, struct amb_dir_sub, node);
        if (!query_may(query, rows)) {
            continue;
        }
        json_t *row = json_pack("{s:s, s:I, s:I}", "pattern", amb_topic_shown(sub->pattern),
                                "client", num(sub->client_id), "worker", num(sub->session.shard));
        (void)json_object_update(
            row, (json_t *)(uintptr_t)find_by_id(query, sub->session.shard, "subs", sub->id));
        (void)json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *gather_queues(struct status_query *query, struct amb_control *control)
{
    static const char *const acks[] = {"none", "none", "explicit", "cumulative"};
    json_t *rows = json_array();
    AMB_LIST_FOR_EACH (node, &control->directory.queues) {
        const struct amb_dir_queue *queue = AMB_CONTAINER_OF(node, struct amb_dir_queue, node);
        char user[AMB_USER_TEXT_MAX];
        if (!query_may(query, rows)) {
            continue;
        }
        json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "pattern",
                                amb_topic_shown(queue->sub.pattern), "group", queue->group,
                                "durable", queue->durable, "user", amb_user_text(queue->user, user),
                                "ack", acks[queue->options.ack], "worker",
                                num(queue->sub.session.shard), "members", num(queue->members));
        (void)json_object_update(row,
                                 (json_t *)(uintptr_t)find_by_id(query, queue->sub.session.shard,
                                                                 "queues", queue->sub.id));
        (void)json_array_append_new(rows, row);
    }
    return rows;
}

/* "NAME" or "NAME USER", behind "durable rm " */
static enum amb_status durable_remove(struct amb_directory *directory, const char *words)
{
    char name[AMB_QUEUE_NAME_MAX + 1];
    size_t len = strcspn(words, " ");
    if (len >= sizeof(name)) {
        return AMB_ENOTFOUND;
    }
    memcpy(name, words, len);
    name[len] = '\0';
    uint32_t user;
    if (words[len] == '\0') {
        return amb_queues_remove_durable(directory, name, NULL);
    }
    return amb_user_parse(words + len + 1, &user)
               ? amb_queues_remove_durable(directory, name, &user)
               : AMB_ENOTFOUND;
}

static void remove_durable(struct amb_client *client, uint64_t id, const char *words)
{
    enum amb_status status = durable_remove(&client->control->directory, words);
    if (status != AMB_OK) {
        amb_client_send_error(client, id, status, "durable name: %s",
                              status == AMB_EBUSY    ? "it is in use"
                              : status == AMB_EINVAL ? "several users have it: NAME USER"
                                                     : "there is none of that name");
        return;
    }
    static const char done[] = "{\"removed\":1}";
    Amb__Control__AdminReply reply = AMB__CONTROL__ADMIN_REPLY__INIT;
    reply.json.data = (uint8_t *)(uintptr_t)done;
    reply.json.len = sizeof(done) - 1;
    reply.last = 1;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    message.id = id;
    message.body_case = AMB__CONTROL__CONTROL__BODY_ADMIN_REPLY;
    message.admin_reply = &reply;
    amb_client_send(client, &message, NULL, 0);
}

static const char *client_state_name(const struct amb_client *client)
{
    switch (client->state) {
    case AMB_CLIENT_HELLO:
    case AMB_CLIENT_AUTH:
    case AMB_CLIENT_OPENING:
        return "connecting";
    case AMB_CLIENT_LIVE:
        return "live";
    case AMB_CLIENT_ENDING:
        return client->is_quarantined ? "quarantined" : "ending";
    }
    return "unknown";
}

/* What the control thread's account says, beside the worker's. */
static void add_heap(json_t *row, const struct amb_heap_account *heap)
{
    const struct {
        const char *name;
        uint64_t value;
    } more[] = {{"heap_bytes", heap->bytes},
                {"heap_peak_bytes", heap->peak},
                {"heap_limit_bytes", heap->limit},
                {"heap_refused", heap->refused}};
    for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++) {
        uint64_t at_worker = (uint64_t)json_integer_value(json_object_get(row, more[i].name));
        (void)json_object_set_new(row, more[i].name, json_integer(num(at_worker + more[i].value)));
    }
}

static json_t *gather_clients(struct status_query *query, struct amb_control *control,
                              bool transports)
{
    json_t *rows = json_array();
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *c = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (!c->has_session || !query_may(query, rows)) {
            continue;
        }
        const json_t *session = find_by_id(query, c->session.shard, "sessions", c->id);
        json_t *row = json_pack(
            "{s:I, s:s, s:s, s:s, s:s}", "id", num(c->id), "name", c->name, "state",
            client_state_name(c), "link", amb_link_kind_name(c->link), "lanes",
            session == NULL ? "none" : json_string_value(json_object_get(session, "lanes")));
        if (transports) {
            (void)json_object_set_new(row, "why_not_better",
                                      json_string(c->link_reason == NULL ? "" : c->link_reason));
            amb_status_gpu_client(c, row);
        } else {
            (void)json_object_set_new(row, "address", json_string(c->address));
            (void)json_object_set_new(row, "pid", json_integer(c->pid));
            (void)json_object_set_new(row, "uid", json_integer((json_int_t)c->uid));
            (void)json_object_set_new(row, "worker", json_integer(c->session.shard));
            (void)json_object_set_new(
                row, "pairs", json_integer(c->account == NULL ? 0 : (json_int_t)c->account->pairs));
            (void)json_object_set_new(row, "quarantined_bytes", json_integer(num(c->held_bytes)));
            (void)json_object_update_missing(row, (json_t *)(uintptr_t)session);
            add_heap(row, &c->heap);
        }
        (void)json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *gather_status(const struct amb_control *control)
{
    uint64_t in = 0, out = 0, dropped = 0, rejected = 0, redelivered = 0, dead = 0, dead_lost = 0;
    for (unsigned i = 0; i < control->shard_count; i++) {
        const struct amb_shard_stats *st = &control->shards[i]->stats;
        in += amb_stat_get(&st->msgs_in);
        out += amb_stat_get(&st->msgs_out);
        dropped += amb_stat_get(&st->msgs_dropped);
        rejected += amb_stat_get(&st->msgs_rejected);
        redelivered += amb_stat_get(&st->msgs_redelivered);
        dead += amb_stat_get(&st->msgs_dead);
        dead_lost += amb_stat_get(&st->msgs_dead_lost);
    }
    char ucx[96];
    if (control->ucx == NULL) {
        (void)snprintf(ucx, sizeof(ucx), "off");
    } else {
        (void)snprintf(ucx, sizeof(ucx), "%u.%u.%u", control->ucx_release >> 16,
                       control->ucx_release >> 8 & 255u, control->ucx_release & 255u);
    }
    char epoch[32];
    (void)snprintf(epoch, sizeof(epoch), "%016llx", (unsigned long long)control->epoch);
    const struct amb_control_stats *st = &control->stats;
    json_t *status = json_pack(
        "{s:s, s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "name", control->config->server.name,
        "version", AMB_BROKER_VERSION, "pid", num((uint64_t)getpid()), "epoch", epoch, "ucx", ucx,
        "uptime_s", num((uint64_t)(control->now_ns - control->started_ns) / 1000000000u), "workers",
        num(control->shard_count), "clients", num(amb_control_sessions(control)), "clients_limit",
        num(control->config->server.max_connections), "topics",
        num(control->directory.topic_count));
    json_t *more = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
        "connecting", num(control->half_open_count + control->opening_count), "topics_limit",
        num(control->config->limits.max_topics), "subscriptions", num(control->directory.sub_count),
        "subscriptions_limit", num(control->config->limits.max_subscriptions), "pairs",
        num(control->directory.pair_count), "pairs_limit", num(control->config->limits.max_pairs),
        "memory_bytes", num(atomic_load_explicit(&control->budget->used, memory_order_relaxed)),
        "leased_bytes", num(atomic_load_explicit(&control->budget->leased, memory_order_relaxed)),
        "memory_limit_bytes", num(control->budget->max), "messages_in", num(in), "messages_out",
        num(out), "dropped", num(dropped), "rejected", num(rejected), "expired", num(st->expired),
        "redelivered", num(redelivered), "dead_letters", num(dead), "dead_letters_lost",
        num(dead_lost));
    json_t *doors =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "accepted",
                  num(st->accepted), "refused_limit", num(st->refused_limit), "refused_auth",
                  num(st->refused_auth), "refused_version", num(st->refused_version),
                  "handshake_timeouts", num(st->handshake_timeout), "bad_magic", num(st->bad_magic),
                  "bad_messages", num(st->bad_message), "quarantined", num(st->quarantined),
                  "violations", num(st->violations), "passed_descriptors", num(st->passed),
                  "longest_round_ns", num(st->longest_round_ns));
    (void)json_object_update(status, more);
    (void)json_object_update(status, doors);
    json_decref(more);
    json_decref(doors);
    return status;
}

static json_t *query_answer(struct status_query *query, struct amb_control *control)
{
    unsigned shards = control->shard_count;
    const char *name = query->name;
    if (strcmp(name, "status") == 0) {
        return gather_status(control);
    }
    json_t *rows;
    if (strcmp(name, "topics") == 0) {
        rows = gather(query, shards, "topics", true);
        for (unsigned i = 0; i < shards; i++) {
            const json_t *spills = json_object_get(query->shards[i], "spills");
            if (json_object_size(spills) > 0) {
                amb_status_add_spills(rows, spills);
            }
        }
    } else if (strcmp(name, "subs") == 0) {
        rows = gather_subs(query, control);
    } else if (strcmp(name, "queues") == 0) {
        rows = gather_queues(query, control);
    } else if (strcmp(name, "workers") == 0) {
        rows = gather(query, shards, "worker", false);
    } else if (strcmp(name, "memory") == 0) {
        rows = gather(query, shards, "memory", false);
        amb_status_gpu_memory(control, rows);
    } else if (strcmp(name, "doctor") == 0) {
        rows = amb_status_doctor(control);
    } else {
        rows = gather_clients(query, control, strcmp(name, "transports") == 0);
    }
    return json_pack("{s:o}", name, rows);
}

static void query_send(const struct status_query *query, const char *text)
{
    size_t left = strlen(text);
    do {
        size_t piece = left < STATUS_PIECE ? left : STATUS_PIECE;
        Amb__Control__AdminReply reply = AMB__CONTROL__ADMIN_REPLY__INIT;
        reply.json.data = (uint8_t *)(uintptr_t)text;
        reply.json.len = piece;
        reply.last = piece == left;
        Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
        message.id = query->id;
        message.body_case = AMB__CONTROL__CONTROL__BODY_ADMIN_REPLY;
        message.admin_reply = &reply;
        amb_client_send(query->client, &message, NULL, 0);
        text += piece;
        left -= piece;
    } while (left > 0 && query->client->state == AMB_CLIENT_LIVE);
}

/* The first `keep` rows. */
static void answer_cut(struct status_query *query, json_t *answer, size_t keep)
{
    json_t *rows = json_object_get(answer, query->name);
    while (json_is_array(rows) && json_array_size(rows) > keep) {
        (void)json_array_remove(rows, json_array_size(rows) - 1);
        query->left_out++;
    }
    if (query->left_out > 0) {
        (void)json_object_set_new(answer, "not_shown", json_integer(num(query->left_out)));
    }
}

/* NULL: no memory. Never longer than what may be queued: names may be long. */
static char *answer_text(struct status_query *query, json_t *answer)
{
    answer_cut(query, answer, AMB_STATUS_ROWS_MAX);
    char *text = json_dumps(answer, JSON_COMPACT);
    size_t len = text == NULL ? 0 : strlen(text);
    if (len > STATUS_MAX) {
        size_t rows = json_array_size(json_object_get(answer, query->name));
        free(text);
        answer_cut(query, answer, rows * (STATUS_MAX / 4 * 3) / len);
        text = json_dumps(answer, JSON_COMPACT);
    }
    return text;
}

static void query_finish(struct status_query *query, struct amb_control *control)
{
    struct amb_client *client = query->client;
    if (client->state == AMB_CLIENT_LIVE) {
        json_t *answer = query_answer(query, control);
        char *text = answer == NULL ? NULL : answer_text(query, answer);
        if (text == NULL) {
            amb_client_send_error(client, query->id, AMB_ENOMEM, "no memory for the answer");
        } else if (strlen(text) > STATUS_MAX) {
            amb_client_send_error(client, query->id, AMB_ETOOLARGE,
                                  "the answer is larger than %u bytes", STATUS_MAX);
        } else {
            query_send(query, text);
        }
        free(text);
        json_decref(answer);
    }
    for (unsigned i = 0; i < control->shard_count; i++) {
        json_decref(query->shards[i]);
    }
    free(query->shards);
    free(query);
    amb_client_end_work(client);
}

/* Adds one turn's part to what the worker has said before. */
static void query_add(json_t **all, json_t *part)
{
    if (*all == NULL) {
        *all = part;
        return;
    }
    const char *list;
    json_t *rows;
    json_object_foreach(part, list, rows)
    {
        json_t *into = json_object_get(*all, list);
        if (json_is_array(rows)) {
            (void)json_array_extend(into, rows);
        } else {
            (void)json_object_update(into, rows);
        }
    }
    json_decref(part);
}

static void status_collected(void *owner, struct amb_order *order)
{
    struct status_query *query = order->context;
    query_add(&query->shards[order->shard->index], order->u.snapshot.json);
    order->u.snapshot.json = NULL;
    if (!order->u.snapshot.is_done && query->client->state == AMB_CLIENT_LIVE) {
        amb_order_post(order->shard, order);
        return;
    }
    if (strcmp(query->name, "topics") == 0) { /* Others are counted by the directory's rows. */
        query->left_out += order->u.snapshot.left_out;
    }
    amb_order_free(order);
    if (--query->waiting == 0) {
        query_finish(query, owner);
    }
}

/* Admin questions are for the broker's own user and root, on a Unix socket. */
static bool client_may_ask(const struct amb_client *client)
{
    return client->is_unix && (client->uid == 0 || client->uid == geteuid());
}

void amb_status_request(struct amb_client *client, uint64_t id, const char *query)
{
    static const char remove_prefix[] = "durable rm ", topics_prefix[] = "topics ";
    const char *name = NULL;
    for (size_t i = 0; i < sizeof(status_queries) / sizeof(status_queries[0]); i++) {
        if (strcmp(query, status_queries[i]) == 0) {
            name = status_queries[i];
        }
    }
    if (!client_may_ask(client)) {
        amb_client_send_error(client, id, AMB_EFORBIDDEN,
                              "admin: only the broker's own user or root, on a unix:// URL");
        return;
    }
    if (strncmp(query, remove_prefix, sizeof(remove_prefix) - 1) == 0) {
        remove_durable(client, id, query + sizeof(remove_prefix) - 1);
        return;
    }
    const char *pattern = "";
    if (strncmp(query, topics_prefix, sizeof(topics_prefix) - 1) == 0) {
        pattern = query + sizeof(topics_prefix) - 1;
        const char *why = "";
        if (strlen(pattern) > AMB_TOPIC_MAX ||
            amb_pattern_check(pattern, strlen(pattern), &why) != AMB_OK) {
            amb_client_send_error(client, id, AMB_EINVAL, "the pattern %s",
                                  why[0] != '\0' ? why : "is too long");
            return;
        }
        name = "topics";
    }
    if (name == NULL) {
        amb_client_send_error(client, id, AMB_EINVAL, "admin: no such query");
        return;
    }
    struct amb_control *control = client->control;
    struct status_query *state = calloc(1, sizeof(*state));
    json_t **shards = calloc(control->shard_count, sizeof(json_t *));
    if (state == NULL || shards == NULL) {
        free(state);
        free(shards);
        amb_client_send_error(client, id, AMB_ENOMEM, "no memory");
        return;
    }
    *state = (struct status_query){.client = client, .id = id, .name = name, .shards = shards};
    state->pattern_len = strlen(pattern);
    memcpy(state->pattern, pattern, state->pattern_len + 1);
    amb_client_begin_work(client);
    for (unsigned i = 0; i < control->shard_count; i++) {
        struct amb_order *order = amb_order_create(status_collect, status_collected, state);
        if (order != NULL) {
            state->waiting++;
            order->u.snapshot.rows_left = AMB_STATUS_ROWS_MAX;
            amb_order_post(control->shards[i], order);
        }
    }
    if (state->waiting == 0) {
        query_finish(state, control);
    }
}
