/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/requests.h"

#include "broker/config.h"
#include "broker/control.h"
#include "broker/gpupool.h"
#include "broker/gpuslot.h"
#include "broker/handshake.h"
#include "broker/naming.h"
#include "broker/queues.h"
#include "broker/shard.h"
#include "broker/status.h"
#include "broker/wish.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"
#include "wire/codec/filter.h"
#include "wire/codec/position.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A request whose answer waits for orders. */
struct request {
    struct amb_client *client;
    uint64_t id;
    uint32_t handle;
    bool is_work;     /* answered as soon as a worker can */
    unsigned waiting; /* orders without an answer */
    enum amb_status status;
    uint32_t topic;       /* id, of a publisher */
    uint32_t subscribers; /* of it, told to the topic before the publisher */
    uint64_t sub;         /* id of a subscription */
    bool gpu_reject;      /* a publisher's GPU memory stays on its GPU or is not published */
    const char *gpu_why;  /* it may not lease such memory because; static; NULL: it may */
    int64_t time_ns;      /* when it came */
};

static struct request *request_create(struct amb_client *client, uint64_t id, uint32_t handle,
                                      bool is_work)
{
    struct request *request = calloc(1, sizeof(*request));
    if (request == NULL) {
        return NULL;
    }
    request->client = client;
    request->id = id;
    request->handle = handle;
    request->waiting = 1;
    request->is_work = is_work;
    if (is_work) {
        amb_client_begin_work(client);
    } else {
        amb_client_hold(client);
    }
    return request;
}

static void request_free(struct request *request)
{
    struct amb_client *client = request->client;
    bool is_work = request->is_work;
    free(request);
    if (is_work) {
        amb_client_end_work(client);
    } else {
        amb_client_release(client);
    }
}

/* Makes the table of handles of one kind with the first of it. */
static bool handles_ready(void ***table)
{
    if (*table == NULL) {
        *table = calloc(AMB_HANDLES_MAX, sizeof(void *));
    }
    return *table != NULL;
}

static void client_out_of_memory(struct amb_client *client, uint64_t id)
{
    amb_client_send_error(client, id, AMB_ENOMEM, "no memory");
}

/* Publishers ----------------------------------------------------------------------------------- */

static void publisher_forget(struct amb_client *client, uint32_t handle)
{
    if (client->publishers != NULL && client->publishers[handle] != NULL) {
        amb_directory_unpublish(&client->control->directory, client->publishers[handle]);
        amb_identity_give(&client->control->identities, client->publishers[handle]->identity,
                          client->control->now_ns);
        free(client->publishers[handle]);
        client->publishers[handle] = NULL;
        client->publisher_count--;
    }
}

static void publisher_opened(void *control, struct amb_order *order)
{
    (void)control;
    struct request *request = order->context;
    struct amb_client *client = request->client;
    if (client->state == AMB_CLIENT_LIVE) {
        if (order->status != AMB_OK) {
            publisher_forget(client, request->handle);
            amb_client_send_error(client, request->id, order->status, "publisher: %s",
                                  amb_status_text(order->status));
        } else {
            Amb__Control__PubOpened opened = AMB__CONTROL__PUB_OPENED__INIT;
            opened.topic = request->topic;
            opened.window = order->u.publisher.window;
            opened.subscribers = request->subscribers;
            opened.last_seq = order->u.publisher.last_seq;
            opened.gpu = request->gpu_why == NULL;
            opened.gpu_why = (char *)(uintptr_t)(request->gpu_why != NULL ? request->gpu_why : "");
            opened.gpu_reject = request->gpu_reject;
            Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
            message.id = request->id;
            message.body_case = AMB__CONTROL__CONTROL__BODY_PUB_OPENED;
            message.pub_opened = &opened;
            amb_client_send(client, &message, NULL, 0);
        }
    }
    amb_order_free(order);
    request_free(request);
}

static void publisher_fill(struct amb_client *client, const Amb__Control__PubOpen *open,
                           const struct amb_dir_topic *topic, struct amb_order *order)
{
    order->session = client->session;
    order->u.publisher.handle = open->handle;
    order->u.publisher.topic = topic->id;
    order->u.publisher.home = topic->home;
    order->u.publisher.wants_settled = open->settled != 0;
    order->u.publisher.confirms = open->confirm == AMB_CONFIRM_DELIVERED;
    order->u.publisher.last_seq = open->first_seq != 0 ? open->first_seq - 1 : 0;
    const struct amb_config *config = client->control->config;
    const struct amb_topic_rule *rule = amb_config_topic(config, open->topic);
    order->u.publisher.verifies = rule->trust == AMB_TRUST_VERIFY;
    order->u.publisher.avoids_gpu = !amb_gpuslot_suits(config, rule);
}

/* Takes the identity. */
static void publisher_begin(struct amb_client *client, uint64_t id,
                            const Amb__Control__PubOpen *open, struct amb_dir_topic *topic,
                            struct amb_identity *identity)
{
    struct amb_control *control = client->control;
    struct amb_dir_publisher *publisher = calloc(1, sizeof(*publisher));
    struct amb_order *order = amb_order_create(amb_order_publisher_open, publisher_opened, NULL);
    struct amb_order *fence = identity == NULL ? NULL : amb_naming_fence();
    struct request *request = NULL;
    if (publisher != NULL && order != NULL && (identity == NULL || fence != NULL) &&
        handles_ready((void ***)&client->publishers)) {
        request = request_create(client, id, open->handle, true);
    }
    if (request == NULL) {
        free(publisher);
        amb_order_free(order);
        amb_order_free(fence);
        amb_directory_unused(&control->directory, topic);
        amb_identity_give(&control->identities, identity, control->now_ns);
        client_out_of_memory(client, id);
        return;
    }
    request->topic = topic->id;
    amb_list_init(&publisher->of_topic);
    publisher->session = client->session;
    publisher->handle = open->handle;
    publisher->identity = identity;
    client->publishers[open->handle] = publisher;
    client->publisher_count++;
    amb_directory_publish(publisher, topic);
    order->context = request;
    order->u.publisher.identity = identity;
    publisher_fill(client, open, topic, order);
    /* Whoever comes between this order and its answer is not known to the worker yet: a publisher
     * that waits for him hears of him by a flow value, behind which nothing can be lost. */
    request->subscribers = topic->matched;
    request->gpu_why = order->u.publisher.verifies
                           ? "trust = \"verify\": the broker copies what is published"
                           : amb_client_gpu_obstacle(client);
    request->gpu_reject =
        amb_config_topic(control->config, open->topic)->gpu == AMB_TOPIC_GPU_REJECT;
    amb_naming_post(control, order, fence);
}

static void request_pub_open(struct amb_client *client, uint64_t id,
                             const Amb__Control__PubOpen *open)
{
    if (!amb_naming_check(client, id, open)) {
        return;
    }
    struct amb_control *control = client->control;
    struct amb_identity *identity; /* First: a topic that nobody will use is not made for it. */
    if (!amb_naming_take(client, id, open, &identity)) {
        return;
    }
    struct amb_dir_topic *topic;
    enum amb_status status = amb_directory_topic(
        &control->directory, open->topic, strlen(open->topic), client->session.shard, &topic);
    if (status == AMB_OK) {
        status = amb_directory_priority(&control->directory, topic,
                                        (enum amb_priority)open->priority, &topic);
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
    struct request *request = order->context;
    if (request->client->state == AMB_CLIENT_LIVE) {
        publisher_forget(request->client, request->handle);
        amb_client_send_ok(request->client, request->id);
    }
    amb_order_free(order);
    request_free(request);
}

static void request_pub_close(struct amb_client *client, uint64_t id,
                              const Amb__Control__PubClose *close)
{
    if (close->handle >= AMB_HANDLES_MAX || client->publishers == NULL ||
        client->publishers[close->handle] == NULL ||
        client->publishers[close->handle]->is_closing) {
        amb_client_send_error(client, id, AMB_ENOTFOUND, "publisher: no such handle is open");
        return;
    }
    struct amb_order *order = amb_order_create(amb_order_publisher_close, publisher_closed, NULL);
    /* Answered when its last batch is here: no work of ours. */
    struct request *request =
        order == NULL ? NULL : request_create(client, id, close->handle, false);
    if (request == NULL) {
        amb_order_free(order);
        client_out_of_memory(client, id);
        return;
    }
    client->publishers[close->handle]->is_closing = true;
    order->context = request;
    order->session = client->session;
    order->u.publisher.handle = close->handle;
    order->u.publisher.batches = close->batches;
    amb_order_post(client->control->shards[client->session.shard], order);
}

/* Subscriptions -------------------------------------------------------------------------------- */

/* The client's subscription with that handle is forgotten, unless the handle has been used anew. */
static void sub_forget(struct amb_client *client, uint32_t handle, uint64_t id)
{
    struct amb_dir_sub *sub = client->subs == NULL ? NULL : client->subs[handle];
    if (sub != NULL && sub->id == id) {
        amb_queues_unsubscribe(&client->control->directory, sub);
        free(sub);
        client->subs[handle] = NULL;
    }
}

static void subscribe_step(void *control, struct amb_order *order)
{
    (void)control;
    struct request *request = order->context;
    if (order->status != AMB_OK && request->status == AMB_OK) {
        request->status = order->status;
    }
    amb_order_free(order);
    if (--request->waiting > 0) {
        return;
    }
    struct amb_client *client = request->client;
    if (client->state == AMB_CLIENT_LIVE) {
        if (request->status == AMB_OK) {
            Amb__Control__Ok ok = AMB__CONTROL__OK__INIT;
            Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
            ok.time_ns = request->time_ns;
            message.id = request->id;
            message.body_case = AMB__CONTROL__CONTROL__BODY_OK;
            message.ok = &ok;
            amb_client_send(client, &message, NULL, 0);
        } else {
            sub_forget(client, request->handle, request->sub);
            amb_client_send_error(client, request->id, request->status, "subscription: %s",
                                  amb_status_text(request->status));
        }
    }
    request_free(request);
}

static void subscription_order_fini(struct amb_order *order)
{
    amb_filter_free(&order->u.subscription.filter);
}

/* Topics that it does not name: what came since, or since this broker began. */
static void subscribe_position(const struct amb_client *client, struct amb_dir_sub *sub,
                               const ProtobufCBinaryData *bytes)
{
    struct amb_position position;
    if (amb_position_read(bytes->data, bytes->len, &position) != AMB_OK) {
        return; /* never: it was checked */
    }
    sub->position = (uint8_t *)(sub + 1);
    memcpy(sub->position, bytes->data, bytes->len);
    sub->position_len = (uint32_t)bytes->len;
    sub->is_foreign = position.epoch != client->control->epoch;
    sub->begin = (struct amb_begin){.start = AMB_START_TIME, .at = (uint64_t)position.since_ns};
}

static struct amb_dir_sub *subscribe_sub(struct amb_client *client,
                                         const Amb__Control__Subscribe *subscribe)
{
    struct amb_dir_sub *sub = calloc(1, sizeof(*sub) + subscribe->position.len);
    if (sub == NULL) {
        return NULL;
    }
    sub->begin =
        (struct amb_begin){.start = (enum amb_start)subscribe->start, .at = subscribe->start_at};
    if (subscribe->position.len > 0) {
        subscribe_position(client, sub, &subscribe->position);
    }
    sub->id = amb_directory_next_sub(&client->control->directory);
    sub->session = client->session;
    sub->client_id = client->id;
    sub->handle = subscribe->handle;
    sub->options = (struct amb_subscription_options){
        .credit_msgs = subscribe->credit_msgs,
        .credit_bytes = subscribe->credit_bytes,
        .slow = (enum amb_slow)subscribe->slow,
        .slow_block_ns = subscribe->slow_block_ns > 0 ? subscribe->slow_block_ns : INT64_MAX,
        .copy = subscribe->copy != 0,
        .mem = amb_client_may_map_gpu(client) ? (enum amb_mem)subscribe->mem : AMB_MEM_HOST,
        .by_link = subscribe->mem_by_link != 0 && amb_gpuslot_may_link(client->control->config),
        .lazy = (enum amb_lazy)subscribe->lazy,
        .pace = {.msgs = subscribe->rate_msgs,
                 .bytes = subscribe->rate_bytes,
                 .is_original = subscribe->replay == AMB_TEMPO_ORIGINAL},
    };
    sub->pattern_len = (uint32_t)strlen(subscribe->pattern);
    memcpy(sub->pattern, subscribe->pattern, sub->pattern_len);
    return sub;
}

static void request_subscribe(struct amb_client *client, uint64_t id,
                              const Amb__Control__Subscribe *subscribe)
{
    struct amb_filter *filter;
    if (!amb_wish_check(client, id, subscribe) ||
        !amb_wish_filter(client, id, subscribe, &filter)) {
        return;
    }
    struct amb_control *control = client->control;
    struct amb_dir_sub *sub = subscribe_sub(client, subscribe);
    struct amb_order *order = amb_order_create(amb_order_subscription_open, subscribe_step, NULL);
    struct request *request = NULL;
    if (sub != NULL && order != NULL && handles_ready((void ***)&client->subs)) {
        request = request_create(client, id, subscribe->handle, true);
    }
    if (request == NULL) {
        free(sub);
        amb_filter_free(&filter);
        amb_order_free(order);
        client_out_of_memory(client, id);
        return;
    }
    client->subs[subscribe->handle] = sub;
    request->sub = sub->id;
    request->time_ns = amb_clock_realtime_ns();
    /* The session first, then the cursors: orders to one worker arrive in this order. */
    order->context = request;
    order->session = client->session;
    order->u.subscription.handle = subscribe->handle;
    order->u.subscription.options = sub->options;
    order->u.subscription.id = sub->id;
    order->u.subscription.filter = filter;
    order->fini = subscription_order_fini;
    if (!amb_queues_are_wanted(subscribe)) {
        amb_order_post(control->shards[client->session.shard], order);
        request->waiting +=
            amb_directory_subscribe(&control->directory, sub, subscribe_step, request);
        return;
    }
    struct amb_queue_wish wish;
    amb_queues_wish(subscribe, &sub->options, &wish);
    const char *why = "";
    unsigned posted;
    enum amb_status status = amb_queues_subscribe(&control->directory, sub, &wish, order,
                                                  subscribe_step, request, &posted, &why);
    if (status == AMB_OK) {
        /* The queue and its cursors have been ordered: the member comes behind them. */
        request->waiting += posted;
        amb_order_post(control->shards[client->session.shard], order);
        return;
    }
    amb_order_free(order);
    request_free(request);
    client->subs[subscribe->handle] = NULL;
    free(sub);
    amb_client_send_error(client, id, status, "subscription: %s", why);
}

/* The worker has ended it: the handle is free. */
static void subscription_closed(void *control, struct amb_order *order)
{
    (void)control;
    struct request *request = order->context;
    if (request->client->state == AMB_CLIENT_LIVE) {
        sub_forget(request->client, request->handle, request->sub);
        amb_client_send_ok(request->client, request->id);
    }
    amb_order_free(order);
    request_free(request);
}

static void request_unsubscribe(struct amb_client *client, uint64_t id,
                                const Amb__Control__Unsubscribe *unsubscribe)
{
    uint32_t handle = unsubscribe->handle;
    if (handle >= AMB_HANDLES_MAX || client->subs == NULL || client->subs[handle] == NULL ||
        client->subs[handle]->is_closing) {
        amb_client_send_error(client, id, AMB_ENOTFOUND, "subscription: no such handle is open");
        return;
    }
    struct amb_order *order =
        amb_order_create(amb_order_subscription_close, subscription_closed, NULL);
    /* Answered when the client has given everything back: no work of ours. */
    struct request *request = order == NULL ? NULL : request_create(client, id, handle, false);
    if (request == NULL) {
        amb_order_free(order);
        client_out_of_memory(client, id);
        return;
    }
    request->sub = client->subs[handle]->id;
    order->context = request;
    order->session = client->session;
    order->u.subscription.handle = handle;
    order->u.subscription.acks = unsubscribe->acks;
    struct amb_dir_sub *sub = client->subs[handle];
    if (sub->queue == NULL) {
        amb_directory_unsubscribe(&client->control->directory, sub);
    } else {
        sub->is_closing = true; /* It leaves when its last acknowledgements have come. */
    }
    amb_order_post(client->control->shards[client->session.shard], order);
}

/* The acknowledgements that it speaks of have counted, or there is no such subscription. */
static void acks_synced(void *control, struct amb_order *order)
{
    (void)control;
    struct request *request = order->context;
    if (request->client->state == AMB_CLIENT_LIVE) {
        if (order->status == AMB_OK) {
            amb_client_send_ok(request->client, request->id);
        } else {
            amb_client_send_error(request->client, request->id, order->status, "subscription: %s",
                                  amb_status_text(order->status));
        }
    }
    amb_order_free(order);
    request_free(request);
}

static void request_ack_sync(struct amb_client *client, uint64_t id,
                             const Amb__Control__AckSync *sync)
{
    if (sync->handle >= AMB_HANDLES_MAX || client->subs == NULL ||
        client->subs[sync->handle] == NULL) {
        amb_client_send_error(client, id, AMB_ENOTFOUND, "subscription: no such handle is open");
        return;
    }
    struct amb_order *order = amb_order_create(amb_order_subscription_sync, acks_synced, NULL);
    /* Answered when the client has sent what it says: no work of ours. */
    struct request *request =
        order == NULL ? NULL : request_create(client, id, sync->handle, false);
    if (request == NULL) {
        amb_order_free(order);
        client_out_of_memory(client, id);
        return;
    }
    order->context = request;
    order->session = client->session;
    order->u.subscription.handle = sync->handle;
    order->u.subscription.acks = sync->acks;
    order->u.subscription.stop = sync->stop != 0;
    amb_order_post(client->control->shards[client->session.shard], order);
}

/* Leases --------------------------------------------------------------------------------------- */

void amb_request_gpu_range(const struct amb_gpu_pool *pool, uint64_t offset,
                           Amb__Control__GpuRange *out)
{
    out->device = (char *)(uintptr_t)amb_cuda_info(pool->cuda)->uuid;
    out->handle.data = (uint8_t *)(uintptr_t)pool->handle;
    out->handle.len = sizeof(pool->handle);
    out->offset = offset;
    out->pool = pool->size;
}

static void lease_opened(void *control, struct amb_order *order)
{
    (void)control;
    struct request *request = order->context;
    struct amb_client *client = request->client;
    int fd = order->u.lease.fd;
    if (client->state != AMB_CLIENT_LIVE) {
        if (order->status == AMB_OK && fd >= 0) {
            (void)close(fd);
        }
    } else if (order->status != AMB_OK) {
        amb_client_send_error(client, request->id, order->status, "lease: %s", order->u.lease.why);
    } else {
        Amb__Control__LeaseOpened opened = AMB__CONTROL__LEASE_OPENED__INIT;
        opened.segment = order->u.lease.segment;
        opened.size = order->u.lease.size;
        Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
        message.id = request->id;
        message.body_case = AMB__CONTROL__CONTROL__BODY_LEASE_OPENED;
        message.lease_opened = &opened;
        if (order->u.lease.pool != NULL) {
            Amb__Control__GpuRange range;
            amb__control__gpu_range__init(&range);
            amb_request_gpu_range(order->u.lease.pool, order->u.lease.gpu_offset, &range);
            opened.gpu = &range;
            amb_client_send(client, &message, NULL, 0);
        } else {
            amb_client_send(client, &message, &fd, 1);
        }
    }
    amb_order_free(order);
    request_free(request);
}

static void lease_mapped(void *control, struct amb_order *order)
{
    (void)control;
    struct request *request = order->context;
    if (request->client->state == AMB_CLIENT_LIVE) {
        if (order->status == AMB_OK) {
            amb_client_send_ok(request->client, request->id);
        } else {
            amb_client_send_error(request->client, request->id, order->status, "lease: %s",
                                  order->u.lease.why);
        }
    }
    amb_order_free(order);
    request_free(request);
}

static void lease_closed(void *control, struct amb_order *order)
{
    (void)control;
    struct request *request = order->context;
    amb_order_free(order);
    request_free(request);
}

/* The order about a lease, ready to be filled in and posted; NULL: the client has been told. */
static struct amb_order *lease_order(struct amb_client *client, uint64_t id, amb_order_fn run,
                                     amb_order_done_fn done)
{
    struct amb_order *order = amb_order_create(run, done, NULL);
    struct request *request = order == NULL ? NULL : request_create(client, id, 0, true);
    if (request == NULL) {
        amb_order_free(order);
        client_out_of_memory(client, id);
        return NULL;
    }
    order->context = request;
    order->session = client->session;
    return order;
}

static void request_lease(struct amb_client *client, uint64_t id, amb_order_fn run,
                          amb_order_done_fn done, uint64_t segment)
{
    struct amb_order *order = lease_order(client, id, run, done);
    if (order != NULL) {
        order->u.lease.segment = segment;
        amb_order_post(client->control->shards[client->session.shard], order);
    }
}

/* False: there is none for this client, and it has been told. */
static bool lease_find_pool(struct amb_client *client, uint64_t id, const char *device,
                            struct amb_gpu_pool **out)
{
    const struct amb_gpus *gpus = client->control->shards[0]->gpus;
    client->has_gpu = true;
    *out = gpus != NULL ? amb_gpus_find(gpus, device) : NULL;
    if (*out == NULL) {
        amb_client_send_error(client, id, AMB_ENOTFOUND, "lease: %s",
                              gpus != NULL ? gpus->why_not : "the broker has no GPU memory");
    } else if (!(*out)->is_exported) {
        amb_client_send_error(client, id, AMB_ENOTSUP,
                              "lease: the GPU's memory cannot be shared between processes here");
        *out = NULL;
    }
    return *out != NULL;
}

static void request_lease_open(struct amb_client *client, uint64_t id,
                               const Amb__Control__LeaseOpen *open)
{
    if (!amb_client_may_map(client) ||
        client->control->config->limits.max_leased_per_session == 0) {
        amb_client_send_error(client, id, AMB_ENOTSUP, "lease: %s",
                              amb_client_may_map(client)
                                  ? "switched off (limits.max_leased_per_session = 0)"
                                  : "only over the ring, by clients on the broker's host");
        return;
    }
    struct amb_gpu_pool *pool = NULL;
    if (open->device[0] != '\0' && !lease_find_pool(client, id, open->device, &pool)) {
        return;
    }
    struct amb_order *order = lease_order(client, id, amb_order_lease_open, lease_opened);
    if (order != NULL) {
        order->u.lease.pool = pool;
        order->u.lease.slot = open->slot;
        order->u.lease.slots = open->slots;
        amb_order_post(client->control->shards[client->session.shard], order);
    }
}

/* The rest ------------------------------------------------------------------------------------- */

static void segment_refused(void *control, struct amb_order *order)
{
    (void)control;
    struct amb_client *client = order->context;
    amb_order_free(order);
    amb_client_end_work(client);
}

/* Not a request, but a worker's work all the same: it has the same limit. */
static void request_seg_refused(struct amb_client *client, const Amb__Control__SegRefused *refused)
{
    struct amb_order *order = amb_order_create(amb_order_segment_refused, segment_refused, client);
    if (order != NULL) {
        order->session = client->session;
        order->u.segment.segment = refused->segment;
        if (refused->reason[0] != '\0') {
            amb_copy_printable(client->gpu_reason, sizeof(client->gpu_reason), refused->reason);
        }
        amb_client_begin_work(client);
        amb_order_post(client->control->shards[client->session.shard], order);
    }
}

static void request_ping(struct amb_client *client, const Amb__Control__Ping *ping)
{
    Amb__Control__Pong pong = AMB__CONTROL__PONG__INIT;
    if (ping->staged_in != 0 || ping->staged_out != 0) {
        client->staged_in = ping->staged_in;
        client->staged_out = ping->staged_out;
        amb_copy_printable(client->staged_why, sizeof(client->staged_why), ping->staged_why);
    }
    pong.time_ns = ping->time_ns;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    message.body_case = AMB__CONTROL__CONTROL__BODY_PONG;
    message.pong = &pong;
    amb_client_send(client, &message, NULL, 0);
}

/* Which messages are requests, with an id that their answer carries. */
static bool is_request(const Amb__Control__Control *message)
{
    switch ((unsigned)message->body_case) {
    case AMB__CONTROL__CONTROL__BODY_PUB_OPEN:
    case AMB__CONTROL__CONTROL__BODY_PUB_CLOSE:
    case AMB__CONTROL__CONTROL__BODY_SUBSCRIBE:
    case AMB__CONTROL__CONTROL__BODY_UNSUBSCRIBE:
    case AMB__CONTROL__CONTROL__BODY_ACK_SYNC:
    case AMB__CONTROL__CONTROL__BODY_ADMIN:
    case AMB__CONTROL__CONTROL__BODY_LEASE_OPEN:
    case AMB__CONTROL__CONTROL__BODY_LEASE_MAPPED:
        return true;
    default:
        return false;
    }
}

static void request_live(struct amb_client *client, const Amb__Control__Control *message)
{
    if (is_request(message) && message->id == 0) {
        amb_client_send_error(client, 0, AMB_EPROTO, "a request without an id");
        return;
    }
    switch ((unsigned)message->body_case) {
    case AMB__CONTROL__CONTROL__BODY_PUB_OPEN:
        request_pub_open(client, message->id, message->pub_open);
        return;
    case AMB__CONTROL__CONTROL__BODY_PUB_CLOSE:
        request_pub_close(client, message->id, message->pub_close);
        return;
    case AMB__CONTROL__CONTROL__BODY_SUBSCRIBE:
        request_subscribe(client, message->id, message->subscribe);
        return;
    case AMB__CONTROL__CONTROL__BODY_UNSUBSCRIBE:
        request_unsubscribe(client, message->id, message->unsubscribe);
        return;
    case AMB__CONTROL__CONTROL__BODY_ACK_SYNC:
        request_ack_sync(client, message->id, message->ack_sync);
        return;
    case AMB__CONTROL__CONTROL__BODY_LEASE_OPEN:
        request_lease_open(client, message->id, message->lease_open);
        return;
    case AMB__CONTROL__CONTROL__BODY_LEASE_MAPPED:
        request_lease(client, message->id, amb_order_lease_mapped, lease_mapped,
                      message->lease_mapped->segment);
        return;
    case AMB__CONTROL__CONTROL__BODY_LEASE_CLOSE:
        request_lease(client, 0, amb_order_lease_close, lease_closed,
                      message->lease_close->segment);
        return;
    case AMB__CONTROL__CONTROL__BODY_SEG_REFUSED:
        request_seg_refused(client, message->seg_refused);
        return;
    case AMB__CONTROL__CONTROL__BODY_PING:
        request_ping(client, message->ping);
        return;
    case AMB__CONTROL__CONTROL__BODY_BYE:
        client->said_bye = true;
        amb_client_end(client, "bye");
        return;
    case AMB__CONTROL__CONTROL__BODY_ADMIN:
        amb_status_request(client, message->id, message->admin->query);
        return;
    default:
        amb_client_send_error(client, 0, AMB_EPROTO, "a message that only a broker sends");
        return;
    }
}

void amb_request_handle(struct amb_client *client, const Amb__Control__Control *message)
{
    if (client->state == AMB_CLIENT_LIVE) {
        request_live(client, message);
    } else if (client->state == AMB_CLIENT_HELLO &&
               message->body_case == AMB__CONTROL__CONTROL__BODY_HELLO) {
        amb_handshake_hello(client, message->hello);
    } else if (client->state == AMB_CLIENT_HELLO &&
               message->body_case == AMB__CONTROL__CONTROL__BODY_ATTACH) {
        amb_handshake_attach(client, message->id, message->attach);
    } else if (client->state == AMB_CLIENT_AUTH &&
               message->body_case == AMB__CONTROL__CONTROL__BODY_AUTH) {
        amb_handshake_auth(client, message->auth);
    } else {
        amb_client_send_error(client, 0, AMB_EAUTH, "authentication comes first");
    }
}
