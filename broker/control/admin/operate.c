/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/admin/operate.h"

#include "broker/base/user.h"
#include "broker/config/config.h"
#include "broker/control/clients/blocklist.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/control.h"
#include "broker/control/clients/renew.h"
#include "broker/control/status/status.h"
#include "broker/control/status/status_units.h"
#include "wire/base/clock.h"
#include "wire/base/text.h"

#include <string.h>
#include <unistd.h>

const char *amb_operate_scope(const struct amb_client *client)
{
    return amb_status_tenant(client) == AMB_TENANT_ANY ? NULL : client->login.user->tenant;
}

static bool is_in_scope(const char *scope, const char *tenant)
{
    return scope == NULL || strcmp(scope, tenant) == 0;
}

/* A session that can be ended, of a user in the scope. */
static bool may_end(const struct amb_client *client, const char *scope)
{
    const struct amb_auth_user *user = client->login.user;
    return (client->state == AMB_CLIENT_OPENING || client->state == AMB_CLIENT_LIVE) &&
           client->revoked == AMB_OK && is_in_scope(scope, user == NULL ? "" : user->tenant);
}

/* All sessions of the user; how many. words: of one who kicks it. */
static uint64_t end_user(struct amb_control *control, const char *name, const char *scope,
                         enum amb_status status, const char *words)
{
    uint64_t count = 0;
    AMB_LIST_FOR_EACH_SAFE (node, &control->clients) {
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        char text[AMB_AUTH_NAME_MAX];
        if (may_end(client, scope) && strcmp(amb_login_user_text(client, text), name) == 0) {
            if (status == AMB_EKICKED) {
                amb_renew_kick(client, words);
            } else {
                amb_renew_revoke(client, status);
            }
            count++;
        }
    }
    return count;
}

/* ---- kick ---- */

/* The one client of that name. NULL, and *why: there is none, or there are several. */
static struct amb_client *find_by_name(struct amb_control *control, const char *name,
                                       const char *scope, const char **why)
{
    struct amb_client *found = NULL;
    *why = "no client has that number or name";
    AMB_LIST_FOR_EACH (node, &control->clients) {
        struct amb_client *client = AMB_CONTAINER_OF(node, struct amb_client, node);
        if (may_end(client, scope) && strcmp(client->name, name) == 0) {
            if (found != NULL) {
                *why = "several clients have that name: broker-ctl clients has their numbers";
                return NULL;
            }
            found = client;
        }
    }
    return found;
}

static enum amb_status kick(struct amb_client *by, const struct amb_command *command,
                            const char *scope, uint64_t *count, const char **why)
{
    struct amb_control *control = by->control;
    const char *word = command->word;
    uint64_t number;
    struct amb_client *client =
        amb_text_parse_count(word, &number) ? amb_client_find(control, number) : NULL;
    if (client == NULL || !may_end(client, scope)) {
        client = find_by_name(control, word, scope, why);
    }
    if (client == NULL) {
        return AMB_ENOTFOUND;
    }
    amb_renew_kick(client, command->text);
    *count = 1;
    return AMB_OK;
}

/* ---- block ---- */

/* The tenant of a user whose name may be blocked. NULL: *status and *why say why not. */
static const char *tenant_to_block(const struct amb_control *control, const char *name,
                                   enum amb_status *status, const char **why)
{
    uint32_t number;
    *status = AMB_ENOTFOUND;
    if (control->users != NULL) {
        const struct amb_auth_user *user = amb_auth_users_find(control->users, name);
        *why = "there is no user of that name (auth.users)";
        return user == NULL ? NULL : user->tenant;
    }
    if (!amb_user_parse(name, &number)) {
        *why = "without auth.users a user is a uid, or tcp";
        return NULL;
    }
    if (number == 0 || number == geteuid()) {
        *status = AMB_EREJECTED;
        *why = "root and the broker's own user cannot be blocked";
        return NULL;
    }
    return "";
}

static enum amb_status block(struct amb_client *by, const char *name, const char *scope,
                             uint64_t *count, const char **why)
{
    struct amb_control *control = by->control;
    enum amb_status status;
    const char *tenant = tenant_to_block(control, name, &status, why);
    if (tenant == NULL) {
        return status;
    }
    if (!is_in_scope(scope, tenant)) {
        *why = "there is no user of that name (auth.users)";
        return AMB_ENOTFOUND;
    }
    unsigned percent = scope == NULL ? 100 : control->config->limits.user_share;
    status = amb_blocklist_add(&control->blocked, name, tenant, percent, amb_clock_realtime_ns());
    if (status != AMB_OK) {
        *why = status == AMB_ESTATE   ? "that user is blocked already"
               : status != AMB_ELIMIT ? "no memory"
               : scope == NULL        ? "4,096 users are blocked, and no more can be"
                                      : "this tenant has its share of the 4,096 users that can be "
                                        "blocked (limits.user_share)";
        return status == AMB_ESTATE ? AMB_EREJECTED : status;
    }
    *count = end_user(control, name, NULL, AMB_EAUTH, "");
    return AMB_OK;
}

static enum amb_status unblock(struct amb_client *by, const char *name, const char *scope,
                               const char **why)
{
    struct amb_blocklist *blocked = &by->control->blocked;
    const struct amb_blocklist_user *user = amb_blocklist_find(blocked, name);
    if (user == NULL || !is_in_scope(scope, user->tenant) || !amb_blocklist_remove(blocked, name)) {
        *why = "that user is not blocked";
        return AMB_ENOTFOUND;
    }
    return AMB_OK;
}

json_t *amb_operate_blocked(const struct amb_client *client)
{
    const char *scope = amb_operate_scope(client);
    json_t *rows = json_array();
    const struct amb_blocklist_user *user = client->control->blocked.first;
    for (; user != NULL; user = user->next) {
        if (is_in_scope(scope, user->tenant)) {
            (void)json_array_append_new(
                rows, json_pack("{s:s, s:s, s:I}", "user", user->name, "tenant", user->tenant,
                                "since_s", (json_int_t)(user->since_ns / AMB_NS_PER_SEC)));
        }
    }
    json_t *answer = json_pack("{s:O}", "blocked", rows);
    amb_status_units_add(answer, rows);
    json_decref(rows);
    return answer;
}

enum amb_status amb_operate(struct amb_client *client, const struct amb_command *command,
                            uint64_t *count, const char **why)
{
    const char *scope = amb_operate_scope(client), *word = command->word;
    *count = 0;
    switch (command->kind) {
    case AMB_COMMAND_KICK:
        return kick(client, command, scope, count, why);
    case AMB_COMMAND_KICK_USER:
        *count = end_user(client->control, word, scope, AMB_EKICKED, command->text);
        *why = "no client of that user is there";
        return *count == 0 ? AMB_ENOTFOUND : AMB_OK;
    case AMB_COMMAND_BLOCK:
        return block(client, word, scope, count, why);
    case AMB_COMMAND_UNBLOCK:
        return unblock(client, word, scope, why);
    case AMB_COMMAND_DURABLE_RM:
    case AMB_COMMAND_REDELIVER:
    case AMB_COMMAND_TOPIC_RM:
    case AMB_COMMAND_TOPIC_PURGE:
    case AMB_COMMAND_RELOAD:
    case AMB_COMMAND_DRAIN:
    case AMB_COMMAND_CONFIG_SHOW:
    case AMB_COMMAND_CONFIG_DEFAULTS:
    case AMB_COMMAND_CONFIG_DIFF:
    case AMB_COMMAND_CONFIG_TEST:
    case AMB_COMMAND_CONFIG_SET:
    case AMB_COMMAND_TRACE:
    case AMB_COMMAND_NONE:
        break;
    }
    *why = "no such command";
    return AMB_EINVAL;
}
