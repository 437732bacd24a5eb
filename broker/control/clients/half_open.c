/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/half_open.h"

#include "broker/config/config.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/control.h"
#include "broker/tls/handshaker.h"
#include "wire/base/assert.h"

enum {
    KIND_CLIENT,
    KIND_HANDSHAKE
};

enum amb_status amb_half_open_init(struct amb_half_open *half_open)
{
    *half_open = (struct amb_half_open){0};
    return amb_crowds_init(&half_open->crowds, AMB_HALF_OPEN_MAX);
}

void amb_half_open_fini(struct amb_half_open *half_open)
{
    amb_crowds_fini(&half_open->crowds);
}

uint32_t amb_half_open_count(const struct amb_half_open *half_open)
{
    return half_open->clients + half_open->handshakes;
}

/* ---- clients ---- */

void amb_half_open_place(struct amb_client *client, const struct sockaddr_storage *from)
{
    uint8_t key[AMB_CROWD_KEY_SIZE];
    if (client->is_unix) {
        amb_crowd_key_of_uid(client->uid, key);
    } else {
        amb_crowd_key_of(from, key);
    }
    client->by_crowd.kind = KIND_CLIENT;
    client->crowd = amb_crowds_add(&client->control->half_open.crowds, key, &client->by_crowd);
    amb_assert(client->crowd != NULL);
}

void amb_half_open_leave(struct amb_client *client)
{
    client->control->half_open.clients--;
    if (client->crowd != NULL) {
        amb_crowds_remove(client->crowd, &client->by_crowd);
        client->crowd = NULL;
    }
}

/* ---- handshakes ---- */

void amb_half_open_place_handshake(struct amb_half_open *half_open, struct amb_handshake_way *way)
{
    uint8_t key[AMB_CROWD_KEY_SIZE];
    amb_crowd_key_of(&way->from, key);
    way->by_crowd.kind = KIND_HANDSHAKE;
    way->crowd = amb_crowds_add(&half_open->crowds, key, &way->by_crowd);
    amb_assert(way->crowd != NULL);
    half_open->handshakes++;
}

void amb_half_open_leave_handshake(struct amb_half_open *half_open, struct amb_handshake_way *way)
{
    if (way->crowd != NULL) {
        amb_crowds_remove(way->crowd, &way->by_crowd);
        way->crowd = NULL;
        half_open->handshakes--;
    }
}

void amb_half_open_take_over(struct amb_client *client, struct amb_handshake_way *way)
{
    client->by_crowd.kind = KIND_CLIENT;
    client->crowd = way->crowd;
    amb_crowds_replace(&way->by_crowd, &client->by_crowd);
    way->crowd = NULL;
    client->control->half_open.handshakes--;
}

/* ---- the one that goes ---- */

static struct amb_half_open_one one_of(struct amb_crowd_member *member)
{
    struct amb_half_open_one one = {NULL, NULL};
    if (member != NULL && member->kind == KIND_HANDSHAKE) {
        one.way = AMB_CONTAINER_OF(member, struct amb_handshake_way, by_crowd);
    } else if (member != NULL) {
        one.client = AMB_CONTAINER_OF(member, struct amb_client, by_crowd);
    }
    return one;
}

/* A login that has failed goes first. Next is a connection that has said nothing, so that silence
 * pushes out no client that is half through. If more than half of the crowd are half through, the
 * oldest of these goes. */
static struct amb_crowd_member *next_of(const struct amb_crowd *crowd)
{
    struct amb_crowd_member *silent = NULL, *halfway = NULL;
    uint32_t halfway_count = 0;
    AMB_LIST_FOR_EACH (node, &crowd->oldest) {
        struct amb_crowd_member *member = AMB_CONTAINER_OF(node, struct amb_crowd_member, node);
        const struct amb_client *client = one_of(member).client;
        if (client != NULL && client->refusal_ns != 0) {
            return member;
        }
        if (client == NULL || client->state == AMB_CLIENT_HELLO) {
            silent = silent == NULL ? member : silent;
        } else {
            halfway = halfway == NULL ? member : halfway;
            halfway_count++;
        }
    }
    return silent == NULL || halfway_count > crowd->count / 2 ? halfway : silent;
}

struct amb_half_open_one amb_half_open_next(const struct amb_half_open *half_open)
{
    const struct amb_crowd *crowd = amb_crowds_largest(&half_open->crowds);
    return one_of(crowd == NULL ? NULL : next_of(crowd));
}
