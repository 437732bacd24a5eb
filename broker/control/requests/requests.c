/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/requests/requests_private.h"

#include "broker/control/admin/admin.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/client_session.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/quotas.h"
#include "broker/control/clients/renew.h"
#include "broker/control/requests/handshake.h"
#include "broker/control/requests/requests_lease.h"
#include "broker/control/requests/requests_publisher.h"
#include "broker/control/requests/requests_subscription.h"
#include "broker/worker/orders_session.h"

#include <stdlib.h>
#include <string.h>

/* No request needs more than this. */
#define HEAP_FEW (UINT64_C(64) << 10)
#define TABLE_MIN 8u

void *amb_request_order(struct amb_client *client, uint64_t id, uint32_t handle, bool is_work,
                        const struct amb_order_kind *kind, amb_order_done_fn done)
{
    uint64_t heap = sizeof(struct amb_request) + kind->size + 2 * (uint64_t)AMB_HEAP_OVERHEAD;
    if (!amb_heap_go_on(&client->heap, heap)) { /* It may be to close something. */
        return NULL;
    }
    struct amb_request *request = calloc(1, sizeof(*request));
    struct amb_order *order = amb_order_new(kind, done, request);
    if (request == NULL || order == NULL) {
        free(request);
        amb_order_free(order);
        amb_heap_give(&client->heap, heap);
        return NULL;
    }
    order->session = client->session;
    request->client = client;
    request->id = id;
    request->handle = handle;
    request->unanswered = 1;
    request->is_work = is_work;
    request->heap = heap;
    if (is_work) {
        amb_client_begin_work(client);
    } else {
        amb_client_hold(client);
    }
    return order;
}

void amb_request_free(struct amb_request *request)
{
    struct amb_client *client = request->client;
    bool is_work = request->is_work;
    amb_heap_give(&client->heap, request->heap);
    free(request);
    if (is_work) {
        amb_client_end_work(client);
    } else {
        amb_client_release(client);
    }
}

bool amb_request_table_ready(struct amb_client *client, struct amb_client_table *table,
                             uint32_t handle)
{
    amb_assert(handle < AMB_HANDLES_MAX);
    if (handle < table->count) {
        return true;
    }
    uint32_t count = table->count == 0 ? TABLE_MIN : table->count;
    while (count <= handle) {
        count *= 2;
    }
    size_t more = (count - table->count) * sizeof(void *);
    if (!amb_heap_charge(&client->heap, more)) {
        return false;
    }
    void **grown = realloc(table->at, count * sizeof(void *));
    if (grown == NULL) {
        amb_heap_give(&client->heap, more);
        return false;
    }
    memset(&grown[table->count], 0, more);
    *table = (struct amb_client_table){.at = grown, .count = count};
    return true;
}

void amb_request_no_memory(struct amb_client *client, uint64_t id)
{
    if (amb_heap_has_room(&client->heap, HEAP_FEW)) {
        amb_client_send_error(client, id, AMB_ENOMEM, "no memory");
    } else {
        amb_request_no_heap(client, id);
    }
}

void amb_request_no_heap(struct amb_client *client, uint64_t id)
{
    const struct amb_account *full =
        amb_account_full(amb_client_account(client), AMB_QUOTA_HEAP, HEAP_FEW);
    if (full != NULL && amb_heap_may_go_on(&client->heap, HEAP_FEW)) {
        char text[AMB_QUOTA_TEXT_MAX];
        amb_client_send_error(client, id, AMB_ELIMIT, "%s",
                              amb_quota_text(full, AMB_QUOTA_HEAP, text));
        return;
    }
    amb_client_send_error(client, id, AMB_ELIMIT,
                          "limit: heap that one client may make the broker use (" AMB_HEAP_KEY ")");
}

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
    struct amb_order_segment_refused *order =
        amb_order_new(&amb_order_segment_refused, segment_refused, client);
    if (order != NULL) {
        order->order.session = client->session;
        order->segment = refused->segment;
        if (refused->reason[0] != '\0') {
            amb_copy_printable(client->gpu_reason, sizeof(client->gpu_reason), refused->reason);
        }
        amb_client_begin_work(client);
        amb_order_post(client->control->shards[client->session.shard], &order->order);
    }
}

/* A client's word is only counted. A step back, or one too large to be true, moves nothing. */
static void count_staged(struct amb_client *client, uint64_t before, uint64_t now)
{
    if (now > before && now - before <= UINT32_MAX) {
        amb_stat_add(&client->control->stats->staged, now - before);
    }
}

static void request_ping(struct amb_client *client, const Amb__Control__Ping *ping)
{
    if (ping->staged_in != 0 || ping->staged_out != 0) {
        count_staged(client, client->staged_in_msgs, ping->staged_in_messages);
        count_staged(client, client->staged_out_msgs, ping->staged_out_messages);
        client->staged_in = ping->staged_in;
        client->staged_out = ping->staged_out;
        client->staged_in_msgs = ping->staged_in_messages;
        client->staged_out_msgs = ping->staged_out_messages;
        amb_copy_printable(client->staged_why, sizeof(client->staged_why), ping->staged_why);
    }
    amb_client_send_pong(client, ping->time_ns);
}

/* The messages that are requests, with an id that their answer carries. */
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
    if (message->body_case == AMB__CONTROL__CONTROL__BODY_ADMIN) {
        client->has_asked = true;
    } else if (is_request(message)) {
        amb_client_log(client);
    }
    switch ((unsigned)message->body_case) {
    case AMB__CONTROL__CONTROL__BODY_PUB_OPEN:
        amb_request_pub_open(client, message->id, message->pub_open);
        return;
    case AMB__CONTROL__CONTROL__BODY_PUB_CLOSE:
        amb_request_pub_close(client, message->id, message->pub_close);
        return;
    case AMB__CONTROL__CONTROL__BODY_SUBSCRIBE:
        amb_request_subscribe(client, message->id, message->subscribe);
        return;
    case AMB__CONTROL__CONTROL__BODY_UNSUBSCRIBE:
        amb_request_unsubscribe(client, message->id, message->unsubscribe);
        return;
    case AMB__CONTROL__CONTROL__BODY_ACK_SYNC:
        amb_request_ack_sync(client, message->id, message->ack_sync);
        return;
    case AMB__CONTROL__CONTROL__BODY_LEASE_OPEN:
        amb_request_lease_open(client, message->id, message->lease_open);
        return;
    case AMB__CONTROL__CONTROL__BODY_LEASE_MAPPED:
        amb_request_lease_mapped(client, message->id, message->lease_mapped->segment);
        return;
    case AMB__CONTROL__CONTROL__BODY_LEASE_CLOSE:
        amb_request_lease_close(client, message->lease_close->segment);
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
        amb_admin_request(client, message->id, message->admin->query);
        return;
    default:
        amb_client_send_error(client, 0, AMB_EPROTO, "a message that only a broker sends");
        return;
    }
}

void amb_request_handle(struct amb_client *client, const Amb__Control__Control *message)
{
    amb_renew_client(client);
    if (client->revoked != AMB_OK) {
        return; /* It is told in its turn. */
    }
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
        amb_handshake_auth(client, message);
    } else {
        amb_client_send_error(client, 0, AMB_EAUTH, "authentication comes first");
    }
}
