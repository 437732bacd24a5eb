/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/views.h"

#include "broker/control/clients/client.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/client_listed.h"
#include "broker/control/clients/control.h"
#include "broker/control/status/pieces.h"
#include "broker/observe/objects.h"
#include "broker/observe/observer.h"
#include "broker/shard/shard.h"
#include "wire/counters/query.h"

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
    bool is_wrong = query->job.status == AMB_EINVAL;
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

void amb_views_request(struct amb_client *client, uint64_t id, const char *text)
{
    struct amb_control *control = client->control;
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
    if (scope == 0 || scope == AMB_COUNTERS_WORKER) {
        query_go_on(query);
    } else {
        ask_workers(query, scope);
    }
}
