/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/control/clients/renew.h"

#include "broker/control/clients/client.h"
#include "broker/control/clients/client_io.h"
#include "broker/control/clients/control.h"

#include <string.h>

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

/* Goes over to the set in force, or ends. */
static void renew(struct amb_client *client)
{
    struct amb_control *control = client->control;
    struct amb_login *login = &client->login;
    if (client->state != AMB_CLIENT_OPENING && client->state != AMB_CLIENT_LIVE) {
        return;
    }
    if ((login->user == NULL) != (control->users == NULL)) {
        amb_client_send_error(client, 0, AMB_ELOST, "the broker's users have changed");
        return;
    }
    if (control->users == NULL) {
        return;
    }
    const struct amb_auth_user *user = find_again(login, control->users);
    if (user == NULL) {
        amb_client_send_error(client, 0, AMB_EAUTH, "not authenticated");
    } else if (user->number != login->user->number) {
        amb_client_send_error(client, 0, AMB_ELOST, "the broker's users have changed");
    } else {
        amb_auth_users_unref(&login->users);
        login->users = amb_auth_users_ref(control->users);
        login->user = user;
    }
}

void amb_renew_users(struct amb_control *control, struct amb_auth_users *users)
{
    struct amb_auth_users *former = control->users;
    if (former == users) {
        return;
    }
    control->users = amb_auth_users_ref(users);
    AMB_LIST_FOR_EACH_SAFE (node, &control->clients) {
        renew(AMB_CONTAINER_OF(node, struct amb_client, node));
    }
    amb_auth_users_unref(&former);
}
