/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/requests/naming.h"

#include "broker/base/party.h"
#include "broker/base/user.h"
#include "broker/config/config.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/control.h"
#include "broker/control/directory/directory_counts.h"
#include "broker/control/requests/permit.h"
#include "broker/control/requests/requests_private.h"
#include "broker/shard/shard.h"

#include <string.h>

static bool naming_may_rank(const struct amb_client *client, const char *topic)
{
    return !amb_topic_is_inbox(topic, strlen(topic)) &&
           amb_config_topic(client->control->config, topic)->retain.keys == 0;
}

bool amb_naming_check(struct amb_client *client, uint64_t id, const Amb__Control__PubOpen *open)
{
    const char *reason = "";
    size_t len = strlen(open->topic);
    if (open->handle >= AMB_HANDLES_MAX || amb_client_publisher(client, open->handle) != NULL) {
        amb_client_send_error(client, id, AMB_EINVAL,
                              "publisher: the handle is in use or too large");
        return false;
    }
    uint32_t max = client->control->config->limits.max_publishers;
    if (client->publisher_count >= max) {
        amb_client_send_error(client, id, AMB_ELIMIT,
                              "limit: %u publishers of one client (limits.max_publishers)", max);
        return false;
    }
    if (!amb_permit_quota(client, id, AMB_QUOTA_PUBLISHERS, 1)) {
        return false;
    }
    if (amb_topic_check(open->topic, len, &reason) != AMB_OK) {
        amb_client_send_error(client, id, AMB_ETOPIC, "topic: %s", reason);
        return false;
    }
    if (amb_topic_is_reserved(open->topic, len) && !amb_topic_is_inbox(open->topic, len)) {
        return amb_permit_refuse(client, id, "publish", open->topic,
                                 "names that begin with '$' are the broker's");
    }
    if (!amb_permit_publish(client, id, open->topic)) {
        return false;
    }
    if (open->priority > AMB_PRIORITY_LOW) {
        amb_client_send_error(client, id, AMB_EINVAL, "publisher: no such priority");
        return false;
    }
    if (open->priority != AMB_PRIORITY_NORMAL && !naming_may_rank(client, open->topic)) {
        amb_client_send_error(client, id, AMB_ENOTSUP,
                              "priority: not of an inbox, nor of a topic that keeps the newest of "
                              "each key (retain.keys), for there is one newest");
        return false;
    }
    if (open->confirm > AMB_CONFIRM_DELIVERED) {
        amb_client_send_error(client, id, AMB_ENOTSUP, "confirm: durable is not yet supported");
        return false;
    }
    return true;
}

/* The worker of the last publisher of that name has heard it to its end. So its count is known, and
 * the next one opens. */
static void identity_known(void *control, struct amb_order *fence)
{
    struct amb_control *own = control;
    struct amb_order_publisher_open *open = fence->context;
    struct amb_identity *identity = open->identity;
    amb_order_free(fence);
    if (identity->seq < open->last_seq) {
        identity->seq = open->last_seq; /* Its program knows more than we do. */
    }
    open->last_seq = identity->seq;
    identity->shard = open->order.session.shard;
    identity->was_taken = true;
    struct amb_request *request = open->order.context;
    const struct amb_client *client = request->client;
    const struct amb_dir_publisher *publisher = amb_client_publisher(client, request->handle);
    if (publisher != NULL && publisher->topic != NULL) {
        /* Those who came while the fence was away were told to a worker that did not know them. */
        request->subscribers = open->subscribers = amb_directory_matched(publisher->topic);
        open->copies = amb_directory_copies(publisher);
    }
    amb_order_post(own->shards[open->order.session.shard], &open->order);
}

struct amb_order *amb_naming_fence(void)
{
    return amb_order_new(&amb_order_fence, identity_known, NULL);
}

void amb_naming_post(struct amb_control *control, struct amb_order_publisher_open *open,
                     struct amb_order *fence)
{
    struct amb_identity *identity = open->identity;
    if (identity == NULL) {
        amb_order_post(control->shards[open->order.session.shard], &open->order);
        return;
    }
    open->seq = &identity->seq;
    fence->context = open;
    if (identity->was_taken) {
        amb_order_post(control->shards[identity->shard], fence);
    } else {
        identity_known(control, fence);
    }
}

/* Is the name within the quota? A name that its user pays for already is no new one. That of
 * another user of its tenant, who shares it, goes over to this one. */
static bool quota_has_room(struct amb_client *client, uint64_t id,
                           const Amb__Control__PubOpen *open, uint32_t owner)
{
    const struct amb_party *payer =
        amb_identity_payer(&client->control->identities, owner, open->name, open->topic,
                           (enum amb_priority)open->priority);
    if (payer != NULL && client->party != NULL && payer->user == client->party->user) {
        return true;
    }
    if (payer != NULL) {
        amb_user_count(payer->user, AMB_SHARE_NAMES, -1);
    }
    bool has_room = amb_permit_quota(client, id, AMB_QUOTA_NAMES, 1);
    if (payer != NULL) {
        amb_user_count(payer->user, AMB_SHARE_NAMES, 1);
    }
    return has_room;
}

bool amb_naming_take(struct amb_client *client, uint64_t id, const Amb__Control__PubOpen *open,
                     struct amb_identity **out)
{
    *out = NULL;
    if (open->name[0] == '\0') {
        return true;
    }
    uint32_t owner = amb_permit_owner(client, open->name);
    if (!amb_user_has_names(owner)) {
        amb_client_send_error(client, id, AMB_EFORBIDDEN, "publisher's name: %s",
                              AMB_USER_NO_NAMES);
        return false;
    }
    struct amb_control *control = client->control;
    const struct amb_config_limits *limits = &control->config->limits;
    const char *full = amb_identities_full(&control->identities, client->party, limits->user_share,
                                           control->now_ns, limits->dedup_window_ns);
    if (full != NULL && !amb_identity_is_of(&control->identities, client->party, owner, open->name,
                                            open->topic, (enum amb_priority)open->priority)) {
        amb_client_send_error(client, id, AMB_ELIMIT, "publisher's name: %s", full);
        return false;
    }
    if (!quota_has_room(client, id, open, owner)) {
        return false;
    }
    enum amb_status status = amb_identity_take(&control->identities, owner, open->name, open->topic,
                                               (enum amb_priority)open->priority, control->now_ns,
                                               control->config->limits.dedup_window_ns, out);
    if (status == AMB_OK) {
        amb_identity_charge(&control->identities, *out, client->party);
        return true;
    }
    amb_client_send_error(client, id, status, "publisher's name: %s",
                          status == AMB_EINVAL  ? "1 to 64 bytes without white space"
                          : status == AMB_EBUSY ? "another one has it"
                                                : amb_status_text(status));
    return false;
}
