/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/renew.h"

#include "broker/control/clients/client.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/events.h"
#include "broker/control/clients/quotas.h"
#include "broker/control/directory/listing.h"
#include "broker/control/directory/queues.h"
#include "broker/count/counters.h"
#include "broker/memory/membudget.h"
#include "broker/rights/rights_compare.h"
#include "broker/shard/purse.h"
#include "broker/worker/orders_session.h"
#include "wire/base/clock.h"
#include "wire/base/log.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define END_SLICE 32u                /* clients that are ended in a round */
#define SLICE_NS (5 * AMB_NS_PER_MS) /* of a round, for what is compared */

/* ---- clients ---- */

/* The user that the client is of the new set; NULL: none any more. */
static const struct amb_auth_user *find_again(const struct amb_login *login,
                                              const struct amb_auth_users *users)
{
    if (login->user->is_local_admin) {
        return amb_auth_users_local_admin(users);
    }
    const struct amb_auth_user *user = amb_login_find(users, login->credential);
    return user != NULL && strcmp(user->name, login->user->name) == 0 ? user : NULL;
}

/* From the list of those that are to be compared. False: it is not there. */
static bool take_unrenewed(struct amb_client *client)
{
    bool is_there = client->is_unrenewed;
    if (is_there) {
        client->is_unrenewed = false;
        amb_list_remove(&client->of_revoked);
    }
    return is_there;
}

void amb_renew_revoke(struct amb_client *client, enum amb_status status)
{
    /* One that is kicked keeps its rights, unless nobody has compared them yet. */
    client->loses_maps = take_unrenewed(client) || status != AMB_EKICKED;
    client->revoked = status;
    amb_list_push_back(&client->control->revoked, &client->of_revoked);
}

void amb_renew_kick(struct amb_client *client, const char *text)
{
    free(client->kick_text);
    client->kick_text =
        text[0] == '\0' ? NULL : strdup(text); /* Without memory it goes all the same. */
    amb_renew_revoke(client, AMB_EKICKED);
}

/* The roles of its user are other ones, or say something else. False: that takes rights away. */
static bool renew_rights(struct amb_client *client, const struct amb_auth_user *user)
{
    struct amb_rights *later;
    if (amb_login_rights(client->control, user, &later) != AMB_OK) {
        return false;
    }
    if (amb_rights_lose(client->rights, later)) {
        amb_rights_unref(&later);
        return false;
    }
    amb_login_change_rights(client, later);
    return true;
}

/* Its user has leased more than a second's worth, which it could write before it is billed. Or so
 * much that no slot comes back, for want of host memory beside it. */
static bool has_leased_past(const struct amb_account *account)
{
    uint64_t leased = amb_account_used(account, AMB_QUOTA_LEASED);
    return amb_account_past(account, AMB_QUOTA_IN_BYTES, leased) != NULL ||
           amb_account_past(account, AMB_QUOTA_HOST_BYTES, leased + AMB_PURSE_PIECE) != NULL;
}

/* Its client comes back, and leases within that. */
static void end_if_past(struct amb_client *client)
{
    const struct amb_account *account = amb_client_account(client);
    if (client->has_leased && client->state == AMB_CLIENT_LIVE && client->revoked == AMB_OK &&
        account != NULL && has_leased_past(account)) {
        amb_renew_revoke(client, AMB_ELOST);
    }
}

void amb_renew_quotas(struct amb_control *control)
{
    amb_quotas_renew(control);
    AMB_LIST_FOR_EACH (node, &control->clients) {
        end_if_past(AMB_CONTAINER_OF(node, struct amb_client, node));
    }
}

/* Goes over to the set in force, or ends. */
static void renew(struct amb_client *client)
{
    struct amb_control *control = client->control;
    struct amb_login *login = &client->login;
    if ((login->user == NULL) != (control->users == NULL)) {
        amb_renew_revoke(client, AMB_ELOST);
        return;
    }
    if (control->users == NULL) {
        return;
    }
    const struct amb_auth_user *user = find_again(login, control->users);
    if (user == NULL) {
        amb_renew_revoke(client, AMB_EAUTH);
    } else if (user->number != login->user->number || !renew_rights(client, user)) {
        amb_renew_revoke(client, AMB_ELOST);
    } else {
        amb_auth_users_unref(&login->users);
        login->users = amb_auth_users_ref(control->users);
        login->user = user;
        amb_quotas_limit(client);
        end_if_past(client);
    }
}

void amb_renew_client(struct amb_client *client)
{
    if (take_unrenewed(client)) {
        renew(client);
    }
}

/* Clients that have a session, or will have one. */
static void mark_clients(struct amb_control *control)
{
    AMB_LIST_FOR_EACH (node, &control->clients) {
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        bool is_in = client->state == AMB_CLIENT_OPENING || client->state == AMB_CLIENT_LIVE;
        if (is_in && client->revoked != AMB_OK) {
            client->loses_maps = true; /* It ends without being compared. */
        } else if (is_in && !client->is_unrenewed) {
            client->is_unrenewed = true;
            amb_list_push_back(&control->unrenewed, &client->of_revoked);
        }
    }
}

static void end_some(struct amb_control *control)
{
    for (unsigned i = 0; i < END_SLICE && !amb_list_is_empty(&control->revoked); i++) {
        struct amb_list_node *node = amb_list_pop_front(&control->revoked);
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, of_revoked);
        const char *text = client->kick_text;
        amb_client_send_error(client, 0, client->revoked, "%s%s%s",
                              client->revoked == AMB_EAUTH     ? "not authenticated"
                              : client->revoked == AMB_EKICKED ? "an operator has ended it"
                                                               : "rights changed",
                              text == NULL ? "" : ": ", text == NULL ? "" : text);
    }
}

/* False: there is no memory for the orders. */
static bool retire_groups(struct amb_control *control, struct amb_tenant *tenant)
{
    for (unsigned i = 0; i < control->shard_count; i++) {
        struct amb_order_groups_retire *retire =
            amb_order_new(&amb_order_groups_retire, NULL, NULL);
        if (retire == NULL) {
            return false;
        }
        retire->tenant = tenant->number;
        retire->maps = tenant->lost_maps;
        amb_order_post(control->shards[i], &retire->order);
    }
    tenant->lost_maps = 0;
    return true;
}

/* The orders that close these sessions went before: they are offered nothing that is made now. */
void amb_renew_retire(struct amb_control *control)
{
    if (control->tenants.lost_maps == 0 || !amb_list_is_empty(&control->revoked) ||
        control->left_maps.next < control->left_maps.count) {
        return;
    }
    control->tenants.lost_maps = 0;
    amb_membudget_fence(control->budget);
    for (uint32_t i = 0; i < control->tenants.count; i++) {
        struct amb_tenant *tenant = amb_tenants_at(&control->tenants, i);
        if (tenant->lost_maps != 0 && !retire_groups(control, tenant)) {
            control->tenants.lost_maps |= tenant->lost_maps; /* Once more, in the next round. */
        }
    }
}

/* ---- queues ---- */

/* Names that belong to a tenant stay: each member is asked by its own rights. */
static bool is_of_tenant(const struct amb_control *control, uint32_t number)
{
    char text[AMB_AUTH_NAME_MAX];
    return amb_auth_numbers_name(amb_auth_users_numbers(control->users), number, text) &&
           text[strlen(text) - 1] == ':';
}

/* May its owner read its pattern, as a whole? */
static bool queue_may_stay(const struct amb_dir_queue *queue, void *arg)
{
    struct amb_control *control = arg;
    if (!amb_user_is_named(queue->user) || is_of_tenant(control, queue->user)) {
        return true;
    }
    const struct amb_auth_user *owner = amb_login_owner(control, queue->user);
    struct amb_rights *rights = NULL;
    struct amb_rights_cut cut;
    if (owner == NULL || amb_login_rights(control, owner, &rights) != AMB_OK) {
        return false;
    }
    bool is_whole = amb_rights_subscribe(rights, queue->sub.pattern, queue->sub.pattern_len, &cut,
                                         NULL) == AMB_RIGHTS_WHOLE;
    amb_rights_unref(&rights);
    return is_whole;
}

static void queue_goes(const struct amb_dir_queue *queue, void *arg)
{
    struct amb_control *control = arg;
    char owner[AMB_AUTH_NAME_MAX];
    (void)amb_login_owner_text(control, queue->user, owner);
    amb_info("durable name \"%s\", group \"%s\" of %s: it goes, rights changed", queue->durable,
             queue->group, owner);
    if (amb_events_are_wanted(control)) {
        amb_events_publish(control, queue->sub.tenant, "$SYS.queue.gone",
                           json_pack("{s:s, s:s, s:s, s:s, s:s}", "durable", queue->durable,
                                     "group", queue->group, "pattern",
                                     amb_topic_shown(queue->sub.pattern), "user", owner, "why",
                                     "rights changed"));
    }
}

static bool is_in_time(int64_t until_ns)
{
    return amb_clock_monotonic_ns() < until_ns;
}

void amb_renew_some(struct amb_control *control)
{
    if (!amb_renew_is_busy(control)) {
        return;
    }
    int64_t until_ns = amb_clock_monotonic_ns() + SLICE_NS;
    while (!amb_list_is_empty(&control->unrenewed) && is_in_time(until_ns)) {
        amb_renew_client(AMB_CONTAINER_OF(control->unrenewed.next, struct amb_client, of_revoked));
    }
    end_some(control);
    while (is_in_time(until_ns) && amb_left_maps_review_next(control)) {
    }
    while (control->reviews_queues && is_in_time(until_ns)) {
        control->reviews_queues =
            amb_queues_review_next(&control->directory, queue_may_stay, queue_goes, control);
    }
}

bool amb_renew_is_busy(const struct amb_control *control)
{
    return !amb_list_is_empty(&control->unrenewed) || !amb_list_is_empty(&control->revoked) ||
           control->left_maps.next < control->left_maps.count || control->reviews_queues;
}

void amb_renew_users(struct amb_control *control, struct amb_auth_users *users)
{
    struct amb_auth_users *former = control->users;
    if (former == users) {
        return;
    }
    control->users = amb_auth_users_ref(users);
    amb_stat_set(&control->stats->came_users, users != NULL);
    if (users != NULL && control->counters != NULL) {
        amb_counters_hide(control->counters); /* Its mode was chosen without them. */
    }
    amb_rights_table_renew(&control->rights);
    if ((former == NULL) != (users == NULL)) {
        amb_listing_anew(&control->directory); /* Tenants have names now, or have none any more. */
    }
    mark_clients(control);
    control->reviews_queues = users != NULL;
    if (users != NULL) {
        amb_queues_review(&control->directory);
        amb_left_maps_review(control);
    }
    amb_renew_some(control);
    amb_auth_users_unref(&former);
}
