/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/client_session.h"

#include "broker/base/party.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/client_listed.h"
#include "broker/control/clients/client_share.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/left_maps.h"
#include "broker/worker/orders_session.h"
#include "wire/base/assert.h"
#include "wire/base/log.h"

#include <inttypes.h>

void amb_client_hold(struct amb_client *client)
{
    client->orders++;
}

void amb_client_release(struct amb_client *client)
{
    amb_assert(client->orders > 0);
    client->orders--;
    if (client->orders > 0 || client->state != AMB_CLIENT_ENDING || client->has_session) {
        return;
    }
    amb_list_remove(&client->node);
    amb_list_push_back(&client->control->dead, &client->node);
}

static void mapped_raised(void *control, struct amb_order *order)
{
    (void)control;
    amb_client_release(order->context);
    amb_order_free(order);
}

void amb_client_raise_mapped(struct amb_client *client)
{
    if (client->state != AMB_CLIENT_LIVE || client->party == NULL ||
        amb_client_mapped_max(client) <= client->mapped_max) {
        return;
    }
    struct amb_order_session_raise_mapped *mapped =
        amb_order_new(&amb_order_session_raise_mapped, mapped_raised, client);
    if (mapped == NULL) {
        return; /* Copies serve it meanwhile. */
    }
    client->mapped_max = amb_client_mapped_max(client);
    mapped->order.session = client->session;
    mapped->mapped_max = client->mapped_max;
    amb_client_hold(client);
    amb_order_post(client->control->shards[client->session.shard], &mapped->order);
}

/* Less of its user's is in quarantine: the other sessions of that user may hold more in place. */
static void charge_fell(const struct amb_client *client)
{
    if (client->party != NULL) {
        client->party->user->has_fallen = client->control->has_fallen = true;
    }
}

void amb_client_raise_fallen(struct amb_control *control)
{
    if (!control->has_fallen) {
        return;
    }
    control->has_fallen = false;
    AMB_LIST_FOR_EACH (node, &control->clients) {
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (client->party != NULL && client->party->user->has_fallen) {
            amb_client_raise_mapped(client);
        }
    }
    AMB_LIST_FOR_EACH (node, &control->clients) {
        const struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (client->party != NULL) {
            client->party->user->has_fallen = false;
        }
    }
}

static void session_released(void *control, struct amb_order *order)
{
    struct amb_client *client = order->context;
    amb_client_charge(client, 0);
    charge_fell(client);
    amb_control_session_give(control, &order->session);
    client->is_quarantined = false;
    client->has_session = false;
    client->quarantined_bytes = 0;
    amb_client_list(client);
    amb_order_free(order);
    amb_client_release(client);
}

static void client_release_session(struct amb_client *client)
{
    struct amb_order *order = client->end_order;
    amb_assert(order != NULL);
    client->end_order = NULL;
    amb_order_renew(order, &amb_order_session_release, session_released);
    amb_client_hold(client);
    amb_order_post(client->control->shards[client->session.shard], order);
}

static void session_closed(void *owner, struct amb_order *order)
{
    struct amb_control *control = owner;
    struct amb_client *client = order->context;
    const struct amb_order_session_end *end =
        AMB_CONTAINER_OF(order, struct amb_order_session_end, order);
    client->quarantined_bytes = end->closing.quarantined_bytes;
    bool has_fallen = client->quarantined_bytes < client->charged_bytes;
    amb_client_charge(client, client->quarantined_bytes);
    if (has_fallen) {
        charge_fell(client);
    }
    client->end_order = order; /* It goes with the client, or ends the quarantine first. */
    if (client->quarantined_bytes == 0) {
        amb_control_session_give(control, &order->session);
        client->has_session = false;
    } else if (client->is_dead || client->is_given_up) {
        client_release_session(client);
    } else {
        client->is_quarantined = true;
        amb_stat_add(&control->stats->quarantined, 1);
        amb_info("client %" PRIu64 " (%s, pid %d): %" PRIu64
                 " bytes stay until its process has ended",
                 client->id, client->name, (int)client->pid, client->quarantined_bytes);
    }
    amb_client_list(client);
    amb_client_release(client);
}

void amb_client_close_session(struct amb_client *client)
{
    struct amb_order *order = client->end_order;
    amb_assert(order != NULL);
    struct amb_order_session_end *end =
        AMB_CONTAINER_OF(order, struct amb_order_session_end, order);
    client->end_order = NULL;
    order->done = session_closed;
    order->context = client;
    order->session = client->session;
    /* Without a mapping, or with the client's word that it has none left, nothing is held. Nor
     * where nobody could tell us of the end of its process. */
    end->closing.keep_held =
        amb_client_may_map(client) && !client->said_bye && !client->is_dead && !client->is_given_up;
    if (end->closing.keep_held) {
        /* The worst, until its worker has counted: its process may have another session by then. */
        amb_client_charge(client, client->mapped_max);
    }
    amb_client_hold(client);
    amb_order_post(client->control->shards[client->session.shard], order);
    if (client->loses_maps) {
        amb_tenants_lose_maps(&client->control->tenants, amb_tenant_number(client->tenant),
                              amb_client_maps(client));
    } else {
        amb_left_maps_note(client);
    }
}

void amb_client_end_quarantine(struct amb_client *client)
{
    if (client->is_quarantined && client->end_order != NULL) {
        client_release_session(client);
    }
}

void amb_client_give_up(struct amb_client *client)
{
    client->is_given_up = true; /* For the answer that is still to come. */
    amb_client_end_quarantine(client);
}
