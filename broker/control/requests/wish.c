/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/requests/wish.h"

#include "broker/base/party.h"
#include "broker/config/config.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/quotas.h"
#include "broker/control/directory/directory_accounts.h"
#include "broker/control/directory/queues.h"
#include "broker/control/requests/permit.h"
#include "wire/codec/filter.h"
#include "wire/codec/position.h"

#include <string.h>

/* Replies are for whoever asked: nobody else may listen in. */
static bool wish_may_read(const struct amb_client *client, const char *pattern)
{
    size_t len = strlen(pattern);
    return !amb_pattern_is_inbox(pattern, len) ||
           (amb_topic_is_inbox(pattern, len) &&
            amb_patterns_name(&client->control->directory.patterns, amb_client_tenant(client),
                              pattern, len) == NULL);
}

static bool user_may_have_one(struct amb_client *client, uint64_t id)
{
    const struct amb_directory *directory = &client->control->directory;
    const struct amb_config_limits *limits = &client->control->config->limits;
    const struct amb_user *user = client->party == NULL ? NULL : client->party->user;
    if (amb_user_has_room(user, AMB_SHARE_SUBSCRIPTIONS, 0, limits->max_subscriptions,
                          directory->sub_count, limits->user_share)) {
        return amb_permit_quota(client, id, AMB_QUOTA_SUBSCRIPTIONS, 1);
    }
    amb_client_send_error(client, id, AMB_ELIMIT,
                          "limit: one user's share of %u subscriptions, and durable names that "
                          "wait (limits.user_share)",
                          limits->max_subscriptions);
    return false;
}

/* Its user leaves something for others. A durable name counts while nobody uses it, so to use it
 * again takes nothing. One of another user, who shares it, goes over to this one. */
static bool user_has_room(struct amb_client *client, uint64_t id,
                          const Amb__Control__Subscribe *subscribe)
{
    const struct amb_dir_queue *waiting = amb_queues_waiting(
        &client->control->directory, subscribe->durable, amb_permit_queue_owner(client, subscribe));
    struct amb_user *payer =
        waiting == NULL || waiting->party == NULL ? NULL : waiting->party->user;
    if (waiting != NULL &&
        (payer == NULL || client->party == NULL || payer == client->party->user)) {
        return true;
    }
    if (payer != NULL) {
        amb_user_count(payer, AMB_SHARE_SUBSCRIPTIONS, -1);
    }
    bool has_room = user_may_have_one(client, id);
    if (payer != NULL) {
        amb_user_count(payer, AMB_SHARE_SUBSCRIPTIONS, 1);
    }
    return has_room;
}

bool amb_wish_check(struct amb_client *client, uint64_t id,
                    const Amb__Control__Subscribe *subscribe, struct amb_rights_cut *cut)
{
    const char *reason = "";
    if (subscribe->handle >= AMB_HANDLES_MAX || amb_client_sub(client, subscribe->handle) != NULL) {
        amb_client_send_error(client, id, AMB_EINVAL,
                              "subscription: the handle is in use or too large");
        return false;
    }
    if (!amb_directory_has_room(&client->control->directory)) {
        amb_client_send_error(client, id, AMB_ELIMIT,
                              "limit: %u subscriptions (limits.max_subscriptions)",
                              client->control->config->limits.max_subscriptions);
        return false;
    }
    if (!user_has_room(client, id, subscribe)) {
        return false;
    }
    if (amb_pattern_check(subscribe->pattern, strlen(subscribe->pattern), &reason) != AMB_OK) {
        amb_client_send_error(client, id, AMB_ETOPIC, "pattern: %s", reason);
        return false;
    }
    if (!amb_permit_subscribe(client, id, subscribe, cut)) {
        return false;
    }
    const char *lacks = amb_directory_lacks_pairs(&client->control->directory, client->account,
                                                  amb_client_tenant(client), subscribe->pattern,
                                                  strlen(subscribe->pattern));
    if (lacks == amb_pairs_quota) {
        uint64_t left = amb_account_left(amb_client_account(client), AMB_QUOTA_PAIRS);
        return amb_permit_quota(client, id, AMB_QUOTA_PAIRS, left + 1);
    }
    if (lacks != NULL) {
        amb_client_send_error(client, id, AMB_ELIMIT, "limit: it would read too many topics (%s)",
                              lacks);
        return false;
    }
    if (!wish_may_read(client, subscribe->pattern)) {
        return amb_permit_refuse(client, id, "subscribe", subscribe->pattern,
                                 "an inbox has one reader, who made it");
    }
    if (subscribe->start > AMB_START_POSITION ||
        (subscribe->start == AMB_START_POSITION) != (subscribe->position.len > 0)) {
        amb_client_send_error(client, id, AMB_EINVAL, "start: no such place, or no position");
        return false;
    }
    struct amb_position position;
    if (subscribe->position.len > 0 &&
        amb_position_read(subscribe->position.data, subscribe->position.len, &position) != AMB_OK) {
        amb_client_send_error(client, id, AMB_EINVAL, "start: these bytes are no position");
        return false;
    }
    if (subscribe->slow > AMB_SLOW_DISCONNECT) {
        amb_client_send_error(client, id, AMB_ENOTSUP, "slow: no such policy");
        return false;
    }
    const char *refusal = amb_queues_refusal(subscribe);
    bool has_pace =
        subscribe->rate_msgs != 0 || subscribe->rate_bytes != 0 || subscribe->replay != 0;
    if (refusal == NULL && subscribe->replay > AMB_TEMPO_ORIGINAL) {
        refusal = "replay: no such pace";
    }
    if (refusal == NULL && subscribe->lazy > AMB_LAZY_HEADERS) {
        refusal = "lazy: no such kind";
    }
    if (refusal == NULL && has_pace && amb_queues_are_wanted(subscribe)) {
        refusal = "rates and replay go with neither acknowledgements, groups nor durable names";
    }
    if (refusal == NULL && subscribe->filter[0] != '\0' && subscribe->slow == AMB_SLOW_LATEST) {
        refusal = "a filter does not go with slow = LATEST";
    }
    if (refusal != NULL) {
        amb_client_send_error(client, id, AMB_EINVAL, "subscription: %s", refusal);
        return false;
    }
    return true;
}

bool amb_wish_filter(struct amb_client *client, uint64_t id,
                     const Amb__Control__Subscribe *subscribe, struct amb_filter **out)
{
    *out = NULL;
    if (subscribe->filter[0] == '\0') {
        return true;
    }
    struct amb_filter_error error = {.why = "no memory"};
    enum amb_status status =
        amb_filter_parse(subscribe->filter, strlen(subscribe->filter), out, &error);
    if (status != AMB_OK) {
        amb_client_send_error(client, id, status, "filter, behind %zu bytes: %s", error.at,
                              error.why);
    }
    return status == AMB_OK;
}
