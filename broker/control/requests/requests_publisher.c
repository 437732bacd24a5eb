/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/requests/requests_publisher.h"

#include "broker/base/party.h"
#include "broker/base/user.h"
#include "broker/config/config.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/client_share.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/quotas.h"
#include "broker/control/directory/directory_counts.h"
#include "broker/control/directory/directory_leave.h"
#include "broker/control/requests/demand.h"
#include "broker/control/requests/naming.h"
#include "broker/control/requests/permit.h"
#include "broker/control/requests/requests_private.h"
#include "broker/shard/gpuslot.h"
#include "broker/worker/orders_session.h"
#include "wire/base/assert.h"
#include "wire/codec/expect.h"

#include <stdlib.h>
#include <string.h>

/* Idle topics that leave for one that comes. A limit that shrinks may leave thousands too many. */
#define LEAVES_MAX 16u
#define PUBLISHER_HEAP (sizeof(struct amb_dir_publisher) + (uint64_t)AMB_HEAP_OVERHEAD)

static void publisher_forget(struct amb_client *client, uint32_t handle)
{
    struct amb_dir_publisher *publisher = amb_client_publisher(client, handle);
    if (publisher != NULL) {
        amb_directory_unpublish(&client->control->directory, publisher);
        amb_identity_give(&client->control->identities, publisher->identity,
                          client->control->now_ns);
        free(publisher);
        amb_heap_give(&client->heap, PUBLISHER_HEAP);
        client->publishers.at[handle] = NULL;
        client->publisher_count--;
        amb_account_sub(amb_client_account(client), AMB_QUOTA_PUBLISHERS, 1);
    }
}

/* It was to be closed while its opening was under way. That may have waited for a fence, which an
 * order to close would have overtaken. */
static void publisher_close_next(struct amb_request *opening, bool is_open)
{
    struct amb_client *client = opening->client;
    struct amb_order *close = opening->close;
    if (close == NULL) {
        return;
    }
    if (is_open) {
        amb_order_post(client->control->shards[client->session.shard], close);
        return;
    }
    struct amb_request *request = close->context;
    if (client->state == AMB_CLIENT_LIVE) {
        amb_client_send_ok(client, request->id); /* Its handle is free. */
    }
    amb_order_free(close);
    amb_request_free(request);
}

static void publisher_opened(void *control, struct amb_order *order)
{
    const struct amb_order_publisher_open *open =
        AMB_CONTAINER_OF(order, struct amb_order_publisher_open, order);
    (void)control;
    struct amb_request *request = order->context;
    struct amb_client *client = request->client;
    struct amb_dir_publisher *publisher = amb_client_publisher(client, request->handle);
    if (publisher != NULL) { /* Else its client has ended. */
        amb_assert(publisher->opening == request);
        publisher->opening = NULL;
    }
    if (client->state == AMB_CLIENT_LIVE) {
        if (order->status != AMB_OK) {
            publisher_forget(client, request->handle);
            if (order->status == AMB_ELIMIT) {
                amb_request_no_heap(client, request->id);
            } else {
                amb_client_send_error(client, request->id, order->status, "publisher: %s",
                                      amb_status_text(order->status));
            }
        } else {
            Amb__Control__PubOpened opened = AMB__CONTROL__PUB_OPENED__INIT;
            opened.topic = request->topic;
            opened.window = open->window;
            opened.subscribers = request->subscribers;
            opened.last_seq = open->last_seq;
            opened.gpu = request->gpu_why == NULL;
            opened.gpu_why = (char *)(uintptr_t)(request->gpu_why != NULL ? request->gpu_why : "");
            opened.gpu_reject = request->gpu_reject;
            opened.group = request->group;
            Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
            message.id = request->id;
            message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPENED;
            message.pub_opened = &opened;
            amb_client_send(client, &message, NULL, 0);
        }
    }
    publisher_close_next(request, client->state == AMB_CLIENT_LIVE && order->status == AMB_OK);
    amb_order_free(order);
    amb_request_free(request);
}

static void publisher_fill(struct amb_client *client, const Amb__Control__PubOpen *open,
                           const struct amb_dir_publisher *publisher,
                           struct amb_order_publisher_open *ask)
{
    const struct amb_dir_topic *topic = publisher->topic;
    ask->handle = open->handle;
    ask->topic = topic->id;
    ask->home = topic->home;
    ask->wants_settled = open->settled != 0;
    ask->confirms = open->confirm == AMB_CONFIRM_DELIVERED;
    ask->last_seq = open->first_seq != 0 ? open->first_seq - 1 : 0;
    const struct amb_config *config = client->control->config;
    const struct amb_topic_rule *rule = amb_config_topic(config, open->topic);
    /* Slots are mapped by the readers of all that their publisher has; a reply has one reader. */
    bool is_inbox = amb_topic_is_inbox(open->topic, strlen(open->topic));
    ask->verifies = rule->trust == AMB_TRUST_VERIFY || is_inbox ||
                    (publisher->is_auto && publisher->user == AMB_USER_NOBODY);
    ask->copies = amb_directory_copies(publisher);
    ask->lease_user = publisher->is_auto ? publisher->user : AMB_USER_ANY;
    ask->avoids_gpu = !amb_gpuslot_suits(config, rule) || is_inbox;
    ask->is_private = open->is_private != 0 || is_inbox;
    ask->group = topic->group;
}

/* Takes the identity. */
static void publisher_begin(struct amb_client *client, uint64_t id,
                            const Amb__Control__PubOpen *open, struct amb_dir_topic *topic,
                            struct amb_identity *identity)
{
    struct amb_control *control = client->control;
    struct amb_dir_publisher *publisher = calloc(1, sizeof(*publisher));
    struct amb_order *fence = identity == NULL ? NULL : amb_naming_fence();
    struct amb_order_publisher_open *ask = NULL;
    if (publisher != NULL && (identity == NULL || fence != NULL) &&
        amb_request_table_ready(client, &client->publishers, open->handle) &&
        amb_heap_charge(&client->heap, PUBLISHER_HEAP)) {
        ask = amb_request_order(client, id, open->handle, true, &amb_order_publisher_open,
                                publisher_opened);
        if (ask == NULL) {
            amb_heap_give(&client->heap, PUBLISHER_HEAP);
        }
    }
    if (ask == NULL) {
        free(publisher);
        amb_order_free(fence);
        amb_directory_unused(&control->directory, topic);
        amb_identity_give(&control->identities, identity, control->now_ns);
        amb_request_no_memory(client, id);
        return;
    }
    struct amb_request *request = ask->order.context;
    request->topic = topic->id;
    /* By the configuration, also where the broker has no such group: slots that are leased for it
     * are nobody's to map then. In the default group others would map them. */
    request->group = amb_config_topic(control->config, open->topic)->group;
    amb_list_init(&publisher->of_topic);
    publisher->session = client->session;
    publisher->handle = open->handle;
    publisher->opening = request;
    publisher->identity = identity;
    publisher->user = client->user;
    publisher->party = client->party;
    publisher->is_auto = amb_config_topic(control->config, open->topic)->trust == AMB_TRUST_AUTO;
    client->publishers.at[open->handle] = publisher;
    client->publisher_count++;
    amb_account_add(amb_client_account(client), AMB_QUOTA_PUBLISHERS, 1);
    amb_directory_publish(publisher, topic);
    ask->identity = identity;
    publisher_fill(client, open, publisher, ask);
    /* A reader that comes between this order and its answer is not known to the worker yet. A
     * publisher that waits for it hears of it by a flow value, behind which nothing can be lost. */
    request->subscribers = ask->subscribers = amb_directory_matched(topic);
    request->gpu_why = ask->verifies
                           ? "trust = \"verify\", or an inbox: the broker copies what is published"
                           : amb_client_gpu_obstacle(client);
    const struct amb_topic_rule *rule = amb_config_topic(control->config, open->topic);
    request->gpu_reject = rule->gpu == AMB_TOPIC_GPU_REJECT || rule->expect == AMB_EXPECT_NVLINK;
    amb_naming_post(control, ask, fence);
}

/* One of a priority has another one beside it. */
static uint64_t topics_to_make(const struct amb_client *client, const Amb__Control__PubOpen *open)
{
    bool is_alone = open->priority == AMB_PRIORITY_NORMAL ||
                    amb_directory_has(&client->control->directory, amb_client_tenant(client),
                                      open->topic, strlen(open->topic), AMB_PRIORITY_NORMAL);
    return is_alone ? 1 : 2;
}

/* Its user leaves some topics for others. Its own idle ones leave first. */
static bool user_make_room(struct amb_client *client, uint64_t id,
                           const Amb__Control__PubOpen *open)
{
    struct amb_directory *directory = &client->control->directory;
    const struct amb_config_limits *limits = &client->control->config->limits;
    const struct amb_user *user = client->party == NULL ? NULL : client->party->user;
    if (user == NULL || user->is_free ||
        amb_directory_has(directory, amb_client_tenant(client), open->topic, strlen(open->topic),
                          (enum amb_priority)open->priority)) {
        return true;
    }
    if (!amb_user_has_room(user, AMB_SHARE_TOPICS, 0, limits->max_topics, directory->topic_count,
                           limits->user_share) &&
        !amb_directory_leave_oldest_of(directory, user)) {
        amb_client_send_error(client, id, AMB_ELIMIT,
                              "limit: one user's share of %u topics (limits.user_share)",
                              limits->max_topics);
        return false;
    }
    struct amb_account *account = amb_client_account(client);
    for (unsigned i = 0;
         i < LEAVES_MAX &&
         amb_account_full(account, AMB_QUOTA_TOPICS, topics_to_make(client, open)) != NULL &&
         amb_directory_leave_oldest_of(directory, user);
         i++) {
    }
    return amb_permit_quota(client, id, AMB_QUOTA_TOPICS, topics_to_make(client, open));
}

void amb_request_pub_open(struct amb_client *client, uint64_t id, const Amb__Control__PubOpen *open)
{
    if (!amb_naming_check(client, id, open) || !amb_demand_publish(client, id, open->topic) ||
        !user_make_room(client, id, open)) {
        return;
    }
    struct amb_control *control = client->control;
    struct amb_identity *identity; /* First: a topic that nobody will use is not made for it. */
    if (!amb_naming_take(client, id, open, &identity)) {
        return;
    }
    struct amb_dir_topic *topic;
    enum amb_status status =
        amb_directory_topic(&control->directory, amb_client_tenant(client), open->topic,
                            strlen(open->topic), client->session.shard, client->party, &topic);
    if (status == AMB_OK) {
        status = amb_directory_priority(&control->directory, topic,
                                        (enum amb_priority)open->priority, client->party, &topic);
    }
    if (status == AMB_OK) {
        publisher_begin(client, id, open, topic, identity);
        return;
    }
    amb_identity_give(&control->identities, identity, control->now_ns);
    if (status == AMB_ELIMIT) {
        amb_client_send_error(client, id, status, "limit: %u topics (limits.max_topics)",
                              control->config->limits.max_topics);
    } else {
        amb_client_send_error(client, id, status, "topic: %s", amb_status_text(status));
    }
}

/* The worker has closed it: the handle is free. */
static void publisher_closed(void *control, struct amb_order *order)
{
    (void)control;
    struct amb_request *request = order->context;
    if (request->client->state == AMB_CLIENT_LIVE) {
        publisher_forget(request->client, request->handle);
        amb_client_send_ok(request->client, request->id);
    }
    amb_order_free(order);
    amb_request_free(request);
}

void amb_request_pub_close(struct amb_client *client, uint64_t id,
                           const Amb__Control__PubClose *close)
{
    struct amb_dir_publisher *publisher = amb_client_publisher(client, close->handle);
    if (publisher == NULL || publisher->is_closing) {
        amb_client_send_error(client, id, AMB_ENOTFOUND, "publisher: no such handle is open");
        return;
    }
    /* Answered when its last batch is here: no work of ours. */
    struct amb_order_publisher_close *ask = amb_request_order(
        client, id, close->handle, false, &amb_order_publisher_close, publisher_closed);
    if (ask == NULL) {
        amb_request_no_memory(client, id);
        return;
    }
    publisher->is_closing = true;
    ask->handle = close->handle;
    ask->batches = close->batches;
    if (publisher->opening != NULL) {
        publisher->opening->close = &ask->order;
        return;
    }
    amb_order_post(client->control->shards[client->session.shard], &ask->order);
}
