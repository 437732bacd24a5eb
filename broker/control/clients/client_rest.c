/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/client_rest.h"

#include "broker/control/clients/client_bill.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/control.h"
#include "wire/base/clock.h"

/* The next look is so much later for each that is looked at: thousands may rest. */
#define LOOK_NS 2000
/* Signs of life in the time after which its peer is lost. */
#define SIGNS 4

/* Each that may go on is read at once, so that the next one meets its bill. Those that rest again
 * stand behind those that have not been read. */
void amb_client_rest_look(struct amb_control *control)
{
    if (amb_list_is_empty(&control->resting) || control->now_ns < control->rest_due_ns) {
        return;
    }
    struct amb_list_node now, late, *node;
    amb_list_init(&now);
    amb_list_init(&late);
    amb_list_move(&control->resting, &now);
    control->rest_due_ns = control->now_ns + AMB_REST_NS;
    while ((node = amb_list_pop_front(&now)) != NULL) {
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, of_resting);
        control->rest_due_ns += LOOK_NS;
        if (amb_client_is_late(client)) {
            amb_list_push_back(&late, node);
            continue;
        }
        amb_client_resume(client, AMB_PAUSE_QUOTA);
        if (client->paused == 0) {
            amb_client_read(client);
        }
    }
    amb_list_move(&control->resting, &late);
    amb_list_move(&late, &control->resting);
}

void amb_client_rest_tell(struct amb_client *client)
{
    const struct amb_control *control = client->control;
    if (client->state == AMB_CLIENT_LIVE && (client->paused & AMB_PAUSE_QUOTA) != 0 &&
        control->now_ns >= amb_deadline_ns(client->rest_told_ns, client->peer_timeout_ns / SIGNS)) {
        client->rest_told_ns = control->now_ns;
        amb_client_send_pong(client, client->pong_ns);
    }
}
