/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/client_news.h"

#include "broker/control/clients/client.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/events.h"
#include "broker/delivery/slow.h"

#include <jansson.h>

static json_t *client_event(const struct amb_client *client)
{
    if (!amb_events_are_wanted(client->control)) {
        return NULL;
    }
    return json_pack("{s:I, s:s, s:s, s:s}", "client", (json_int_t)client->id, "name", client->name,
                     "address", client->address, "link", amb_link_kind_name(client->link));
}

void amb_client_come(const struct amb_client *client)
{
    amb_events_publish(client->control, amb_tenant_number(client->tenant), "$SYS.client.come",
                       client_event(client));
}

void amb_client_gone(const struct amb_client *client, const char *why)
{
    json_t *json = client_event(client);
    if (json != NULL) {
        (void)json_object_set_new(json, "kind", json_string(amb_client_end_kind(client)));
        (void)json_object_set_new(json, "status", json_integer(client->end_status));
        (void)json_object_set_new(json, "why", json_string(why));
    }
    amb_events_publish(client->control, amb_tenant_number(client->tenant), "$SYS.client.gone",
                       json);
}

static void client_tell_note(struct amb_client *client, const struct amb_note *note)
{
    Amb__Control__SubNotice notice = AMB__CONTROL__SUB_NOTICE__INIT;
    notice.handle = note->handle;
    notice.slow = note->kind == AMB_NOTE_SLOW;
    notice.outstanding = note->msgs_out;
    Amb__Control__Control message = AMB__CONTROL__CONTROL__INIT;
    message.body_case = AMB__CONTROL__CONTROL__BODY_SUB_NOTICE;
    message.sub_notice = &notice;
    amb_client_send(client, &message, NULL, 0);
}

void amb_client_note(struct amb_client *client, const struct amb_note *note)
{
    static const char *const topics[] = {"$SYS.sub.slow", "$SYS.sub.recovered", "$SYS.sub.lost",
                                         "$SYS.sub.spill_begin", "$SYS.sub.spill_end"};
    static const char *const reasons[] = {"none",    "slow",     "trimmed",
                                          "expired", "transfer", "broker restart",
                                          "mixed",   "away",     "purged"};
    const struct amb_dir_sub *sub = amb_client_sub(client, note->handle);
    if (sub == NULL || sub->id != note->sub) {
        return;
    }
    json_t *json = client_event(client);
    if (json != NULL) {
        (void)json_object_set_new(json, "subscription", json_integer((json_int_t)sub->id));
        (void)json_object_set_new(json, "pattern", json_string(amb_topic_shown(sub->pattern)));
        if (note->kind == AMB_NOTE_LOST) {
            (void)json_object_set_new(json, "count", json_integer((json_int_t)note->count));
            (void)json_object_set_new(json, "total", json_integer((json_int_t)note->total));
            (void)json_object_set_new(json, "why", json_string(reasons[note->why]));
        } else {
            (void)json_object_set_new(json, "outstanding",
                                      json_integer((json_int_t)note->msgs_out));
            (void)json_object_set_new(json, "outstanding_bytes",
                                      json_integer((json_int_t)note->bytes_out));
        }
        if (note->kind >= AMB_NOTE_SPILL_BEGIN) {
            (void)json_object_set_new(json, "spilled", json_integer((json_int_t)note->spilled));
        }
    }
    amb_events_publish(client->control, amb_tenant_number(client->tenant), topics[note->kind],
                       json);
    if (note->kind == AMB_NOTE_SLOW || note->kind == AMB_NOTE_RECOVERED) {
        client_tell_note(client, note); /* That may end it. */
    }
}
