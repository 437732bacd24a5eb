/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/requests/requests_subscription.h"

#include "broker/control/clients/client_io.h"
#include "broker/control/clients/client_share.h"
#include "broker/control/clients/control.h"
#include "broker/control/directory/directory_accounts.h"
#include "broker/control/directory/queues.h"
#include "broker/control/requests/demand.h"
#include "broker/control/requests/permit.h"
#include "broker/control/requests/requests_private.h"
#include "broker/control/requests/wish.h"
#include "broker/shard/gpuslot.h"
#include "broker/topic/begin.h"
#include "broker/worker/orders_subscription.h"
#include "wire/base/clock.h"
#include "wire/codec/filter.h"
#include "wire/codec/position.h"

#include <stdlib.h>
#include <string.h>

static uint64_t sub_heap(const struct amb_dir_sub *sub)
{
    uint64_t tokens = 1;
    for (uint32_t i = 0; i < sub->pattern_len; i++) {
        tokens += sub->pattern[i] == '.';
    }
    return sizeof(*sub) + sub->position_len + AMB_HEAP_OVERHEAD + tokens * AMB_PATTERN_HEAP;
}

/* The client's subscription with that handle is forgotten, unless the handle has been used anew. */
static void sub_forget(struct amb_client *client, uint32_t handle, uint64_t id)
{
    struct amb_dir_sub *sub = amb_client_sub(client, handle);
    if (sub != NULL && sub->id == id) {
        amb_queues_unsubscribe(&client->control->directory, sub);
        amb_heap_give(&client->heap, sub_heap(sub));
        free(sub);
        client->subs.at[handle] = NULL;
        amb_client_count_sub(client, -1);
    }
}

static void subscribe_step(void *control, struct amb_order *order)
{
    (void)control;
    struct amb_request *request = order->context;
    if (order->status != AMB_OK && request->status == AMB_OK) {
        request->status = order->status;
    }
    amb_order_free(order);
    if (--request->unanswered > 0) {
        return;
    }
    struct amb_client *client = request->client;
    if (client->state == AMB_CLIENT_LIVE) {
        if (request->status == AMB_OK) {
            Amb__Control__Ok ok = AMB__CONTROL__OK__INIT;
            Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
            ok.time_ns = request->time_ns;
            ok.narrowed = request->is_narrowed;
            message.id = request->id;
            message.body_case = AMB__CONTROL__CONTROL__BODY_OK;
            message.ok = &ok;
            amb_client_send(client, &message, NULL, 0);
        } else {
            sub_forget(client, request->handle, request->sub);
            if (request->status == AMB_ELIMIT) {
                amb_request_no_heap(client, request->id);
            } else {
                amb_client_send_error(client, request->id, request->status, "subscription: %s",
                                      amb_status_text(request->status));
            }
        }
    }
    amb_request_free(request);
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
    if (client->account == NULL) {
        client->account = amb_pair_account_create(client, client->party);
    }
    if (sub == NULL || client->account == NULL) {
        free(sub);
        return NULL;
    }
    sub->account = client->account;
    sub->begin =
        (struct amb_begin){.start = (enum amb_start)subscribe->start, .at = subscribe->start_at};
    if (subscribe->position.len > 0) {
        subscribe_position(client, sub, &subscribe->position);
    }
    sub->id = amb_directory_next_sub(&client->control->directory);
    sub->session = client->session;
    sub->client_id = client->id;
    sub->user = client->user;
    sub->tenant = amb_client_tenant(client);
    sub->may_map = amb_client_may_map(client) && subscribe->copy == 0;
    sub->maps = amb_client_maps(client);
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

/* The pattern, and behind its NUL the client's name. NULL: no memory, and it goes without. */
static char *label_of(const struct amb_client *client, const struct amb_dir_sub *sub)
{
    const char *pattern = amb_topic_shown(sub->pattern);
    size_t len = strlen(pattern) + 1, size = len + strlen(client->name) + 1;
    char *label = malloc(size);
    if (label != NULL) {
        memcpy(label, pattern, len);
        memcpy(label + len, client->name, size - len);
    }
    return label;
}

void amb_request_subscribe(struct amb_client *client, uint64_t id,
                           const Amb__Control__Subscribe *subscribe)
{
    struct amb_filter *filter;
    struct amb_rights_cut cut;
    if (!amb_wish_check(client, id, subscribe, &cut) ||
        !amb_demand_subscribe(client, id, subscribe) ||
        !amb_wish_filter(client, id, subscribe, &filter)) {
        return;
    }
    struct amb_control *control = client->control;
    struct amb_dir_sub *sub = subscribe_sub(client, subscribe);
    struct amb_order_subscription_open *ask = NULL;
    if (sub != NULL && amb_request_table_ready(client, &client->subs, subscribe->handle) &&
        amb_heap_charge(&client->heap, sub_heap(sub))) {
        ask = amb_request_order(client, id, subscribe->handle, true, &amb_order_subscription_open,
                                subscribe_step);
        if (ask == NULL) {
            amb_heap_give(&client->heap, sub_heap(sub));
        }
    }
    if (ask == NULL) {
        free(sub);
        amb_filter_free(&filter);
        amb_request_no_memory(client, id);
        return;
    }
    client->subs.at[subscribe->handle] = sub;
    amb_client_count_sub(client, 1);
    struct amb_request *request = ask->order.context;
    request->sub = sub->id;
    request->time_ns = amb_clock_realtime_ns();
    if (!amb_rights_cut_is_empty(&cut)) { /* Then it is no member of a queue. */
        sub->rights = amb_rights_ref(client->rights);
        sub->cut = cut;
        request->is_narrowed = true;
    }
    /* The session first, then the cursors: orders to one worker arrive in this order. */
    ask->handle = subscribe->handle;
    ask->options = sub->options;
    ask->id = sub->id;
    ask->filter = filter;
    ask->label = label_of(client, sub);
    if (!amb_queues_are_wanted(subscribe)) {
        amb_order_post(control->shards[client->session.shard], &ask->order);
        request->unanswered +=
            amb_directory_subscribe(&control->directory, sub, subscribe_step, request);
        return;
    }
    struct amb_queue_wish wish;
    amb_queues_wish(subscribe, amb_permit_queue_owner(client, subscribe), &sub->options, &wish);
    const char *why = "";
    unsigned posted;
    enum amb_status status = amb_queues_subscribe(&control->directory, sub, &wish, ask,
                                                  subscribe_step, request, &posted, &why);
    if (status == AMB_OK) {
        /* The queue and its cursors have been ordered: the member comes behind them. */
        request->unanswered += posted;
        amb_order_post(control->shards[client->session.shard], &ask->order);
        return;
    }
    amb_order_free(&ask->order);
    amb_request_free(request);
    client->subs.at[subscribe->handle] = NULL;
    amb_heap_give(&client->heap, sub_heap(sub));
    amb_client_count_sub(client, -1);
    free(sub);
    amb_client_send_error(client, id, status, "subscription: %s", why);
}

/* The worker has ended it: the handle is free. */
static void subscription_closed(void *control, struct amb_order *order)
{
    (void)control;
    struct amb_request *request = order->context;
    if (request->client->state == AMB_CLIENT_LIVE) {
        sub_forget(request->client, request->handle, request->sub);
        amb_client_send_ok(request->client, request->id);
    }
    amb_order_free(order);
    amb_request_free(request);
}

void amb_request_unsubscribe(struct amb_client *client, uint64_t id,
                             const Amb__Control__Unsubscribe *unsubscribe)
{
    uint32_t handle = unsubscribe->handle;
    struct amb_dir_sub *sub = amb_client_sub(client, handle);
    if (sub == NULL || sub->is_closing) {
        amb_client_send_error(client, id, AMB_ENOTFOUND, "subscription: no such handle is open");
        return;
    }
    /* Answered when the client has given everything back: no work of ours. */
    struct amb_order_subscription_close *ask = amb_request_order(
        client, id, handle, false, &amb_order_subscription_close, subscription_closed);
    if (ask == NULL) {
        amb_request_no_memory(client, id);
        return;
    }
    struct amb_request *request = ask->order.context;
    request->sub = sub->id;
    ask->handle = handle;
    ask->acks = unsubscribe->acks;
    if (sub->queue == NULL) {
        amb_directory_unsubscribe(&client->control->directory, sub);
    } else {
        amb_queues_stop(&client->control->directory, sub);
        sub->is_closing = true; /* It leaves when its last acknowledgements have come. */
    }
    amb_order_post(client->control->shards[client->session.shard], &ask->order);
}

/* The acknowledgements that it speaks of have counted, or there is no such subscription. */
static void acks_synced(void *control, struct amb_order *order)
{
    (void)control;
    struct amb_request *request = order->context;
    if (request->client->state == AMB_CLIENT_LIVE) {
        if (order->status == AMB_OK) {
            amb_client_send_ok(request->client, request->id);
        } else {
            amb_client_send_error(request->client, request->id, order->status, "subscription: %s",
                                  amb_status_text(order->status));
        }
    }
    amb_order_free(order);
    amb_request_free(request);
}

void amb_request_ack_sync(struct amb_client *client, uint64_t id, const Amb__Control__AckSync *sync)
{
    struct amb_dir_sub *sub = amb_client_sub(client, sync->handle);
    if (sub == NULL) {
        amb_client_send_error(client, id, AMB_ENOTFOUND, "subscription: no such handle is open");
        return;
    }
    /* Answered when the client has sent what it says: no work of ours. */
    struct amb_order_subscription_sync *ask = amb_request_order(
        client, id, sync->handle, false, &amb_order_subscription_sync, acks_synced);
    if (ask == NULL) {
        amb_request_no_memory(client, id);
        return;
    }
    ask->handle = sync->handle;
    ask->acks = sync->acks;
    ask->stop = sync->stop != 0;
    if (sync->stop != 0) {
        amb_queues_stop(&client->control->directory, sub);
    }
    amb_order_post(client->control->shards[client->session.shard], &ask->order);
}
