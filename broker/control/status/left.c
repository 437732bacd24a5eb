/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/status/left.h"

#include "broker/control/clients/client.h"
#include "broker/delivery/acks/take.h"
#include "broker/delivery/acks/taker.h"
#include "broker/delivery/reader/subscription.h"
#include "broker/session/session.h"
#include "broker/shard/entry.h"
#include "broker/topic/cursor.h"
#include "broker/topic/topic.h"
#include "wire/link/link.h"

#define CURSORS_MAX 4096u /* that are looked at for one client */

static uint64_t unread_by(const struct amb_cursor *cursor)
{
    const struct amb_log *log = &cursor->topic->log;
    /* It may be trimmed past a parked reader. */
    uint64_t position = cursor->position < log->lo ? log->lo : cursor->position;
    if (position >= log->hi) {
        return 0;
    }
    uint64_t left = log->next_seq - amb_log_at(log, position)->first_seq;
    uint64_t sent = position == cursor->position ? cursor->within : 0;
    return left > sent ? left - sent : 0;
}

static uint64_t waiting_for(const struct amb_subscription *sub, unsigned *cost, unsigned most)
{
    uint64_t waiting = 0;
    AMB_LIST_FOR_EACH (node, &sub->cursors) {
        if (*cost >= most) {
            break;
        }
        ++*cost;
        waiting += unread_by(AMB_CONTAINER_OF(node, struct amb_cursor, of_sub));
    }
    if (sub->taker != NULL) {
        AMB_LIST_FOR_EACH (node, &sub->taker->waiting) {
            waiting += AMB_CONTAINER_OF(node, struct amb_take, node)->left;
        }
    }
    return waiting;
}

json_t *amb_left_of(const struct amb_session *session, unsigned *cost)
{
    uint64_t waiting = amb_session_is_up(session) ? session->link->queued : 0, held = 0;
    unsigned most = *cost + CURSORS_MAX;
    AMB_LIST_FOR_EACH (node, &session->subscription_list) {
        const struct amb_subscription *sub = AMB_CONTAINER_OF(node, struct amb_subscription, node);
        waiting += waiting_for(sub, cost, most);
        held += amb_subscription_out(sub);
    }
    return waiting == 0 && held == 0
               ? NULL
               : json_pack("{s:I, s:I}", "left", (json_int_t)waiting, "held", (json_int_t)held);
}

void amb_left_add(json_t *rows, const struct amb_client *client, const json_t *part)
{
    if (part != NULL) {
        (void)json_array_append_new(rows, json_pack("{s:I, s:s, s:O, s:O}", "client",
                                                    (json_int_t)client->id, "name", client->name,
                                                    "left", json_object_get(part, "left"), "held",
                                                    json_object_get(part, "held")));
    }
}
