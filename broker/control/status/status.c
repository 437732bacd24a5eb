/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/status.h"

#include "broker/control/clients/client.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/record.h"
#include "broker/control/directory/queues.h"
#include "broker/control/status/pieces.h"
#include "broker/control/status/rights_answer.h"
#include "broker/control/status/status_answer.h"
#include "broker/control/status/status_doctor.h"
#include "broker/control/status/status_private.h"
#include "broker/control/status/status_rows.h"
#include "broker/control/status/status_worker.h"
#include "broker/control/status/views.h"
#include "broker/doctor/doctor_files.h"
#include "broker/shard/shard.h"
#include "wire/counters/query.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint32_t amb_status_tenant(const struct amb_client *client)
{
    const struct amb_rights *rights = client->rights;
    uint32_t own = amb_client_tenant(client);
    return rights == NULL || rights->admin == AMB_ADMIN_ADMIN || own == AMB_TENANT_OPERATORS
               ? AMB_TENANT_ANY
               : own;
}

/* The owner of a name: user is "" (any, which is NULL), or a text. False: there is no such user, or
 * no such name. */
static bool take_owner(const struct amb_control *control, const char *name, const char *user,
                       uint32_t *room, const uint32_t **out)
{
    *out = user[0] == '\0' ? NULL : room;
    return strlen(name) <= AMB_QUEUE_NAME_MAX &&
           (user[0] == '\0' || amb_login_owner_parse(control, user, room));
}

void amb_status_reply(struct amb_client *client, uint64_t id, json_t *json)
{
    char *text = json == NULL ? NULL : json_dumps(json, JSON_COMPACT);
    json_decref(json);
    if (text == NULL) {
        amb_client_send_error(client, id, AMB_ENOMEM, "no memory for the answer");
        return;
    }
    amb_pieces_send(client, id, text, true);
    free(text);
}

static const char *durable_obstacle(enum amb_status status)
{
    return status == AMB_EBUSY    ? "it is in use"
           : status == AMB_EINVAL ? "several users have it: NAME USER"
                                  : "there is none of that name";
}

enum amb_status amb_status_remove_durable(struct amb_client *client, const char *name,
                                          const char *user, const char **why)
{
    struct amb_control *control = client->control;
    const uint32_t *owner;
    uint32_t number;
    enum amb_status status = AMB_ENOTFOUND;
    if (take_owner(control, name, user, &number, &owner)) {
        status =
            amb_queues_remove_durable(&control->directory, name, owner, amb_status_tenant(client));
    }
    *why = durable_obstacle(status);
    return status;
}

enum amb_status amb_status_recall(struct amb_client *client, const char *name, const char *user,
                                  amb_order_done_fn done, void *context, unsigned *posted,
                                  const char **why)
{
    struct amb_control *control = client->control;
    const uint32_t *owner;
    uint32_t number;
    enum amb_status status = AMB_ENOTFOUND;
    *posted = 0;
    if (take_owner(control, name, user, &number, &owner)) {
        status = amb_queues_recall(&control->directory, name, owner, amb_status_tenant(client),
                                   done, context, posted);
    }
    *why = durable_obstacle(status);
    return status;
}

static void test_rights(struct amb_client *client, uint64_t id, const char *words)
{
    json_t *rows;
    const char *why;
    enum amb_status status =
        amb_rights_answer(client->control, amb_status_tenant(client), words, &rows, &why);
    if (status != AMB_OK) {
        amb_client_send_error(client, id, status, "user test: %s", why);
    } else {
        amb_status_reply(client, id, rows);
    }
}

static void query_finish(struct amb_status_query *query, struct amb_control *control)
{
    struct amb_client *client = query->client;
    if (client == NULL && !control->is_over) {
        query->ask->text = amb_status_answer_text(query, control);
        amb_mail_post(query->ask->to, &query->ask->mail, query->ask->done);
    } else if (client != NULL && client->state == AMB_CLIENT_LIVE && !control->is_over) {
        amb_status_answer(query, control);
    }
    for (unsigned i = 0; i < control->shard_count; i++) {
        json_decref(query->shards[i]);
    }
    json_decref(query->files);
    free(query->proc);
    free(query->shards);
    free(query);
    if (client != NULL) {
        amb_client_end_work(client);
    }
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
    struct amb_status_query *query = order->context;
    struct amb_status_order *part = AMB_CONTAINER_OF(order, struct amb_status_order, order);
    query_add(&query->shards[order->shard->index], part->json);
    part->json = NULL;
    const struct amb_control *control = owner;
    bool is_wanted =
        query->client == NULL ? !control->is_over : query->client->state == AMB_CLIENT_LIVE;
    if (!part->is_done && is_wanted) {
        amb_order_post(order->shard, order);
        return;
    }
    amb_order_free(order);
    if (--query->unanswered == 0) {
        query_finish(query, owner);
    }
}

/* ---- files ---- */

static void query_forget_look(struct amb_status_query *query, struct amb_control *control)
{
    amb_list_remove(&query->of_looks);
    query->look = NULL;
    if (--query->unanswered == 0) {
        query_finish(query, control);
    }
}

static void files_seen(struct amb_mail *mail, void *owner)
{
    json_t *rows;
    struct amb_doctor_proc proc;
    struct amb_status_query *query = amb_doctor_look_take(mail, &rows, &proc);
    query->files = rows;
    query->proc = malloc(sizeof(proc));
    if (query->proc != NULL) {
        *query->proc = proc;
    }
    query_forget_look(query, owner);
}

static void query_look(struct amb_status_query *query, struct amb_control *control)
{
    query->look = amb_status_doctor_look(control, files_seen, query);
    if (query->look != NULL) {
        query->unanswered++;
        query->look_until_ns = control->now_ns + AMB_DOCTOR_FILES_NS;
        amb_list_push_back(&control->looks, &query->of_looks);
    }
}

static void leave_looks(struct amb_control *control, bool is_end)
{
    AMB_LIST_FOR_EACH_SAFE (node, &control->looks) {
        struct amb_status_query *query = AMB_CONTAINER_OF(node, struct amb_status_query, of_looks);
        if ((is_end || control->now_ns >= query->look_until_ns) &&
            amb_doctor_look_leave(query->look)) {
            query_forget_look(query, control);
        }
    }
}

void amb_status_run(struct amb_control *control)
{
    leave_looks(control, false);
}

void amb_status_end(struct amb_control *control)
{
    leave_looks(control, true);
}

/* ---- questions ---- */

/* Questions are for the broker's own user and root, on a Unix socket, and for users with a role
 * that has the level. */
const char *amb_status_obstacle(const struct amb_client *client, enum amb_admin level)
{
    const struct amb_rights *rights = client->rights;
    if (rights == NULL) {
        return client->is_unix && (client->uid == 0 || client->uid == geteuid())
                   ? NULL
                   : "only the broker's own user or root, on a unix:// URL";
    }
    if (!client->is_unix && client->tls == NULL) {
        return "only on a unix:// or a tls:// URL";
    }
    if (rights->admin < level) {
        return level == AMB_ADMIN_READ      ? "no role of this user has admin = \"read\""
               : level == AMB_ADMIN_OPERATE ? "no role of this user has admin = \"operate\""
                                            : "no role of this user has admin = \"admin\"";
    }
    return NULL;
}

/* The rest of the query behind that word; NULL: it does not begin so. */
static const char *behind(const char *query, const char *word)
{
    size_t len = strlen(word);
    return strncmp(query, word, len) == 0 ? query + len : NULL;
}

/* It shows more than the client's tenant. */
static void refuse_whole(struct amb_client *client, uint64_t id, const char *query,
                         const char *name)
{
    static const char why[] = "only users of the tenant \"$\", or with admin = \"admin\"";
    amb_stat_add(&client->control->stats->forbidden, 1);
    amb_record_refused(client, query, why);
    amb_client_send_error(client, id, AMB_EFORBIDDEN, "admin: %s is of the whole broker: %s", name,
                          why);
}

/* The view that is asked for, and the name of which it is to be: "paths NAME", "quotas USER"; "":
 * of all. NULL: there is none, and *why says so. */
static const struct amb_status_view *view_of(const char *query, const char **name, const char **why)
{
    static const struct {
        const char *words, *view, *why;
        size_t max;
    } named[] = {{"paths ", "paths", "no client has a name so long", AMB_CLIENT_NAME_MAX},
                 {"quotas ", "quotas", "no user has a name so long", AMB_USER_NAME_MAX}};
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        *name = behind(query, named[i].words);
        if (*name != NULL) {
            *why = named[i].why;
            return strlen(*name) > named[i].max ? NULL : amb_status_view_find(named[i].view);
        }
    }
    *name = "";
    *why = "admin: no such query";
    return amb_status_view_find(query);
}

/* NULL: no memory. */
static struct amb_status_query *query_new(const struct amb_control *control,
                                          const struct amb_status_view *view, const char *pattern,
                                          uint32_t tenant)
{
    struct amb_status_query *query = calloc(1, sizeof(*query));
    json_t **shards = calloc(control->shard_count, sizeof(json_t *));
    if (query == NULL || shards == NULL) {
        free(query);
        free(shards);
        return NULL;
    }
    *query = (struct amb_status_query){.view = view, .shards = shards, .tenant = tenant};
    amb_list_init(&query->of_looks);
    query->last_id = view->last_id == NULL ? UINT64_MAX : view->last_id(control, tenant);
    query->pattern_len = strlen(pattern);
    memcpy(query->pattern, pattern, query->pattern_len + 1);
    return query;
}

static void query_begin(struct amb_status_query *query, struct amb_control *control)
{
    if (query->view->has_files) {
        query_look(query, control);
    }
    for (unsigned i = 0; i < control->shard_count; i++) {
        struct amb_status_order *order =
            amb_order_new(&amb_status_collect, status_collected, query);
        if (order != NULL) {
            query->unanswered++;
            order->row_budget = AMB_STATUS_ROWS_MAX;
            amb_order_post(control->shards[i], &order->order);
        }
    }
    if (query->unanswered == 0) {
        query_finish(query, control);
    }
}

void amb_status_request(struct amb_client *client, uint64_t id, const char *query)
{
    const char *tested = behind(query, "user test "), *pattern, *why;
    if (tested != NULL) {
        test_rights(client, id, tested);
        return;
    }
    uint32_t tenant = amb_status_tenant(client);
    bool is_page = strcmp(query, "page") == 0;
    if (is_page && tenant != AMB_TENANT_ANY) {
        refuse_whole(client, id, query, query);
        return;
    }
    if (is_page || amb_counters_query_is(query)) {
        if (tenant == AMB_TENANT_ANY || amb_views_are_of_tenants(query)) {
            amb_views_request(client, id, query, tenant);
        } else {
            refuse_whole(client, id, query, amb_counters_source_find(query)->name);
        }
        return;
    }
    const struct amb_status_view *view = view_of(query, &pattern, &why);
    if (view == NULL) {
        amb_client_send_error(client, id, AMB_EINVAL, "%s", why);
        return;
    }
    if (!view->is_of_tenants && tenant != AMB_TENANT_ANY) {
        refuse_whole(client, id, query, view->name);
        return;
    }
    struct amb_status_query *state = query_new(client->control, view, pattern, tenant);
    if (state == NULL) {
        amb_client_send_error(client, id, AMB_ENOMEM, "no memory");
        return;
    }
    state->client = client;
    state->id = id;
    amb_client_begin_work(client);
    query_begin(state, client->control);
}

static void ask_arrived(struct amb_mail *mail, void *owner)
{
    struct amb_status_ask *ask = AMB_CONTAINER_OF(mail, struct amb_status_ask, mail);
    const char *pattern, *why;
    struct amb_control *control = owner;
    if (control->is_over) {
        return; /* The asker may have ended already. */
    }
    const struct amb_status_view *view = view_of(ask->query, &pattern, &why);
    struct amb_status_query *state =
        view == NULL ? NULL : query_new(control, view, pattern, AMB_TENANT_ANY);
    if (state == NULL) {
        ask->text = NULL;
        amb_mail_post(ask->to, &ask->mail, ask->done);
        return;
    }
    state->ask = ask;
    query_begin(state, control);
}

void amb_status_ask(struct amb_control *control, struct amb_status_ask *ask)
{
    amb_mail_post(&control->inbox, &ask->mail, ask_arrived);
}
