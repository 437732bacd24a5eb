/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/login.h"

#include "broker/base/user.h"
#include "broker/config/config.h"
#include "broker/config/config_roles.h"
#include "broker/control/clients/client.h"
#include "broker/control/clients/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *amb_mechanism_name(enum amb_mechanism mechanism)
{
    static const char *const names[AMB_MECHANISMS] = {"none", "key", "token", "cert", "uid"};
    return names[mechanism];
}

/* ---- the user of a client ---- */

const struct amb_auth_user *amb_login_find(const struct amb_auth_users *users,
                                           const char *credential)
{
    const struct amb_auth_user *user = amb_auth_users_by_credential(users, credential);
    return user != NULL && amb_auth_user_may_enter(user, (int64_t)time(NULL)) ? user : NULL;
}

enum amb_status amb_login_rights(struct amb_control *control, const struct amb_auth_user *user,
                                 struct amb_rights **out)
{
    const struct amb_role *roles[AMB_USER_ROLES_MAX];
    struct amb_rights_of of = {.roles = roles, .user = user->name, .tenant = user->tenant};
    if (user->is_local_admin) {
        *out = NULL;
        return AMB_OK;
    }
    for (unsigned i = 0; i < user->role_count && i < AMB_USER_ROLES_MAX; i++) {
        const struct amb_role *role = amb_config_role(&control->config->roles, user->roles[i]);
        if (role != NULL) { /* The configuration has checked that there is one. */
            roles[of.role_count++] = role;
        }
    }
    enum amb_status status = amb_rights_take(&control->rights, &of, out);
    if (status == AMB_OK) {
        amb_rights_keep(*out, control->config);
    }
    return status;
}

void amb_login_change_rights(struct amb_client *client, struct amb_rights *rights)
{
    amb_heap_give(&client->heap, amb_rights_heap(client->rights));
    amb_rights_unref(&client->rights);
    amb_heap_take(&client->heap, amb_rights_heap(rights));
    client->rights = rights;
    client->listed_maps_of = 0;
}

/* The rights of the user, its tenant, and the owner of what that has in common. */
static enum amb_status take_rights(struct amb_client *client, const struct amb_auth_user *user)
{
    struct amb_control *control = client->control;
    struct amb_rights *rights;
    struct amb_tenant *tenant = NULL;
    uint32_t sharer = AMB_USER_NOBODY;
    enum amb_status status = amb_tenants_take(&control->tenants, user->tenant, &tenant);
    if (status == AMB_OK && !user->is_local_admin) {
        status = amb_auth_numbers_take(amb_auth_users_numbers(control->users), user->tenant, "",
                                       &sharer);
    }
    status = status == AMB_OK ? amb_login_rights(control, user, &rights) : status;
    if (status == AMB_OK) {
        amb_login_change_rights(client, rights);
        client->tenant = tenant;
        client->sharer = sharer;
    }
    return status;
}

enum amb_status amb_login_set(struct amb_client *client, const struct amb_auth_user *user,
                              enum amb_mechanism mechanism, const char *credential)
{
    char *copy = credential == NULL ? NULL : strdup(credential);
    if (credential != NULL && copy == NULL) {
        return AMB_ENOMEM;
    }
    enum amb_status status = take_rights(client, user);
    if (status != AMB_OK) {
        free(copy);
        return status;
    }
    amb_login_fini(&client->login);
    client->login = (struct amb_login){
        .users = amb_auth_users_ref(client->control->users),
        .user = user,
        .mechanism = mechanism,
        .credential = copy,
    };
    if (!user->is_local_admin) {
        client->user = user->number;
    }
    return AMB_OK;
}

void amb_login_fini(struct amb_login *login)
{
    free(login->credential);
    amb_auth_users_unref(&login->users);
    *login = (struct amb_login){0};
}

bool amb_login_is_over(const struct amb_login *login, int64_t now_s)
{
    return login->user != NULL && !amb_auth_user_may_enter(login->user, now_s);
}

/* ---- for people ---- */

const char *amb_login_user_text(const struct amb_client *client, char *out)
{
    const struct amb_auth_user *user = client->login.user;
    if (user == NULL || user->is_local_admin) {
        return amb_login_owner_text(client->control, client->user, out);
    }
    (void)snprintf(out, AMB_AUTH_NAME_MAX, "%s", user->name);
    return out;
}

const char *amb_login_owner_text(const struct amb_control *control, uint32_t user, char *out)
{
    char text[AMB_USER_TEXT_MAX];
    if (!amb_user_is_named(user) || control->users == NULL ||
        !amb_auth_numbers_name(amb_auth_users_numbers(control->users), user, out)) {
        (void)snprintf(out, AMB_AUTH_NAME_MAX, "%s", amb_user_text(user, text));
    }
    return out;
}

bool amb_login_owner_parse(const struct amb_control *control, const char *text, uint32_t *out)
{
    return amb_user_parse(text, out) ||
           (control->users != NULL &&
            amb_auth_numbers_find(amb_auth_users_numbers(control->users), text, out));
}

const struct amb_auth_user *amb_login_owner(const struct amb_control *control, uint32_t number)
{
    char text[AMB_AUTH_NAME_MAX];
    if (!amb_auth_numbers_name(amb_auth_users_numbers(control->users), number, text)) {
        return NULL;
    }
    const char *colon = strchr(text, ':');
    const struct amb_auth_user *user =
        colon == NULL ? NULL : amb_auth_users_find(control->users, colon + 1);
    return user != NULL && user->number == number ? user : NULL;
}
