/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/status_rows.h"

#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/client_listed.h"
#include "broker/control/clients/control.h"
#include "broker/control/status/left.h"
#include "broker/control/status/paths.h"
#include "broker/control/status/status.h"
#include "broker/control/status/status_doctor.h"
#include "broker/control/status/status_gpu.h"
#include "broker/control/status/status_net.h"
#include "broker/control/status/status_private.h"
#include "broker/control/status/status_quotas.h"
#include "broker/control/status/status_worker.h"
#include "broker/control/status/why.h"
#include "broker/shard/shard.h"
#include "broker/tls/handshaker.h"
#include "wire/link/link.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

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

/* The row of each worker. One that had no memory for its row is missing, and counted. */
static json_t *gather(struct amb_status_query *query, unsigned shard_count)
{
    json_t *rows = json_array();
    for (unsigned i = 0; i < shard_count; i++) {
        json_t *part = json_object_get(query->shards[i], "worker");
        if (part == NULL || json_array_append(rows, part) != 0) {
            query->omitted++;
        }
    }
    return rows;
}

static bool asks_for_client(const struct amb_status_query *query, const struct amb_client *client)
{
    return client->has_session && amb_tenant_is_asked(query->tenant, amb_client_tenant(client));
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

static json_t *gather_transports(struct amb_status_query *query, struct amb_control *control)
{
    json_t *rows = json_array();
    const char *left_out = amb_status_gpu_left_out(control);
    json_t *own = query->tenant == AMB_TENANT_ANY ? amb_status_net_broker(control) : NULL;
    if (own != NULL) {
        (void)json_array_append_new(rows, own);
    }
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *c = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (!asks_for_client(query, c) || !query_may(query, rows, c->id)) {
            continue;
        }
        const json_t *session = find_by_id(query, c->session.shard, "sessions", c->id);
        const char *lanes =
            session == NULL ? "none" : json_string_value(json_object_get(session, "lanes"));
        json_t *row = json_pack("{s:I, s:s, s:s, s:s, s:s}", "id", amb_status_num(c->id), "name",
                                c->name, "state", amb_client_state_name(c), "link",
                                amb_link_kind_name(c->link), "lanes", lanes);
        add_why(row, c, lanes, left_out);
        amb_status_net_client(c, row);
        amb_status_gpu_client(c, row);
        (void)json_array_append_new(rows, row);
    }
    return rows;
}

/* query->pattern: of clients of that name alone; "": of all. */
static json_t *gather_paths(struct amb_status_query *query, struct amb_control *control)
{
    json_t *rows = json_array();
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *c = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (asks_for_client(query, c) &&
            (query->pattern_len == 0 || strcmp(query->pattern, c->name) == 0) &&
            query_may(query, rows, c->id)) {
            amb_paths_add(rows, c, find_by_id(query, c->session.shard, "sessions", c->id));
        }
    }
    return rows;
}

static json_t *gather_left(struct amb_status_query *query, struct amb_control *control)
{
    json_t *rows = json_array();
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *c = AMB_CONTAINER_OF(node, struct amb_client, node);
        const json_t *part = asks_for_client(query, c)
                                 ? find_by_id(query, c->session.shard, "sessions", c->id)
                                 : NULL;
        if (part != NULL && query_may(query, rows, c->id)) {
            amb_left_add(rows, c, part);
        }
    }
    return rows;
}

/* The rows of a worker's trust groups, with the names of their tenants. */
static void add_groups(json_t *rows, const json_t *groups, struct amb_control *control)
{
    for (size_t i = 0; i < json_array_size(groups); i++) {
        json_t *row = json_array_get(groups, i);
        json_int_t tenant = json_integer_value(json_object_get(row, "tenant"));
        (void)json_object_set_new(
            row, "tenant",
            json_string(amb_client_tenant_text(&control->directory, (uint32_t)tenant)));
        (void)json_array_append(rows, row);
    }
}

static json_t *gather_memory(struct amb_status_query *query, struct amb_control *control)
{
    json_t *rows = gather(query, control->shard_count);
    /* Where all share everything the rows above say it. */
    bool has_groups = control->config->trust_groups.count > 1 || control->users != NULL;
    for (unsigned i = 0; i < control->shard_count; i++) {
        json_t *row = json_array_get(rows, i);
        if (has_groups) {
            add_groups(rows, json_object_get(row, "groups"), control);
        }
        (void)json_object_del(row, "groups");
    }
    amb_status_gpu_memory(control, rows);
    return rows;
}

static json_t *gather_doctor(struct amb_status_query *query, struct amb_control *control)
{
    return amb_status_doctor(control, query->files, query->proc);
}

static json_t *gather_topo(struct amb_status_query *query, struct amb_control *control)
{
    (void)query;
    return amb_status_topo(control);
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

static uint64_t clients_last_id(const struct amb_control *control, uint32_t tenant)
{
    struct eldest eldest = {0};
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *c = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (c->has_session && amb_tenant_is_asked(tenant, amb_client_tenant(c)) &&
            !eldest_add(&eldest, c->id)) {
            return eldest.last_id;
        }
    }
    return UINT64_MAX;
}

static const struct amb_status_view views[] = {
    {"memory", NULL, amb_status_shard_memory, gather_memory, NULL, false, false},
    {"transports", &amb_status_sessions, NULL, gather_transports, clients_last_id, false, true},
    {"paths", &amb_status_session_paths, NULL, gather_paths, clients_last_id, false, true},
    {"left", &amb_status_session_left, NULL, gather_left, clients_last_id, false, true},
    {"quotas", NULL, NULL, amb_status_gather_quotas, NULL, false, true},
    {"doctor", NULL, NULL, gather_doctor, NULL, true, false},
    {"topo", NULL, NULL, gather_topo, NULL, false, false},
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
