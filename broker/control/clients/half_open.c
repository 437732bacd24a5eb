/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/half_open.h"

#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/control.h"

#include <string.h>

enum amb_status amb_half_open_init(struct amb_half_open *half_open)
{
    *half_open = (struct amb_half_open){0};
    enum amb_status status = amb_crowds_init(&half_open->hopeful, AMB_HALF_OPEN_MAX);
    return status == AMB_OK ? amb_crowds_init(&half_open->refused, AMB_HALF_OPEN_MAX) : status;
}

void amb_half_open_fini(struct amb_half_open *half_open)
{
    amb_crowds_fini(&half_open->hopeful);
    amb_crowds_fini(&half_open->refused);
}

bool amb_half_open_place(struct amb_client *client, const struct sockaddr_storage *from)
{
    uint8_t key[AMB_CROWD_KEY_SIZE];
    if (client->is_unix) {
        amb_crowd_key_of_uid(client->uid, key);
    } else {
        amb_crowd_key_of(from, key);
    }
    client->crowd = amb_crowds_add(&client->control->half_open.hopeful, key, &client->by_crowd);
    return client->crowd != NULL;
}

static void leave_crowd(struct amb_client *client)
{
    amb_crowds_remove(client->crowd, &client->by_crowd);
    client->crowd = NULL;
}

void amb_half_open_refuse(struct amb_client *client)
{
    struct amb_half_open *half_open = &client->control->half_open;
    uint8_t key[AMB_CROWD_KEY_SIZE];
    if (client->crowd == NULL) {
        return;
    }
    memcpy(key, client->crowd->key, sizeof(key));
    leave_crowd(client);
    client->crowd = amb_crowds_add(&half_open->refused, key, &client->by_crowd);
}

void amb_half_open_leave(struct amb_client *client)
{
    client->control->half_open.count--;
    if (client->crowd != NULL) {
        leave_crowd(client);
    }
}

static struct amb_client *client_of(struct amb_crowd_member *member)
{
    return AMB_CONTAINER_OF(member, struct amb_client, by_crowd);
}

/* One that has said nothing goes first, so that those do not push out a client that is half
 * through. If more than half of the crowd are half through, the oldest of these goes. */
static struct amb_client *next_of(const struct amb_crowd *crowd)
{
    struct amb_client *silent = NULL, *halfway = NULL;
    uint32_t halfway_count = 0;
    AMB_LIST_FOR_EACH (node, &crowd->oldest) {
        struct amb_client *client =
            client_of(AMB_CONTAINER_OF(node, struct amb_crowd_member, node));
        if (client->state == AMB_CLIENT_HELLO) {
            silent = silent == NULL ? client : silent;
        } else {
            halfway = halfway == NULL ? client : halfway;
            halfway_count++;
        }
    }
    return silent == NULL || halfway_count > crowd->count / 2 ? halfway : silent;
}

bool amb_half_open_has_refused(const struct amb_half_open *half_open)
{
    return amb_crowds_oldest(&half_open->refused) != NULL;
}

struct amb_client *amb_half_open_next(const struct amb_half_open *half_open)
{
    struct amb_crowd_member *refused = amb_crowds_oldest(&half_open->refused);
    if (refused != NULL) {
        return client_of(refused);
    }
    struct amb_crowd_member *oldest = amb_crowds_oldest(&half_open->hopeful);
    return oldest == NULL ? NULL : next_of(client_of(oldest)->crowd);
}
