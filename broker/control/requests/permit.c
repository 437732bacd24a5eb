/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/requests/permit.h"

#include "broker/control/clients/client.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/quotas.h"
#include "broker/control/clients/record.h"
#include "broker/control/directory/queues.h"
#include "wire/codec/topic.h"

#include <stdio.h>
#include <string.h>

bool amb_permit_refuse(struct amb_client *client, uint64_t id, const char *verb, const char *name,
                       const char *why)
{
    const char *what = strcmp(verb, "subscribe") == 0 ? "pattern" : "topic";
    char wanted[AMB_TOPIC_MAX + 16];
    amb_stat_add(&client->control->stats->forbidden, 1);
    (void)snprintf(wanted, sizeof(wanted), "%s %s", verb, amb_topic_shown(name));
    amb_record_refused(client, wanted, why);
    amb_client_send_error(client, id, AMB_EFORBIDDEN, "%s: %s", what, why);
    return false;
}

/* by: the line that refuses it; NULL: there is none that allows it. */
static const char *reason(const struct amb_right *by)
{
    return by != NULL ? "a role of this user denies it" : "no role of this user allows it";
}

bool amb_permit_publish(struct amb_client *client, uint64_t id, const char *topic)
{
    const struct amb_rights *rights = client->rights;
    size_t len = strlen(topic);
    const struct amb_right *by;
    if (amb_topic_is_inbox(topic, len)) {
        return amb_rights_may_reply(rights) ||
               amb_permit_refuse(client, id, "publish", topic, "no role of this user has reply");
    }
    return amb_rights_publish(rights, topic, len, &by) ||
           amb_permit_refuse(client, id, "publish", topic, reason(by));
}

bool amb_permit_subscribe(struct amb_client *client, uint64_t id,
                          const Amb__Control__Subscribe *subscribe, struct amb_rights_cut *cut)
{
    const struct amb_rights *rights = client->rights;
    const char *pattern = subscribe->pattern;
    size_t len = strlen(pattern);
    const struct amb_right *by;
    *cut = (struct amb_rights_cut){{0, 0}};
    if (amb_pattern_is_inbox(pattern, len)) {
        return amb_rights_may_request(rights) ||
               amb_permit_refuse(client, id, "subscribe", pattern,
                                 "no role of this user has request");
    }
    switch (amb_rights_subscribe(rights, pattern, len, cut, &by)) {
    case AMB_RIGHTS_NO:
        return amb_permit_refuse(client, id, "subscribe", pattern, reason(by));
    case AMB_RIGHTS_NARROWED:
        return !amb_queues_are_wanted(subscribe) ||
               amb_permit_refuse(
                   client, id, "subscribe", pattern,
                   "a role of this user denies some of it, and acknowledgements, groups and "
                   "durable names take a pattern as a whole");
    case AMB_RIGHTS_WHOLE:
        break;
    }
    return true;
}

bool amb_permit_quota(struct amb_client *client, uint64_t id, enum amb_quota row, uint64_t more)
{
    char text[AMB_QUOTA_TEXT_MAX];
    const struct amb_account *full = amb_account_refuses(amb_client_account(client), row, more);
    if (full != NULL) {
        amb_client_send_error(client, id, AMB_ELIMIT, "%s", amb_quota_text(full, row, text));
    }
    return full == NULL;
}

uint32_t amb_permit_owner(const struct amb_client *client, const char *name)
{
    return amb_rights_shares(client->rights, name) ? client->sharer : client->user;
}

uint32_t amb_permit_queue_owner(const struct amb_client *client,
                                const Amb__Control__Subscribe *subscribe)
{
    const char *durable = subscribe->durable;
    return amb_permit_owner(client, durable[0] != '\0' ? durable : subscribe->group);
}
