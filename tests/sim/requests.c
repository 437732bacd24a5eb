/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of clients to the desk: publishers, subscriptions. */
#include "broker/base/tenant.h"
#include "broker/config/config.h"
#include "broker/control/directory/queues.h"
#include "broker/session/session.h"
#include "broker/topic/begin.h"
#include "broker/topic/reclaim.h"
#include "broker/worker/orders_lease.h"
#include "broker/worker/orders_session.h"
#include "broker/worker/orders_subscription.h"
#include "tests/sim/desk.h"
#include "wire/base/assert.h"
#include "wire/codec/position.h"

#include <stdlib.h>
#include <string.h>

#define POSITION_ROOM 1024u

/* A request whose answer waits for orders. */
struct request {
    struct sim *sim;
    struct visit *visit;
    struct sim_ask answer;
    uint64_t sub;
    unsigned waiting;
};

static struct request *request_create(struct sim *s, struct visit *visit, const struct sim_ask *ask)
{
    struct request *request = calloc(1, sizeof(*request));
    amb_assert(request != NULL);
    request->sim = s;
    request->visit = visit;
    request->answer = *ask;
    request->waiting = 1;
    visit->waiting++;
    return request;
}

/* One of its orders has come back. True: that was the last one. */
static bool request_step(struct request *request, struct amb_order *order)
{
    if (order->status != AMB_OK && request->answer.status == AMB_OK) {
        request->answer.status = order->status;
    }
    amb_order_free(order);
    return --request->waiting == 0;
}

static void request_end(struct request *request)
{
    if (request->visit->state == VISIT_LIVE) {
        desk_tell(request->sim, request->visit, &request->answer);
    }
    request->visit->waiting--;
    free(request);
}

/* Publishers ----------------------------------------------------------------------------------- */

void desk_forget_publisher(struct sim *s, struct visit *visit, uint32_t handle)
{
    struct amb_dir_publisher *publisher = visit->pubs[handle];
    if (publisher != NULL) {
        amb_directory_unpublish(&s->directory, publisher);
        amb_identity_give(&s->identities, publisher->identity, s->now_ns);
        free(publisher);
        visit->pubs[handle] = NULL;
    }
}

static void publisher_opened(void *owner, struct amb_order *order)
{
    const struct amb_order_publisher_open *open =
        AMB_CONTAINER_OF(order, struct amb_order_publisher_open, order);
    (void)owner;
    struct request *request = order->context;
    request->answer.number = open->window;
    request->answer.last_seq = open->last_seq;
    if (order->status != AMB_OK && request->visit->state == VISIT_LIVE) {
        desk_forget_publisher(request->sim, request->visit, request->answer.handle);
    }
    (void)request_step(request, order);
    request_end(request);
}

/* The worker that had the name has heard its publisher to its end. */
static void identity_known(void *owner, struct amb_order *fence)
{
    struct sim *s = owner;
    struct amb_order_publisher_open *open = fence->context;
    struct amb_identity *identity = open->identity;
    amb_order_free(fence);
    open->last_seq = identity->seq;
    identity->shard = open->order.session.shard;
    identity->was_taken = true;
    amb_order_post(s->peers[open->order.session.shard], &open->order);
}

static void pub_open(struct sim *s, struct visit *visit, const struct sim_ask *ask)
{
    const struct sim_publisher *wish = &s->clients[visit->slot].pubs[ask->handle];
    const char *name = s->names[wish->topic];
    struct amb_dir_topic *topic;
    struct sim_ask answer = *ask;
    struct amb_identity *identity = NULL;
    answer.status = amb_directory_topic(&s->directory, AMB_TENANT_OPERATORS, name, strlen(name),
                                        visit->session.shard, NULL, &topic);
    if (answer.status == AMB_OK) {
        answer.status = amb_directory_priority(&s->directory, topic, wish->priority, NULL, &topic);
    }
    if (answer.status == AMB_OK && wish->name != 0) {
        char id[2] = {(char)('a' + wish->name), '\0'};
        answer.status = amb_identity_take(&s->identities, 0, id, name, wish->priority, s->now_ns,
                                          s->config->limits.dedup_window_ns, &identity);
    }
    if (answer.status != AMB_OK) {
        desk_tell(s, visit, &answer);
        return;
    }
    struct amb_dir_publisher *publisher = calloc(1, sizeof(*publisher));
    amb_assert(publisher != NULL);
    amb_list_init(&publisher->of_topic);
    publisher->session = visit->session;
    publisher->handle = ask->handle;
    publisher->identity = identity;
    visit->pubs[ask->handle] = publisher;
    amb_directory_publish(publisher, topic);
    answer.topic = topic->id;
    struct request *request = request_create(s, visit, &answer);
    struct amb_order_publisher_open *open =
        desk_order(&amb_order_publisher_open, publisher_opened, visit, request);
    open->identity = identity;
    open->seq = identity == NULL ? NULL : &identity->seq;
    open->handle = ask->handle;
    open->topic = topic->id;
    open->home = topic->home;
    open->wants_settled = wish->wants_settled;
    open->verifies = amb_config_topic(s->config, name)->trust == AMB_TRUST_VERIFY;
    if (identity != NULL && identity->was_taken) {
        struct amb_order *fence = amb_order_new(&amb_order_fence, identity_known, open);
        amb_assert(fence != NULL);
        amb_order_post(s->peers[identity->shard], fence);
    } else if (identity != NULL) {
        identity->shard = visit->session.shard;
        identity->was_taken = true;
        open->last_seq = identity->seq;
        desk_post(s, visit, &open->order);
    } else {
        desk_post(s, visit, &open->order);
    }
}

static void publisher_closed(void *owner, struct amb_order *order)
{
    (void)owner;
    struct request *request = order->context;
    if (request->visit->state == VISIT_LIVE) {
        desk_forget_publisher(request->sim, request->visit, request->answer.handle);
    }
    (void)request_step(request, order);
    request_end(request);
}

static void pub_close(struct sim *s, struct visit *visit, const struct sim_ask *ask)
{
    struct request *request = request_create(s, visit, ask);
    struct amb_order_publisher_close *close =
        desk_order(&amb_order_publisher_close, publisher_closed, visit, request);
    visit->pubs[ask->handle]->is_closing = true;
    close->handle = ask->handle;
    close->batches = ask->number;
    desk_post(s, visit, &close->order);
}

/* Subscriptions -------------------------------------------------------------------------------- */

static void sub_forget(struct sim *s, struct visit *visit, uint32_t handle, uint64_t id)
{
    struct amb_dir_sub *sub = visit->subs[handle];
    if (sub != NULL && sub->id == id) {
        amb_queues_unsubscribe(&s->directory, sub);
        free(sub);
        visit->subs[handle] = NULL;
    }
}

static void subscribe_step(void *owner, struct amb_order *order)
{
    (void)owner;
    struct request *request = order->context;
    if (request_step(request, order)) {
        if (request->answer.status != AMB_OK && request->visit->state == VISIT_LIVE) {
            sub_forget(request->sim, request->visit, request->answer.handle, request->sub);
        }
        request_end(request);
    }
}

/* From where its client has come to, topic by topic. */
static void write_position(struct sim *s, const struct sim_sub *wish, struct amb_dir_sub *sub)
{
    struct amb_position_writer writer;
    sub->position = (uint8_t *)(sub + 1);
    amb_position_begin(&writer, sub->position, POSITION_ROOM);
    for (unsigned i = 0; i < wish->reading_count; i++) {
        const struct model_topic *topic = &s->model.topics[wish->readings[i].topic];
        const struct amb_position_topic at = {.id = topic->id,
                                              .next = wish->readings[i].expected,
                                              .priority = topic->priority,
                                              .name = topic->name,
                                              .name_len = (uint32_t)strlen(topic->name)};
        if (wish->readings[i].expected != 0) {
            amb_position_add(&writer, &at);
        }
    }
    SIM_CHECK(s, amb_position_end(&writer, 1, 0) == AMB_OK, "a position is too long");
    sub->position_len = (uint32_t)writer.len;
    sub->begin = (struct amb_begin){
        .start = AMB_START_TIME, .at = (uint64_t)(INT64_C(1700000000000000000) + wish->first_ns)};
}

static struct amb_dir_sub *make_sub(struct sim *s, struct visit *visit, uint32_t handle)
{
    const struct sim_sub *wish = &s->clients[visit->slot].subs[handle];
    struct amb_dir_sub *sub = calloc(1, sizeof(*sub) + POSITION_ROOM);
    amb_assert(sub != NULL);
    sub->id = amb_directory_next_sub(&s->directory);
    sub->session = visit->session;
    sub->client_id = visit->id;
    sub->handle = handle;
    sub->options = wish->options;
    sub->begin = wish->begin;
    sub->pattern_len = (uint32_t)strlen(wish->pattern);
    memcpy(sub->pattern, wish->pattern, sub->pattern_len);
    if (wish->resumes) {
        write_position(s, wish, sub);
    }
    return sub;
}

static void subscribe(struct sim *s, struct visit *visit, const struct sim_ask *ask)
{
    struct sim_sub *wish = &s->clients[visit->slot].subs[ask->handle];
    struct amb_dir_sub *sub = make_sub(s, visit, ask->handle);
    struct request *request = request_create(s, visit, ask);
    struct amb_order_subscription_open *open =
        desk_order(&amb_order_subscription_open, subscribe_step, visit, request);
    visit->subs[ask->handle] = sub;
    wish->id = sub->id;
    wish->given = 0;
    request->sub = sub->id;
    open->handle = ask->handle;
    open->options = sub->options;
    open->id = sub->id;
    if (wish->wish == 0) {
        desk_post(s, visit, &open->order);
        request->waiting += amb_directory_subscribe(&s->directory, sub, subscribe_step, request);
        return;
    }
    const struct model_queue *queue = &s->model.queues[wish->wish];
    const struct amb_queue_wish queue_wish = {
        .group = queue->group, .durable = queue->durable, .filter = "", .options = queue->options};
    const char *why = "";
    unsigned posted;
    request->answer.status = amb_queues_subscribe(&s->directory, sub, &queue_wish, open,
                                                  subscribe_step, request, &posted, &why);
    if (request->answer.status == AMB_OK) {
        wish->queue = model_queue(s, wish->wish, sub->queue->sub.id);
        request->waiting += posted;
        desk_post(s, visit, &open->order);
        return;
    }
    amb_order_free(&open->order);
    visit->subs[ask->handle] = NULL;
    free(sub);
    request_end(request);
}

static void subscription_closed(void *owner, struct amb_order *order)
{
    (void)owner;
    struct request *request = order->context;
    if (request->visit->state == VISIT_LIVE) {
        sub_forget(request->sim, request->visit, request->answer.handle, request->sub);
    }
    (void)request_step(request, order);
    request_end(request);
}

static void unsubscribe(struct sim *s, struct visit *visit, const struct sim_ask *ask)
{
    struct amb_dir_sub *sub = visit->subs[ask->handle];
    struct request *request = request_create(s, visit, ask);
    struct amb_order_subscription_close *close =
        desk_order(&amb_order_subscription_close, subscription_closed, visit, request);
    request->sub = sub->id;
    close->handle = ask->handle;
    close->acks = ask->number;
    if (sub->queue == NULL) {
        amb_directory_unsubscribe(&s->directory, sub);
    } else {
        sub->is_closing = true;
    }
    desk_post(s, visit, &close->order);
}

/* Leases --------------------------------------------------------------------------------------- */

/* The work of amb_order_lease_open and _mapped, without their passes over pages. */
static void lease_open_run(struct amb_shard *shard, struct amb_order *order)
{
    struct amb_order_lease *wish = AMB_CONTAINER_OF(order, struct amb_order_lease, order);
    struct amb_session *session =
        amb_session_find(shard, order->session.index, order->session.generation);
    struct amb_segment_lease *lease;
    uint64_t size;
    bool is_coming;
    if (session == NULL || !session->may_map) {
        order->status = AMB_ENOTSUP;
        return;
    }
    order->status =
        amb_segment_lease_check(shard, &session->book, wish->slot, wish->slots, &size, &wish->why);
    if (order->status == AMB_OK && !amb_reclaim_lease(shard, size, &is_coming)) {
        order->status = AMB_ENOMEM;
    }
    if (order->status == AMB_OK) {
        order->status =
            amb_segment_lease_open(shard, &session->book, wish->slot, wish->slots, size, &lease);
    }
    if (order->status == AMB_OK) {
        lease->state = AMB_LEASE_SEALED;
        wish->segment = lease->segment->id;
    }
}

static const struct amb_order_kind lease_opening = {
    .run = lease_open_run,
    .size = AMB_ORDER_SIZE(struct amb_order_lease),
};

static void lease_opened(void *owner, struct amb_order *order)
{
    (void)owner;
    struct request *request = order->context;
    request->answer.number = AMB_CONTAINER_OF(order, struct amb_order_lease, order)->segment;
    (void)request_step(request, order);
    request_end(request);
}

static void lease_open(struct sim *s, struct visit *visit, const struct sim_ask *ask)
{
    struct request *request = request_create(s, visit, ask);
    struct amb_order_lease *wish = desk_order(&lease_opening, lease_opened, visit, request);
    wish->slot = SIM_SLOT;
    wish->slots = (uint32_t)ask->number;
    desk_post(s, visit, &wish->order);
}

static void lease_close(struct sim *s, struct visit *visit, const struct sim_ask *ask)
{
    struct amb_order_lease *wish = desk_order(&amb_order_lease_close, NULL, visit, NULL);
    wish->segment = ask->number;
    desk_post(s, visit, &wish->order);
}

/* All of it ------------------------------------------------------------------------------------ */

void desk_request(struct sim *s, struct visit *visit, const struct sim_ask *ask)
{
    switch (ask->kind) {
    case SIM_ASK_PUB_OPEN:
        pub_open(s, visit, ask);
        break;
    case SIM_ASK_PUB_CLOSE:
        pub_close(s, visit, ask);
        break;
    case SIM_ASK_SUBSCRIBE:
        subscribe(s, visit, ask);
        break;
    case SIM_ASK_UNSUBSCRIBE:
        unsubscribe(s, visit, ask);
        break;
    case SIM_ASK_REFUSE: {
        struct amb_order_segment_refused *refused =
            desk_order(&amb_order_segment_refused, NULL, visit, NULL);
        refused->segment = ask->number;
        desk_post(s, visit, &refused->order);
        break;
    }
    case SIM_ASK_LEASE:
        lease_open(s, visit, ask);
        break;
    case SIM_ASK_LEASE_CLOSE:
        lease_close(s, visit, ask);
        break;
    case SIM_ASK_BYE:
    case SIM_ASK_OFFER:
    case SIM_ASK_ENDED:
        break;
    }
}
