/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/views.h"

#include "broker/control/clients/client.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/client_listed.h"
#include "broker/control/clients/control.h"
#include "broker/control/directory/queues.h"
#include "broker/control/status/pieces.h"
#include "broker/observe/objects.h"
#include "broker/observe/observer.h"
#include "broker/shard/shard.h"
#include "wire/base/clock.h"
#include "wire/counters/query.h"
#include "wire/counters/units.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that may wait for a client while the next page is made. */
#define VIEWS_OUT_MAX (UINT64_C(256) << 10)

struct view_ask {
    struct amb_objects_ask ask;
    struct view_query *query;
};

struct view_query {
    struct amb_list_node node; /* of control->views, while it waits for its client */
    struct amb_client *client;
    uint64_t id;
    unsigned unanswered; /* asks */
    struct amb_observer_job job;
    struct view_ask asks[]; /* one for each worker */
};

static void query_end(struct view_query *query)
{
    struct amb_client *client = query->client;
    amb_list_remove(&query->node);
    amb_counters_view_close(&query->job.view);
    free(query->job.text);
    free(query);
    amb_client_end_work(client);
}

static void query_fail(struct view_query *query)
{
    bool is_wrong = query->job.status != AMB_ENOMEM;
    amb_client_send_error(query->client, query->id, query->job.status, "%s%s",
                          is_wrong ? "admin: " : "no memory for the answer",
                          is_wrong ? query->job.why : "");
    query_end(query);
}

static bool has_gone(const struct view_query *query)
{
    return query->client->state != AMB_CLIENT_LIVE || query->client->control->is_over;
}

/* A page has come. */
static void page_made(struct amb_mail *mail, void *owner)
{
    struct amb_control *control = owner;
    struct view_query *query = AMB_CONTAINER_OF(mail, struct view_query, job.mail);
    struct amb_observer_job *job = &query->job;
    if (has_gone(query)) {
        query_end(query);
        return;
    }
    if (job->status != AMB_OK) {
        query_fail(query);
        return;
    }
    amb_pieces_send(query->client, query->id, job->text, job->is_last);
    free(job->text);
    job->text = NULL;
    if (job->is_last) {
        query_end(query);
    } else {
        amb_list_push_back(&control->views, &query->node);
    }
}

static void query_go_on(struct view_query *query)
{
    struct amb_control *control = query->client->control;
    query->job.to = &control->inbox;
    query->job.done = page_made;
    amb_observer_page(control->observer, &query->job);
}

void amb_views_run(struct amb_control *control)
{
    AMB_LIST_FOR_EACH_SAFE (node, &control->views) {
        struct view_query *query = AMB_CONTAINER_OF(node, struct view_query, node);
        if (has_gone(query)) {
            query_end(query);
        } else if (query->client->out_bytes <= VIEWS_OUT_MAX) {
            amb_list_remove(&query->node);
            query_go_on(query);
        }
    }
}

/* The slots of one worker are as its objects. */
static void objects_asked(struct amb_mail *mail, void *owner)
{
    struct view_ask *ask = AMB_CONTAINER_OF(mail, struct view_ask, ask.mail);
    struct view_query *query = ask->query;
    (void)owner;
    if (--query->unanswered > 0) {
        return;
    }
    if (has_gone(query)) {
        query_end(query);
    } else {
        query_go_on(query);
    }
}

static void ask_workers(struct view_query *query, enum amb_counters_scope scope)
{
    struct amb_control *control = query->client->control;
    query->unanswered = control->shard_count;
    for (unsigned i = 0; i < control->shard_count; i++) {
        query->asks[i] = (struct view_ask){
            .query = query, .ask = {.scope = scope, .to = &control->inbox, .done = objects_asked}};
        amb_objects_ask(control->shards[i], &query->asks[i].ask);
    }
}

/* The objects of that tenant that have no slot: there is no counter for each tenant. */
static uint64_t unlisted_of(const struct amb_control *control, enum amb_counters_scope scope,
                            uint32_t tenant)
{
    const struct amb_directory *directory = &control->directory;
    uint64_t count = 0;
    if (scope == AMB_COUNTERS_TOPIC && amb_stat_get(&control->stats->unlisted_topics) > 0) {
        AMB_LIST_FOR_EACH (node, &directory->topics) {
            const struct amb_dir_topic *topic = AMB_CONTAINER_OF(node, struct amb_dir_topic, node);
            count += topic->tenant == tenant && topic->listed.is_unlisted;
        }
    } else if (scope == AMB_COUNTERS_SUBSCRIPTION &&
               amb_stat_get(&control->stats->unlisted_subscriptions) > 0) {
        AMB_LIST_FOR_EACH (node, &directory->subs) {
            const struct amb_dir_sub *sub = AMB_CONTAINER_OF(node, struct amb_dir_sub, node);
            count += sub->tenant == tenant && sub->listed.is_unlisted;
        }
    } else if (scope == AMB_COUNTERS_QUEUE && amb_stat_get(&control->stats->unlisted_queues) > 0) {
        AMB_LIST_FOR_EACH (node, &directory->queues) {
            const struct amb_dir_queue *queue = AMB_CONTAINER_OF(node, struct amb_dir_queue, node);
            count += queue->sub.tenant == tenant && queue->listed.is_unlisted;
        }
    } else if (scope == AMB_COUNTERS_CLIENT) {
        AMB_LIST_FOR_EACH (node, &control->clients) {
            const struct amb_client *c = AMB_CONTAINER_OF(node, struct amb_client, node);
            count += amb_client_tenant(c) == tenant && c->listed.is_unlisted;
        }
    }
    return count;
}

/* `status` of a tenant: the part of the broker that is its own. */
static json_t *status_of_tenant(const struct amb_control *control, uint32_t tenant)
{
    const struct amb_directory *directory = &control->directory;
    uint64_t clients = 0, topics = 0, subs = 0;
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *c = AMB_CONTAINER_OF(node, struct amb_client, node);
        clients += c->has_session && amb_client_tenant(c) == tenant;
    }
    AMB_LIST_FOR_EACH (node, &directory->topics) {
        topics += AMB_CONTAINER_OF(node, struct amb_dir_topic, node)->tenant == tenant;
    }
    AMB_LIST_FOR_EACH (node, &directory->subs) {
        subs += AMB_CONTAINER_OF(node, struct amb_dir_sub, node)->tenant == tenant;
    }
    uint64_t up_ns = (uint64_t)(control->now_ns - control->started_ns);
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:{s:s}}", "name",
                     control->config->server.name, "version", AMB_BROKER_VERSION, "tenant",
                     amb_tenants_name(&control->tenants, tenant), "uptime_s",
                     (json_int_t)(up_ns / (uint64_t)AMB_NS_PER_SEC), "clients", (json_int_t)clients,
                     "topics", (json_int_t)topics, "subscriptions", (json_int_t)subs,
                     AMB_COUNTERS_UNITS, "uptime_s", "s");
}

static void send_status(struct amb_client *client, uint64_t id, uint32_t tenant)
{
    json_t *json = status_of_tenant(client->control, tenant);
    char *text = json == NULL ? NULL : json_dumps(json, JSON_COMPACT);
    json_decref(json);
    if (text == NULL) {
        amb_client_send_error(client, id, AMB_ENOMEM, "no memory for the answer");
    } else {
        amb_pieces_send(client, id, text, true);
    }
    free(text);
}

bool amb_views_are_of_tenants(const char *query)
{
    return strcmp(query, "status") == 0 || amb_counters_source_find(query)->tenant != NULL;
}

void amb_views_request(struct amb_client *client, uint64_t id, const char *text, uint32_t tenant)
{
    struct amb_control *control = client->control;
    if (tenant != AMB_TENANT_ANY && strcmp(text, "status") == 0) {
        send_status(client, id, tenant);
        return;
    }
    struct view_query *query =
        calloc(1, sizeof(*query) + control->shard_count * sizeof(query->asks[0]));
    if (query == NULL || control->observer == NULL) {
        free(query);
        amb_client_send_error(client, id, AMB_ENOMEM, "no memory, or no thread, for the answer");
        return;
    }
    if (strlen(text) >= sizeof(query->job.query)) {
        free(query);
        amb_client_send_error(client, id, AMB_EINVAL, "admin: the query is too long");
        return;
    }
    amb_list_init(&query->node);
    query->client = client;
    query->id = id;
    (void)snprintf(query->job.query, sizeof(query->job.query), "%s", text);
    amb_client_begin_work(client);
    enum amb_counters_scope scope = amb_counters_query_scope(text);
    if (scope == AMB_COUNTERS_CLIENT) {
        AMB_LIST_FOR_EACH (node, &control->clients) {
            amb_client_list(AMB_CONTAINER_OF(node, struct amb_client, node));
        }
    }
    query->job.is_shared = tenant != AMB_TENANT_ANY;
    if (query->job.is_shared) {
        query->job.share = (struct amb_counters_share){
            .tenant = tenant, .unlisted = unlisted_of(control, scope, tenant)};
    }
    if (scope == 0 || scope == AMB_COUNTERS_WORKER || scope >= AMB_COUNTERS_CLOSED) {
        query_go_on(query);
    } else {
        ask_workers(query, scope);
    }
}
