/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/client_bill.h"

#include "broker/config/config.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/quotas.h"
#include "wire/base/clock.h"

bool amb_client_is_late(const struct amb_client *client)
{
    return amb_account_is_late(amb_client_account(client), AMB_QUOTA_REQUESTS,
                               client->control->now_ns);
}

/* A Ping that comes with the heartbeat. */
static bool is_free(struct amb_client *client, const Amb__Control__Control *message)
{
    const struct amb_control *control = client->control;
    if (message->body_case != AMB__CONTROL__CONTROL__BODY_PING ||
        control->now_ns <
            amb_deadline_ns(client->free_ping_ns, control->config->limits.heartbeat_ns / 2)) {
        return false;
    }
    client->free_ping_ns = control->now_ns;
    return true;
}

void amb_client_bill(struct amb_client *client, const Amb__Control__Control *message)
{
    struct amb_account *account = amb_client_account(client);
    if (account != NULL && client->state == AMB_CLIENT_LIVE && !is_free(client, message)) {
        amb_account_bill(account, AMB_QUOTA_REQUESTS, 1, client->control->now_ns);
    }
}

bool amb_client_must_rest(struct amb_client *client)
{
    if (client->state != AMB_CLIENT_LIVE || client->is_leaving) {
        return false;
    }
    if ((client->paused & AMB_PAUSE_QUOTA) == 0 && amb_client_is_late(client)) {
        struct amb_control *control = client->control;
        amb_account_note_late(amb_client_account(client), AMB_QUOTA_REQUESTS, control->now_ns);
        client->paused |= AMB_PAUSE_QUOTA;
        client->rest_told_ns = control->now_ns;
        amb_list_push_back(&control->resting, &client->of_resting);
    }
    return (client->paused & AMB_PAUSE_QUOTA) != 0;
}
