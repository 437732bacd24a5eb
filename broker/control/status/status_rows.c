/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/status_rows.h"

#include "broker/audit/audit.h"
#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/client_share.h"
#include "broker/control/clients/control.h"
#include "broker/control/directory/queues.h"
#include "broker/control/status/paths.h"
#include "broker/control/status/status.h"
#include "broker/control/status/status_gpu.h"
#include "broker/control/status/status_net.h"
#include "broker/control/status/status_private.h"
#include "broker/control/status/status_spill.h"
#include "broker/control/status/status_worker.h"
#include "broker/control/status/why.h"
#include "broker/shard/shard.h"
#include "broker/tls/handshaker.h"
#include "wire/link/link.h"
#include "wire/link/ucxlib/ucx_release.h"
#include "wire/tls/tls.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const json_t *find_by_id(const struct amb_status_query *query, unsigned shard,
                                const char *list, uint64_t id)
{
    char key[24];
    (void)snprintf(key, sizeof(key), "%llu", (unsigned long long)id);
    return json_object_get(json_object_get(query->shards[shard], list), key);
}

/* May the answer have a row of that id? */
static bool query_may(struct amb_status_query *query, const json_t *rows, uint64_t id)
{
    if (id <= query->last_id && json_array_size(rows) < AMB_STATUS_ROWS_MAX) {
        return true;
    }
    query->omitted++;
    return false;
}

/* All shards' rows of a list, as they are. */
static json_t *gather(const struct amb_status_query *query, unsigned shard_count, const char *list,
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

static json_t *gather_subs(struct amb_status_query *query, struct amb_control *control)
{
    json_t *rows = json_array();
    AMB_LIST_FOR_EACH (node, &control->directory.subs) {
        const struct amb_dir_sub *sub = AMB_CONTAINER_OF(node, struct amb_dir_sub, node);
        if (!query_may(query, rows, sub->id)) {
            continue;
        }
        json_t *row =
            json_pack("{s:s, s:I, s:I, s:b}", "pattern", amb_topic_shown(sub->pattern), "client",
                      amb_status_num(sub->client_id), "worker", amb_status_num(sub->session.shard),
                      "narrowed", sub->rights != NULL);
        (void)json_object_update(
            row, (json_t *)(uintptr_t)find_by_id(query, sub->session.shard, "subs", sub->id));
        (void)json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *gather_queues(struct amb_status_query *query, struct amb_control *control)
{
    static const char *const acks[] = {"none", "none", "explicit", "cumulative"};
    json_t *rows = json_array();
    AMB_LIST_FOR_EACH (node, &control->directory.queues) {
        const struct amb_dir_queue *queue = AMB_CONTAINER_OF(node, struct amb_dir_queue, node);
        char user[AMB_AUTH_NAME_MAX];
        if (!query_may(query, rows, queue->sub.id)) {
            continue;
        }
        json_t *row = json_pack(
            "{s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "pattern", amb_topic_shown(queue->sub.pattern),
            "group", queue->group, "durable", queue->durable, "user",
            amb_login_owner_text(control, queue->user, user), "ack", acks[queue->options.ack],
            "worker", amb_status_num(queue->sub.session.shard), "members",
            amb_status_num(queue->members));
        (void)json_object_update(row,
                                 (json_t *)(uintptr_t)find_by_id(query, queue->sub.session.shard,
                                                                 "queues", queue->sub.id));
        (void)json_array_append_new(rows, row);
    }
    return rows;
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

/* The control thread's account, beside the worker's. */
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
        (void)json_object_set_new(row, more[i].name,
                                  json_integer(amb_status_num(at_worker + more[i].value)));
    }
}

/* Its user, and the proof of that. */
static void add_login(json_t *row, const struct amb_client *client)
{
    char user[AMB_AUTH_NAME_MAX];
    const struct amb_login *login = &client->login;
    (void)json_object_set_new(row, "user", json_string(amb_login_user_text(client, user)));
    (void)json_object_set_new(row, "tenant",
                              json_string(login->user == NULL ? "" : login->user->tenant));
    (void)json_object_set_new(row, "mechanism", json_string(amb_mechanism_name(login->mechanism)));
    (void)json_object_set_new(row, "suite",
                              json_string(client->tls == NULL ? "" : amb_tls_suite(client->tls)));
    (void)json_object_set_new(row, "protocol",
                              json_string(client->tls == NULL ? "" : AMB_TLS_PROTOCOL));
}

/* The trust groups whose memory it may map. */
static void add_maps(json_t *row, const struct amb_client *client)
{
    const struct amb_config *config = client->control->config;
    uint64_t maps = amb_client_maps(client);
    char names[AMB_TRUST_GROUPS_MAX * (AMB_TRUST_GROUP_NAME_MAX + 1)] = "";
    size_t len = 0;
    for (uint32_t i = 0; i < config->trust_groups.count; i++) {
        if ((maps >> i & 1) != 0) {
            len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", len > 0 ? " " : "",
                                    config->trust_groups.names[i]);
        }
    }
    (void)json_object_set_new(row, "maps", json_string(names));
}

/* Why the link is not a better one. To a client of this host that is a ring; why its link to others
 * has no more is told too. left_out: why UCX is told to do without a lane; or NULL. */
static void add_why(json_t *row, const struct amb_client *client, const char *lanes,
                    const char *left_out)
{
    char why[AMB_WHY_MAX], both[AMB_WHY_MAX + AMB_CONTROL_TEXT_MAX + 64];
    amb_why_link(client, lanes, why);
    const char *more = client->link == AMB_LINK_UCX ? left_out : client->link_reason;
    bool is_new = more != NULL && strstr(why, more) == NULL;
    (void)snprintf(both, sizeof(both), "%s%s%.*s", why, is_new && why[0] != '\0' ? "; " : "",
                   (int)AMB_CONTROL_TEXT_MAX, is_new ? more : "");
    (void)json_object_set_new(row, "why_not_better", json_string(both));
}

static json_t *gather_sessions(struct amb_status_query *query, const struct amb_control *control,
                               bool transports)
{
    json_t *rows = json_array();
    const char *left_out = transports ? amb_status_gpu_left_out(control) : NULL;
    json_t *own = transports ? amb_status_net_broker(control) : NULL;
    if (own != NULL) {
        (void)json_array_append_new(rows, own);
    }
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *c = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (!c->has_session || !query_may(query, rows, c->id)) {
            continue;
        }
        const json_t *session = find_by_id(query, c->session.shard, "sessions", c->id);
        const char *lanes =
            session == NULL ? "none" : json_string_value(json_object_get(session, "lanes"));
        json_t *row = json_pack("{s:I, s:s, s:s, s:s, s:s}", "id", amb_status_num(c->id), "name",
                                c->name, "state", client_state_name(c), "link",
                                amb_link_kind_name(c->link), "lanes", lanes);
        if (transports) {
            add_why(row, c, lanes, left_out);
            amb_status_net_client(c, row);
            amb_status_gpu_client(c, row);
        } else {
            (void)json_object_set_new(row, "address", json_string(c->address));
            (void)json_object_set_new(row, "pid", json_integer(c->pid));
            (void)json_object_set_new(row, "uid", json_integer((json_int_t)c->uid));
            (void)json_object_set_new(row, "worker", json_integer(c->session.shard));
            add_login(row, c);
            add_maps(row, c);
            (void)json_object_set_new(
                row, "pairs", json_integer(c->account == NULL ? 0 : (json_int_t)c->account->pairs));
            (void)json_object_set_new(row, "quarantined_bytes",
                                      json_integer(amb_status_num(c->quarantined_bytes)));
            (void)json_object_update_missing(row, (json_t *)(uintptr_t)session);
            add_heap(row, &c->heap);
        }
        (void)json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *gather_clients(struct amb_status_query *query, struct amb_control *control)
{
    return gather_sessions(query, control, false);
}

static json_t *gather_transports(struct amb_status_query *query, struct amb_control *control)
{
    return gather_sessions(query, control, true);
}

/* query->pattern: of clients of that name alone; "": of all. */
static json_t *gather_paths(struct amb_status_query *query, struct amb_control *control)
{
    json_t *rows = json_array();
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *c = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (c->has_session && (query->pattern_len == 0 || strcmp(query->pattern, c->name) == 0) &&
            query_may(query, rows, c->id)) {
            amb_paths_add(rows, c, find_by_id(query, c->session.shard, "sessions", c->id));
        }
    }
    return rows;
}

static json_t *gather_topics(struct amb_status_query *query, struct amb_control *control)
{
    json_t *rows = gather(query, control->shard_count, "topics", true);
    for (unsigned i = 0; i < control->shard_count; i++) {
        const json_t *spills = json_object_get(query->shards[i], "spills");
        if (json_object_size(spills) > 0) {
            amb_status_add_spills(rows, spills);
        }
    }
    return rows;
}

static json_t *gather_workers(struct amb_status_query *query, struct amb_control *control)
{
    return gather(query, control->shard_count, "worker", false);
}

static json_t *gather_memory(struct amb_status_query *query, struct amb_control *control)
{
    json_t *rows = gather(query, control->shard_count, "worker", false);
    /* Where all share everything the rows above say it. */
    bool has_groups = control->config->trust_groups.count > 1 || control->users != NULL;
    for (unsigned i = 0; i < control->shard_count; i++) {
        json_t *row = json_array_get(rows, i);
        if (has_groups) {
            (void)json_array_extend(rows, json_object_get(row, "groups"));
        }
        (void)json_object_del(row, "groups");
    }
    amb_status_gpu_memory(control, rows);
    return rows;
}

static json_t *gather_doctor(struct amb_status_query *query, struct amb_control *control)
{
    (void)query;
    return amb_status_doctor(control);
}

static json_t *gather_topo(struct amb_status_query *query, struct amb_control *control)
{
    (void)query;
    return amb_status_topo(control);
}

static json_t *count_of(const _Atomic uint64_t *counter)
{
    return json_integer(amb_status_num(amb_stat_get(counter)));
}

/* Of encrypted listeners. */
static void add_handshakes(json_t *status, const struct amb_handshakers *handshakers)
{
    if (handshakers == NULL) {
        return;
    }
    const struct amb_handshake_stats *st = &handshakers->stats;
    uint32_t half_open = atomic_load_explicit(&handshakers->half_open, memory_order_relaxed);
    (void)json_object_set_new(status, "tls_half_open", json_integer(half_open));
    (void)json_object_set_new(status, "tls_handshakes", count_of(&st->done));
    (void)json_object_set_new(status, "tls_failed", count_of(&st->failed));
    (void)json_object_set_new(status, "tls_plain", count_of(&st->plain));
    (void)json_object_set_new(status, "tls_timeouts", count_of(&st->late));
    (void)json_object_set_new(status, "tls_evicted", count_of(&st->evicted));
}

static void add_audit(json_t *status, const struct amb_audit *audit)
{
    if (audit != NULL) {
        (void)json_object_set_new(status, "audit_lines", count_of(&audit->lines));
        (void)json_object_set_new(status, "audit_lost", count_of(&audit->lost));
    }
}

static json_t *gather_status(struct amb_status_query *query, struct amb_control *control)
{
    (void)query;
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
    char ucx[AMB_UCX_RELEASE_TEXT_MAX];
    if (control->ucx == NULL) {
        (void)snprintf(ucx, sizeof(ucx), "off");
    } else {
        (void)amb_ucx_release_text(control->ucx_release, ucx, sizeof(ucx));
    }
    char epoch[32];
    (void)snprintf(epoch, sizeof(epoch), "%016llx", (unsigned long long)control->epoch);
    const struct amb_control_stats *st = &control->stats;
    json_t *status =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "name",
                  control->config->server.name, "version", AMB_BROKER_VERSION, "pid",
                  amb_status_num((uint64_t)getpid()), "epoch", epoch, "ucx", ucx, "uptime_s",
                  amb_status_num((uint64_t)(control->now_ns - control->started_ns) / 1000000000u),
                  "workers", amb_status_num(control->shard_count), "clients",
                  amb_status_num(amb_control_sessions(control)), "clients_limit",
                  amb_status_num(control->config->server.max_connections), "topics",
                  amb_status_num(control->directory.topic_count));
    json_t *more = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
        "connecting", amb_status_num(control->half_open_count + control->opening_count),
        "topics_limit", amb_status_num(control->config->limits.max_topics), "subscriptions",
        amb_status_num(control->directory.sub_count), "subscriptions_limit",
        amb_status_num(control->config->limits.max_subscriptions), "pairs",
        amb_status_num(control->directory.pair_count), "pairs_limit",
        amb_status_num(control->config->limits.max_pairs), "memory_bytes",
        amb_status_num(atomic_load_explicit(&control->budget->used, memory_order_relaxed)),
        "leased_bytes",
        amb_status_num(atomic_load_explicit(&control->budget->leased, memory_order_relaxed)),
        "memory_limit_bytes", amb_status_num(control->budget->max), "messages_in",
        amb_status_num(in), "messages_out", amb_status_num(out), "dropped", amb_status_num(dropped),
        "rejected", amb_status_num(rejected), "expired", amb_status_num(st->expired), "redelivered",
        amb_status_num(redelivered), "dead_letters", amb_status_num(dead), "dead_letters_lost",
        amb_status_num(dead_lost));
    json_t *doors = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "accepted",
        amb_status_num(st->accepted), "refused_limit", amb_status_num(st->refused_limit),
        "refused_auth", amb_status_num(st->refused_auth), "refused_version",
        amb_status_num(st->refused_version), "handshake_timeouts",
        amb_status_num(st->handshake_timeout), "bad_magic", amb_status_num(st->bad_magic),
        "bad_messages", amb_status_num(st->bad_message), "bad_records",
        amb_status_num(st->bad_record), "forbidden", amb_status_num(st->forbidden), "quarantined",
        amb_status_num(st->quarantined), "violations", amb_status_num(st->violations),
        "passed_descriptors", amb_status_num(st->passed), "unknown_processes",
        amb_status_num(st->unknown_processes), "longest_round_ns",
        amb_status_num(st->longest_round_ns));
    (void)json_object_update(status, more);
    (void)json_object_update(status, doors);
    add_handshakes(status, control->handshakers);
    add_audit(status, control->audit);
    json_decref(more);
    json_decref(doors);
    return status;
}

/* The rows that an answer has, before workers make theirs: the first so many of a list, which are
 * the eldest. */
struct eldest {
    unsigned count;
    uint64_t last_id;
};

/* False: there are more than an answer has. */
static bool eldest_add(struct eldest *eldest, uint64_t id)
{
    if (eldest->count == AMB_STATUS_ROWS_MAX) {
        return false;
    }
    eldest->count++;
    eldest->last_id = id > eldest->last_id ? id : eldest->last_id;
    return true;
}

static uint64_t subs_last_id(const struct amb_control *control)
{
    struct eldest eldest = {0};
    AMB_LIST_FOR_EACH (node, &control->directory.subs) {
        if (!eldest_add(&eldest, AMB_CONTAINER_OF(node, struct amb_dir_sub, node)->id)) {
            return eldest.last_id;
        }
    }
    return UINT64_MAX;
}

static uint64_t queues_last_id(const struct amb_control *control)
{
    struct eldest eldest = {0};
    AMB_LIST_FOR_EACH (node, &control->directory.queues) {
        if (!eldest_add(&eldest, AMB_CONTAINER_OF(node, struct amb_dir_queue, node)->sub.id)) {
            return eldest.last_id;
        }
    }
    return UINT64_MAX;
}

static uint64_t clients_last_id(const struct amb_control *control)
{
    struct eldest eldest = {0};
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *c = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (c->has_session && !eldest_add(&eldest, c->id)) {
            return eldest.last_id;
        }
    }
    return UINT64_MAX;
}

static const struct amb_status_view views[] = {
    {"status", NULL, NULL, gather_status, NULL},
    {"topics", &amb_status_topics, NULL, gather_topics, NULL},
    {"subs", &amb_status_subs, NULL, gather_subs, subs_last_id},
    {"queues", &amb_status_queues, NULL, gather_queues, queues_last_id},
    {"clients", &amb_status_sessions, NULL, gather_clients, clients_last_id},
    {"workers", NULL, amb_status_shard_worker, gather_workers, NULL},
    {"memory", NULL, amb_status_shard_memory, gather_memory, NULL},
    {"transports", &amb_status_sessions, NULL, gather_transports, clients_last_id},
    {"paths", &amb_status_session_paths, NULL, gather_paths, clients_last_id},
    {"doctor", NULL, NULL, gather_doctor, NULL},
    {"topo", NULL, NULL, gather_topo, NULL},
};

const struct amb_status_view *amb_status_view_find(const char *name)
{
    for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
        if (strcmp(name, views[i].name) == 0) {
            return &views[i];
        }
    }
    return NULL;
}
